"""`TimeWindowProfiler`: a profile for each span of time."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from marey import _checks

from . import retention
from .rotation import Names, RotatingProfiler, Rotation, start_session

if TYPE_CHECKING:
    from marey.hooks import Hook

__all__ = ["TimeWindowProfiler"]

INSTALLED = "triton if it is installed"
"""The default hook: Triton's, where Triton is installed."""


class TimeWindowProfiler(RotatingProfiler):
    """Writes a profile for each window of time.

    The profile of a window is ``<output_dir>/profile_window_<number>_<time>.hatchet``. The end of a
    window is at most milliseconds late, and the next window begins at the same point in time.

    Args:
        window_duration_seconds: Time after which a window ends by itself.
        output_dir: Folder of the profiles, created if it does not exist.
        keep: Which windows are kept: a number (``12``), an age (``"24h"``), a size (``"2GB"``),
            several with commas between them; `None` for all. The latest is always kept, and only
            windows of this object are deleted.
        backend: Source of GPU activities, as for `marey.start`.
        hook: Launch hook, as for `marey.start`; by default that of Triton, if it is installed.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is not positive or not finite, or `keep` is no limit.
    """

    def __init__(
        self,
        window_duration_seconds: float = 300,
        output_dir: str | os.PathLike[str] = "./profiles",
        *,
        keep: str | int | None = None,
        backend: str | None = None,
        hook: str | Hook | None = INSTALLED,
    ) -> None:
        self.window_duration = _checks.positive("window_duration_seconds", window_duration_seconds)
        self.output_dir = output_dir
        self._windows = Rotation(
            self.window_duration,
            Names(output_dir, "profile_window", "{prefix}_{number}_{time}"),
            start_session(backend=backend, hook=installed_hook(hook)),
            keep=retention.parse(keep),
            caller="TimeWindowProfiler",
        )

    @property
    def current_session(self) -> int | None:
        """Number of the session while a window is open, else `None`."""
        return self._windows.session

    @property
    def window_count(self) -> int:
        """Windows that have begun."""
        return self._windows.next_number

    @property
    def profiling(self) -> bool:
        """Whether a window is open."""
        return self._windows.open is not None

    def start_window(self) -> None:
        """Starts the first window.

        Raises:
            RuntimeError: A window is open.
            OSError: `output_dir` cannot be created.
        """
        self._windows.begin()

    def end_window(self) -> None:
        """Ends the window and the recording.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. It is kept in memory: call `end_window` again.
        """
        self._windows.end()

    def rotate_profile(self) -> None:
        """Ends the window now and begins the next one; begins the first if none is open.

        Raises:
            OSError: The profile cannot be written. It is kept in memory until the next window ends.
        """
        if self._windows.open is None:
            self._windows.begin()
        else:
            self._windows.rotate()


def installed_hook(hook: str | Hook | None) -> str | Hook | None:
    """Returns the hook, or Triton's if `hook` is `INSTALLED` and Triton is installed."""
    if hook != INSTALLED:
        return hook
    return "triton" if importlib.util.find_spec("triton") is not None else None
