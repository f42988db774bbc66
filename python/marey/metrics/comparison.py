"""Comparison of two trainings: `compare_runs`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from marey._student import student_t

from .collector import MetricsCollector
from .figures import batch_count
from .report import Report, aligned, read_report, shown
from .run_report import report_of_run

if TYPE_CHECKING:
    from marey.run import Run

Source = Union[MetricsCollector, Report, "Run", str, "os.PathLike[str]"]
"""A training for `compare_runs`; a path is that of a saved JSON report or of a run."""

MIN_COUNT = 5
"""Fewest times or values of each side for a confidence interval."""

HEAD_BYTES = 1 << 16
"""Bytes of a file in which a report is recognised."""

_UNKNOWN = (None, None)


class Change(NamedTuple):
    """The change of a mean."""

    metric: str
    unit: str
    before: float
    after: float
    change_percent: float | None
    low_percent: float | None
    """Lower end of the 95 % interval; `None` if there are too few times or values."""
    high_percent: float | None
    significant: bool | None
    """Whether the interval does not contain 0."""


def compare_runs(before: Source, after: Source, *, metric: str | None = None) -> RunComparison:
    """Compares the times and values that two trainings have in common.

    Two runs are also compared by `marey.compare`, whose metrics (``step_time.mean``, …) come first.

    Args:
        before: A collector, a report, an open run, or the path of a saved JSON report or of a run.
        after: The same; the two may be of different kinds.
        metric: The time that ``speedup`` compares. If not given, the mean step time of two runs
            that have it, else the time that both call an iteration, else the time with the largest
            total before.

    Raises:
        KeyError: `metric` is not a common time.
        OSError: A path cannot be read.
        TypeError: An argument is of another type.
        ValueError: They have no time in common, or a path is neither a report nor a run.
    """
    with report_of(before) as first, report_of(after) as second:
        changes = _changes(first, second)
        if first.run is not None and second.run is not None:
            changes = _changes_of_steps(first.run, second.run) | changes
        return RunComparison(changes, _compared_metric(first, second, changes, metric))


@contextmanager
def report_of(source: Source) -> Iterator[Report]:
    """Yields the report of anything that `compare_runs` accepts. A run of a path is closed then."""
    if isinstance(source, MetricsCollector):
        yield source.generate_report()
        return
    if isinstance(source, Report):
        yield source
        return
    if isinstance(source, (str, os.PathLike)) and _is_report(source):
        yield read_report(source)
        return
    from marey import run  # loads the query engine

    if isinstance(source, (str, os.PathLike)):
        with run.open(source) as opened:
            yield report_of_run(opened)
    elif isinstance(source, run.Run):
        yield report_of_run(source)
    else:
        raise TypeError(
            "compare_runs compares collectors, reports, runs and paths, not"
            f" {type(source).__name__}"
        )


class RunComparison(dict[str, Any]):
    """The result of `compare_runs`.

    ``speedup`` is the time before by the time after of ``metric``; above 1 is faster.
    ``speedup_interval`` is its 95 % interval, or `None`. ``metrics`` has a `Change` for each time
    and value, by name.
    """

    def __init__(self, changes: dict[str, Change], metric: str) -> None:
        change = changes[metric]
        interval = None
        if change.low_percent is not None and change.high_percent is not None:
            ends = (1 / (1 + change.high_percent / 100), _inverse(1 + change.low_percent / 100))
            interval = ends
        super().__init__(
            speedup=change.before / change.after if change.after else math.inf,
            speedup_interval=interval,
            metric=metric,
            metrics=changes,
        )

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("metric", "before", "after", "change", "95 % interval", "significant")
        ]
        rows += [_cells(change) for change in self["metrics"].values()]
        return f"Speedup of {self['metric']}: {self['speedup']:.2f}x\n{aligned(rows)}"

    def _repr_html_(self) -> str:
        from marey._notebook import table_html

        rows = list(self["metrics"].values())
        return table_html(Change._fields, rows, len(rows))


def _changes(before: Report, after: Report) -> dict[str, Change]:
    found = {}
    for kind, unit in (("timing", "ms"), ("values", "")):
        for name, figures in before[kind].items():
            other = after[kind].get(name)
            if other is not None and figures["count"] and other["count"]:
                key = name if name not in found else f"{name} (value)"
                found[key] = _change(key, unit, figures, other)
    return found


def _change(name: str, unit: str, before: dict[str, Any], after: dict[str, Any]) -> Change:
    """Returns the change of a mean, with the interval of Welch for the ratio of the two means.

    The variance of the logarithm of a mean is about (standard error / mean)²; the degrees of
    freedom are those of Welch and Satterthwaite.
    """
    first, second = before["mean"], after["mean"]
    if first == 0 or second / first <= 0:  # no ratio
        return Change(name, unit, first, second, None, *_UNKNOWN, None)
    percent = 100 * (second / first - 1)
    if min(before["count"], after["count"]) < MIN_COUNT:
        return Change(name, unit, first, second, percent, *_UNKNOWN, None)
    parts = [
        ((figures["std_error"] / figures["mean"]) ** 2, batch_count(figures["count"]) - 1)
        for figures in (before, after)
    ]
    variance = sum(part for part, _ in parts)
    margin = 0.0
    if variance > 0:
        freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
        margin = student_t(freedom) * math.sqrt(variance)
    log_ratio = math.log(second / first)
    low, high = (100 * math.expm1(log_ratio + side * margin) for side in (-1, 1))
    return Change(name, unit, first, second, percent, low, high, not low <= 0 <= high)


def _changes_of_steps(before: Run, after: Run) -> dict[str, Change]:
    """Returns the metrics of `marey.compare` that both runs have."""
    from marey.comparison import compare

    metrics = compare(before, after).metrics
    found = {}
    for row in metrics:
        values = dict(zip(metrics.columns, row, strict=True))
        if values["before"] is None or values["after"] is None:
            continue
        values["significant"] = {"yes": True, "no": False}.get(values["significant"])
        found[values["metric"]] = Change(*(values[field] for field in Change._fields))
    return found


STEP_TIME = "step_time.mean"


def _compared_metric(
    before: Report, after: Report, changes: dict[str, Change], metric: str | None
) -> str:
    times: list[str] = [name for name in before["timing"] if name in changes]
    if STEP_TIME in changes:
        times.insert(0, STEP_TIME)
    if metric is not None:
        if metric not in times:
            known = ", ".join(times) or "none"
            raise KeyError(f"{metric!r} is not a time of both; the common times are: {known}")
        return metric
    if not times:
        raise ValueError(
            "the two have no time in common: before has"
            f" {', '.join(before['timing']) or 'none'}, after has"
            f" {', '.join(after['timing']) or 'none'}"
        )
    if times[0] == STEP_TIME:
        return STEP_TIME
    iteration: str = before["iteration"]
    if iteration in times and after["iteration"] == iteration:
        return iteration

    def total(name: str) -> float:
        millis: float = before["timing"][name]["total"]
        return millis

    return max(times, key=total)


def _is_report(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a report; else it is a run, or a trace, which may be JSON too."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    # Other tools may have sorted the keys.
    return b'"timing"' in head[:64] or b'"marey_metrics"' in head


def _inverse(number: float) -> float:
    return 1 / number if number else math.inf


def _cells(change: Change) -> tuple[str, ...]:
    def percent(number: float | None) -> str:
        return "-" if number is None else f"{number:+.1f} %"

    unit = f" {change.unit}" if change.unit else ""
    interval = "-"
    if change.low_percent is not None:
        interval = f"{percent(change.low_percent)} to {percent(change.high_percent)}"
    return (
        change.metric,
        f"{shown(change.before)}{unit}",
        f"{shown(change.after)}{unit}",
        percent(change.change_percent),
        interval,
        {True: "yes", False: "no", None: "unknown"}[change.significant],
    )
