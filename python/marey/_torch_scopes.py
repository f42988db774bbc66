"""The hooks of PyTorch, and the scopes that they open on each thread.

The stack of a thread has an entry for each open scope: the id of the module or optimizer, the name
of the scope, and the names of the modules inside it. `_native.ModuleCall` enters and leaves modules
whose name the innermost entry knows; all others come here. Start reading at `enter_module`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from marey import _native, _torch_names
from marey._names import CALL_SITE, KIND_MODULE, KIND_SCOPE
from marey._torch_names import Names

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

_push = _native.push
_pop = _native.pop

_MAREY_FOLDER = os.path.join(os.path.dirname(__file__), "")

# The key of `backward` on the stack of a thread. No object has this id.
_BACKWARD_KEY = 0


def configure(torch: Any) -> None:
    """Prepares the hooks for an imported torch, before any of them is installed."""
    global is_compiling, _is_grad_enabled, _torch_folder
    # PyTorch 2.2 has it elsewhere.
    is_compiling = getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling
    _is_grad_enabled = torch.is_grad_enabled
    _torch_folder = os.path.join(os.path.dirname(torch.__file__), "")


def count_calls_of(code: types.CodeType) -> None:
    """Adds a function whose call has one entry on the stack of its thread."""
    _call_sites.add(_site(code))


def listen_to_steps(on_end: Callable[[], None], on_begin: Callable[[], None] | None = None) -> None:
    """Calls `on_begin` when a step begins, and perhaps again in it, and `on_end` after its end."""
    if on_end not in _at_step_end:
        _at_step_end.append(on_end)
        if on_begin is not None:
            _at_step_begin.append(on_begin)


def has_optimizers() -> bool:
    """Whether the program has made an optimizer of PyTorch."""
    module = sys.modules.get("torch.optim.optimizer")
    return module is not None and _has_instances(module.Optimizer)


def _has_instances(optimizer: type) -> bool:
    """Whether PyTorch has prepared a class or one below it, as it does for its first instance."""
    is_prepared = getattr(getattr(optimizer, "step", None), "hooked", False)
    return is_prepared or any(map(_has_instances, optimizer.__subclasses__()))


def open_scopes() -> tuple[str, ...]:
    """Returns the names of the scopes that are open on this thread, the outermost first."""
    return tuple(name for _, name, _ in _thread.stack)


def leave_all() -> None:
    """Closes the scopes that the hooks have opened on this thread."""
    _leave_down_to(_thread.stack, 0)


class _ThreadState(threading.local):
    """The open scopes of one thread."""

    def __init__(self) -> None:
        self.stack: list[tuple[int, str, Names]] = _native.thread_stack()
        self.step_done_in_backward = False


def enter_module(module: Module) -> None:
    """Enters the scope of a module that is about to be called."""
    stack = _thread.stack
    # The call has no Python frame yet.
    _leave_finished_calls(stack, entering=0)
    if not stack and _is_grad_enabled():
        _begin_step()
    name, names = _find_name(module, stack)
    key = id(module)
    stack.append((key, name, names))
    _push(name, KIND_MODULE)
    if names.is_first_call(key) and (line := _calling_line()):
        _native.add_metrics({CALL_SITE: line})


def _calling_line() -> str | None:
    """Returns file and line of the innermost Python frame outside of PyTorch and of marey.

    `None` if the call came from native code, such as the start of a thread.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_MAREY_FOLDER, _torch_folder)):
        frame = frame.f_back
    if frame is None:
        return None
    path = frame.f_code.co_filename
    with contextlib.suppress(OSError):  # the working directory may be gone
        path = path.removeprefix(os.path.join(os.getcwd(), ""))
    return f"{path}:{frame.f_lineno}"


def _find_name(module: Module, stack: list[tuple[int, str, Names]]) -> tuple[str, Names]:
    """Returns the name of a module that the innermost root has not named, and the names inside."""
    key = id(module)
    if stack:
        caller_key, _, caller_names = stack[-1]
        if caller_names.find(key) is None:
            caller_names.learn_addition(module, caller_key)
    for _, _, names in reversed(stack):
        inner = names.find(key)
        if inner is not None:
            return inner, names
    return sys.intern(type(module).__name__), _torch_names.of_root(module)


def leave_module(module: Module) -> None:
    """Leaves the scope of a module whose call has ended, and the scopes inside it."""
    _leave(_thread.stack, id(module))


def enter_optimizer(optimizer: Optimizer, caller: types.CodeType) -> None:
    """Enters the scope of an optimizer; `caller` is PyTorch's function that calls its hooks."""
    _call_sites.add(_site(caller))
    _enter_scope(id(optimizer), _optimizer_scope_name(type(optimizer).__name__))


def leave_optimizer(optimizer: Optimizer) -> None:
    """Closes the scope of an optimizer, and ends the step if this optimizer ends it."""
    stack = _thread.stack
    _leave(stack, id(optimizer))
    if not stack:
        _end_step()
    elif stack[0][0] == _BACKWARD_KEY:
        # Optimizers that run in backward, one per parameter, are together one step.
        _thread.step_done_in_backward = True


def enter_backward() -> None:
    _enter_scope(_BACKWARD_KEY, "backward")


def leave_backward() -> None:
    stack = _thread.stack
    _leave(stack, _BACKWARD_KEY)
    if not stack and _thread.step_done_in_backward:
        _thread.step_done_in_backward = False
        _end_step()


def _enter_scope(key: int, name: str) -> None:
    stack = _thread.stack
    _leave_finished_calls(stack)
    if not stack:
        _begin_step()
    stack.append((key, name, stack[-1][2] if stack else _no_names))
    _push(name, KIND_SCOPE)


def _begin_step() -> None:
    for on_begin in _at_step_begin:
        on_begin()
    _native.step_begin()


def _end_step() -> None:
    _native.step_end()
    for on_end in _at_step_end:
        on_end()


@functools.cache
def _optimizer_scope_name(class_name: str) -> str:
    return sys.intern(f"{class_name}.step")


def _leave(stack: list[tuple[int, str, Names]], key: int) -> None:
    """Leaves the innermost scope with this key and all scopes inside it, if there is one.

    There is none if the hooks were removed during a call.
    """
    for depth in reversed(range(len(stack))):
        if stack[depth][0] == key:
            _leave_down_to(stack, depth)
            return


def _leave_finished_calls(stack: list[tuple[int, str, Names]], *, entering: int = 1) -> None:
    """Leaves scopes whose call ended without its hook.

    An exception skips torch's optimizer hooks. So the calls that are still on the Python stack are
    counted; `entering` of them are not on ours yet.
    """
    if not stack:
        return
    live = -entering
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        live += _site(frame.f_code) in _call_sites
        frame = frame.f_back
    _leave_down_to(stack, max(live, 0))


def _leave_down_to(stack: list[tuple[int, str, Names]], depth: int) -> None:
    while len(stack) > depth:
        _pop(stack.pop()[1])


def _site(code: types.CodeType) -> tuple[str, str]:
    # By name, not by id, because dynamo runs rewritten copies of a code object.
    return code.co_filename, code.co_name


is_compiling: Callable[[], bool]
_is_grad_enabled: Callable[[], bool]
_torch_folder: str

_at_step_begin: list[Callable[[], None]] = []
_at_step_end: list[Callable[[], None]] = []
_thread = _ThreadState()
_no_names = Names()
# File and function name of the calls that enter a scope in this module.
_call_sites: set[tuple[str, str]] = set()
