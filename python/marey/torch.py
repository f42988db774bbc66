"""Scopes for PyTorch programs, without changes to the program.

While enabled, every call of a `torch.nn.Module` is a scope with its dotted name, `backward` is a
scope, an optimizer step is a scope named after its class, and each optimizer step ends a `step`.
With `operators`, so is each operator that PyTorch dispatches (`_torch_operators`). With `memory`,
each of the hooks reads memory (`_torch_memory`). Models are never modified (`_torch_names`).

Start reading at `enable`; the hooks themselves are in `_torch_scopes`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from marey import (
    _native,
    _session,
    _torch_collectives,
    _torch_memory,
    _torch_names,
    _torch_overhead,
    _torch_scopes,
    _torch_snapshot,
)
from marey._import_hook import ImportHook
from marey._names import SETTING_TORCH_OPERATORS
from marey._warning import warn

if TYPE_CHECKING:
    from torch.optim import Optimizer

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

Shapes = Literal["sampled", "all", "off"]
_SHAPES = ("sampled", "all", "off")


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
    memory, and the measurement. Any thread may call this function.

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
            while the cost is above the target, ends the recording of shapes, then of operators, of
            memory and of modules.

    Raises:
        ValueError: `shapes` is none of these, or `overhead_target` is not a percentage.
        AttributeError: The installed torch is older than 2.1 and lacks one of the hooks.
    """
    global _enabled, _records_operators, _records_modules, _records_memory, _shapes, _meter
    if shapes not in _SHAPES:
        raise ValueError(f"shapes must be one of {', '.join(_SHAPES)}, not {shapes!r}")
    target_percent = _torch_overhead.parse_target(overhead_target) if overhead_target else None
    with _lock:
        if not _enabled:
            _records_modules = modules
        _enabled = True
        if operators:
            _records_operators = True
            _native.set_setting(SETTING_TORCH_OPERATORS, True)
            _shapes = shapes
        if memory and not _records_memory:
            _records_memory = True
            _reinstall_hooks()  # a reading precedes the other hooks
        if _meter is None and (measure_overhead or target_percent is not None):
            _meter = _torch_overhead.Meter(_METER_HOOKS, target_percent)
            _session.settlers.append(_meter.publish)
        elif _meter is None:
            _torch_overhead.note_unmeasured()
        if "torch" not in sys.modules:
            _import_hook.install()
            return
    # Outside the lock, because this waits if another thread is importing torch.
    _attach(importlib.import_module("torch"))


def disable() -> None:
    """Removes all hooks and closes the scopes that they have opened on this thread."""
    global _enabled, _records_memory, _meter, _detach_steps, _collectives
    meter, _meter = _meter, None
    if meter is not None:
        meter.stop()
        _session.settlers.remove(meter.publish)
    with _lock:
        _enabled = False
        _import_hook.remove()
        _remove_hooks()
        _records_memory = False
        if _detach_steps is not None:
            _detach_steps()
            _detach_steps = _collectives = None
        stop_operators()


def stop_operators() -> None:
    """Ends the recording of operators; the other hooks stay."""
    global _records_operators
    with _lock:
        if _records_operators:
            from marey import _torch_operators

            _records_operators = False
            _native.set_setting(SETTING_TORCH_OPERATORS, False)
            _torch_operators.stop()


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


def is_enabled() -> bool:
    """Whether `enable` is in effect, even if torch is not imported yet."""
    return _enabled


def measured_overhead() -> str | None:
    """Returns what recording costs so far as a sentence.

    ``unknown`` with the reason if the steps do not suffice, `None` unless `enable` has begun to
    measure.
    """
    return None if _meter is None else _meter.statement()


# The hooks that other parts of marey have a share in.


def _leave_optimizer(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
    if _torch_scopes.is_compiling():
        return
    meter = _meter
    if meter is None or not meter.is_baseline:
        if _records_memory:
            _torch_memory.read_step()
        _torch_scopes.leave_optimizer(optimizer)
    if meter is not None:
        meter.end_step(optimizer)


def _end_step() -> None:
    if (_native.setting(SETTING_TORCH_OPERATORS) != 0) != _records_operators:
        _switch_operators()
    if _collectives is not None:
        _collectives.end_step()


def _switch_operators() -> None:
    """Begins or ends the recording of operators, as set by `marey config` for this process."""
    global _records_operators
    with _lock:
        is_on = _native.setting(SETTING_TORCH_OPERATORS) != 0
        if is_on == _records_operators:
            return  # another thread has switched them
        _records_operators = is_on
        if is_on:
            _record_operators(_torch)
        else:
            sys.modules["marey._torch_operators"].stop()


# Installing and removing the hooks.


def _attach(torch: Any) -> None:
    global _torch, _detach_steps
    # `torch.optim` has no attribute for this submodule.
    optimizers = importlib.import_module("torch.optim.optimizer")
    with _lock:
        _import_hook.remove()
        if not _enabled:
            return
        _torch = torch
        if _records_operators:
            _record_operators(torch)
        if _detach_steps is not None:
            return
        _torch_scopes.configure(torch)
        with contextlib.ExitStack() as undo:
            handle = optimizers.register_optimizer_step_post_hook(_leave_optimizer)
            undo.callback(handle.remove)
            _read_collectives(torch, undo)
            _detach_steps = undo.pop_all().close
        _install_hooks()


def _read_collectives(torch: Any, undo: contextlib.ExitStack) -> None:
    global _collectives
    if not torch.distributed.is_available():
        return
    _collectives = reader = _torch_collectives.Reader()

    def read_last() -> None:
        reader.read(unfinished=True)

    _session.settlers.append(read_last)
    undo.callback(_session.settlers.remove, read_last)
    destroy: Callable[..., Any] = torch.distributed.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        reader.learn_groups()
        return destroy(*args, **kwargs)

    undo.callback(_replace(torch.distributed, "destroy_process_group", destroy_process_group))


def _install_hooks() -> None:
    """Installs all hooks except the one that ends steps, which calls this function."""
    global _detach
    with _lock:
        if _detach is not None or _torch is None or not _enabled:
            return
        optimizers = sys.modules["torch.optim.optimizer"]
        with contextlib.ExitStack() as undo:
            if _records_memory:
                undo.callback(
                    _torch_memory.start(_torch, _torch_scopes.open_scopes, _torch_names.models)
                )
            handle = optimizers.register_optimizer_step_pre_hook(_torch_scopes.enter_optimizer)
            undo.callback(handle.remove)
            undo.callback(_replace(_torch.autograd, "backward", _backward_scope(_torch)))
            if _records_modules:
                _install_module_hooks(_torch, undo)
            _detach = undo.pop_all().close


def _install_module_hooks(torch: Any, undo: contextlib.ExitStack) -> None:
    modules = torch.nn.modules.module
    _torch_scopes.count_calls_of(torch.nn.Module._call_impl.__code__)
    for handle in (
        modules.register_module_forward_pre_hook(_torch_scopes.enter_module),
        modules.register_module_forward_hook(_torch_scopes.leave_module, always_call=True),
    ):
        undo.callback(handle.remove)
    undo.callback(_replace(torch.export, "export", _export_without_hooks(torch)))
    if hasattr(modules, "_has_any_global_hook"):
        undo.callback(_replace(modules, "_has_any_global_hook", _other_hooks(modules)))


def _remove_hooks() -> None:
    """Removes what `_install_hooks` has installed, and closes its scopes on this thread."""
    global _detach
    with _lock:
        if _detach is not None:
            _detach()
            _detach = None
    _torch_scopes.leave_all()


def _reinstall_hooks() -> None:
    """Installs the hooks anew, if they are installed; scopes stay open."""
    global _detach
    with _lock:
        if _detach is not None:
            _detach()
            _detach = None
            _install_hooks()


# What the measurement of the cost and the sampling of training switch.


def pause_hooks() -> None:
    """Removes all hooks except the one that ends steps, until `resume_hooks`."""
    _remove_hooks()
    if _records_operators:
        sys.modules["marey._torch_operators"].pause()


def resume_hooks() -> None:
    """Installs the hooks that `pause_hooks` has removed."""
    _install_hooks()
    if _records_operators:
        sys.modules["marey._torch_operators"].resume()


def _recorded_details() -> list[str]:
    has_shapes = _records_operators and _shapes != "off"
    details = (
        ("shapes", has_shapes),
        ("operators", _records_operators),
        ("memory", _records_memory),
        ("modules", _records_modules),
    )
    return [*(name for name, is_recorded in details if is_recorded), "steps"]


def _drop_detail() -> str | None:
    """Ends the recording of the most expensive detail; returns which, `None` without any."""
    global _records_modules, _records_memory, _shapes
    with _lock:
        if _records_operators and _shapes != "off":
            _shapes = "off"
            _record_operators(_torch)
            return "shapes"
        if _records_operators:
            stop_operators()
            return "operators"
        if _records_memory:
            _records_memory = False
            _reinstall_hooks()
            return "memory"
        if _records_modules:
            _records_modules = False
            _remove_hooks()
            _install_hooks()
            return "modules"
        return None


_METER_HOOKS = _torch_overhead.Hooks(pause_hooks, resume_hooks, _recorded_details, _drop_detail)


def _record_operators(torch: Any) -> None:
    from marey import _torch_operators

    objection = _torch_operators.start(torch, _shapes)
    if objection is not None:
        warn(f"operators of PyTorch {torch.__version__} are not recorded: {objection}")


def _replace(holder: Any, name: str, replacement: Callable[..., Any]) -> Callable[[], None]:
    """Sets an attribute; returns a function that restores it unless it was replaced since."""
    original = getattr(holder, name)

    def put_back() -> None:
        if getattr(holder, name) is replacement:
            setattr(holder, name, original)

    setattr(holder, name, replacement)
    return put_back


def _backward_scope(torch: Any) -> Callable[..., Any]:
    original: Callable[..., Any] = torch.autograd.backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        if _detach is None or _torch_scopes.is_compiling():
            return original(*args, **kwargs)
        _torch_scopes.enter_backward()
        try:
            return original(*args, **kwargs)
        finally:
            if _records_memory:
                _torch_memory.read_step()
            _torch_scopes.leave_backward()

    _torch_scopes.count_calls_of(backward.__code__)
    # TorchScript looks up builtins by identity.
    torch.jit._builtins._register_builtin(backward, "aten::backward")
    return functools.update_wrapper(backward, original)


def _export_without_hooks(torch: Any) -> Callable[..., Any]:
    """Wraps `torch.export.export`: torch 2.15's strict mode rejects models under global hooks."""
    original: Callable[..., Any] = torch.export.export

    def export(*args: Any, **kwargs: Any) -> Any:
        if _detach is None:
            return original(*args, **kwargs)
        _remove_hooks()
        try:
            return original(*args, **kwargs)
        finally:
            _install_hooks()

    return functools.update_wrapper(export, original)


_OUR_HOOKS = (_torch_scopes.enter_module, _torch_scopes.leave_module, _torch_memory.at_module)


def _other_hooks(modules: Any) -> Callable[[], bool]:
    """Returns the check of `torch.compile` for global hooks that ignores ours, which are inert."""

    def has_any_global_hook() -> bool:
        forward_hooks = (
            *modules._global_forward_pre_hooks.values(),
            *modules._global_forward_hooks.values(),
        )
        return (
            any(hook not in _OUR_HOOKS for hook in forward_hooks)
            or len(modules._global_backward_pre_hooks) > 0
            or len(modules._global_backward_hooks) > 0
        )

    return has_any_global_hook


def __getattr__(name: str) -> Any:
    """Imports the window of torch.profiler, which most programs do not use, on first use."""
    if name == "window":
        from marey._torch_window import window

        return window
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_lock = threading.RLock()
_enabled = False
_records_operators = False
_shapes: Shapes = "sampled"
_records_modules = True
_records_memory = False
_meter: _torch_overhead.Meter | None = None
_torch: Any = None
_collectives: _torch_collectives.Reader | None = None
_import_hook = ImportHook(("torch",), _attach)
_detach: Callable[[], None] | None = None
_detach_steps: Callable[[], None] | None = None

_torch_scopes.listen_to_steps(_end_step)
