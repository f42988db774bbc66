"""`MemoryTracker`: memory of the host, and of a device on a double of PyTorch's allocator."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import marey
import pytest
from marey._torch_memory import Allocator
from marey.metrics import MemoryTracker
from programs import run_well
from trace_files import run_rows, traced

MB = 1_000_000


class Device:
    """A device with the counters of PyTorch's allocator and its history."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.reserved = 0
        self.allocations = self.frees = 0
        self.history: list[dict[str, Any]] | None = None
        self.calls: list[object] = []

    def allocate(self, size: int) -> None:
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, 2 * self.allocated)
        self.allocations += 1
        self._add("alloc", size)

    def free(self, size: int) -> None:
        self.allocated -= size
        self.frees += 1
        self._add("free_requested", size)
        self._add("free_completed", size)

    def _add(self, action: str, size: int) -> None:
        if self.history is not None:
            now_us = time.time_ns() // 1000 + 1
            self.history.append({"action": action, "size": size, "addr": 4096, "time_us": now_us})

    def counters(self, _device: int) -> dict[str, Any]:
        return {
            "allocated_bytes": {"all": {"current": self.allocated, "peak": self.peak}},
            "reserved_bytes": {"all": {"current": self.reserved, "peak": self.reserved}},
            "allocation": {"all": {"allocated": self.allocations, "freed": self.frees}},
        }

    def _record_memory_history(self, enabled: str | None, **_options: Any) -> None:
        self.calls.append(enabled)
        self.history = None if enabled is None else []

    def _snapshot(self) -> dict[str, Any]:
        return {"device_traces": [self.history or []]}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    double = Device()
    allocator = Allocator("cuda", lambda: True, lambda: 1, double.counters)
    native = SimpleNamespace(_cuda_isHistoryEnabled=lambda: double.history is not None)
    cuda = SimpleNamespace(is_initialized=lambda: True, memory=double)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=native, cuda=cuda))
    monkeypatch.setattr("marey.metrics.memory.find_allocator", lambda _torch: allocator)
    return double


# The host


def test_without_a_gpu_the_memory_of_the_process_is_tracked() -> None:
    tracker = MemoryTracker()
    with tracker:
        kept = bytearray(b"x") * (100 * MB)
    stats = tracker.get_stats()
    assert stats["memory"] == "host"
    assert stats["peak_allocated"] >= stats["allocated"] >= len(kept)
    assert stats["change"] == pytest.approx(100 * MB, rel=0.2)
    assert (stats["peak_reserved"], stats["allocations"]) == (None, None)


def test_a_peak_of_the_host_that_is_gone_again_is_in_the_figures() -> None:
    # In a process of its own, which has not had a higher peak before.
    source = """
    from marey.metrics import MemoryTracker

    tracker = MemoryTracker(track_timeline=False)
    with tracker:
        made = bytearray(b"x") * 300_000_000
        del made
    stats = tracker.get_stats()
    print(stats["peak_is_exact"], stats["peak_allocated"] > stats["allocated"] + 250_000_000)
    """
    assert run_well(source) == "True True\n"


def test_the_timeline_is_read_on_a_thread_of_its_own() -> None:
    tracker = MemoryTracker(interval=1)
    with tracker:
        while len(tracker.get_allocation_timeline()) < 5:
            threading.Event().wait(0.001)
    timeline = tracker.get_allocation_timeline()
    assert {entry["event"] for entry in timeline} == {"reading"}
    assert timeline == sorted(timeline, key=lambda entry: entry["time_nanos"])
    assert all(entry["allocated"] > 0 for entry in timeline)
    names = {thread.name for thread in threading.enumerate()}
    assert "marey-memory" not in names


def test_without_the_timeline_both_ends_are_read() -> None:
    tracker = MemoryTracker(track_timeline=False, interval=1)
    with tracker:
        threading.Event().wait(0.02)
    assert tracker.get_stats()["readings"] == 2


def test_readings_are_in_the_run() -> None:
    tracker = MemoryTracker(track_timeline=False)
    with traced("x"), tracker, marey.scope("block"):
        tracker.snapshot("inside")
    query = "SELECT device_type, action, path FROM memory_events ORDER BY time_nanos"
    rows = run_rows("x.marey", query)
    assert [row[:2] for row in rows] == [("host", "reading")] * 3
    assert rows[1][2] == "block"


def test_snapshots_are_compared() -> None:
    tracker = MemoryTracker()
    tracker.snapshot("before")
    kept = bytearray(b"x") * (50 * MB)
    tracker.snapshot("after")
    assert tracker.compare("before", "after")["host"] == pytest.approx(len(kept), rel=0.3)


def test_a_block_that_raises_keeps_its_figures() -> None:
    tracker = MemoryTracker()
    with pytest.raises(ZeroDivisionError), tracker:
        _ = 1 / 0
    assert tracker.get_stats()["readings"] == 2


# A device


def test_figures_are_those_of_the_block(device: Device) -> None:
    device.allocate(10 * MB)
    tracker = MemoryTracker()
    with tracker:
        device.allocate(30 * MB)
        device.allocate(5 * MB)
        device.free(30 * MB)
    stats = tracker.get_stats()
    del stats["devices"], stats["readings"]
    assert stats == {
        "memory": "cuda:0",
        "peak_allocated": 45 * MB,
        "peak_reserved": 90 * MB,
        "peak_is_exact": True,
        "allocated_before": 10 * MB,
        "allocated": 15 * MB,
        "change": 5 * MB,
        "allocations": 2,
        "frees": 1,
    }
    assert "cuda:0: peak 45.0 MB, change +5.0 MB" in tracker.summary()
    assert "2 allocations, 1 frees" in tracker.summary()


def test_an_older_higher_peak_is_not_the_peak_of_the_block(device: Device) -> None:
    device.allocate(100 * MB)
    device.free(100 * MB)
    tracker = MemoryTracker(track_timeline=False)
    with tracker:
        device.allocate(10 * MB)
        tracker.snapshot("inside")
        device.free(10 * MB)
    stats = tracker.get_stats()
    assert (stats["peak_allocated"], stats["peak_is_exact"]) == (10 * MB, False)
    assert "at least 10.0 MB" in tracker.summary()
    assert device.peak == 100 * MB


def test_a_peak_that_the_program_resets_counts(device: Device) -> None:
    device.allocate(100 * MB)
    device.free(90 * MB)
    tracker = MemoryTracker(track_timeline=False)
    with tracker:
        device.peak = device.allocated
        tracker.snapshot("reset")
        device.allocate(20 * MB)
        device.free(20 * MB)
    stats = tracker.get_stats()
    assert (stats["peak_allocated"], stats["peak_is_exact"]) == (30 * MB, False)


def test_single_allocations_are_read_from_the_history(device: Device) -> None:
    tracker = MemoryTracker(track_timeline=False)
    with tracker:
        device.allocate(7 * MB)
        device.free(7 * MB)
    device.allocate(9 * MB)
    events = [entry for entry in tracker.get_allocation_timeline() if entry["event"] != "reading"]
    assert [(entry["event"], entry["bytes"], entry["memory"]) for entry in events] == [
        ("alloc", 7 * MB, "cuda:0"),
        ("free", 7 * MB, "cuda:0"),
    ]
    assert device.calls == ["all", None]


def test_a_history_of_the_program_is_left_alone(device: Device) -> None:
    device.history = []
    device.allocate(1 * MB)
    device.history[0]["time_us"] -= 1_000_000
    tracker = MemoryTracker()
    with tracker:
        device.allocate(7 * MB)
    events = [entry for entry in tracker.get_allocation_timeline() if entry["event"] == "alloc"]
    assert [entry["bytes"] for entry in events] == [7 * MB]
    assert device.calls == []
    assert len(device.history) == 2


def test_without_track_allocations_there_is_no_history(device: Device) -> None:
    tracker = MemoryTracker(track_allocations=False)
    with tracker:
        device.allocate(7 * MB)
    assert device.calls == []
    assert {entry["event"] for entry in tracker.get_allocation_timeline()} == {"reading"}
    assert tracker.get_stats()["allocations"] == 1


# Bad input


@pytest.mark.parametrize("interval", [0, -5, float("nan")])
def test_a_wrong_interval_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="interval must be a finite number greater than 0"):
        MemoryTracker(interval=interval)


def test_an_interval_that_is_no_number_is_refused() -> None:
    interval: Any = "x"
    with pytest.raises(TypeError, match="interval must be a number, not 'x'"):
        MemoryTracker(interval=interval)


def test_statistics_need_a_block() -> None:
    with pytest.raises(RuntimeError, match="nothing has been tracked yet"):
        MemoryTracker().get_stats()


def test_a_tracker_tracks_one_block_at_a_time() -> None:
    tracker = MemoryTracker()
    with tracker, pytest.raises(RuntimeError, match="tracks a block already"):
        tracker.__enter__()
    with pytest.raises(RuntimeError, match="tracks no block"):
        tracker.__exit__(None, None, None)
    with tracker:
        pass


def test_an_unknown_snapshot_names_the_nearest() -> None:
    tracker = MemoryTracker()
    tracker.snapshot("before training")
    with pytest.raises(KeyError, match="did you mean 'before training'"):
        tracker.compare("before trainin", "after")


def test_a_forked_child_does_not_hang() -> None:
    program = """
    import os, signal
    from marey.metrics import MemoryTracker
    tracker = MemoryTracker(interval=1)
    with tracker:
        child = os.fork()
        if not child:
            signal.alarm(20)
            tracker.snapshot("child")
            os._exit(0)
    print(os.waitpid(child, 0)[1])
    """
    assert run_well(program) == "0\n"
