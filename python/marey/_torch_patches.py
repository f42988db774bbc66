"""Replacements of functions of PyTorch, where it offers no hook. Each calls the original."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from marey import _native, _torch_scopes


def replace(holder: Any, name: str, replacement: Callable[..., Any]) -> Callable[[], None]:
    """Sets an attribute; returns a function that restores it unless it was replaced since."""
    original = getattr(holder, name)

    def put_back() -> None:
        if getattr(holder, name) is replacement:
            setattr(holder, name, original)

    setattr(holder, name, replacement)
    return put_back


def backward_scope(
    torch: Any, are_installed: Callable[[], bool], at_end: Callable[[], None]
) -> Callable[..., Any]:
    """Returns `torch.autograd.backward` as a scope while the hooks are installed.

    `at_end` is called at the end of that scope.
    """
    original: Callable[..., Any] = torch.autograd.backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        if not are_installed() or _torch_scopes.is_compiling():
            return original(*args, **kwargs)
        _torch_scopes.enter_backward()
        try:
            return original(*args, **kwargs)
        finally:
            at_end()
            _torch_scopes.leave_backward()

    _torch_scopes.count_calls_of(backward.__code__)
    # TorchScript looks up builtins by identity.
    torch.jit._builtins._register_builtin(backward, "aten::backward")
    return functools.update_wrapper(backward, original)


class ModuleCalls:
    """`torch.nn.Module.__call__` with functions around it.

    Whoever replaces it too calls what he found: there it stays, inert, and is used again by the
    next `install`. Compiled code is guarded by its identity, so it is one object if possible.
    """

    def __init__(self, torch: Any) -> None:
        self._module = torch.nn.Module
        self._call: Any = None
        self._original: Any = None
        self._is_in_place = False
        self._removals_left = _MAX_REMOVALS
        # The compiler would compile `enter` and `leave` as a part of the program.
        frames = getattr(torch._C, "_dynamo", None)
        self._set_frame_callback = getattr(
            getattr(frames, "eval_frame", None), "set_eval_frame", None
        )

    def install(
        self,
        enter: Callable[[Any], None],
        leave: Callable[[Any], None],
        is_compiling: Any,
        *,
        is_fast: bool,
    ) -> Callable[[], None]:
        """Calls `enter` and `leave` around each call of a module; returns a function that ends it.

        Not while a compiler or a tracer runs. With `is_fast` they are only called for modules
        whose name the innermost scope of the thread does not know.
        """
        original = vars(self._module)["__call__"]
        plain = (self._original, vars(self._module).get("_wrapped_call_impl"))
        # A tool that had replaced the method too may have put back what it had found.
        if not self._is_in_place or any(original is method for method in plain):
            if original is not self._original:
                self._original = original
                self._call = _native.wrap_module_call(self._module, original)
            self._module.__call__ = self._call
            self._is_in_place = True
        has_flag = _COMPILING_FLAG in is_compiling.__globals__
        _native.set_module_call(
            self._call,
            enter,
            leave,
            _COMPILING_FLAG if has_flag else is_compiling,
            is_compiling.__globals__ if has_flag else None,
            self._set_frame_callback,
            is_fast,
        )
        return self._remove

    def _remove(self) -> None:
        _native.set_module_call(self._call, None)
        if vars(self._module).get("__call__") is self._call and self._removals_left > 0:
            self._removals_left -= 1
            self._module.__call__ = self._original
            self._is_in_place = False


_MAX_REMOVALS = 250
"""Number of times that the method is put back; from then on the replacement stays, inert.

CPython 3.13 gives a class at most 1,000 versions of its attributes, after which they are looked up
without a cache for ever. A removal and the next installation need two.
"""

_COMPILING_FLAG = "_is_compiling_flag"
"""The global that `torch.compiler.is_compiling` returns; older versions have none."""


def destroy_after(torch: Any, learn_groups: Callable[[], None]) -> Callable[..., Any]:
    """Returns `torch.distributed.destroy_process_group`, which first calls `learn_groups`."""
    original: Callable[..., Any] = torch.distributed.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        learn_groups()
        return original(*args, **kwargs)

    return destroy_process_group
