"""Metrics that a GPU is still to give: asked for now, added when they are there."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from typing import Any, NamedTuple, Protocol

from marey import _native
from marey._names import LOSS_METRICS_UNFETCHED
from marey._warning import warn

REFUSALS = (OverflowError, TypeError, ValueError)
"""What a value that is no metric raises."""


class Late(Protocol):
    """Values that a GPU is still to give. If it fails, the methods raise `RuntimeError`."""

    size_bytes: int
    """What they take while they wait."""

    def is_ready(self) -> bool:
        """Whether they are there; does not wait."""

    def wait(self) -> None:
        """Waits until they are."""

    def metrics(self) -> dict[str, Any]:
        """The values by name. Called once, when they are there."""


class _Waiting(NamedTuple):
    place: _native.Place
    late: Late


class LateMetrics:
    """Values on their way, oldest first, each with the place that it belongs to.

    Args:
        most_bytes: What they may take; a value beyond that is dropped and counted as the loss
            ``metrics_unfetched``.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._begin()
        _queues.add(self)

    def _begin(self) -> None:
        # A signal handler may end the session in the middle of one of these methods.
        self._lock = threading.RLock()
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0

    def add(self, place: _native.Place, late: Late) -> bool:
        """Has the values added at `place` when they are there. Whether there was room for them."""
        with self._lock:
            if self._bytes + late.size_bytes > self._most_bytes:
                self._add_ready()
            if self._bytes + late.size_bytes > self._most_bytes:
                count_loss()
                return False
            self._waiting.append(_Waiting(place, late))
            self._bytes += late.size_bytes
            return True

    def poll(self) -> None:
        """Adds the oldest values as far as they are there. Waits for nothing, nor any thread."""
        if not self._waiting or not self._lock.acquire(blocking=False):
            return
        try:
            while self._waiting:
                oldest = self._waiting.popleft()
                if not self._is_done(oldest):
                    self._waiting.appendleft(oldest)
                    return
        finally:
            self._lock.release()

    def settle(self) -> None:
        """Waits for all values that were asked for, and adds them."""
        for waiting in list(self._waiting):
            # A GPU that has failed is noticed below.
            with contextlib.suppress(RuntimeError):
                waiting.late.wait()
        with self._lock:
            self._add_ready()

    def _add_ready(self) -> None:
        for _ in range(len(self._waiting)):
            waiting = self._waiting.popleft()
            if not self._is_done(waiting):
                self._waiting.append(waiting)

    def _is_done(self, waiting: _Waiting) -> bool:
        """Adds the values if they are there, or counts the loss if they will never be."""
        try:
            if not waiting.late.is_ready():
                return False
            metrics = waiting.late.metrics()
        except RuntimeError:  # the GPU has failed, which the program will notice by itself
            count_loss()
        except REFUSALS as refusal:
            warn_of(str(refusal))
        else:
            add_metrics(waiting.place, metrics)
        self._bytes -= waiting.late.size_bytes
        return True


def add_metrics(place: _native.Place, metrics: dict[str, Any]) -> None:
    """Adds metrics at a place."""
    try:
        place.add_metrics(metrics)
    except REFUSALS as refusal:
        warn_of(str(refusal))


def warn_of(refusal: str) -> None:
    """Warns of a metric that was refused: a launch must not fail for it."""
    warn(f"a launch's metric was left out: {refusal}", via="triton")


def count_loss() -> None:
    """Counts a value that will not come."""
    _native.count_losses(LOSS_METRICS_UNFETCHED, 1)


_queues: weakref.WeakSet[LateMetrics] = weakref.WeakSet()
_parents: list[deque[_Waiting]] = []


def _after_fork_in_child() -> None:
    """What waits is the parent's. It is kept, since a child may not even free what is a GPU's."""
    for queue in _queues:
        _parents.append(queue._waiting)
        queue._begin()


os.register_at_fork(after_in_child=_after_fork_in_child)
