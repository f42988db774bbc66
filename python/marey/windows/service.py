"""`ServiceWindowProfiler`: windows with the requests that a service has answered in them."""

from __future__ import annotations

import os

import marey
from marey import _checks

from . import retention
from .requests import RequestLog, RequestMetrics, as_scope_metrics
from .rotation import Names, RotatingProfiler, Rotation, start_session
from .window import Window

__all__ = ["ServiceWindowProfiler"]


class ServiceWindowProfiler(RotatingProfiler):
    """Writes a profile for each window of time, with the requests of the window as metrics.

    The profile is ``<profile_dir>/service_window_<number>_<time>.hatchet``. Its node
    ``service_window`` has ``total_requests``, ``total_tokens_generated``, ``failed_requests``,
    ``requests_per_second``, ``tokens_per_second``, ``success_rate``, and the latency in
    milliseconds: ``p50_latency_ms``, ``p90_…``, ``p95_…`` and ``p99_…`` (relative error at most
    1/64), ``max_…``, ``min_…`` and ``avg_latency_ms``. A window without requests has
    ``requests_count`` 0.

    Args:
        window_seconds: Time after which a window ends by itself.
        profile_dir: Folder of the profiles, created if it does not exist.
        keep: Which windows are kept, as for `TimeWindowProfiler`.
        backend: Source of GPU activities, as for `marey.start`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is not positive or not finite, or `keep` is no limit.
    """

    def __init__(
        self,
        window_seconds: float = 300,
        *,
        profile_dir: str | os.PathLike[str] = "./service_profiles",
        keep: str | int | None = None,
        backend: str | None = None,
    ) -> None:
        self.window_seconds = _checks.positive("window_seconds", window_seconds)
        self.profile_dir = profile_dir
        self._requests = RequestLog()
        self._windows = Rotation(
            self.window_seconds,
            Names(profile_dir, "service_window", "{prefix}_{number}_{time}"),
            start_session(backend=backend),
            keep=retention.parse(keep),
            caller="ServiceWindowProfiler",
            on_end=self._record_metrics,
        )

    @property
    def window_start(self) -> float | None:
        """The time at which the open window began, in seconds since 1970, or `None`."""
        window = self._windows.open
        return None if window is None else window.start.timestamp()

    @property
    def current_requests(self) -> list[RequestMetrics]:
        """The latest requests of the open window, at most 1000."""
        return self._requests.recent()

    def start_window(self) -> None:
        """Starts the first window.

        Raises:
            RuntimeError: A window is open.
            OSError: `profile_dir` cannot be created.
        """
        discard_early_requests(self._requests, self._windows)
        self._windows.begin()

    def record_request(self, request_metrics: RequestMetrics) -> None:
        """Adds a request to the open window. May be called on any thread.

        A request that ends while no window is open belongs to none.

        Raises:
            TypeError: A value is not a number.
            ValueError: A number is negative, infinite or NaN. The request is not added.
        """
        self._requests.add(request_metrics)

    def end_window(self) -> None:
        """Ends the window and the recording.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. It is kept in memory: call `end_window` again.
        """
        self._windows.end()

    def _record_metrics(self, window: Window) -> dict[str, float]:
        metrics = self._requests.drain(window.duration_seconds)
        record_scope("service_window", self.window_seconds, window, metrics)
        return metrics


def discard_early_requests(requests: RequestLog, windows: Rotation) -> None:
    """Discards the requests that ended before the first window."""
    if windows.open is None:
        requests.drain(0)


def record_requests(
    name: str, seconds: float, requests: RequestLog, window: Window
) -> dict[str, float]:
    """Adds the requests of a window to a scope of its profile, if there are any.

    Returns:
        The metrics of the requests; none without a request.
    """
    metrics = requests.drain(window.duration_seconds)
    if "success_rate" not in metrics:
        return {}
    record_scope(name, seconds, window, metrics)
    return metrics


def record_scope(name: str, seconds: float, window: Window, metrics: dict[str, float]) -> None:
    """Adds the metrics of a window to a scope of its profile."""
    about = {
        "window_start_timestamp (pty)": window.start.timestamp(),
        "window_duration_seconds (pty)": seconds,
    }
    with marey.scope(name, {**about, **as_scope_metrics(metrics)}):
        pass
