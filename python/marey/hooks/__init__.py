"""Hooks on kernel launches: Triton's own, and any object with the same methods."""

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

# Sessions are numbered from 0; this key is for the hook that belongs to none.
_NO_SESSION = -1


def register_triton_hook() -> None:
    """Turns every Triton kernel launch into an operator, whatever the sessions ask for.

    Raises:
        ImportError: Triton is not installed.
    """
    from marey.triton.launch import LaunchHook

    HookManager.register(LaunchHook(), _NO_SESSION)


def unregister_triton_hook() -> None:
    """Ends what `register_triton_hook` began; hooks of sessions stay."""
    HookManager.unregister(_NO_SESSION)


def __getattr__(name: str) -> Any:
    """Imports a kind of hook when it is asked for: each is a `Hook` itself."""
    if name == "LaunchHook":
        from .launch import LaunchHook

        return LaunchHook
    if name == "InstrumentationHook":
        from .instrumentation import InstrumentationHook

        return InstrumentationHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
