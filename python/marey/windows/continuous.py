"""`ContinuousProfiler`: windows that are compared with those before them."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from marey import _checks
from marey._forks import follow

from . import retention
from .background import Caller
from .metric_names import NAMES, REQUESTS
from .requests import RequestLog, RequestMetrics
from .robust import MOST_VALUES
from .rolling import load_engine, read_metrics
from .rotation import Names, RotatingProfiler, Rotation, start_session
from .service import discard_early_requests, record_requests
from .watch import Watch
from .window import Window

__all__ = ["ContinuousProfiler"]

DEFAULT_ALERTS = ("avg_kernel_time_ms", "step_time.p50", "p99_latency_ms")


class ContinuousProfiler(RotatingProfiler):
    """Compares each window with the last ones, and calls back if one differs.

    The profile is ``<profile_dir>/continuous_<time>.hatchet``. A metric differs if it is farther
    from the median of up to 20 windows before than a multiple of the median absolute deviation
    that undisturbed windows exceed in 1 % of cases, for each metric, and by more than 1/32 of the
    median. At least 5 windows must precede.

    Args:
        window_seconds: Time after which a window ends by itself.
        alert_callback: Called with the metrics of a window that differs, on a thread of its own.
            What it raises is printed, and the recording goes on.
        profile_dir: Folder of the profiles, created if it does not exist.
        keep: Which windows are kept, as for `TimeWindowProfiler`.
        alerts: Metrics that are compared, or conditions such as ``"step_time.p99>+20%"``.
        backend: Source of GPU activities, as for `marey.start`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is not positive or not finite, `keep` is no limit, or an alert is no
            condition.
    """

    def __init__(
        self,
        window_seconds: float = 300,
        alert_callback: Callable[[dict[str, Any]], object] | None = None,
        *,
        profile_dir: str | os.PathLike[str] = ".",
        keep: str | int | None = None,
        alerts: Sequence[str] = DEFAULT_ALERTS,
        backend: str | None = None,
    ) -> None:
        if alert_callback is not None and not callable(alert_callback):
            raise TypeError(f"alert_callback must be callable, not {alert_callback!r}")
        if isinstance(alerts, str):
            raise TypeError(f"alerts must be a sequence of conditions, not the text {alerts!r}")
        self.window_seconds = _checks.positive("window_seconds", window_seconds)
        self.alert_callback = alert_callback
        self.profile_dir = profile_dir
        self.performance_history: deque[dict[str, Any]] = deque(maxlen=MOST_VALUES)
        self.baseline_metrics: dict[str, float] | None = None
        self._watch = Watch(alerts, (*NAMES, *REQUESTS))
        self._caller = Caller()
        self._requests = RequestLog()
        self.forget()
        follow(self, ContinuousProfiler.forget)
        self._windows = Rotation(
            self.window_seconds,
            Names(profile_dir, "continuous", "{prefix}_{time}"),
            start_session(backend=backend),
            keep=retention.parse(keep),
            caller="ContinuousProfiler",
            on_end=partial(
                record_requests, "continuous_window", self.window_seconds, self._requests
            ),
            after_end=self._analyse,
        )

    def forget(self) -> None:
        """Begins anew, in a forked child."""
        self._changed = threading.Condition(threading.Lock())
        self._analysed = self._returned = 0
        self._is_stopped = False

    def start(self) -> None:
        """Starts the first window, and returns at once.

        Raises:
            RuntimeError: A window is open.
            OSError: `profile_dir` cannot be created.
        """
        load_engine()
        discard_early_requests(self._requests, self._windows)
        self._windows.begin()
        self._is_stopped = False

    def stop(self) -> None:
        """Ends the window and the recording. Alerts that are due are called first.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. It is kept in memory: call `stop` again.
        """
        self._is_stopped = True  # so that `profile_with_monitoring` does not start again
        try:
            self._windows.end()
        except BaseException:
            self._is_stopped = False
            raise
        self._caller.wait(timeout_s=10)
        with self._changed:
            self._changed.notify_all()

    def profile_with_monitoring(self) -> dict[str, Any] | None:
        """Waits for the end of a window, and returns its metrics.

        The first call starts the first window, unless `start` has. Between two calls the recording
        goes on; a call returns at once if a window has ended since the call before.

        Returns:
            The metrics, as passed to `alert_callback`; `None` if `stop` has ended the recording.

        Raises:
            OSError: `profile_dir` cannot be created.
        """
        if self._windows.open is None and not self._is_stopped:
            self.start()
        with self._changed:
            # With a timeout, because the program may have ended all sessions.
            while self._analysed == self._returned and self._windows.open is not None:
                self._changed.wait(1.0)
            if self._analysed == self._returned:
                return None
            waiting = min(self._analysed - self._returned, len(self.performance_history))
            self._returned = self._analysed - waiting + 1
            return self.performance_history[-waiting]

    def record_request(self, request_metrics: RequestMetrics) -> None:
        """Adds a request to the open window, as `ServiceWindowProfiler.record_request` does."""
        self._requests.add(request_metrics)

    def _analyse(self, window: Window) -> None:
        """Compares a window with the last ones."""
        measured = read_metrics(window, self._watch.metrics) or dict(window.metrics)
        alerts = self._watch.judge(measured)
        self.baseline_metrics = self._watch.medians
        missing = ("avg_kernel_time_ms", "max_kernel_time_ms", "avg_utilization")
        metrics = {
            "timestamp": window.end,
            **dict.fromkeys(missing, math.nan),
            **measured,
            "profile_path": window.path,
            "window": window.number,
            "alerts": alerts,
        }
        with self._changed:
            self.performance_history.append(metrics)
            self._analysed += 1
            self._changed.notify_all()
        if alerts and self.alert_callback is not None:
            self._caller.call(self.alert_callback, metrics)
