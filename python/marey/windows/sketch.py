"""A sketch of values from which percentiles are computed: its size does not grow with their number.

Buckets are logarithmic, 32 for each power of two, like those of the recorder, so a percentile has a
relative error of at most 1/64. Count, sum, minimum and maximum are exact.
"""

from __future__ import annotations

import math


class Sketch:
    """Values of at least 0."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.greatest = -math.inf
        self._zeros = 0
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        """Adds a finite value of at least 0."""
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)
        if value == 0:
            self._zeros += 1
            return
        mantissa, exponent = math.frexp(value)
        bucket = 32 * exponent + int(64 * mantissa) - 32
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentiles(self, percents: tuple[float, ...]) -> list[float]:
        """Returns percentiles, interpolated linearly between ranks as `numpy.percentile` does.

        NaN if there are no values.
        """
        if self.count == 0:
            return [math.nan] * len(percents)
        buckets = sorted(self._buckets.items())
        return [self._interpolated(buckets, percent) for percent in percents]

    def _interpolated(self, buckets: list[tuple[int, int]], percent: float) -> float:
        position = percent / 100 * (self.count - 1)
        lower = math.floor(position)
        low = self._ranked(buckets, lower)
        high = low if lower == position else self._ranked(buckets, lower + 1)
        return low + (high - low) * (position - lower)

    def _ranked(self, buckets: list[tuple[int, int]], rank: int) -> float:
        """Returns the value of a rank, numbered from 0."""
        if rank == 0:
            return self.least
        if rank == self.count - 1:
            return self.greatest
        seen = self._zeros
        if rank < seen:
            return 0.0
        for bucket, count in buckets:
            seen += count
            if rank < seen:
                return min(max(_middle(bucket), self.least), self.greatest)
        return self.greatest


def _middle(bucket: int) -> float:
    exponent, position = divmod(bucket, 32)
    return math.ldexp((position + 32.5) / 64, exponent)
