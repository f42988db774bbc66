"""Times of GPU work between two events in a stream, or between two readings of the host's clock.

The time between two events is read after the GPU has passed them, so that measuring does not wait.
Times that are not measured, because a CUDA graph is captured or the GPU has failed, are counted as
lost (``metrics_unfetched``). Start reading at `PendingTimes`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from . import _native, _process_exit, _session
from ._forks import follow, followers
from ._names import LOSS_METRICS_UNFETCHED

Label = TypeVar("Label")


class Clock(Protocol):
    """A source of stamps. A stamp of a GPU is passed when the GPU has come to it."""

    name: str
    is_gpu: bool

    def synchronize(self) -> None:
        """Waits until all work of the device is done, unless a CUDA graph is being captured."""

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured, which waits and queries would invalidate."""

    def stamp(self) -> Any:
        """Returns a new stamp, without waiting; `None` while a CUDA graph is being captured."""

    def is_passed(self, stamp: Any) -> bool:
        """Whether a stamp is passed, without waiting."""

    def wait(self, stamp: Any) -> None:
        """Waits until a stamp is passed."""

    def nanos_between(self, start: Any, end: Any) -> int:
        """Returns the nanoseconds between two stamps that are passed."""


class HostClock:
    """The clock of `time.perf_counter_ns`."""

    name = "host"
    is_gpu = False

    def synchronize(self) -> None:
        """Does nothing: the host has no queue."""

    def is_capturing(self) -> bool:
        return False

    def stamp(self) -> int:
        return time.perf_counter_ns()

    def is_passed(self, stamp: int) -> bool:
        return True

    def wait(self, stamp: int) -> None:
        """Does nothing: the host is always past its stamps."""

    def nanos_between(self, start: int, end: int) -> int:
        return end - start


class EventClock:
    """Events in the current stream of PyTorch's device, with a resolution of about 0.5 µs."""

    is_gpu = True

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self.name = "HIP events" if torch.version.hip else "CUDA events"

    def synchronize(self) -> None:
        with suppress(RuntimeError):  # the GPU has failed, which the program's own calls report
            if not self.is_capturing():
                self._cuda.synchronize()

    def is_capturing(self) -> bool:
        return bool(self._cuda.is_current_stream_capturing())

    def stamp(self) -> Any:
        if self.is_capturing():
            return None  # timed events would invalidate the capture
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def is_passed(self, stamp: Any) -> bool:
        return bool(stamp.query())

    def wait(self, stamp: Any) -> None:
        stamp.synchronize()

    def nanos_between(self, start: Any, end: Any) -> int:
        millis: float = start.elapsed_time(end)
        return round(millis * 1e6)


def cuda_in_use() -> Any:
    """Returns `torch.cuda` if the program has initialised it, else `None`."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def find_clock() -> Clock:
    """Returns the clock of the GPU if the program has imported PyTorch and there is a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return EventClock(torch)
    return HostClock()


@dataclass(frozen=True)  # CPython 3.10 has no generic NamedTuple
class _Pending(Generic[Label]):
    """A time whose second stamp may not be passed yet."""

    label: Label
    start: Any
    end: Any


class PendingTimes(Generic[Label]):
    """Times between two stamps, read in the order in which they were added.

    Args:
        clock: The clock of the stamps.
        keep: Called with the label and the nanoseconds of each time that was read.
    """

    def __init__(self, clock: Clock, keep: Callable[[Label, int], None]) -> None:
        self._clock = clock
        self._keep = keep
        self._pending: deque[_Pending[Label]] = deque()
        # Reentrant, because a signal handler may read results.
        self._lock = threading.RLock()
        follow(self, PendingTimes.after_fork_in_child)

    def __len__(self) -> int:
        return len(self._pending)

    def stamp(self) -> Any:
        """Returns a new stamp; `None` if the device gives none."""
        try:
            return self._clock.stamp()
        except RuntimeError:  # the GPU has failed, which the program's own calls report
            return None

    def add(self, label: Label, start: Any, end: Any) -> None:
        """Adds the time between two results of `stamp`; counts it as lost if one is `None`."""
        if start is None or end is None:
            _count_loss()
        else:
            self._pending.append(_Pending(label, start, end))

    def read(self, *, waits: bool) -> None:
        """Reads the times that the GPU has passed, the oldest first; all of them if `waits`.

        Without effect while a CUDA graph is being captured. While the process exits, times that the
        GPU does not pass in time are counted as lost.
        """
        if not self._lock.acquire(timeout=_process_exit.left_secs() if waits else 0):
            return  # another thread reads them, and may wait for the GPU
        try:
            while self._pending and self._is_ready(self._pending[0], waits=waits):
                self._read(self._pending.popleft())
            while self._pending and _process_exit.has_given_up():
                self._pending.popleft()
                _count_loss()
        finally:
            self._lock.release()

    def _is_ready(self, pending: _Pending[Label], *, waits: bool) -> bool:
        try:
            if self._clock.is_capturing():
                return False
            if not waits:
                return self._clock.is_passed(pending.end)
            return _process_exit.wait_for_gpu(
                lambda: self._clock.is_passed(pending.end), lambda: self._clock.wait(pending.end)
            )
        except RuntimeError:  # the GPU has failed: `_read` counts the loss
            pass
        return True

    def _read(self, pending: _Pending[Label]) -> None:
        try:
            nanos = self._clock.nanos_between(pending.start, pending.end)
        except RuntimeError:  # the GPU has failed, which the program's own calls report
            _count_loss()
            return
        self._keep(pending.label, nanos)

    def after_fork_in_child(self) -> None:
        """Replaces the lock, and leaves the pending times to the parent."""
        self._lock = threading.RLock()
        _pending_of_parent.append(self._pending)
        self._pending = deque()


def _count_loss() -> None:
    _native.count_losses(LOSS_METRICS_UNFETCHED, 1)


_pending_of_parent: list[object] = []
"""Times in a forked child, which must not free the parent's events."""


def _read_all() -> None:
    for times in followers(PendingTimes):
        times.read(waits=True)


# The metrics of a session are complete only when the GPU's times are among them.
_session.settlers.append(_read_all)
