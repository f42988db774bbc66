"""Unions and overlaps of intervals, each a start and an end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

_Interval = tuple[int, int]


def merged(intervals: Iterable[_Interval]) -> list[_Interval]:
    """Returns the union as ascending intervals that neither overlap nor touch."""
    found: list[_Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def union_nanos(intervals: Iterable[_Interval]) -> int:
    """Returns the length of the union."""
    return sum(end - start for start, end in merged(intervals))


def overlap_nanos(first: Iterable[_Interval], second: Iterable[_Interval]) -> int:
    """Returns the time that lies in the unions of both."""
    first, second = merged(first), merged(second)
    return union_nanos(first) + union_nanos(second) - union_nanos(chain(first, second))


def concurrency(groups: Sequence[Iterable[_Interval]]) -> tuple[int, int, int]:
    """Returns the time in any of the groups, in two or more, and the sum of the groups' times."""
    unions = [merged(group) for group in groups]
    changes = sorted(
        change for union in unions for start, end in union for change in ((start, 1), (end, -1))
    )
    any_busy = several_busy = total = depth = last = 0
    for time_nanos, change in changes:
        length = time_nanos - last
        any_busy += length if depth > 0 else 0
        several_busy += length if depth > 1 else 0
        total += length * depth
        depth += change
        last = time_nanos
    return any_busy, several_busy, total
