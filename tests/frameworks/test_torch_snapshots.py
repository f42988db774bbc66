"""Snapshots of the memory of CUDA's allocator, asked for and out of memory."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from marey import _torch_memory, _torch_snapshot
from torch_devices import Device
from trace_files import run_rows

torch = pytest.importorskip("torch")

# Snapshots of CUDA's allocator, by a double of PyTorch's.

FRAME = {"filename": "/app/train.py", "line": 7, "name": "<module>"}


def snapshot() -> dict[str, Any]:
    """Returns a snapshot as PyTorch makes it, with a history of allocations."""
    now_us = time.time_ns() // 1000

    def block(address: int, size: int, state: str) -> dict[str, Any]:
        return {
            "address": address,
            "size": size,
            "requested_size": size,
            "state": state,
            "frames": [FRAME] if address == 2048 else [],
        }

    def entry(address: int, time_us: int) -> dict[str, Any]:
        return {"action": "alloc", "addr": address, "size": 512, "stream": 0, "time_us": time_us}

    return {
        "segments": [
            {
                "device": 0,
                "address": 1024,
                "total_size": 4096,
                "stream": 0,
                "segment_type": "small",
                "segment_pool_id": (0, 0),
                "blocks": [
                    block(1024, 1024, "active_allocated"),
                    block(2048, 1024, "active_allocated"),
                    block(3072, 2048, "inactive"),
                ],
            }
        ],
        "device_traces": [[entry(1024, now_us)]],
        "allocator_settings": {"roundup_power2_divisions": {1: 0}},
    }


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", snapshot)


BLOCKS = "SELECT address, bytes, state, path, arg(args, 'tensor') FROM memory_snapshots ORDER BY 1"


@pytest.mark.usefixtures("cuda")
def test_a_snapshot_has_the_scopes_of_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    double = Device()
    double.allocate(1)
    allocator = _torch_memory.Allocator(
        "cuda", lambda: True, lambda: 1, double.counters, keeps_history=lambda: True
    )
    monkeypatch.setattr(_torch_memory, "find_allocator", lambda _: allocator)
    marey.torch.enable(memory=True)
    written: list[str] = []

    class Snaps(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            written.append(marey.torch.memory_snapshot())
            return x

    with marey.profile("snapshot"):
        torch.nn.Sequential(torch.nn.Linear(1, 1), Snaps())(torch.ones(1))
    marey.torch.disable()
    [path] = written
    assert os.path.dirname(path) == os.getcwd()
    rows = run_rows(path, BLOCKS)
    assert rows == [
        (1024, 1024, "active_allocated", "Sequential/1", None),
        (2048, 1024, "active_allocated", "/app/train.py:7@<module>", None),
        (3072, 2048, "inactive", None, None),
    ]


@pytest.mark.usefixtures("cuda")
def test_a_snapshot_names_the_tensors_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 2)
    marey.torch.enable()
    model(torch.ones(2))  # makes the names of its parameters known
    marey.torch.disable()

    class Storage:
        def __init__(self, address: int) -> None:
            self.address = address

        def data_ptr(self) -> int:
            return self.address

    class OnDevice(torch.Tensor):  # type: ignore[name-defined, misc]
        is_cuda = True
        address: int

        def untyped_storage(self) -> Any:
            return Storage(self.address)

    weight = torch.ones(2, 2).as_subclass(OnDevice)
    weight.address = 1024
    del model.weight
    model.register_parameter("weight", None)
    model._parameters["weight"] = weight
    other = torch.ones(3).as_subclass(OnDevice)
    other.address = 2048
    path = marey.torch.memory_snapshot("named.json")
    labels = [row[4] for row in run_rows(path, BLOCKS)]
    assert labels == ["parameter weight", "tensor [3] torch.float32", None]


def test_without_cuda_the_error_names_what_there_is() -> None:
    with pytest.raises(RuntimeError, match=r"not used CUDA.*enable\(memory=True\)"):
        marey.torch.memory_snapshot("none.json")
    assert not os.path.exists("none.json")


@pytest.mark.usefixtures("cuda")
def test_a_snapshot_that_cannot_be_written_leaves_no_part() -> None:
    with pytest.raises(FileNotFoundError, match=r"missing/folder\.json'$"):
        marey.torch.memory_snapshot("missing/folder.json")
    os.mkdir("taken.json")
    with pytest.raises(OSError, match="taken"):
        marey.torch.memory_snapshot("taken.json")
    assert os.listdir(".") == ["taken.json"]


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yields the function that PyTorch would call, and what marey says."""
    attached: list[Any] = []
    queued: list[Any] = []
    said: list[str] = []
    monkeypatch.setattr(
        torch._C, "_cuda_attach_out_of_memory_observer", attached.append, raising=False
    )
    monkeypatch.setattr(torch.cuda, "_lazy_call", queued.append)
    monkeypatch.setattr(_torch_memory, "_is_observing", False)
    monkeypatch.setattr("marey._session.say", said.append)
    marey.torch.enable(memory=True)
    assert not attached  # CUDA is not initialised by it
    for call in queued:
        call()
    [function] = attached
    yield function, said
    marey.torch.disable()


@pytest.mark.usefixtures("cuda")
def test_out_of_memory_writes_what_is_allocated_once_a_minute(observer: Any) -> None:
    ran_out, said = observer
    ran_out(0, 1 << 40, 80 << 30, 1 << 30)
    assert (said, os.listdir(".")) == ([], [])  # nothing records
    with marey.profile("oom"):
        for _ in range(3):
            ran_out(0, 1 << 40, 80 << 30, 1 << 30)
    [line] = said
    [path] = Path.cwd().glob("out-of-memory-*.json")
    assert str(path) in line
    assert str(1 << 40) in line
    assert "_record_memory_history" not in line
    assert run_rows(str(path), "SELECT sum(bytes) FROM memory_snapshots") == [(4096,)]
    marey.torch.disable()
    ran_out(0, 1, 2, 3)
    assert len(said) == 1


@pytest.mark.usefixtures("cuda")
def test_out_of_memory_without_a_history_says_how_to_have_paths(
    observer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran_out, said = observer
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: snapshot() | {"device_traces": []})
    with marey.profile("oom"):
        ran_out(0, 1, 2, 3)
    [line] = said
    assert line.endswith(f"call {_torch_snapshot.KEEP_HISTORY} at the beginning")
    parameters = inspect.signature(torch.cuda.memory._record_memory_history).parameters
    assert {"context", "max_entries"} <= set(parameters)


@pytest.mark.usefixtures("cuda")
def test_a_failure_of_the_observer_does_not_reach_the_program(
    observer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran_out, said = observer

    def fail() -> dict[str, Any]:
        raise RuntimeError("no snapshot")

    monkeypatch.setattr(torch.cuda.memory, "_snapshot", fail)
    with marey.profile("oom"):
        ran_out(0, 1, 2, 3)
    assert len(said) == 1
    assert "no snapshot" in said[0]
    assert not list(Path.cwd().glob("out-of-memory-*"))


def test_the_latest_entries_of_a_long_history_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_torch_snapshot, "MAX_TRACE_ENTRIES", 2)
    traces = [[1, 2, 3, 4], [5]]
    assert _torch_snapshot._shorten_traces(traces) == 2
    assert traces == [[3, 4], [5]]
