"""Bottlenecks of a training loop: from findings of the rules, and from the growth of memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class BottleneckType(Enum):
    """The four kinds of bottlenecks."""

    CPU_GPU_SYNC = "cpu_gpu_sync"
    MEMORY_LEAK = "memory_leak"
    HOT_OPERATION = "hot_operation"
    MEMORY_BOUND = "memory_bound"


@dataclass(frozen=True)
class Bottleneck:
    """A problem that takes time or memory."""

    type: BottleneckType
    severity: str
    """``"high"``, ``"medium"`` or ``"low"``."""
    description: str
    recommendation: str
    impact_ms: float
    """The time that it takes, of the total time; 0 for memory."""

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([{**vars(self), "type": self.type.value}])


SEVERITIES = ("high", "medium", "low")
"""From the most severe on."""

HIGH_PERCENT = {
    BottleneckType.CPU_GPU_SYNC: 20.0,
    BottleneckType.HOT_OPERATION: 30.0,
    BottleneckType.MEMORY_BOUND: 30.0,
}
"""The percent of the time above which a bottleneck is of high severity."""

MEDIUM_PERCENT = 10.0
"""The percent of the time from which on a bottleneck is of medium severity."""


def severity(kind: BottleneckType, percent: float) -> str:
    """Returns the severity of a bottleneck that takes `percent` of the time."""
    if percent > HIGH_PERCENT[kind]:
        return "high"
    return "medium" if percent >= MEDIUM_PERCENT else "low"


class MemoryPoint(NamedTuple):
    """The memory of a device or of the process at the end of an epoch or step."""

    number: int
    """Of the epoch, else of the step."""
    memory: str
    """``cuda:0``, or ``host`` for the resident size of the process."""
    allocated_mb: float
    """In 10^6 bytes."""
    peak_mb: float | None
    """The largest value so far, if the memory tells it."""


class Trend(NamedTuple):
    """A line through the points of a memory."""

    slope_mb: float
    """Growth per epoch or step."""
    start_mb: float
    """The line at number 0."""
    r2: float
    """The square of the correlation of number and allocated memory."""
    growth_mb: float
    """Last minus first point."""

    def is_leak(self, threshold_mb: float) -> bool:
        """Whether memory grows by more than this per epoch, steadily, and by ten times it."""
        is_steady = self.r2 >= MIN_R2 and self.growth_mb >= MIN_POINTS * threshold_mb
        return is_steady and self.slope_mb > threshold_mb


MIN_POINTS = 10
"""Points below which there is no trend."""

WARMUP_POINTS = 2
"""First points, which are left out, because caches fill in their time."""

MAX_POINTS = 400
"""Points of which all pairs are compared; of more, evenly spaced ones are used."""

MIN_R2 = 0.5


def trend(points: Sequence[MemoryPoint]) -> Trend | None:
    """Returns the line by Theil and Sen: the median of the slopes between all pairs of points.

    Returns `None` for fewer than `MIN_POINTS` points after the first `WARMUP_POINTS`.
    """
    points = points[WARMUP_POINTS:]
    if len(points) < MIN_POINTS:
        return None
    every = -(-len(points) // MAX_POINTS)
    xs = [float(point.number) for point in points[::every]]
    ys = [point.allocated_mb for point in points[::every]]
    slopes = [
        (ys[right] - ys[left]) / (xs[right] - xs[left])
        for left in range(len(xs))
        for right in range(left + 1, len(xs))
        if xs[right] > xs[left]
    ]
    if not slopes:
        return None
    slope = statistics.median(slopes)
    start = statistics.median(y - slope * x for x, y in zip(xs, ys, strict=True))
    is_constant = len(set(xs)) == 1 or len(set(ys)) == 1
    r2 = 0.0 if is_constant else statistics.correlation(xs, ys) ** 2
    return Trend(slope, start, r2, points[-1].allocated_mb - points[0].allocated_mb)
