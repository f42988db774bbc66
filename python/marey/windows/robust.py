"""A test whether a value differs from those before it, which outliers among them do not mislead."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LEAST_VALUES", "MOST_VALUES", "Baseline"]

LEAST_VALUES = 5
MOST_VALUES = 20

# By the number of earlier values: the quantile 0.99 of |x - median| / MAD, where MAD is the median
# of the absolute differences from the median. So 1 % of independent values of one normal
# distribution are taken for different, one half in each direction. Simulated with 500,000 to
# 2,000,000 samples each; `bench/time_windows.py --factors` prints them.
_FACTORS = {
    5: 21.53,
    6: 11.98,
    7: 11.49,
    8: 8.77,
    9: 8.60,
    10: 7.34,
    11: 7.22,
    12: 6.51,
    13: 6.49,
    14: 6.02,
    15: 5.98,
    16: 5.67,
    17: 5.66,
    18: 5.40,
    19: 5.41,
    20: 5.23,
}

_RESOLUTION = 1 / 32
"""Relative difference that percentiles of a sketch may have without a cause."""


_SMALL_MEAN = 4.0
"""The mean of counts up to which their median absolute deviation may be too small."""

_POISSON_DEVIATIONS = 3.0
"""Standard deviations that a count of rare events may differ by: so at most 1.6 % do by chance."""


class Baseline(NamedTuple):
    """The values before a value: their median, and the difference from it that chance may have."""

    median: float
    allowance: float
    values: int

    @staticmethod
    def from_values(values: Sequence[float], *, are_counts: bool = False) -> Baseline | None:
        """Returns the baseline of the last `MOST_VALUES` values; `None` if there are too few.

        Small counts, such as those of failed requests, are often all equal, so that their
        differences from the median say nothing: they may differ by what chance makes of a mean.
        """
        recent = values[-MOST_VALUES:]
        if len(recent) < LEAST_VALUES:
            return None
        median = statistics.median(recent)
        mad = statistics.median([abs(value - median) for value in recent])
        allowance = max(_FACTORS[len(recent)] * mad, _RESOLUTION * abs(median))
        if are_counts:
            mean = min(statistics.fmean(recent), _SMALL_MEAN)
            allowance = max(allowance, 1 + _POISSON_DEVIATIONS * math.sqrt(mean))
        return Baseline(median, allowance, len(recent))

    def differs(self, value: float) -> bool:
        """Whether chance alone is an unlikely cause of the value's difference."""
        return abs(value - self.median) > self.allowance
