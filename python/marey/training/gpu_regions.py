"""GPU times of regions by CUDA events, where CUPTI does not record kernels.

The times are read at the end of an epoch or later (`_gpu_times`), so that the program never waits.
The metric ``gpu_time`` of the region's node is the sum over its calls, with what was launched in
inner regions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from marey import _native
from marey._decorator import wrap_each
from marey._gpu_times import EventClock, PendingTimes

F = TypeVar("F", bound=Callable[..., Any])

METRIC = "gpu_time (ns)(exc)"
"""Not summed into outer regions, whose own events include it."""

MAX_PENDING = 1024
"""Calls after which a region looks for those that the GPU has passed."""


class GpuRegions(PendingTimes[_native.ScopeRef]):
    """Regions with GPU times, in a program that uses CUDA by PyTorch."""

    def __init__(self) -> None:
        super().__init__(EventClock(sys.modules["torch"]), _add_metric)

    def region(self, name: str, metrics: dict[str, Any] | None = None) -> _GpuRegion:
        """Returns a region like `marey.scope`."""
        return _GpuRegion(self, name, metrics)

    def add(self, label: _native.ScopeRef, start: Any, end: Any) -> None:
        """Adds the time of a call of a node, to be read later."""
        super().add(label, start, end)
        if len(self) >= MAX_PENDING:
            self.read(waits=False)


def _add_metric(node: _native.ScopeRef, nanos: int) -> None:
    node.add_metrics({METRIC: nanos})


class _GpuRegion:
    """A region between two stamps."""

    def __init__(self, regions: GpuRegions, name: str, metrics: dict[str, Any] | None) -> None:
        self._regions = regions
        self._name = name
        self._metrics = metrics
        self._scope = _native.scope(name, metrics)
        self._starts: list[tuple[_native.ScopeRef, Any] | None] = []

    def __enter__(self) -> _GpuRegion:
        self._scope.__enter__()
        node = _native.innermost_scope() if _native.is_active() else None
        self._starts.append(None if node is None else (node, self._regions.stamp()))
        return self

    def __exit__(self, *exception: Any) -> None:
        start = self._starts.pop()
        if start is not None:
            self._regions.add(*start, self._regions.stamp())
        self._scope.__exit__(*exception)

    def __call__(self, func: F) -> F:
        # Each call gets its own region, because calls may overlap on threads and tasks.
        return wrap_each(lambda: self._regions.region(self._name, self._metrics), func)
