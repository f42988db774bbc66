"""Student's t distribution, for confidence intervals of means."""

from __future__ import annotations

_NORMAL = 1.959963984540054
"""The 97.5th percentile of the normal distribution."""


def student_t(degrees_of_freedom: float) -> float:
    """Returns the 97.5th percentile of Student's t: Abramowitz and Stegun 26.7.5."""
    x = _NORMAL
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    inverse = 1 / degrees_of_freedom
    first, second, third = terms
    return x + inverse * (first + inverse * (second + inverse * third))
