"""Metrics whose values a GPU delivers later: requested now, added when they arrive."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any, NamedTuple, Protocol

from marey import _native, _process_exit
from marey._forks import follow
from marey._names import LOSS_METRICS_UNFETCHED
from marey._warning import warn

REFUSAL_ERRORS = (OverflowError, TypeError, ValueError)
"""Exceptions that a value raises which cannot be a metric."""


class PendingValues(Protocol):
    """Pending values of a GPU. If the GPU fails, the methods raise `RuntimeError`."""

    size_bytes: int
    """Memory of the pending values."""

    def is_ready(self) -> bool:
        """Whether the values have arrived. Does not wait."""

    def wait(self) -> None:
        """Waits until the values have arrived."""

    def metrics(self) -> dict[str, Any]:
        """Returns the values by name. Called once, after they have arrived."""


class _QueueEntry(NamedTuple):
    scope: _native.ScopeRef
    values: PendingValues


class LateMetrics:
    """A queue of pending values, oldest first, each with the context node it belongs to.

    Args:
        max_bytes: Limit of their memory. A value beyond the limit is dropped and counted as the
            loss ``metrics_unfetched``.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._reset()
        follow(self, LateMetrics.leave_to_parent)

    def _reset(self) -> None:
        # Reentrant, because a signal handler may end the session during one of these methods.
        self._lock = threading.RLock()
        self._entries: deque[_QueueEntry] = deque()
        self._bytes = 0

    def leave_to_parent(self) -> None:
        """Empties the queue, in a forked child, which must not free the parent's objects."""
        _queues_of_parent.append(self._entries)
        self._reset()

    def add(self, scope: _native.ScopeRef, values: PendingValues) -> bool:
        """Queues values to be added at `scope`. Returns whether they fit into the limit."""
        with self._lock:
            if self._bytes + values.size_bytes > self._max_bytes:
                self._add_ready()
            if self._bytes + values.size_bytes > self._max_bytes:
                count_loss()
                return False
            self._entries.append(_QueueEntry(scope, values))
            self._bytes += values.size_bytes
            return True

    def poll(self) -> None:
        """Adds the oldest values that have arrived. Waits for neither the GPU nor a lock."""
        if not self._entries or not self._lock.acquire(blocking=False):
            return
        try:
            while self._entries:
                oldest = self._entries.popleft()
                if not self._try_add(oldest):
                    self._entries.appendleft(oldest)
                    return
        finally:
            self._lock.release()

    def settle(self) -> None:
        """Waits for all pending values, and adds them.

        While the process exits, values that do not arrive in time are counted as lost.
        """
        for entry in list(self._entries):
            # A failure of the GPU is handled below.
            with contextlib.suppress(RuntimeError):
                if not _process_exit.wait_for_gpu(entry.values.is_ready, entry.values.wait):
                    break
        with self._lock:
            self._add_ready()
            if _process_exit.has_given_up():
                self._drop_pending()

    def _drop_pending(self) -> None:
        while self._entries:
            self._bytes -= self._entries.popleft().values.size_bytes
            count_loss()

    def _add_ready(self) -> None:
        for _ in range(len(self._entries)):
            entry = self._entries.popleft()
            if not self._try_add(entry):
                self._entries.append(entry)

    def _try_add(self, entry: _QueueEntry) -> bool:
        """Adds the values if they have arrived, or counts the loss if they never will."""
        try:
            if not entry.values.is_ready():
                return False
            metrics = entry.values.metrics()
        except RuntimeError:  # the GPU has failed, which the program's own calls report
            count_loss()
        except REFUSAL_ERRORS as refusal:
            warn_of_refusal(str(refusal))
        else:
            add_metrics(entry.scope, metrics)
        self._bytes -= entry.values.size_bytes
        return True


def add_metrics(scope: _native.ScopeRef, metrics: dict[str, Any]) -> None:
    """Adds metrics to a context node; warns of values that are refused."""
    try:
        scope.add_metrics(metrics)
    except REFUSAL_ERRORS as refusal:
        warn_of_refusal(str(refusal))


def warn_of_refusal(refusal: str) -> None:
    """Warns of a metric that was refused, because the launch must not fail for it."""
    warn(f"a launch's metric was left out: {refusal}", via="triton")


def count_loss() -> None:
    """Counts a value that is lost."""
    _native.count_losses(LOSS_METRICS_UNFETCHED, 1)


_queues_of_parent: list[object] = []
"""Values in a forked child, which stay referenced there."""
