"""A window: a span of time with a profile and metrics of its own."""

from __future__ import annotations

import math
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

    def files(self) -> list[str]:
        """Returns the paths of all files of the window."""
        return [*self.extra_files, *([] if self.path is None else [self.path])]
