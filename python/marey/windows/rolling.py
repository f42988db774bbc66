"""`RollingWindowProfiler`: the profiles of the last windows, and how they change."""

from __future__ import annotations

import importlib
import os
from collections import deque
from functools import partial
from typing import Any

from marey import _checks
from marey.errors import UnreadableProfile

from . import retention
from .requests import RequestLog, RequestMetrics
from .rotation import Names, RotatingProfiler, Rotation, start_session
from .service import discard_early_requests, record_requests
from .trends import Trends
from .window import Window

__all__ = ["RollingWindowProfiler"]


class RollingWindowProfiler(RotatingProfiler):
    """Keeps the profiles of the last windows and deletes older ones.

    The profile is ``<profile_dir>/rolling_<time>.hatchet``.

    Args:
        window_size_minutes: Minutes after which a window ends by itself.
        max_windows_kept: Number of windows that are kept.
        profile_dir: Folder of the profiles, created if it does not exist.
        keep: Further limits, as for `TimeWindowProfiler`, such as ``"2GB"``.
        backend: Source of GPU activities, as for `marey.start`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is not positive or not finite, or `keep` is no limit.
    """

    def __init__(
        self,
        window_size_minutes: float = 10,
        max_windows_kept: int = 6,
        profile_dir: str | os.PathLike[str] = "./rolling_profiles",
        *,
        keep: str | int | None = None,
        backend: str | None = None,
    ) -> None:
        minutes = _checks.positive("window_size_minutes", window_size_minutes)
        self.window_size = minutes * 60
        self.max_windows = _checks.count("max_windows_kept", max_windows_kept, least=1)
        self.profile_dir = profile_dir
        limits = retention.parse(keep)
        least = min(self.max_windows, limits.windows or self.max_windows)
        self._requests = RequestLog()
        self._windows = Rotation(
            self.window_size,
            Names(profile_dir, "rolling", "{prefix}_{time}"),
            start_session(backend=backend),
            keep=limits._replace(windows=least),
            caller="RollingWindowProfiler",
            on_end=partial(record_requests, "rolling_window", self.window_size, self._requests),
        )

    @property
    def current_session(self) -> int | None:
        """Number of the session while a window is open, else `None`."""
        return self._windows.session

    @property
    def profile_queue(self) -> deque[dict[str, Any]]:
        """The windows that are kept and the open one: ``path`` without suffix, ``start_time``."""
        opened = self._windows.open
        windows = [*self._windows.ended, *([] if opened is None else [opened])]
        entries = (
            {
                "path": None if window.path is None else os.path.splitext(window.path)[0],
                "session": self._windows.session if window is opened else None,
                "start_time": window.start,
            }
            for window in windows
        )
        return deque(entries, maxlen=self.max_windows + 1)

    def start_new_window(self) -> None:
        """Ends the open window, if there is one, and begins the next.

        Raises:
            OSError: The folder cannot be created, or the profile cannot be written. It is kept in
                memory until the next window ends.
        """
        if self._windows.open is None:
            discard_early_requests(self._requests, self._windows)
            self._windows.begin()
        else:
            self._windows.rotate()

    def stop(self) -> None:
        """Ends the window and the recording.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. It is kept in memory: call `stop` again.
        """
        self._windows.end()

    def record_request(self, request_metrics: RequestMetrics) -> None:
        """Adds a request to the open window, as `ServiceWindowProfiler.record_request` does."""
        self._requests.add(request_metrics)

    def get_recent_profiles(self, n: int | None = None) -> list[str]:
        """Returns the paths of the last `n` profiles, or of all that are kept.

        The open window has no profile yet.

        Raises:
            TypeError: `n` is not a whole number.
            ValueError: `n` is negative.
        """
        paths = [window.path for window in self._windows.ended if window.path is not None]
        return paths if n is None else paths[max(0, len(paths) - _checks.count("n", n)) :]

    def analyze_trends(self) -> Trends:
        """Returns a table with a row for each window that is kept.

        Columns are the window, what its profile has (``total_kernel_time_ms``,
        ``avg_kernel_time_ms``, ``avg_utilization``, ``step_time.p99``, …) and the metrics of its
        requests. A profile that another program has deleted has no row.
        """
        rows = []
        for window in list(self._windows.ended):
            metrics = read_metrics(window)
            if metrics is not None:
                rows.append(
                    {
                        "window": window.number,
                        "start": window.start,
                        "duration_seconds": window.duration_seconds,
                        "path": window.path,
                        **metrics,
                    }
                )
        return Trends(rows)


def load_engine() -> None:
    """Loads the engine before the first window ends, because loading it takes the GIL for long."""
    importlib.import_module(".summary", __package__)


def read_metrics(window: Window, metrics: tuple[str, ...] = ()) -> dict[str, float] | None:
    """Returns what a window has recorded and what its profile has; `None` without a profile."""
    from .summary import summarize

    if window.path is None:
        return None
    try:
        return {**summarize(window.path, metrics), **window.metrics}
    except (OSError, UnreadableProfile):
        return None
