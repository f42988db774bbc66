"""Selection of the epochs that are recorded, and estimates for all epochs from these.

Epochs are drawn systematically with a random start: epoch i is drawn with probability p_i, namely
if a whole number lies between u + p_0 + … + p_(i-1) and u + p_0 + … + p_i, where u is uniform in
[0, 1). Estimates divide by the probability (Hájek, "Comment on an Essay by D. Basu", 1971). Their
variance is that of successive differences (Wolter, "Introduction to Variance Estimation", ch. 8).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from marey._student import student_t

EARLY_EPOCHS = 10
"""Epochs in which adaptive sampling has a higher rate."""

EARLY_FACTOR = 3
"""The factor of the rate in the early epochs."""


class Draw(NamedTuple):
    """Whether an epoch is recorded."""

    number: int
    """The number of the epoch, from 0."""
    probability: float
    """The probability with which an epoch of this number is recorded."""
    is_sampled: bool


class Sampler:
    """Draws the epochs to record. The first one always is, so that no profile is empty."""

    def __init__(self, rate: float, *, is_adaptive: bool) -> None:
        self._rate = rate
        self._is_adaptive = is_adaptive
        self._epochs = 0
        # A generator of its own, because the program's random numbers must not change.
        self._position = random.Random().random()

    def draw(self) -> Draw:
        """Decides on the next epoch."""
        number = self._epochs
        probability = self._probability(number)
        self._epochs += 1
        before = math.floor(self._position)
        self._position += probability
        return Draw(number, probability, probability == 1 or math.floor(self._position) > before)

    def _probability(self, number: int) -> float:
        if number == 0:
            return 1.0
        if self._is_adaptive and number < EARLY_EPOCHS:
            return min(1.0, EARLY_FACTOR * self._rate)
        return self._rate


class Estimate(NamedTuple):
    """The sum of a value over all epochs, estimated from the recorded ones."""

    total: float
    low: float | None
    """The lower end of the 95 % confidence interval; `None` for a single recorded epoch."""
    high: float | None
    """The upper end."""


def counted(probabilities: Sequence[float], have_operators: Sequence[bool]) -> list[float]:
    """Returns the probabilities for estimates of times: 1 for epochs with operators.

    These are longer by what recording operators costs, so that each counts once, as it was, and
    the others stand for the epochs that were not recorded. If fewer than two others were drawn, all
    keep their probability.
    """
    pairs = list(zip(probabilities, have_operators, strict=True))
    if sum(probability < 1 and not is_longer for probability, is_longer in pairs) < 2:
        return list(probabilities)
    return [1.0 if is_longer else probability for probability, is_longer in pairs]


def weights(probabilities: Sequence[float], epochs: int) -> list[float]:
    """Returns how many of `epochs` each recorded epoch stands for; their sum is `epochs`.

    An epoch that is always recorded stands for itself, the others for those that were not recorded.
    If all recorded epochs are of the first kind, they stand for the others.
    """
    drawn = sum(1 / probability for probability in probabilities if probability < 1)
    certain = sum(probability == 1 for probability in probabilities)
    if not drawn:
        return [epochs / certain] * certain
    scale = (epochs - certain) / drawn
    return [1.0 if probability == 1 else scale / probability for probability in probabilities]


def estimate(values: Sequence[float], probabilities: Sequence[float], epochs: int) -> Estimate:
    """Estimates the sum over `epochs` epochs from the values of those that were recorded.

    Args:
        values: The value of each recorded epoch, in the order of the epochs, at least one.
        probabilities: The probability with which each was drawn.
        epochs: Number of all epochs.
    """
    factors = weights(probabilities, epochs)
    total = math.fsum(factor * value for factor, value in zip(factors, values, strict=True))
    if len(values) >= epochs:
        return Estimate(total, total, total)
    drawn = [
        (factor, value)
        for factor, value, probability in zip(factors, values, probabilities, strict=True)
        if probability < 1
    ]
    count = len(drawn)
    if count < 2:
        return Estimate(total, None, None)
    others = epochs - (len(values) - count)
    mean = math.fsum(factor * value for factor, value in drawn) / others
    residuals = [factor * (value - mean) for factor, value in drawn]
    differences = math.fsum((b - a) ** 2 for a, b in itertools.pairwise(residuals))
    variance = (1 - count / others) * count * differences / (2 * (count - 1))
    margin = student_t(count - 1) * math.sqrt(variance)
    return Estimate(total, max(total - margin, 0.0), total + margin)
