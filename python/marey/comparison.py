"""Two runs side by side: `marey.compare`.

    comparison = marey.compare("before.marey", "after.marey")  # or traces, or runs that are open
    comparison.metrics  # step times, memory, idle time: before, after, and whether that is chance
    comparison.operations  # what the host did in a step, by path
    comparison.check("step_time.p50>+3%", "gpu_memory.peak>+100MB")

Times and counts are of one training step, or of the recording if it has no steps.
"""

from __future__ import annotations

import os

from . import run as _run
from .run import Result, Run

__all__ = ["Comparison", "compare"]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def compare(
    before: Run | _Path, after: Run | _Path, *, tolerance: float | None = None
) -> Comparison:
    """Compares two runs, by what they took for a step.

    Args:
        before: A run that is open, or whatever `marey.open` takes.
        after: Likewise.
        tolerance: Changes of a time by at most so many percent are called none; 5 if not given.

    Raises:
        OSError: One cannot be read.
        UnreadableRun: One is no sound run; a `ValueError`.
        ValueError: The tolerance is no share.
    """
    return Comparison(_opened(before), _opened(after), tolerance)


class Comparison:
    """What two runs differ in: tables with ``before`` and ``after``."""

    def __init__(self, before: Run, after: Run, tolerance: float | None) -> None:
        """Use `compare`."""
        self._before, self._after = before._open().measured(), after._open().measured()
        self._names = before.path, after.path
        self._compared = self._before.compare(self._after, tolerance)

    @property
    def metrics(self) -> Result:
        """The numbers of both runs, with 95 % intervals of changes by a bootstrap over the steps.

        ``significant`` is yes if the interval does not hold 0, and unknown if there are too few
        steps, or the number is not one of steps.
        """
        return Result(self._compared.metrics())

    @property
    def operations(self) -> Result:
        """What the host did in a step, by path and kind, what changed most first.

        ``category`` is added, removed, increased, decreased or unchanged, by time;
        ``count_category`` the same by how often it ran.
        """
        return Result(self._compared.operations())

    @property
    def kernels(self) -> Result:
        """What devices did for a step, by the name of the kernel, what changed most first."""
        return Result(self._compared.kernels())

    @property
    def renames(self) -> Result:
        """Operations and kernels that may be one under two names, and why. None is added up."""
        return Result(self._compared.renames())

    def check(self, *conditions: str, min_steps: int | None = None) -> Result:
        """Holds the run after against the one before: a row for each condition, with its outcome.

        Args:
            conditions: Such as ``"step_time.p50>+3%"`` or ``"gpu_idle.percent>30"``; what
                `marey check --help` describes.
            min_steps: Steps that a statistic of steps needs at least; 5 if not given.

        Raises:
            ValueError: A condition is none.
        """
        return Result(self._before.check(self._after, list(conditions), min_steps))

    def __repr__(self) -> str:
        before, after = self._names
        return f"<marey.comparison.Comparison: {before} before, {after} after>"


def _opened(run: Run | _Path) -> Run:
    return run if isinstance(run, Run) else _run.open(run)
