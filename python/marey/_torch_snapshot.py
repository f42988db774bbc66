"""Files with what the allocator of CUDA has given out, by scope and by tensor.

The file is PyTorch's memory snapshot as JSON, with two more fields of a block: ``path``, the scopes
that were open when it was allocated, and ``tensor``, what Python keeps in it. marey's importer of
memory snapshots reads it.

Start reading at `write`.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import itertools
import json
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _native, _session
from ._saving import replaced

MAX_TRACE_ENTRIES = 100_000
"""Entries of the allocator's history that a file has for each device, the latest ones."""

MAX_HISTORY = 200_000
"""Times at which scopes changed that are kept, the latest ones."""

LABEL_SECONDS = 2.0
"""Time after which no more tensors are looked for."""

OBSERVER_SECONDS = 60.0
"""Time after a file of the observer within which it writes no other."""

KEEP_HISTORY = "torch.cuda.memory._record_memory_history(context=None, max_entries=100_000)"
"""The call with which PyTorch keeps the times of the latest allocations, and no stacks. marey does
not make it: other tools take a history that is on for the program's, and refuse to begin one."""

ScopeHistory = list[tuple[float, tuple[str, ...]]]
"""The open scopes, outermost first, each with the time until which they were the open ones, in
microseconds since 1970."""


def write(torch: Any, path: str, scopes: ScopeHistory, models: Iterable[Any]) -> bool:
    """Writes what CUDA's caching allocator has given out to a file.

    Returns:
        Whether PyTorch has kept a history of allocations, without which no block has a path.

    Raises:
        RuntimeError: This process has no memory of CUDA, or PyTorch gives no snapshot of it.
        OSError: The file cannot be written.
    """
    if not torch.cuda.is_initialized():
        raise RuntimeError(
            "this process has not used CUDA, and PyTorch keeps no list of its allocations on the "
            "host; marey.torch.enable(memory=True) records the resident size of the process at "
            "each module and step"
        )
    snapshot = torch.cuda.memory._snapshot()
    _add_paths(snapshot, scopes)
    _add_tensors(snapshot, _tensor_labels(torch, models))
    has_history = any(snapshot["device_traces"])
    left_out = _shorten_traces(snapshot["device_traces"])
    if left_out:
        snapshot["left_out_trace_entries"] = left_out
    # The first key tells readers what the file is.
    ordered = {"segments": snapshot.pop("segments"), **snapshot}
    with replaced(path) as file:  # a program that is killed leaves none in part
        json.dump(ordered, file, separators=(",", ":"), default=str)
    return has_history


def _blocks(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the blocks that are in use. Before PyTorch 2.1 they have no addresses."""
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            block.setdefault("address", address)
            address = block["address"] + block["size"]
            if block["state"].startswith("active"):
                yield block


def _add_paths(snapshot: dict[str, Any], scopes: ScopeHistory) -> None:
    """Adds the open scopes to blocks whose allocation is in the allocator's history."""
    allocated: dict[int, float] = {}
    for entry in itertools.chain.from_iterable(snapshot["device_traces"]):
        if entry["action"] == "alloc" and "time_us" in entry:
            allocated[entry["addr"]] = entry["time_us"]
    for block in _blocks(snapshot):
        time_us = allocated.get(block["address"])
        if time_us is None:
            continue
        position = bisect.bisect_left(scopes, (time_us, ()))
        if position < len(scopes) and scopes[position][1]:
            block["path"] = scopes[position][1]


def _add_tensors(snapshot: dict[str, Any], labels: dict[int, str]) -> None:
    for block in _blocks(snapshot):
        label = labels.get(block["address"])
        if label is not None:
            block["tensor"] = label


def _shorten_traces(traces: list[list[Any]]) -> int:
    """Removes all but the latest entries of each device; returns how many."""
    left_out = 0
    for trace in traces:
        excess = max(len(trace) - MAX_TRACE_ENTRIES, 0)
        left_out += excess
        del trace[:excess]
    return left_out


def _tensor_labels(torch: Any, models: Iterable[Any]) -> dict[int, str]:
    """Returns what tensors on CUDA are, by the address of their storage."""
    labels: dict[int, str] = {}
    names: dict[int, str] = {}  # of parameters, by identity

    def add(tensor: Any, label: str) -> None:
        # Tensors of subclasses may have no storage.
        with contextlib.suppress(Exception):
            if tensor.is_cuda:
                labels.setdefault(tensor.untyped_storage().data_ptr(), label)

    # A model may override these methods; its exceptions must not reach the program.
    for model in models:
        with contextlib.suppress(Exception):
            for name, parameter in model.named_parameters():
                names[id(parameter)] = name
                add(parameter, f"parameter {name}")
                if parameter.grad is not None:
                    add(parameter.grad, f"gradient of {name}")
            for name, buffer in model.named_buffers():
                add(buffer, f"buffer {name}")
    deadline = time.monotonic() + LABEL_SECONDS
    others = []
    for number, found in enumerate(gc.get_objects()):
        if number % 1024 == 0 and time.monotonic() > deadline:
            break
        kind = type(found)  # `isinstance` may call code of the program
        if issubclass(kind, torch.optim.Optimizer):
            with contextlib.suppress(Exception):
                for parameter, state in found.state.items():
                    for key, value in state.items():
                        name = names.get(id(parameter), "a parameter")
                        add(value, f"optimizer state {key} of {name}")
        elif issubclass(kind, torch.Tensor):
            others.append(found)
    for tensor in others:
        add(tensor, f"tensor {list(tensor.shape)} {tensor.dtype}")
    return labels


class Observer:
    """Writes a file when CUDA runs out of memory, before the exception reaches the program."""

    def __init__(
        self,
        torch: Any,
        scopes: Callable[[], ScopeHistory],
        models: Callable[[], Iterable[Any]],
    ) -> None:
        self._torch = torch
        self._scopes = scopes
        self._models = models
        self._last = -OBSERVER_SECONDS
        self._is_writing = False

    def __call__(self, device: int, size: int, device_total: int, device_free: int) -> None:
        """Called by the allocator when an allocation of `size` bytes has failed."""
        if self._is_writing or time.monotonic() - self._last < OBSERVER_SECONDS:
            return
        self._is_writing = True
        try:
            scopes = self._scopes()
            # There are none after `marey.torch.disable`.
            if scopes and _native.is_active():
                self._last = time.monotonic()
                path = new_path("out-of-memory")
                has_history = write(self._torch, path, scopes, self._models())
                hint = f"; for the path of each block, call {KEEP_HISTORY} at the beginning"
                _session.say(
                    f"CUDA device {device} is out of memory: {size} bytes were requested, and "
                    f"{device_free} of {device_total} are free. What is allocated is in {path}; "
                    f"see it with: marey query {shlex.quote(path)} "
                    "'SELECT path, sum(bytes) FROM memory_snapshots GROUP BY path'"
                    f"{'' if has_history else hint}"
                )
        except Exception as error:
            _session.say(f"what is allocated on CUDA could not be written: {error!r}")
        finally:
            self._is_writing = False


_numbers = itertools.count()


def new_path(name: str) -> str:
    """Returns the path of a new file in the working directory."""
    return os.path.abspath(f"{name}-{os.getpid()}-{next(_numbers)}.json")
