"""Statistics of measured times and recorded values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

BATCHES = 20
"""Batches for the standard error of a mean. Fewer values than twice this are a batch each."""

NANOS_PER_MILLI = 1e6


@dataclass(frozen=True)
class Statistics:
    """Figures of a sequence of numbers, in the unit of the numbers."""

    count: int
    mean: float
    std: float
    """Standard deviation of the sample, with n - 1 in the denominator; 0 for one number."""
    min: float
    max: float
    p50: float
    p99: float
    total: float
    std_error: float
    """Standard error of the mean, see `standard_error`."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures by name, those of Kitsune's reports first."""
        return {name: getattr(self, name) for name in ("mean", "std", "min", "max", *FIGURES)}

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([self.as_dict()])


FIGURES = tuple(field.name for field in fields(Statistics))
"""Names of the figures."""


def summarise(numbers: Sequence[float]) -> Statistics:
    """Returns the statistics of finite numbers in the order in which they were measured.

    Raises:
        ValueError: There are no numbers.
    """
    if not numbers:
        raise ValueError("there are no numbers to summarise")
    ordered = sorted(numbers)
    mean = _mean(ordered)
    return Statistics(
        count=len(ordered),
        mean=mean,
        std=_deviation(ordered, mean),
        min=ordered[0],
        max=ordered[-1],
        p50=quantile(ordered, 0.5),
        p99=quantile(ordered, 0.99),
        total=_total(ordered),
        std_error=standard_error(numbers),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Returns a quantile of ascending numbers, interpolated linearly (Hyndman and Fan 1996, 7)."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def batch_count(count: int) -> int:
    """Returns the number of batches that `standard_error` divides `count` numbers into."""
    return count if count < 2 * BATCHES else BATCHES


def standard_error(numbers: Sequence[float]) -> float:
    """Returns the standard error of the mean by batch means (Conway 1963).

    Times of neighbouring iterations are correlated, so the deviation of single times would be too
    optimistic; means of long batches are nearly independent. 0 for one number.
    """
    batches = batch_count(len(numbers))
    bounds = [index * len(numbers) // batches for index in range(batches + 1)]
    means = [_mean(numbers[start:end]) for start, end in pairwise(bounds)]
    return _deviation(means, _mean(means)) / math.sqrt(batches)


def _total(numbers: Sequence[float]) -> float:
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def _mean(numbers: Sequence[float]) -> float:
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:  # of the sum; the mean is not larger than the numbers
        return math.fsum(number / len(numbers) for number in numbers)


def _deviation(numbers: Sequence[float], mean: float) -> float:
    if len(numbers) < 2:
        return 0.0
    # Scaled, because the square of a huge number overflows.
    scale = max(abs(number - mean) for number in numbers)
    if scale == 0 or math.isinf(scale):
        return scale
    squares = math.fsum(((number - mean) / scale) ** 2 for number in numbers)
    return scale * math.sqrt(squares / (len(numbers) - 1))
