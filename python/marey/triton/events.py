"""Times of Triton kernels from events around their launches, for when CUPTI is not available."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, NamedTuple

from marey import _backend, _native
from marey.hooks.hook import Hook, HookManager

from .contract import is_lazy_dict
from .gpu import Event, Gpu, TorchGpu
from .late import LateMetrics, count_loss
from .progress import OTHER_LAUNCH, LaunchInProgress

MAX_PAIRS = 4096
"""Most launches whose events may be pending. The times of further launches are lost and counted."""


class _EventPair(NamedTuple):
    """The events around a launch. Pairs are reused."""

    start: Event
    end: Event


class _TimedLaunch(NamedTuple):
    """A launch whose first event is recorded."""

    scope: _native.ScopeRef
    pair: _EventPair
    stream: Any
    device: int


class _OpenLaunch(NamedTuple):
    """A launch between its two hooks."""

    operator: int | None
    timed: _TimedLaunch | None


class EventTimer(Hook):
    """Adds the time between two events around each launch to the operator of the launch.

    The metrics are those of a kernel in Proton: ``time (ns)``, ``count``, ``device_id`` and
    ``device_type``. If no `LaunchHook` has entered an operator for the launch, this hook enters one
    with the kernel's own name. Times are read after the GPU has passed the events: at a later
    launch, or when the session's data is read.

    A time includes everything between the events: the kernel and, if the stream was empty, the wait
    for its launch. The resolution of the events is about half a microsecond. Launches that are
    captured into a graph are not timed.

    Args:
        gpu: Runtime that records events; PyTorch's if not given.
        max_pairs: Most launches whose events may be pending.

    Raises:
        ImportError: `gpu` is not given and PyTorch is not installed.
    """

    priority = -(1 << 20)  # innermost, so that the time excludes other hooks

    def __init__(self, gpu: Gpu | None = None, *, max_pairs: int = MAX_PAIRS) -> None:
        self._gpu: Gpu = TorchGpu() if gpu is None else gpu
        # Each pair counts as one byte.
        self._late = LateMetrics(max_pairs)
        self._free_pairs: deque[_EventPair] = deque()
        self._launch = LaunchInProgress(self._abandon)

    def activate(self) -> None:
        """Does nothing."""

    def deactivate(self) -> None:
        """Does nothing."""

    def enter(self, metadata: Any) -> None:
        """Records the first event, as the last action before the launch."""
        if not _native.is_active() or not is_lazy_dict(metadata) or self._launch.is_under_way():
            return
        operator = _native.enter_op(metadata.data["name"])
        timed = None
        if (scope := _native.innermost_scope()) is not None:
            # If the GPU has failed, the launch fails too, with a better message.
            with contextlib.suppress(RuntimeError):
                timed = self._record_start(scope, metadata.data.get("stream") or 0)
        self._launch.begin(metadata, _OpenLaunch(operator, timed))

    def exit(self, metadata: Any) -> None:
        """Records the second event, as the first action after the launch."""
        launch = self._launch.end(metadata)
        if launch is OTHER_LAUNCH:
            return
        operator, timed = launch
        if timed is not None:
            self._record_end(timed)
        _native.exit_op(operator)
        self._late.poll()

    def settle(self) -> None:
        """Waits for all pending events."""
        self._late.settle()

    def _record_start(self, scope: _native.ScopeRef, stream_pointer: int) -> _TimedLaunch | None:
        """Records the first event, unless the launch is captured into a graph."""
        stream = self._gpu.launch_stream(stream_pointer)
        if self._gpu.is_capturing(stream):
            return None
        pair = self._take_pair()
        pair.start.record(stream)
        return _TimedLaunch(scope, pair, stream, self._gpu.current_device())

    def _record_end(self, timed: _TimedLaunch) -> None:
        """Records the second event and queues the time to be read later."""
        try:
            timed.pair.end.record(timed.stream)
        except RuntimeError:  # the GPU has failed
            count_loss()
            return
        pending = _PendingTime(timed, self._free_pairs, self._gpu.device_type)
        if not self._late.add(timed.scope, pending):
            self._free_pairs.append(timed.pair)

    def _take_pair(self) -> _EventPair:
        try:
            return self._free_pairs.popleft()
        except IndexError:
            return _EventPair(self._gpu.event(is_timed=True), self._gpu.event(is_timed=True))

    def _abandon(self, launch: _OpenLaunch) -> None:
        """Leaves the operator of a launch that has failed, and frees its events."""
        _native.exit_op(launch.operator)
        if launch.timed is not None:
            self._free_pairs.append(launch.timed.pair)


class FallbackTimer(Hook):
    """Times launches by events if it turns out that another tool is subscribed to CUPTI.

    That is known when the program uses CUDA, at the latest at its first launch.

    Args:
        keeps_activities: Whether the session records single activities.
    """

    priority = EventTimer.priority

    def __init__(self, *, keeps_activities: bool) -> None:
        self._keeps_activities = keeps_activities
        self._timer: EventTimer | None = None
        self._attempts = MAX_ATTEMPTS

    def activate(self) -> None:
        """Checks whether another tool is subscribed to CUPTI, if that is known already."""
        if self._attempts:
            self._update_timer()

    def deactivate(self) -> None:
        """Does nothing."""

    def enter(self, metadata: Any) -> None:
        """Records the first event if launches are timed."""
        if self._attempts:
            if _backend.is_waiting():
                # The driver may have been started without a notification. If not, this is harmless.
                _backend.start_gpu(None, keeps_activities=self._keeps_activities)
            self._update_timer()
        if self._timer is not None:
            self._timer.enter(metadata)
        elif not self._attempts:
            HookManager.drop(self)

    def exit(self, metadata: Any) -> None:
        """Records the second event if launches are timed."""
        if self._timer is not None:
            self._timer.exit(metadata)

    def settle(self) -> None:
        """Waits for all pending events."""
        if self._timer is not None:
            self._timer.settle()

    def is_timing(self) -> bool:
        """Whether another tool is known to be subscribed to CUPTI."""
        return self._timer is not None

    def _update_timer(self) -> None:
        if _backend.is_waiting():
            self._attempts -= 1
            return
        self._attempts = 0
        if not _backend.has_other_subscriber():
            return
        try:
            self._timer = EventTimer()
        except ImportError:  # only PyTorch's events are supported
            return
        _, reason, hint, _ = _native.gpu_level()
        _native.note_gpu(f"Triton launches by events: {reason}; {hint}")


MAX_ATTEMPTS = 4
"""Number of launches at which the use of CUDA is checked. After that, launches are not on CUDA."""


def is_timing_launches() -> bool:
    """Whether launches of any session are timed by events."""
    return any(
        isinstance(hook, EventTimer) or (isinstance(hook, FallbackTimer) and hook.is_timing())
        for hook in HookManager.registered()
    )


class _PendingTime:
    """The time of a launch whose events the GPU has not passed yet."""

    size_bytes = 1

    def __init__(self, timed: _TimedLaunch, free: deque[_EventPair], device_type: str) -> None:
        self._pair = timed.pair
        self._free_pairs = free
        self._device = timed.device
        self._device_type = device_type

    def is_ready(self) -> bool:
        return self._pair.end.query()

    def wait(self) -> None:
        self._pair.end.synchronize()

    def metrics(self) -> dict[str, Any]:
        elapsed_nanos = round(self._pair.start.elapsed_time(self._pair.end) * 1e6)
        self._free_pairs.append(self._pair)
        return {
            "time (ns)": elapsed_nanos,
            "count": 1,
            "device_id": str(self._device),
            "device_type": self._device_type,
        }
