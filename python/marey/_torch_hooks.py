"""The hooks in PyTorch: which are installed, and how they are switched while the program runs.

`enable` and `disable` are those of `marey.torch`. In between, the measurement of the cost and the
sampling of training remove and install the hooks, and drop details. The hooks themselves are in
`_torch_scopes` and `_torch_memory`.
"""

from __future__ import annotations

import contextlib
import importlib
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
    _torch_patches,
    _torch_scopes,
)
from marey._import_hook import ImportHook
from marey._names import (
    SETTING_TORCH_MEMORY,
    SETTING_TORCH_OPERATORS,
    SETTING_TORCH_SHAPES,
)
from marey._torch_patches import replace
from marey._warning import warn

if TYPE_CHECKING:
    from torch.optim import Optimizer

Shapes = Literal["off", "sampled", "all"]
SHAPES: tuple[Shapes, ...] = ("off", "sampled", "all")
"""Operators whose shapes are recorded, each at its number in the setting `torch.shapes`."""


def enable(
    *,
    operators: bool,
    shapes: Shapes,
    modules: bool,
    memory: bool,
    measure_overhead: bool,
    target_percent: float | None,
) -> None:
    """Installs the hooks, as `marey.torch.enable` describes."""
    global _enabled, _records_operators, _records_modules, _meter
    with _lock:
        if not _enabled:
            _records_modules = modules
        _enabled = True
        if operators:
            _records_operators = True
            _native.set_setting(SETTING_TORCH_OPERATORS, True)
            _set_shapes(shapes)
        if memory and not _records_memory:
            _set_memory(is_on=True)
        if _meter is None and (measure_overhead or target_percent is not None):
            _meter = _torch_overhead.Meter(_METER_HOOKS, target_percent)
            _session.settlers.append(_meter.publish)
        elif _meter is None:
            _torch_overhead.note_unmeasured()
        elif target_percent is not None:
            _meter.set_target(target_percent)
        if "torch" not in sys.modules:
            _import_hook.install()
            return
    # Outside the lock, because this waits if another thread is importing torch.
    _attach(importlib.import_module("torch"))


def disable() -> None:
    """Removes all hooks and closes the scopes that they have opened on this thread."""
    global _enabled, _meter, _detach_steps, _collectives
    meter, _meter = _meter, None
    if meter is not None:
        meter.stop()
        _session.settlers.remove(meter.publish)
    with _lock:
        _enabled = False
        _import_hook.remove()
        _remove()
        _set_memory(is_on=False)
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


def is_enabled() -> bool:
    """Whether `enable` is in effect, even if torch is not imported yet."""
    return _enabled


def records_operators() -> bool:
    """Whether operators of PyTorch are recorded now."""
    return _records_operators and _torch is not None


def measured_overhead() -> str | None:
    """Returns what recording costs so far as a sentence.

    ``unknown`` with the reason if the steps do not suffice, `None` unless `enable` has begun to
    measure.
    """
    return None if _meter is None else _meter.statement()


# Hooks at the ends of backward, of an optimizer and of a step.


def _leave_optimizer(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
    if _torch_scopes.is_compiling():
        return
    meter = _meter
    if meter is None or not meter.is_baseline:
        _read_memory()
        _torch_scopes.leave_optimizer(optimizer)
    if meter is not None:
        meter.end_step(optimizer)


def _read_memory() -> None:
    if _records_memory:
        _torch_memory.read_step()


def _enter_optimizer(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
    if _torch_scopes.is_compiling():
        return
    _read_memory()
    _torch_scopes.enter_optimizer(optimizer, sys._getframe(1).f_code)


def _end_step() -> None:
    if (*_wanted_operators(), _wants_memory()) != (_records_operators, _shapes, _records_memory):
        _follow_settings()
    if _collectives is not None:
        _collectives.end_step()


def _wanted_operators() -> tuple[bool, Shapes]:
    """Returns whether operators are to be recorded, and of which the shapes."""
    shapes = SHAPES[int(_native.setting(SETTING_TORCH_SHAPES))]
    return _native.setting(SETTING_TORCH_OPERATORS) != 0, shapes


def _wants_memory() -> bool:
    return _native.setting(SETTING_TORCH_MEMORY) != 0


def _follow_settings() -> None:
    """Records what the settings say, which `marey config` has changed for this process."""
    global _records_operators, _shapes
    with _lock:
        # Read again, because another thread may have followed them, or removed the hooks.
        if not _enabled:
            return
        if _wants_memory() != _records_memory:
            _switch_memory(is_on=_wants_memory())
        operators = _wanted_operators()
        if operators != (_records_operators, _shapes):
            had_operators = _records_operators
            _records_operators, _shapes = operators
            if _records_operators:
                _record_operators(_torch)
            elif had_operators:
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
        _install()


def _read_collectives(torch: Any, undo: contextlib.ExitStack) -> None:
    global _collectives
    if not torch.distributed.is_available():
        return
    _collectives = reader = _torch_collectives.Reader()

    def read_last() -> None:
        reader.read(unfinished=True)

    _session.settlers.append(read_last)
    undo.callback(_session.settlers.remove, read_last)
    undo.callback(reader.close)
    destroy = _torch_patches.destroy_after(torch, reader.learn_groups)
    undo.callback(replace(torch.distributed, "destroy_process_group", destroy))


def _install() -> None:
    """Installs all hooks except the one that ends steps, which calls this function."""
    global _detach
    with _lock:
        if _detach is not None or _torch is None or not _enabled:
            return
        optimizers = sys.modules["torch.optim.optimizer"]
        with contextlib.ExitStack() as undo:
            undo.callback(_end_details)
            _follow_details(_torch)
            handle = optimizers.register_optimizer_step_pre_hook(_enter_optimizer)
            undo.callback(handle.remove)
            backward = _torch_patches.backward_scope(_torch, _are_installed, _read_memory)
            undo.callback(replace(_torch.autograd, "backward", backward))
            _detach = undo.pop_all().close


def _follow_details(torch: Any) -> None:
    """Begins or ends readings of memory and the hooks of modules, as they are recorded now.

    Removes and adds no hook of optimizers, whose hooks another thread may be calling just now.
    """
    global _end_memory, _end_module_calls
    if _records_memory and _end_memory is None:
        _end_memory = _torch_memory.start(torch, _torch_scopes.open_scopes, _torch_names.models)
    elif _end_memory is not None and not _records_memory:
        _end_memory()
        _end_memory = None
    if _records_modules or _records_memory:
        _end_module_calls = _install_module_calls(torch)
    elif _end_module_calls is not None:
        _end_module_calls()
        _end_module_calls = None


def _end_details() -> None:
    """Ends what `_follow_details` has begun."""
    global _end_memory, _end_module_calls
    for end in (_end_module_calls, _end_memory):
        if end is not None:
            end()
    _end_memory = _end_module_calls = None


def _install_module_calls(torch: Any) -> Callable[[], None]:
    """Enters and leaves the scopes of modules, and reads memory before; returns what ends it."""
    global _module_calls
    _torch_scopes.count_calls_of(torch.nn.Module._wrapped_call_impl.__code__)
    if _module_calls is None:
        _module_calls = _torch_patches.ModuleCalls(torch)
    enter: Callable[[Any], None] = _torch_scopes.enter_module
    leave: Callable[[Any], None] = _torch_scopes.leave_module
    if not _records_modules:
        enter = leave = _torch_memory.at_module
    elif _records_memory:
        enter, leave = _after_reading(enter), _after_reading(leave)
    return _module_calls.install(
        enter, leave, _torch_scopes.is_compiling, is_fast=not _records_memory
    )


def _after_reading(act: Callable[[Any], None]) -> Callable[[Any], None]:
    def read_and_act(module: Any) -> None:
        _torch_memory.at_module(module)
        act(module)

    return read_and_act


def _are_installed() -> bool:
    return _detach is not None


def _remove() -> None:
    """Removes what `_install` has installed, and closes its scopes on this thread."""
    global _detach
    with _lock:
        if _detach is not None:
            _detach()
            _detach = None
    _torch_scopes.leave_all()


def _switch_memory(*, is_on: bool) -> None:
    """Begins or ends the readings of memory, with the lock held; scopes stay open."""
    global _records_memory
    _records_memory = is_on
    if _are_installed():
        _follow_details(_torch)


def _set_memory(*, is_on: bool) -> None:
    """Does the same for the program, and sets the setting to it."""
    _native.set_setting(SETTING_TORCH_MEMORY, is_on)
    _switch_memory(is_on=is_on)


def _set_shapes(shapes: Shapes) -> None:
    """Sets the operators whose shapes are recorded, from the next `_record_operators` on."""
    global _shapes
    _shapes = shapes
    _native.set_setting(SETTING_TORCH_SHAPES, SHAPES.index(shapes))


# Switching the hooks, for the measurement of the cost and the sampling of training.


def pause() -> None:
    """Removes all hooks except the one that ends steps, until `resume`."""
    _remove()
    if _records_operators:
        sys.modules["marey._torch_operators"].pause()


def resume() -> None:
    """Installs the hooks that `pause` has removed."""
    _install()
    if _records_operators:
        sys.modules["marey._torch_operators"].resume()


def recorded_details() -> list[str]:
    """Returns the names of what is recorded, in the order in which `drop_detail` ends it."""
    has_shapes = _records_operators and _shapes != "off"
    details = (
        ("shapes", has_shapes),
        ("operators", _records_operators),
        ("memory", _records_memory),
        ("modules", _records_modules),
    )
    return [*(name for name, is_recorded in details if is_recorded), "steps"]


def drop_detail() -> str | None:
    """Ends the recording of the most expensive detail; returns which, `None` without any."""
    global _records_modules
    with _lock:
        detail = recorded_details()[0]
        if detail == "shapes":
            _set_shapes("off")
            _record_operators(_torch)
        elif detail == "operators":
            stop_operators()
        elif detail == "memory":
            _set_memory(is_on=False)
        elif detail == "modules":
            _records_modules = False
            _remove()
            _install()
        else:
            return None
        return detail


_METER_HOOKS = _torch_overhead.Hooks(pause, resume, recorded_details, drop_detail)


def _record_operators(torch: Any) -> None:
    from marey import _torch_operators

    support = _torch_operators.start(torch, _shapes)
    if support.objection is not None:
        warn(f"operators of PyTorch {torch.__version__} are not recorded: {support.objection}")
    elif _shapes == "all" and not support.has_shapes:
        found = "a trial did not find them in the objects of this version"
        warn(f"shapes of PyTorch {torch.__version__} are not recorded: {found}")


_lock = threading.RLock()
_enabled = False
_records_operators = False
_shapes: Shapes = "sampled"
_records_modules = True
_records_memory = False
_meter: _torch_overhead.Meter | None = None
_torch: Any = None
_collectives: _torch_collectives.Reader | None = None
_module_calls: _torch_patches.ModuleCalls | None = None
_import_hook = ImportHook(("torch",), _attach)
_end_memory: Callable[[], None] | None = None
_end_module_calls: Callable[[], None] | None = None
_detach: Callable[[], None] | None = None
_detach_steps: Callable[[], None] | None = None

_torch_scopes.listen_to_steps(_end_step)
