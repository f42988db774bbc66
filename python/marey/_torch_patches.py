"""Replacements of functions of PyTorch, where it offers no hook. Each calls the original."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from marey import _torch_memory, _torch_scopes


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


def export_without_hooks(
    torch: Any,
    are_installed: Callable[[], bool],
    remove: Callable[[], None],
    install: Callable[[], None],
) -> Callable[..., Any]:
    """Returns `torch.export.export` with the hooks removed during the call.

    The strict mode of PyTorch 2.15 rejects models under global hooks.
    """
    original: Callable[..., Any] = torch.export.export

    def export(*args: Any, **kwargs: Any) -> Any:
        if not are_installed():
            return original(*args, **kwargs)
        remove()
        try:
            return original(*args, **kwargs)
        finally:
            install()

    return functools.update_wrapper(export, original)


def destroy_after(torch: Any, learn_groups: Callable[[], None]) -> Callable[..., Any]:
    """Returns `torch.distributed.destroy_process_group`, which first calls `learn_groups`."""
    original: Callable[..., Any] = torch.distributed.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        learn_groups()
        return original(*args, **kwargs)

    return destroy_process_group


_OUR_HOOKS = (_torch_scopes.enter_module, _torch_scopes.leave_module, _torch_memory.at_module)


def other_hooks(modules: Any) -> Callable[[], bool]:
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
