"""Student's t distribution, for confidence intervals of means."""

from __future__ import annotations

NORMAL = 1.959963984540054
"""The 97.5th percentile of the normal distribution."""


def student_t(degrees_of_freedom: float, normal: float = NORMAL) -> float:
    """Returns the percentile of Student's t, by that of the normal distribution, such as `NORMAL`.

    Abramowitz and Stegun 26.7.5.
    """
    x = normal
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    inverse = 1 / degrees_of_freedom
    first, second, third = terms
    return x + inverse * (first + inverse * (second + inverse * third))
