"""What a check is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from worlds import World

Figures = dict[str, Any]
"""What a check found out, for the record; keys end with units."""

MakeWorld = Callable[[], World]
"""Puts the device to work; before it, the program has not used CUDA."""


class Skipped(Exception):
    """The check cannot be made here; the text says why."""


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
        """What holds if it passes: the function's first line."""
        return (self.function.__doc__ or "").partition("\n")[0]


ALL_WORLDS = ("triton", "torch", "torch+triton")

CHECKS: list[Check] = []
"""Every check, once `checks` is imported."""


def check(
    *worlds: str, limit_secs: int = 60, once: bool = False, timed: bool = False
) -> Callable[[Callable[[MakeWorld], Figures]], Callable[[MakeWorld], Figures]]:
    """Makes a check of a function, in each of these worlds; in all if none is named."""

    def register(function: Callable[[MakeWorld], Figures]) -> Callable[[MakeWorld], Figures]:
        name = function.__name__.replace("_", "-")
        CHECKS.append(Check(name, function, worlds or ALL_WORLDS, limit_secs, once, timed))
        return function

    return register


def expect(what: str, found: Any, wanted: Any) -> None:
    """Fails unless what was found is what was wanted.

    Raises:
        AssertionError: It is not.
    """
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def require(holds: bool, problem: str) -> None:
    """Fails unless something holds.

    Raises:
        AssertionError: It does not.
    """
    if not holds:
        raise AssertionError(problem)
