"""Measured times and recorded values of one name, in bounded memory."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

from marey import _native

MAX_ITEMS = 1 << 18
"""Times or values of a name that are kept. Beyond it the older half is dropped and counted."""

BATCH_SIZE = "batch_size"
"""The recorded value whose sum is the number of samples."""

ITERATION = "iteration"
"""The measured time that is one iteration, unless a collector names another."""


class Span(NamedTuple):
    """A measured time: nanoseconds of the clock of `time.perf_counter_ns`, and the thread."""

    start: int
    end: int
    thread: int


class Series:
    """The items of one name, the oldest first.

    `items.append` may be called by any thread without a lock.
    """

    __slots__ = ("_lock", "dropped", "dropped_total", "items", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[Any] = []
        self.dropped = 0
        self.dropped_total = 0.0
        self.replace_lock()

    def replace_lock(self) -> None:
        """Replaces the lock, which another thread of a forked parent may hold."""
        self._lock = threading.Lock()

    def make_room(self) -> None:
        """Drops the older half of the items if there are too many."""
        with self._lock:
            if len(self.items) < MAX_ITEMS:
                return
            excess = len(self.items) - MAX_ITEMS // 2
            old = self.items[:excess]
            del self.items[:excess]
            self.dropped += len(old)
            self.dropped_total += sum(self.amounts(old))

    def amounts(self, items: Iterable[Any]) -> Iterable[float]:
        """Returns the numbers of items: values, or durations in nanoseconds."""
        return items


class ValueSeries(Series):
    """Recorded values of one name.

    Attributes:
        add_to_scope: Adds a value to the innermost scope, as a metric of the session.
        is_refused: Whether the session has a metric of this name with another type.
    """

    __slots__ = ("add_to_scope", "is_refused")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.add_to_scope = _native.FloatMetric(name).add
        self.is_refused = False


class TimeSeries(Series):
    """Times of one name: tuples in the order of `Span`.

    Attributes:
        unread: The times since the last `read`, where the measured blocks add them.
    """

    __slots__ = ("unread",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.unread = _native.Times(name)

    def read(self) -> TimeSeries:
        """Adds the times since the last call to `items`, and returns the series."""
        with self._lock:
            fresh, dropped, dropped_nanos = self.unread.take()
            self.items += fresh
            self.dropped += dropped
            self.dropped_total += dropped_nanos
        self.make_room()
        return self

    def amounts(self, items: Iterable[Any]) -> Iterable[float]:
        return (end - start for start, end, _ in items)

    def spans(self) -> list[Span]:
        """Returns the times in `items`, in the order in which they ended."""
        return [Span(*item) for item in list(self.items)]

    def millis(self) -> list[float]:
        """Returns the durations in milliseconds."""
        return [nanos / 1e6 for nanos in self.amounts(list(self.items))]


def checked_name(name: object) -> str:
    """Returns a name of a time or value.

    Raises:
        TypeError: The name is not a `str`.
        ValueError: The name is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name must be a str, not {type(name).__name__}: {name!r}")
    if not name:
        raise ValueError("a name must not be empty")
    return name


def unknown_name(kind: str, name: str, known: Iterable[str]) -> KeyError:
    """Returns the error for a name that was not measured, with the nearest one that was."""
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1)
    if nearest:
        return KeyError(f"no {kind} is called {name!r}; did you mean {nearest[0]!r}?")
    if not names:
        return KeyError(f"no {kind} is called {name!r}: there is none yet")
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return KeyError(f"no {kind} is called {name!r}; there are {shown}")
