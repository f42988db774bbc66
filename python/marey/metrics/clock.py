"""The clocks of `CUDATimer`: events of the GPU, or the clock of the host."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any, Protocol


class Clock(Protocol):
    """A source of stamps. A stamp of a GPU is passed when the GPU has come to it."""

    name: str
    is_gpu: bool

    def synchronize(self) -> None:
        """Waits until all work of the device is done, unless a CUDA graph is being captured."""

    def stamp(self) -> Any:
        """Returns a new stamp, without waiting; `None` while a CUDA graph is being captured."""

    def is_passed(self, stamp: Any) -> bool:
        """Whether a stamp is passed, without waiting; `False` while a CUDA graph is captured."""

    def nanos_between(self, start: Any, end: Any) -> int:
        """Returns the nanoseconds between two stamps; waits until the second is passed."""


class HostClock:
    """The clock of `time.perf_counter_ns`."""

    name = "host"
    is_gpu = False

    def synchronize(self) -> None:
        """Does nothing: the host has no queue."""

    def stamp(self) -> int:
        return time.perf_counter_ns()

    def is_passed(self, stamp: int) -> bool:
        return True

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
            if not self._cuda.is_current_stream_capturing():
                self._cuda.synchronize()

    def stamp(self) -> Any:
        if self._cuda.is_current_stream_capturing():
            return None  # timed events would invalidate the capture
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def is_passed(self, stamp: Any) -> bool:
        # A query would invalidate the capture.
        return not self._cuda.is_current_stream_capturing() and bool(stamp.query())

    def nanos_between(self, start: Any, end: Any) -> int:
        end.synchronize()
        millis: float = start.elapsed_time(end)
        return round(millis * 1e6)


def find_clock() -> Clock:
    """Returns the clock of the GPU if the program has imported PyTorch and there is a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return EventClock(torch)
    return HostClock()
