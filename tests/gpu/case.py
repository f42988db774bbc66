"""The definition of a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from worlds import World

Figures = dict[str, Any]
"""What a check found out, for the record; keys end with units."""

MakeWorld = Callable[[], World]
"""Puts the device to work; before it, the program has not used CUDA."""


class Skipped(Exception):
    """The check cannot run here; the message has the reason."""


class Check(NamedTuple):
    """An assertion about marey on a device. Its function fails with `AssertionError`."""

    name: str
    function: Callable[[MakeWorld], Figures]
    worlds: tuple[str, ...]
    limit_secs: int
    is_made_once: bool
    """Whether it is made in the first of its worlds alone, which makes no difference to it."""

    is_timed: bool
    """Whether others that run at the same time would disturb it."""

    @property
    def promise(self) -> str:
        """The first line of the function's docstring: the property that the check confirms."""
        return (self.function.__doc__ or "").partition("\n")[0]


ALL_WORLDS = ("triton", "torch", "torch+triton")

CHECKS: list[Check] = []
"""Every check, once `checks` is imported."""


def check(
    *worlds: str, limit_secs: int = 60, once: bool = False, timed: bool = False
) -> Callable[[Callable[[MakeWorld], Figures]], Callable[[MakeWorld], Figures]]:
    """Registers a function as a check in the given worlds, or in all worlds."""

    def register(function: Callable[[MakeWorld], Figures]) -> Callable[[MakeWorld], Figures]:
        name = function.__name__.replace("_", "-")
        CHECKS.append(Check(name, function, worlds or ALL_WORLDS, limit_secs, once, timed))
        return function

    return register


def expect(what: str, found: Any, wanted: Any) -> None:
    """Fails unless two values are equal.

    Raises:
        AssertionError: They differ.
    """
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def require(holds: bool, problem: str) -> None:
    """Fails unless a condition is true.

    Raises:
        AssertionError: It is false.
    """
    if not holds:
        raise AssertionError(problem)
