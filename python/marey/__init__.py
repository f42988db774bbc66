"""marey: one profiler for AI workloads, from the Python line to the GPU kernel.

The names here are those of Triton's Proton, so `import marey as proton` is a drop-in:

    import marey

    session = marey.start("run")
    with marey.scope("step", {"tokens": 4096}):
        ...
    marey.finalize(session)  # writes run.hatchet
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import context, data
from ._native import __version__
from .context import depth
from .errors import BackendUnavailable, MareyError
from .profile import DEFAULT_PROFILE_NAME, activate, deactivate, finalize, profile, start
from .scope import cpu_timed_scope, enter_scope, exit_scope, scope
from .state import enter_state, exit_state, metadata_state, state

if TYPE_CHECKING:
    from . import hooks, mode
    from .hooks import register_triton_hook, unregister_triton_hook

__all__ = [
    "DEFAULT_PROFILE_NAME",
    "BackendUnavailable",
    "MareyError",
    "__version__",
    "activate",
    "context",
    "cpu_timed_scope",
    "data",
    "deactivate",
    "depth",
    "enter_scope",
    "enter_state",
    "exit_scope",
    "exit_state",
    "finalize",
    "hooks",
    "metadata_state",
    "mode",
    "profile",
    "register_triton_hook",
    "scope",
    "start",
    "state",
    "unregister_triton_hook",
]


def __getattr__(name: str) -> Any:
    """Imports the parts that most programs never touch when they are touched."""
    import importlib

    if name in ("hooks", "mode"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("register_triton_hook", "unregister_triton_hook"):
        return getattr(importlib.import_module(f"{__name__}.hooks"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
