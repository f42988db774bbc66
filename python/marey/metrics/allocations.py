"""Single allocations and frees of CUDA devices, from the history of PyTorch's allocator."""

from __future__ import annotations

import sys
import time
from typing import Any

from marey._gpu_times import cuda_in_use

MAX_EVENTS = 100_000
"""Events that the allocator keeps while a tracker has enabled its history, the latest ones."""

_EVENTS = {"alloc": "alloc", "free_completed": "free"}
"""The allocator's actions, and their names in a timeline."""


class AllocationHistory:
    """The allocations between its creation and `close`.

    The history is enabled by PyTorch's own function, without stacks, and disabled again. A history
    that the program has enabled is only read.
    """

    def __init__(self) -> None:
        self._start_nanos = time.time_ns()
        self._events: list[dict[str, Any]] | None = None
        cuda = cuda_in_use()
        self._memory = cuda and cuda.memory
        self._is_ours = self._memory is not None and not _is_enabled()
        if self._is_ours:
            self._memory._record_memory_history("all", context=None, max_entries=MAX_EVENTS)

    def close(self) -> None:
        """Reads the events, and disables the history if it was enabled here."""
        try:
            self._events = self._read()
        finally:
            if self._is_ours:
                self._memory._record_memory_history(None)

    def events(self) -> list[dict[str, Any]]:
        """Returns the events so far, or until `close`."""
        return list(self._read() if self._events is None else self._events)

    def _read(self) -> list[dict[str, Any]]:
        if self._memory is None:
            return []
        traces = self._memory._snapshot()["device_traces"]
        return [
            {
                "time_nanos": 1000 * entry["time_us"],
                "memory": f"cuda:{device}",
                "event": _EVENTS[entry["action"]],
                "bytes": entry["size"],
                "address": entry["addr"],
            }
            for device, trace in enumerate(traces)
            for entry in trace
            if entry["action"] in _EVENTS and 1000 * entry["time_us"] >= self._start_nanos
        ]


def _is_enabled() -> bool:
    return bool(getattr(sys.modules["torch"]._C, "_cuda_isHistoryEnabled", lambda: False)())
