"""Scopes for PyTorch programs, without changes to the program.

While enabled, every call of a `torch.nn.Module` is a scope with its dotted name, `backward` is a
scope, an optimizer step is a scope named after its class, and each optimizer step ends a `step`.
With `operators`, so is each operator that PyTorch dispatches (`_torch_operators`). With `memory`,
each of the hooks reads memory (`_torch_memory`). Models are never modified (`_torch_names`).

This module is the interface; the hooks are installed by `_torch_hooks`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from marey import (
    _native,
    _torch_hooks,
    _torch_memory,
    _torch_names,
    _torch_overhead,
    _torch_snapshot,
)
from marey._torch_hooks import SHAPES, Shapes, disable, is_enabled, measured_overhead

if TYPE_CHECKING:
    from marey._torch_window import window

__all__ = [
    "disable",
    "enable",
    "enable_torch_profiling",
    "is_enabled",
    "measured_overhead",
    "memory_snapshot",
    "window",
]


def enable(
    *,
    operators: bool = False,
    shapes: Shapes = "sampled",
    modules: bool = True,
    memory: bool = False,
    measure_overhead: bool = False,
    overhead_target: str | None = None,
) -> None:
    """Records module calls, backward and optimizer steps as scopes, in the whole process.

    Does not import torch: if torch is not imported yet, the hooks are installed after its import.
    Further calls have no effect, except that operators may be added, and then `shapes` changed,
    memory, and the measurement, and then its target changed. Any thread may call this function.

    Args:
        operators: Whether to record operators, autograd nodes,
            ``torch.profiler.record_function`` and the loading of batches too, on every thread,
            while a session records. If PyTorch does not allow it, a warning states why.
        shapes: The operators whose input shapes and types are recorded too, and with them FLOP and
            bytes: ``"sampled"`` those of one training step in a hundred, drawn at random, and
            before the first step one operator in a hundred; ``"all"``; or ``"off"``. Of a sample,
            FLOP and bytes are extrapolated to all calls. Without effect without `operators`.
        modules: Whether the first call of this function records module calls.
        memory: Whether to record, at each of these scopes, the bytes that each device in use has
            allocated and reserved, their peak, and the resident size of the process.
        measure_overhead: Whether to measure what recording costs: blocks of 5 steps run without
            recording, a third of the first 90 steps or more, then 5 of 100. The result is in the
            view ``recording_overhead``.
        overhead_target: The time that recording may add to a step, such as ``"2%"``. Measures, and
            while the cost is above the target for certain, ends the recording of shapes, then of
            operators, of memory and of modules.

    Raises:
        ValueError: `shapes` is none of these, or `overhead_target` is not a percentage.
        AttributeError: The installed torch is older than 2.1 and lacks one of the hooks.
    """
    if shapes not in SHAPES:
        raise ValueError(f"shapes must be one of {', '.join(SHAPES)}, not {shapes!r}")
    _torch_hooks.enable(
        operators=operators,
        shapes=shapes,
        modules=modules,
        memory=memory,
        measure_overhead=measure_overhead,
        target_percent=_torch_overhead.parse_target(overhead_target) if overhead_target else None,
    )


def enable_torch_profiling() -> None:
    """Records the calls of modules with their memory into a trace: Probing's name for it.

    Starts the trace session ``torch`` unless a session is alive, and calls `enable` with
    ``memory=True``. The table ``python.torch_trace`` of the run has the calls.

    Raises:
        OSError: The spool cannot be written in the run directory.
        AttributeError: The installed torch is older than 2.1 and lacks one of the hooks.
    """
    if not _native.is_recording():
        from marey.profile import start

        start("torch", data="trace")
    enable(memory=True)


def memory_snapshot(path: str | os.PathLike[str] | None = None) -> str:
    """Writes what CUDA's caching allocator has given out now, block by block.

    The file is PyTorch's memory snapshot as JSON, which `marey import`, `marey query` and
    `marey.open` read as the table `memory_snapshots`. A block in use has the tensor that Python
    keeps in it, such as ``parameter head.weight``, and the scopes that were open when it was
    allocated, as far as PyTorch has a history of its allocations
    (``torch.cuda.memory._record_memory_history()``) and `enable` was called with ``memory=True``.

    Args:
        path: The file; by default ``memory-PID-N.json`` in the working directory.

    Returns:
        The absolute path of the file.

    Raises:
        RuntimeError: This process has no memory of CUDA, such as on a machine without a GPU, or
            PyTorch gives no snapshot of it.
        OSError: The file cannot be written.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise RuntimeError("this process has not imported torch, so there is nothing to write")
    path = _torch_snapshot.new_path("memory") if path is None else os.path.abspath(path)
    _torch_snapshot.write(torch, path, _torch_memory.scopes(), _torch_names.models())
    return path


def __getattr__(name: str) -> Any:
    """Imports the window of torch.profiler, which most programs do not use, on first use."""
    if name == "window":
        from marey._torch_window import window

        return window
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
