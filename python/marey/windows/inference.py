"""`LLMInferenceProfiler`: windows of an inference server, some of them with call stacks."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import marey
from marey import _checks, _session

from . import retention
from .files import place, prefix_with_rank, write_new
from .requests import RequestLog
from .rotation import Names, RotatingProfiler, Rotation, start_session
from .service import discard_early_requests, record_scope
from .time_window import INSTALLED, installed_hook
from .window import Window

if TYPE_CHECKING:
    from marey.hooks import Hook

__all__ = ["LLMInferenceProfiler"]


class LLMInferenceProfiler(RotatingProfiler):
    """Writes a profile and a JSON file with metadata for each window of an inference server.

    The profile is ``<profile_dir>/inference_standard_w<number>_<time>.hatchet``; its node
    ``inference_window`` has the metrics of `ServiceWindowProfiler`. The metadata are
    ``metadata_w<number>.json``. Windows are numbered from 1.

    Every `detailed_sampling_interval` windows, another profile ``inference_detailed_…`` has the
    Python call stack of each scope and kernel. It begins and ends with the window, within
    milliseconds.

    Args:
        window_minutes: Minutes after which a window ends by itself.
        profile_dir: Folder of the files, created if it does not exist.
        detailed_sampling_interval: Number of windows from one with call stacks to the next.
        keep: Which windows are kept, as for `TimeWindowProfiler`.
        backend: Source of GPU activities, as for `marey.start`.
        hook: Launch hook, as for `TimeWindowProfiler`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is not positive or not finite, or `keep` is no limit.
        OSError: `profile_dir` cannot be created.
    """

    def __init__(
        self,
        window_minutes: float = 5,
        profile_dir: str | os.PathLike[str] = "./inference_profiles",
        detailed_sampling_interval: int = 60,
        *,
        keep: str | int | None = None,
        backend: str | None = None,
        hook: str | Hook | None = INSTALLED,
    ) -> None:
        minutes = _checks.positive("window_minutes", window_minutes)
        self.window_duration = timedelta(minutes=minutes)
        self.profile_dir = profile_dir
        self.detailed_interval = _checks.count(
            "detailed_sampling_interval", detailed_sampling_interval, least=1
        )
        self._backend, self._hook = backend, installed_hook(hook)
        self._requests = RequestLog()
        self._last_metrics: dict[str, Any] = {}
        self._detailed_session: int | None = None
        self._windows = Rotation(
            self.window_duration.total_seconds(),
            Names(profile_dir, "inference", "{prefix}_standard_w{number}_{time}", first_number=1),
            start_session(backend=backend, hook=self._hook),
            keep=retention.parse(keep),
            caller="LLMInferenceProfiler",
            on_begin=self._begin_details,
            on_end=self._record_metrics,
            after_end=self._write_metadata,
        )
        os.makedirs(profile_dir, exist_ok=True)

    @property
    def current_session(self) -> int | None:
        """Number of the session while a window is open, else `None`."""
        return self._windows.session

    @property
    def window_number(self) -> int:
        """Number of the open window, or of the last one; 0 before the first."""
        return self._windows.next_number - 1

    @property
    def window_start_time(self) -> Any:
        """The time at which the open window began, as a `datetime`; `None` if none is open."""
        window = self._windows.open
        return None if window is None else window.start

    @property
    def window_metrics(self) -> dict[str, Any]:
        """The metadata of the open window so far, or else those of the last one."""
        window = self._windows.open
        if window is None:
            return dict(self._last_metrics)
        requests, tokens, errors = self._requests.counts()
        return _metadata(window, requests, tokens, errors)

    def start_profiling_window(self) -> None:
        """Starts the first window.

        Raises:
            RuntimeError: A window is open.
            OSError: `profile_dir` cannot be created.
        """
        discard_early_requests(self._requests, self._windows)
        self._windows.begin()

    def end_profiling_window(self) -> None:
        """Ends the window and the recording.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. It is kept in memory: call this again.
        """
        self._windows.end()

    async def periodic_rotation(self) -> None:
        """Returns when the recording has ended. Windows end by themselves, with or without it."""
        import asyncio

        while self._windows.open is not None:
            await asyncio.sleep(min(1.0, self.window_duration.total_seconds()))

    def record_request(
        self,
        request_id: str,
        prompt_tokens: int,
        generated_tokens: int,
        *,
        latency_ms: float | None = None,
        success: bool = True,
    ) -> None:
        """Adds a request to the open window. May be called on any thread and in any task.

        The scope ``request`` of the profile has the sums of the tokens. A request that ends while
        no window is open belongs to none.

        Args:
            request_id: Name of the request. Only error messages have it, because a profile with a
                node for each request would grow without a limit.
            prompt_tokens: Tokens of the prompt.
            generated_tokens: Tokens of the answer.
            latency_ms: Duration in milliseconds, for the percentiles of the window.
            success: Whether it was answered without an error.

        Raises:
            TypeError: A value is not a number.
            ValueError: A number is negative, infinite or NaN. The request is not added.
        """
        try:
            self._requests.add_counts(prompt_tokens, generated_tokens, success, latency_ms)
        except (TypeError, ValueError) as error:
            raise type(error)(f"request {request_id}: {error}") from None
        with marey.scope(
            "request",
            {
                "prompt_tokens": int(prompt_tokens),
                "generated_tokens": int(generated_tokens),
                "total_tokens": int(prompt_tokens) + int(generated_tokens),
            },
        ):
            pass

    def _begin_details(self, window: Window) -> None:
        """Starts the session with call stacks, if the window is to have one."""
        if window.path is None or window.number % self.detailed_interval != 0:
            return
        try:
            self._detailed_session = marey.start(
                f"{self._detailed_stem(window)}.{os.getpid()}",
                context="python",
                backend=self._backend,
                hook=self._hook,
            )
        except (OSError, RuntimeError) as error:
            _session.say(f"window {window.number} has no call stacks: {error}")

    def _detailed_stem(self, window: Window) -> str:
        prefix = prefix_with_rank(self.profile_dir, "inference")
        time = window.start.strftime("%Y%m%d_%H%M%S")
        return f"{prefix}_detailed_w{window.number}_{time}"

    def _end_details(self, window: Window) -> None:
        session, self._detailed_session = self._detailed_session, None
        if session is None:
            return
        stem = self._detailed_stem(window)
        try:
            marey.finalize(session)
            path = place(f"{stem}.{os.getpid()}.hatchet", f"{stem}.hatchet")
        except (OSError, IndexError) as error:
            _session.say(f"the call stacks of window {window.number} are not written: {error}")
        else:
            window.extra_files.append(path)

    def _record_metrics(self, window: Window) -> dict[str, float]:
        metrics = self._requests.drain(window.duration_seconds)
        record_scope("inference_window", self.window_duration.total_seconds(), window, metrics)
        self._end_details(window)
        return metrics

    def _write_metadata(self, window: Window) -> None:
        requests, tokens, errors = (
            int(window.metrics[key])
            for key in ("total_requests", "total_tokens_generated", "failed_requests")
        )
        metadata = {
            **_metadata(window, requests, tokens, errors),
            "end_time": None if window.end is None else window.end.strftime("%Y%m%d_%H%M%S"),
            "duration_seconds": window.duration_seconds,
            "profile": window.path,
            "detailed_profile": next(iter(window.extra_files), None),
            **window.metrics,
        }
        self._last_metrics = metadata
        prefix = prefix_with_rank(self.profile_dir, "metadata")
        path = f"{prefix}_w{window.number}.json"
        try:
            path = write_new(path, json.dumps(metadata, indent=2))
        except OSError as error:
            _session.say(f"the metadata of window {window.number} are not written: {error}")
        else:
            window.extra_files.append(path)


def _metadata(window: Window, requests: int, tokens: int, errors: int) -> dict[str, Any]:
    return {
        "window_number": window.number,
        "start_time": window.start.strftime("%Y%m%d_%H%M%S"),
        "requests_processed": requests,
        "tokens_generated": tokens,
        "errors": errors,
    }
