"""Times of Triton's kernels by events around their launches, where CUPTI is not to be had."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, NamedTuple

from marey import _backend, _native
from marey.hooks.hook import Hook, HookManager

from .contract import is_lazy_dict
from .gpu import Event, Gpu, TorchGpu
from .late import LateMetrics, count_loss
from .progress import ELSEWHERE, LaunchInProgress

MOST_PAIRS = 4096
"""Launches that may be on their way at a time; the times of those beyond are lost, and counted."""


class _Pair(NamedTuple):
    """Events around a launch; used again and again."""

    start: Event
    end: Event


class _Timed(NamedTuple):
    """A launch whose first event is recorded."""

    place: _native.Place
    pair: _Pair
    stream: Any
    device: int


class _Open(NamedTuple):
    """A launch between its two hooks."""

    operator: int | None
    timed: _Timed | None


class EventTimer(Hook):
    """Adds the time between two events around each launch to its operator.

    The metrics are those that Proton gives a kernel: ``time (ns)``, ``count``, ``device_id`` and
    ``device_type``. If no `LaunchHook` made an operator of the launch, one is made, under the
    kernel's own name. Times are read when the GPU has passed the events, at a later launch or when
    the session's data is wanted.

    A time holds what the stream did between the events: the kernel, and, where the GPU had nothing
    else to do, the wait for its launch. The events' clock ticks about every half microsecond.
    Launches that become part of a graph are not timed.

    Args:
        gpu: How to record events; PyTorch's if not given.
        most_pairs: Launches that may be on their way at a time.

    Raises:
        ImportError: PyTorch is needed and not installed.
    """

    priority = -(1 << 20)  # the innermost: what other hooks do is not in the time

    def __init__(self, gpu: Gpu | None = None, *, most_pairs: int = MOST_PAIRS) -> None:
        self._gpu: Gpu = TorchGpu() if gpu is None else gpu
        # Pairs count one byte each.
        self._late = LateMetrics(most_pairs)
        self._free: deque[_Pair] = deque()
        self._launch = LaunchInProgress(self._abandon)

    def activate(self) -> None:
        """Nothing is to be done."""

    def deactivate(self) -> None:
        """Nothing is to be undone."""

    def enter(self, metadata: Any) -> None:
        """Records the first event, last of what is done before the launch."""
        if not _native.is_active() or not is_lazy_dict(metadata) or self._launch.is_under_way():
            return
        operator = _native.enter_op(metadata.data["name"])
        timed = None
        if (place := _native.place()) is not None:
            # A GPU that has failed fails the launch too, with more to say.
            with contextlib.suppress(RuntimeError):
                timed = self._start(place, metadata.data.get("stream") or 0)
        self._launch.begin(metadata, _Open(operator, timed))

    def exit(self, metadata: Any) -> None:
        """Records the second event, first of what is done after the launch."""
        launch = self._launch.end(metadata)
        if launch is ELSEWHERE:
            return
        operator, timed = launch
        if timed is not None:
            self._end(timed)
        _native.exit_op(operator)
        self._late.poll()

    def settle(self) -> None:
        """Waits for the last events."""
        self._late.settle()

    def _start(self, place: _native.Place, stream_pointer: int) -> _Timed | None:
        """Records the first event, unless the launch becomes part of a graph."""
        stream = self._gpu.launch_stream(stream_pointer)
        if self._gpu.is_capturing(stream):
            return None
        pair = self._take_pair()
        pair.start.record(stream)
        return _Timed(place, pair, stream, self._gpu.current_device())

    def _end(self, timed: _Timed) -> None:
        """Records the second event and waits for the two without waiting."""
        try:
            timed.pair.end.record(timed.stream)
        except RuntimeError:  # as above
            count_loss()
            return
        if not self._late.add(timed.place, _Elapsed(timed, self._free, self._gpu.device_type)):
            self._free.append(timed.pair)

    def _take_pair(self) -> _Pair:
        try:
            return self._free.popleft()
        except IndexError:
            return _Pair(self._gpu.event(is_timed=True), self._gpu.event(is_timed=True))

    def _abandon(self, launch: _Open) -> None:
        """The launch has failed."""
        _native.exit_op(launch.operator)
        if launch.timed is not None:
            self._free.append(launch.timed.pair)


class TimerWhereHeld(Hook):
    """Times launches by events where another tool turns out to keep CUPTI's records from us.

    That is known when the program uses CUDA, at the first launch at the latest.

    Args:
        keeps_activities: Whether the session keeps single activities.
    """

    priority = EventTimer.priority

    def __init__(self, *, keeps_activities: bool) -> None:
        self._keeps_activities = keeps_activities
        self._timer: EventTimer | None = None
        self._attempts = MOST_ATTEMPTS

    def activate(self) -> None:
        """Looks whether it is known already."""
        if self._attempts:
            self._decide()

    def deactivate(self) -> None:
        """Nothing is to be undone."""

    def enter(self, metadata: Any) -> None:
        """Records the first event where launches are timed."""
        if self._attempts:
            if _backend.is_waiting():
                # The driver may have been started with nobody to tell us; no matter if it has not.
                _backend.begin(None, keeps_activities=self._keeps_activities)
            self._decide()
        if self._timer is not None:
            self._timer.enter(metadata)
        elif not self._attempts:
            HookManager.drop(self)

    def exit(self, metadata: Any) -> None:
        """Records the second one."""
        if self._timer is not None:
            self._timer.exit(metadata)

    def settle(self) -> None:
        """Waits for the last events."""
        if self._timer is not None:
            self._timer.settle()

    def is_timing(self) -> bool:
        """Whether another tool has turned out to hold CUPTI."""
        return self._timer is not None

    def _decide(self) -> None:
        if _backend.is_waiting():
            self._attempts -= 1
            return
        self._attempts = 0
        if not _backend.is_held_by_other():
            return
        try:
            self._timer = EventTimer()
        except ImportError:  # only PyTorch's events are known
            return
        _, reason, hint, _ = _native.gpu_level()
        _native.note_gpu(f"Triton launches by events: {reason}; {hint}")


MOST_ATTEMPTS = 4
"""Launches at which it is asked whether the program uses CUDA: if not by then, they are none."""


def are_used() -> bool:
    """Whether any session's launches are timed by events."""
    return any(
        isinstance(hook, EventTimer) or (isinstance(hook, TimerWhereHeld) and hook.is_timing())
        for hook in HookManager.registered()
    )


class _Elapsed:
    """The time of a launch whose events the GPU is still to pass."""

    size_bytes = 1

    def __init__(self, timed: _Timed, free: deque[_Pair], device_type: str) -> None:
        self._pair = timed.pair
        self._free = free
        self._device = timed.device
        self._device_type = device_type

    def is_ready(self) -> bool:
        return self._pair.end.query()

    def wait(self) -> None:
        self._pair.end.synchronize()

    def metrics(self) -> dict[str, Any]:
        elapsed_nanos = round(self._pair.start.elapsed_time(self._pair.end) * 1e6)
        self._free.append(self._pair)
        return {
            "time (ns)": elapsed_nanos,
            "count": 1,
            "device_id": str(self._device),
            "device_type": self._device_type,
        }
