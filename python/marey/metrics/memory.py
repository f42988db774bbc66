"""Tracking of memory: `MemoryTracker`.

The counters of the program are only read. A peak inside a block follows from them if it is higher
than the peak before the block; otherwise it is the highest reading.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, NamedTuple

from marey import _checks, _native
from marey._forks import follow
from marey._torch_memory import UNKNOWN, Allocator, find_allocator

from .allocations import AllocationHistory
from .series import checked_name, unknown_name

HOST = _native.HOST_MEMORY
MAX_READINGS = 1 << 20
"""Readings of a memory that are kept; then every second one is dropped."""


class Reading(NamedTuple):
    """The totals of a memory at one time, in bytes."""

    time_nanos: int
    """Nanoseconds since 1970."""
    memory: str
    """``host``, or a device such as ``cuda:0``."""
    allocated: int
    """On the host, the resident size of the process."""
    reserved: int | None
    """Bytes that the allocator holds; `None` on the host."""
    peak_allocated: int
    """Peak since the start of the process, or since the program reset the counter."""
    peak_reserved: int | None
    allocations: int | None
    """Number of allocations so far; `None` on the host."""
    frees: int | None


class MemoryTracker:
    """Tracks the memory of a block: of each device, or of the host if there is no device.

    Each reading is also recorded in the active sessions (`memory_events`).

    Args:
        track_allocations: Read the single allocations and frees of a CUDA device from the history
            of PyTorch's allocator. The history is enabled during the block unless the program has
            enabled it. There is no such history of the host.
        track_timeline: Read the memory every `interval`, on a thread of its own. Otherwise it is
            read at both ends of the block and by `snapshot`.
        interval: Milliseconds between two readings.

    Raises:
        TypeError: `interval` is not a number.
        ValueError: It is not positive.
    """

    def __init__(
        self,
        track_allocations: bool = True,
        track_timeline: bool = True,
        interval: float = 100,
    ) -> None:
        _checks.positive("interval", interval)
        self.track_allocations = track_allocations
        self.track_timeline = track_timeline
        self.interval = interval
        self._readings: dict[str, list[Reading]] = {}
        self._before: dict[str, Reading] = {}
        self._snapshots: dict[str, dict[str, Reading]] = {}
        self._memories: dict[str, _native.Memory] = {}
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._history: AllocationHistory | None = None
        follow(self, MemoryTracker.after_fork_in_child)

    def __enter__(self) -> MemoryTracker:
        if self._stop is not None:
            raise RuntimeError("this MemoryTracker tracks a block already: make another one")
        self._stop = threading.Event()
        self._readings.clear()
        self._before = self._read()
        if self.track_allocations:
            self._history = AllocationHistory()
        if self.track_timeline:
            self._thread = threading.Thread(
                target=self._read_repeatedly, args=(self._stop,), name="marey-memory", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is None:
            raise RuntimeError("this MemoryTracker tracks no block")
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        try:
            self._read()
        finally:
            self._stop = None
            if self._history is not None:
                self._history.close()

    def get_stats(self) -> dict[str, Any]:
        """Returns the figures of the block, so far or of the last one, in bytes.

        The figures are those of the device with the highest peak, else of the host, under
        ``memory``; ``devices`` has all of them. ``peak_allocated`` and ``peak_reserved`` are the
        peaks inside the block; ``peak_is_exact`` is false if a peak between two readings may be
        missing. ``allocated_before`` and ``allocated`` are the totals at both ends, and ``change``
        is their difference. ``allocations`` and ``frees`` are counts; `None` on the host, as
        ``peak_reserved``.

        Raises:
            RuntimeError: No block has been tracked.
        """
        with self._lock:
            readings = {memory: list(group) for memory, group in self._readings.items()}
        if not readings:
            raise RuntimeError("nothing has been tracked yet: use `with tracker:` around a block")
        # The host was read until the program used a device; unused devices have no memory.
        used = {memory for memory, group in readings.items() if group[-1].peak_reserved}
        devices = {
            memory: _figures(self._before.get(memory) or _unused(memory), group)
            for memory, group in readings.items()
            if memory in used or not used
        }
        highest = max(devices.values(), key=lambda figures: figures["peak_allocated"])
        return highest | {"devices": devices}

    def get_allocation_timeline(self) -> list[dict[str, Any]]:
        """Returns what happened in the block, by time: readings, and allocations and frees.

        Each entry has ``time_nanos`` since 1970, ``memory``, and ``event``: ``reading`` with
        ``allocated`` and ``reserved``, or ``alloc`` or ``free`` with ``bytes`` and ``address``.
        """
        with self._lock:
            entries = [
                {
                    "time_nanos": reading.time_nanos,
                    "memory": reading.memory,
                    "event": "reading",
                    "allocated": reading.allocated,
                    "reserved": reading.reserved,
                }
                for group in self._readings.values()
                for reading in group
            ]
        if self._history is not None:
            entries += self._history.events()
        return sorted(entries, key=lambda entry: entry["time_nanos"])

    def snapshot(self, name: str) -> dict[str, Reading]:
        """Reads the memory and keeps it under a name. Returns a reading for each memory."""
        self._snapshots[checked_name(name)] = readings = self._read()
        return readings

    def compare(self, before: str, after: str) -> dict[str, int]:
        """Returns by how many allocated bytes each memory grew between two snapshots.

        Raises:
            KeyError: There is no snapshot of this name.
        """
        first, second = self._snapshot(before), self._snapshot(after)
        return {
            memory: reading.allocated - (first[memory].allocated if memory in first else 0)
            for memory, reading in second.items()
        }

    def print_summary(self) -> None:
        """Prints `summary`."""
        print(self.summary())

    def summary(self) -> str:
        """Returns a line of text for each memory."""
        lines = []
        for memory, figures in self.get_stats()["devices"].items():
            about = "" if figures["peak_is_exact"] else "at least "
            line = (
                f"{memory}: peak {about}{figures['peak_allocated'] / 1e6:,.1f} MB,"
                f" change {figures['change'] / 1e6:+,.1f} MB, {figures['readings']:,} readings"
            )
            if figures["allocations"] is not None:
                line += f", {figures['allocations']:,} allocations, {figures['frees']:,} frees"
            lines.append(line)
        return "\n".join(lines)

    def _snapshot(self, name: str) -> dict[str, Reading]:
        if name not in self._snapshots:
            raise unknown_name("snapshot", name, self._snapshots)
        return self._snapshots[name]

    def _read(self) -> dict[str, Reading]:
        """Reads all memories, records them in the sessions, and keeps those inside a block."""
        readings = read_memories()
        with self._lock:
            for memory, reading in readings.items():
                self._record(reading)
                if self._stop is None:
                    continue
                group = self._readings.setdefault(memory, [])
                group.append(reading)
                if len(group) >= MAX_READINGS:
                    del group[1:-1:2]
        return readings

    def _record(self, reading: Reading) -> None:
        """Records a reading in the sessions, unless it is of a device that is not used."""
        if not reading.peak_allocated:
            return
        memory = self._memories.get(reading.memory)
        if memory is None:
            memory = self._memories[reading.memory] = _native.Memory(reading.memory)
        reserved = UNKNOWN if reading.reserved is None else reading.reserved
        memory.record(reading.allocated, reading.peak_allocated, reserved)

    def _read_repeatedly(self, stop: threading.Event) -> None:
        # If the device has failed, the program's own calls report it.
        with contextlib.suppress(RuntimeError):
            while not stop.wait(self.interval / 1e3):
                self._read()

    def after_fork_in_child(self) -> None:
        """Replaces the lock. The child has no thread that reads; the end of its block does."""
        self._lock = threading.Lock()
        self._thread = None

    def __repr__(self) -> str:
        count = sum(map(len, self._readings.values()))
        return f"<marey.metrics.MemoryTracker: {count:,} readings>"

    def _repr_html_(self) -> str:
        from marey._notebook import dicts_html

        devices = self.get_stats()["devices"] if self._readings else {}
        return dicts_html(list(devices.values()))


def read_memories() -> dict[str, Reading]:
    """Returns a reading of each device if the program uses one, else of the host."""
    torch = sys.modules.get("torch")
    allocator = None if torch is None else find_allocator(torch)
    if allocator is not None and allocator.is_initialized():
        devices = [_read_device(allocator, device) for device in range(allocator.device_count())]
        if devices:
            return {reading.memory: reading for reading in devices}
    return {HOST: _read_host()}


def read_peaks() -> dict[str, Any]:
    """Returns the peaks since the start of the process: ``peak_allocated``, ``peak_reserved``.

    They are those of the device with the highest peak, else of the host, under ``memory``.
    """
    highest = max(read_memories().values(), key=lambda reading: reading.peak_allocated)
    return {
        "peak_allocated": highest.peak_allocated,
        "peak_reserved": highest.peak_reserved,
        "memory": highest.memory,
    }


def _read_device(allocator: Allocator, device: int) -> Reading:
    counters = allocator.counters(device)
    allocated, reserved = counters["allocated_bytes"]["all"], counters["reserved_bytes"]["all"]
    allocations = counters.get("allocation", {}).get("all", {})
    return Reading(
        time_nanos=time.time_ns(),
        memory=f"{allocator.device_type}:{device}",
        allocated=allocated["current"],
        reserved=reserved["current"],
        peak_allocated=allocated["peak"],
        peak_reserved=reserved["peak"],
        allocations=allocations.get("allocated"),
        frees=allocations.get("freed"),
    )


def _read_host() -> Reading:
    resident = _native.resident_bytes() or 0
    peak = _native.peak_resident_bytes()
    return Reading(
        time_nanos=time.time_ns(),
        memory=HOST,
        allocated=resident,
        reserved=None,
        peak_allocated=resident if peak is None else max(peak, resident),
        peak_reserved=None,
        allocations=None,
        frees=None,
    )


def _unused(memory: str) -> Reading:
    """Returns the reading of a device before its first use."""
    return Reading(0, memory, *(0,) * 6)


def _figures(before: Reading, readings: list[Reading]) -> dict[str, Any]:
    last = readings[-1]
    peak, is_exact = _peak(
        before.peak_allocated, [(reading.allocated, reading.peak_allocated) for reading in readings]
    )
    peak_reserved = None
    if before.reserved is not None:
        peak_reserved, _ = _peak(
            before.peak_reserved or 0,
            [(reading.reserved or 0, reading.peak_reserved or 0) for reading in readings],
        )
    return {
        "memory": last.memory,
        "peak_allocated": peak,
        "peak_reserved": peak_reserved,
        "peak_is_exact": is_exact,
        "allocated_before": before.allocated,
        "allocated": last.allocated,
        "change": last.allocated - before.allocated,
        "allocations": _difference(before.allocations, last.allocations),
        "frees": _difference(before.frees, last.frees),
        "readings": len(readings),
    }


def _peak(peak_before: int, readings: list[tuple[int, int]]) -> tuple[int, bool]:
    """Returns the peak inside a block, and whether the counter tells it exactly.

    The counter tells it if it has risen since the block began. If the program resets the counter,
    what it tells afterwards is inside the block too, but not all of it.
    """
    highest = max(current for current, _ in readings)
    has_risen = has_fallen = False
    for _, counter in readings:
        if counter != peak_before:
            has_risen |= counter > peak_before
            has_fallen |= counter < peak_before
            highest = max(highest, counter)
            peak_before = counter
    return highest, has_risen and not has_fallen


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
