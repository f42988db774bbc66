"""marey: one profiler for AI workloads, from the Python line to the GPU kernel.

The names here are those of Triton's Proton, so `import marey as proton` is a drop-in:

    import marey

    session = marey.start("run")
    with marey.scope("step", {"tokens": 4096}):
        ...
    marey.finalize(session)  # writes run.hatchet
"""

from __future__ import annotations

import sys

# There an object's header has another layout, so the libraries would crash.
if "t" in sys.abiflags:
    raise ImportError(
        "marey does not support free-threaded builds of CPython yet: use a build with the GIL"
    )

from . import context, data
from ._native import __version__
from .context import depth
from .errors import (
    BackendUnavailable,
    CannotExport,
    EmptyFilter,
    MareyError,
    QueryError,
    UnknownMetric,
    UnreadableProfile,
    UnreadableRun,
)
from .profile import DEFAULT_PROFILE_NAME, activate, deactivate, finalize, profile, start
from .scope import cpu_timed_scope, enter_scope, exit_scope, scope
from .state import enter_state, exit_state, metadata_state, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import (
        comparison,
        graph,
        hooks,
        metrics,
        mode,
        performance,
        run,
        sampling,
        specs,
        training,
        viewer,
        watching,
        windows,
    )
    from .comparison import compare
    from .hooks import register_triton_hook, unregister_triton_hook
    from .run import import_files
    from .run import open as open
    from .specs import max_bps, max_flops
    from .torch import enable_torch_profiling
    from .viewer import parse, read
    from .watching import watch

# Without `open`, because `from marey import *` would hide the builtin.
__all__ = [
    "DEFAULT_PROFILE_NAME",
    "BackendUnavailable",
    "CannotExport",
    "EmptyFilter",
    "MareyError",
    "QueryError",
    "UnknownMetric",
    "UnreadableProfile",
    "UnreadableRun",
    "__version__",
    "activate",
    "compare",
    "comparison",
    "context",
    "cpu_timed_scope",
    "data",
    "deactivate",
    "depth",
    "enable_torch_profiling",
    "enter_scope",
    "enter_state",
    "exit_scope",
    "exit_state",
    "finalize",
    "graph",
    "hooks",
    "import_files",
    "max_bps",
    "max_flops",
    "metadata_state",
    "metrics",
    "mode",
    "parse",
    "performance",
    "profile",
    "read",
    "register_triton_hook",
    "run",
    "sampling",
    "scope",
    "specs",
    "start",
    "state",
    "training",
    "unregister_triton_hook",
    "viewer",
    "watch",
    "watching",
    "windows",
]

# Names of submodules that most programs never use. These modules are imported on first use, also by
# their own names: those of `__all__` that are not imported above.
_LAZY_NAMES = {
    "compare": "comparison",
    "enable_torch_profiling": "torch",
    "import_files": "run",
    "max_bps": "specs",
    "max_flops": "specs",
    "open": "run",
    "parse": "viewer",
    "read": "viewer",
    "register_triton_hook": "hooks",
    "unregister_triton_hook": "hooks",
    "watch": "watching",
}


def __getattr__(name: str) -> Any:
    """Imports a submodule on first use."""
    import importlib

    if name in _LAZY_NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY_NAMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY_NAMES})
