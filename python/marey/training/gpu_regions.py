"""GPU times of regions by CUDA events, where CUPTI does not record kernels.

A region puts an event into the stream at its start and at its end. Their times are read after the
GPU has passed them, at the end of an epoch or later, so that the program never waits. The metric
``gpu_time`` of the region's node is the sum over its calls, with what was launched in inner
regions.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from marey import _native
from marey._decorator import wrap_each
from marey._names import LOSS_METRICS_UNFETCHED

F = TypeVar("F", bound=Callable[..., Any])

METRIC = "gpu_time (ns)(exc)"
"""Not summed into outer regions, whose own events include it."""

MAX_PENDING = 1024
"""Pairs of events after which a region looks for those that the GPU has passed."""


def cuda_in_use() -> Any:
    """Returns `torch.cuda` if the program has initialised it, else `None`."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


class GpuRegions:
    """Regions with GPU times."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._pending: deque[tuple[_native.ScopeRef, Any, Any]] = deque()
        self._unused: list[Any] = []
        self._resolving = threading.Lock()

    def region(self, name: str, metrics: dict[str, Any] | None = None) -> _GpuRegion:
        """Returns a region like `marey.scope`."""
        return _GpuRegion(self, name, metrics)

    def event(self) -> Any:
        """Returns an event at the present end of the stream.

        Returns `None` while a graph is captured, and, counted as a loss, if the GPU gives no event.
        """
        try:
            if self._cuda.is_current_stream_capturing():
                return None
            event = self._unused_event() or self._cuda.Event(enable_timing=True)
            event.record()
        except RuntimeError:  # the GPU has failed, or this is a forked child
            _native.count_losses(LOSS_METRICS_UNFETCHED, 1)
            return None
        return event

    def _unused_event(self) -> Any:
        with contextlib.suppress(IndexError):  # no event, or another thread has the last one
            return self._unused.pop()
        return None

    def add(self, node: _native.ScopeRef, start: Any, end: Any) -> None:
        """Notes the events of a call, to be read later."""
        if start is not None and end is not None:
            self._pending.append((node, start, end))
        if len(self._pending) >= MAX_PENDING:
            self.resolve()

    def resolve(self, *, waits: bool = False) -> None:
        """Records the times of the calls that the GPU has passed; with `waits`, of all."""
        if not self._resolving.acquire(blocking=False):
            return  # another thread does it
        try:
            while self._pending and self._resolve_first(waits=waits):
                pass
        finally:
            self._resolving.release()

    def _resolve_first(self, *, waits: bool) -> bool:
        """Records the time of the oldest call; `False` if the GPU has not passed its events."""
        node, start, end = self._pending[0]
        try:
            if self._cuda.is_current_stream_capturing():
                return False  # a query would invalidate the capture
            if waits:
                end.synchronize()
            elif not end.query():
                return False
            nanos = int(start.elapsed_time(end) * 1e6)
        except RuntimeError:  # the GPU has failed, which the program's own calls report
            self._pending.popleft()
            _native.count_losses(LOSS_METRICS_UNFETCHED, 1)
            return True
        self._pending.popleft()
        node.add_metrics({METRIC: nanos})
        self._unused += (start, end)
        return True


class _GpuRegion:
    """A region between two events."""

    def __init__(self, regions: GpuRegions, name: str, metrics: dict[str, Any] | None) -> None:
        self._regions = regions
        self._name = name
        self._metrics = metrics
        self._scope = _native.scope(name, metrics)
        self._starts: list[tuple[_native.ScopeRef, Any] | None] = []

    def __enter__(self) -> _GpuRegion:
        self._scope.__enter__()
        node = _native.innermost_scope() if _native.is_active() else None
        self._starts.append(None if node is None else (node, self._regions.event()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        start = self._starts.pop()
        if start is not None:
            self._regions.add(*start, self._regions.event())
        self._scope.__exit__(kind, error, traceback)

    def __call__(self, func: F) -> F:
        # Each call gets its own region, because calls may overlap on threads and tasks.
        return wrap_each(lambda: self._regions.region(self._name, self._metrics), func)
