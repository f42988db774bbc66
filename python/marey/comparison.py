"""Two runs side by side: `marey.compare`.

    comparison = marey.compare("before.marey", "after.marey")  # or traces, or open runs
    comparison.metrics  # step times, memory, idle time: before, after, and the significance
    comparison.operations  # the host's operations in a step, by path
    comparison.check("step_time.p50>+3%", "gpu_memory.peak>+100MB")

Times are in nanoseconds. Times and counts are per training step, or of the whole recording if it
has no steps.
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
    """Compares two runs, per training step.

    Args:
        before: An open run, or a path that `marey.open` accepts.
        after: An open run, or a path that `marey.open` accepts.
        tolerance: A time that changes by at most this many percent counts as unchanged; 5 if not
            given.

    Raises:
        OSError: A run cannot be read.
        UnreadableRun: A path is not a valid run; a `ValueError`.
        ValueError: The tolerance is not a valid percentage.
    """
    return Comparison(_as_run(before), _as_run(after), tolerance)


class Comparison:
    """The differences of two runs, as tables with the columns ``before`` and ``after``."""

    def __init__(self, before: Run, after: Run, tolerance: float | None) -> None:
        """Use `compare`."""
        self._before, self._after = before._engine_run().measured(), after._engine_run().measured()
        self._names = before.path, after.path
        self._comparison = self._before.compare(self._after, tolerance)

    @property
    def metrics(self) -> Result:
        """The metrics of both runs, with 95 % intervals of their changes by bootstrap over steps.

        ``significant`` is yes if the interval does not contain 0, and unknown if there are too few
        steps or the metric is not measured per step.
        """
        return Result(self._comparison.metrics())

    @property
    def operations(self) -> Result:
        """The operations of the host in a step, by path and kind, the largest change first.

        ``category`` is added, removed, increased, decreased or unchanged, by time.
        ``count_category`` has the same values, by the number of calls.
        """
        return Result(self._comparison.operations())

    @property
    def kernels(self) -> Result:
        """The activities of devices in a step, by kernel name, the largest change first."""
        return Result(self._comparison.kernels())

    @property
    def renames(self) -> Result:
        """Operations and kernels that may have been renamed, with the reason.

        The other tables do not merge such pairs.
        """
        return Result(self._comparison.renames())

    def check(self, *conditions: str, min_steps: int | None = None) -> Result:
        """Checks conditions on the change between the runs: one row for each condition.

        Args:
            conditions: Conditions such as ``"step_time.p50>+3%"`` or ``"gpu_idle.percent>30"``;
                `marey check --help` describes their syntax.
            min_steps: Least number of steps that a statistic over steps needs; 5 if not given.

        Raises:
            ValueError: A condition cannot be parsed.
        """
        return Result(self._before.check(self._after, list(conditions), min_steps))

    def __repr__(self) -> str:
        before, after = self._names
        return f"<marey.comparison.Comparison: {before} before, {after} after>"


def _as_run(run: Run | _Path) -> Run:
    return run if isinstance(run, Run) else _run.open(run)
