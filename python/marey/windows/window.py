"""A window: a span of time with a profile and metrics of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Window"]


@dataclass
class Window:
    """A window. Its last five attributes are set when it ends.

    Attributes:
        number: Number of the window.
        start: When it began, in local time.
        path: Path of its profile. The file exists when the window has ended, under this name or,
            if that was taken, with a number; then the path is changed. `None` if marey is disabled,
            or `marey run` records the program.
        end: When it ended, in local time; `None` before.
        duration_seconds: Its length on the monotonic clock.
        end_seconds: Reading of `time.monotonic` when it ended. Its age is counted from it, because
            local time may be set back.
        metrics: What the program has recorded of it, such as requests and percentiles.
        extra_files: Other files of the window, which are deleted with it.
    """

    number: int
    start: datetime
    path: str | None
    end: datetime | None = None
    duration_seconds: float = 0.0
    end_seconds: float = math.inf
    metrics: dict[str, float] = field(default_factory=dict)
    extra_files: list[str] = field(default_factory=list)

    def _repr_html_(self) -> str:
        return windows_html([self])

    def files(self) -> list[str]:
        """Returns the paths of all files of the window."""
        return [*self.extra_files, *([] if self.path is None else [self.path])]


def windows_html(windows: Sequence[Window]) -> str:
    """Returns windows as a table for notebooks, with a column for each of their metrics."""
    from marey import _notebook

    return _notebook.dicts_html(
        [
            {
                "number": window.number,
                "start": f"{window.start:%Y-%m-%d %H:%M:%S}",
                "seconds": window.duration_seconds,
                "path": window.path,
                **window.metrics,
            }
            for window in windows
        ]
    )
