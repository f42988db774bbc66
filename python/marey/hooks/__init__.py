"""Hooks on Triton kernel launches: marey's `LaunchHook`, and subclasses of `Hook`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hook import Hook, HookManager

if TYPE_CHECKING:
    from .instrumentation import InstrumentationHook
    from .launch import LaunchHook

__all__ = [
    "Hook",
    "HookManager",
    "InstrumentationHook",
    "LaunchHook",
    "register_triton_hook",
    "unregister_triton_hook",
]

# The key of the hook that belongs to no session. Sessions are numbered from 0.
_NO_SESSION = -1


def register_triton_hook() -> None:
    """Records every Triton kernel launch as an operator, in all sessions.

    Raises:
        ImportError: Triton is not installed.
    """
    from marey.triton.launch import LaunchHook

    HookManager.register(LaunchHook(), _NO_SESSION)


def unregister_triton_hook() -> None:
    """Reverts `register_triton_hook`. Hooks of sessions are not affected."""
    HookManager.unregister(_NO_SESSION)


def __getattr__(name: str) -> Any:
    """Imports a subclass of `Hook` on first use."""
    if name == "LaunchHook":
        from .launch import LaunchHook

        return LaunchHook
    if name == "InstrumentationHook":
        from .instrumentation import InstrumentationHook

        return InstrumentationHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
