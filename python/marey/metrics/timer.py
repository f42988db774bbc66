"""Timing of GPU work: `CUDATimer`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from marey import _checks, _native
from marey._gpu_times import PendingTimes, find_clock
from marey._names import KIND_SCOPE

from .figures import FIGURES, NANOS_PER_MILLI, Statistics, summarise
from .report import text_table
from .series import MAX_ITEMS, Series, checked_name, unknown_name

GPU_TIME = "gpu_time (ns)"
"""The metric of the time between two events."""

_Owner = tuple[int, object]
"""A thread, and its current task or `None`."""


@dataclass(eq=False)
class _Start:
    """A time that was started and not stopped."""

    name: str
    stamp: Any
    owner: _Owner
    has_scope: bool = True
    """Whether its scope is still open: the end of an outer scope ends the inner ones."""


class _Label(NamedTuple):
    """The name of a measured time, and its scope if that gets the time as a metric."""

    name: str
    scope: _native.ScopeRef | None


class CUDATimer:
    """Measures GPU work by events in the current stream, or by the host's clock without a GPU.

    Each measured time is a scope, which has the time of the GPU as the metric ``gpu_time (ns)``.
    Times of the GPU are read when the GPU has passed the events, so that measuring does not wait.

    Args:
        synchronize: Wait for the device before each measured time, so that it begins with an empty
            queue. That slows a training loop; without it the GPU is never waited for until a
            result is read.
        warmup: Calls of `time_iterations` that are not measured.
        repeat: Calls of `time_iterations` that are measured.

    Raises:
        TypeError: `warmup` or `repeat` is not a whole number.
        ValueError: `warmup` is negative, or `repeat` is not positive.
    """

    def __init__(self, synchronize: bool = True, warmup: int = 3, repeat: int = 10) -> None:
        _check_counts(warmup, repeat, "repeat")
        self.synchronize = synchronize
        self.warmup = warmup
        self.repeat = repeat
        self._clock = find_clock()
        self._series: dict[str, Series] = {}
        self._starts: dict[_Owner, list[_Start]] = {}
        self._times = PendingTimes(self._clock, self._keep)

    @property
    def clock(self) -> str:
        """``CUDA events`` or ``HIP events``, or ``host`` if there is no GPU."""
        return self._clock.name

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measures a block, also if it raises. Blocks of one name may be nested and repeated."""
        started = self._begin(name)
        try:
            yield
        finally:
            self._end(started)

    def start(self, name: str) -> None:
        """Starts a time, which the same thread or task stops."""
        self._begin(name)

    def stop(self, name: str) -> None:
        """Stops the time of this name that this thread or task started last.

        Raises:
            RuntimeError: This thread or task has started no such time.
        """
        for started in reversed(self._starts.get(_owner(), [])):
            if started.name == name:
                self._end(started)
                return
        threads = [
            thread
            for (thread, _), starts in list(self._starts.items())
            if any(started.name == name for started in starts)
        ]
        where = f"; thread {threads[0]} has started it" if threads else ""
        raise RuntimeError(f"stop({name!r}) without start({name!r}) on this thread or task{where}")

    def get_elapsed(self, name: str) -> float:
        """Returns the milliseconds of the last finished time of a name; waits for the GPU.

        Raises:
            KeyError: No time of this name was measured.
            RuntimeError: The only time of this name has not been stopped.
        """
        self._times.read(waits=True)
        if name in self._series:
            last: float = self._series[name].items[-1]
            return last
        starts = [start for group in list(self._starts.values()) for start in group]
        if any(started.name == name for started in starts):
            raise RuntimeError(f"{name!r} was started, but not stopped yet")
        raise unknown_name("time", name, self._series)

    @property
    def results(self) -> dict[str, Statistics]:
        """The statistics of the times of each name, in milliseconds. Waits for the GPU."""
        self._times.read(waits=True)
        return {name: summarise(series.items) for name, series in list(self._series.items())}

    def summary(self) -> str:
        """Returns a table of `results`, with the clock."""
        figures = {name: result.as_dict() for name, result in self.results.items()}
        title = f"Times (ms, clock: {self.clock})"
        columns = ("count", "mean", "std", "min", "max", "p50", "p99")
        return text_table(title, columns, figures) or f"{title}: nothing was measured"

    def time_iterations(
        self,
        name: str,
        func: Callable[[], object],
        iterations: int | None = None,
        warmup: int | None = None,
    ) -> Statistics:
        """Calls a function several times and returns the statistics of its times in milliseconds.

        Args:
            name: Name of each time.
            func: The function, called without arguments.
            iterations: Number of measured calls; `repeat` if not given.
            warmup: Number of calls before them that are not measured; that of the timer if not
                given.

        Raises:
            TypeError: `warmup` or `iterations` is not a whole number.
            ValueError: `warmup` is negative, or `iterations` is not positive.
        """
        checked_name(name)
        iterations = self.repeat if iterations is None else iterations
        warmup = self.warmup if warmup is None else warmup
        _check_counts(warmup, iterations)
        for _ in range(warmup):
            func()
        for _ in range(iterations):
            with self.measure(name):
                func()
        self._times.read(waits=True)
        return summarise(self._series[name].items[-iterations:])

    def _begin(self, name: str) -> _Start:
        checked_name(name)
        if self.synchronize:
            self._clock.synchronize()
        _native.push(name, KIND_SCOPE)
        started = _Start(name, self._times.stamp(), _owner())
        self._starts.setdefault(started.owner, []).append(started)
        return started

    def _end(self, started: _Start) -> None:
        end = self._times.stamp()
        starts = self._starts[started.owner]
        position = starts.index(started)
        scope = None
        if started.has_scope:
            # Leaves the scopes inside too; so their times, which go on, have none any more.
            for inner in starts[position + 1 :]:
                inner.has_scope = False
            if self._clock.is_gpu and _native.innermost_name() == started.name:
                scope = _native.innermost_scope()
            _native.pop(started.name)
        del starts[position]
        if not starts:
            del self._starts[started.owner]
        self._times.add(_Label(started.name, scope), started.stamp, end)
        self._times.read(waits=False)

    def _keep(self, label: _Label, nanos: int) -> None:
        series = self._series.get(label.name)
        if series is None:
            series = self._series[label.name] = Series(label.name)
        series.items.append(nanos / NANOS_PER_MILLI)
        if len(series.items) >= MAX_ITEMS:
            series.make_room()
        if label.scope is not None:
            label.scope.add_metrics({GPU_TIME: nanos})

    def __repr__(self) -> str:
        return f"<marey.metrics.CUDATimer: {len(self._series)} names, clock {self.clock}>"

    def _repr_html_(self) -> str:
        from marey._notebook import table_html

        figures = {name: result.as_dict() for name, result in self.results.items()}
        rows = [[name, *(row[key] for key in FIGURES)] for name, row in figures.items()]
        return table_html([f"name ({self.clock}, ms)", *FIGURES], rows, len(rows))


def _owner() -> _Owner:
    task = None
    if asyncio := sys.modules.get("asyncio"):
        with suppress(RuntimeError):  # no event loop runs on this thread
            task = asyncio.current_task()
    return threading.get_ident(), task


def _check_counts(warmup: int, iterations: int, name: str = "iterations") -> None:
    _checks.count("warmup", warmup)
    _checks.count(name, iterations, least=1)
