"""Checks of arguments. The messages name the argument and its value."""

from __future__ import annotations

import math
import operator
import re
from typing import Any


def positive(name: str, value: Any) -> float:
    """Returns a finite number greater than 0.

    Raises:
        TypeError: `value` is not a number.
        ValueError: It is 0, negative, infinite or NaN.
    """
    number = as_number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number greater than 0, not {value!r}")
    return number


def not_negative(name: str, value: Any) -> float:
    """Returns a finite number of at least 0. Raises `TypeError` or `ValueError`."""
    number = as_number(name, value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
    return number


def count(name: str, value: Any, least: int = 0) -> int:
    """Returns a whole number of at least `least`. Raises `TypeError` or `ValueError`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {number}")
    return number


def flag(name: str, value: Any) -> bool:
    """Returns a boolean. Raises `TypeError` for anything else, such as ``"no"``."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def as_number(name: str, value: Any) -> float:
    """Returns a number, which may be infinite or NaN. Raises `TypeError`."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in each unit of a duration."""


def duration_seconds(text: str) -> float | None:
    """Returns the seconds of a duration such as ``"5m"``; `None` if the text is none.

    Raises:
        ValueError: The duration is 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d)", text.strip())
    if match is None:
        return None
    return positive(f"the duration {text!r}", float(match[1]) * SECONDS[match[2]])
