"""A profiler for training loops: sampled recording, an analysis, plots.

    profiler = TrainingProfiler(ProfilerConfig(sample_rate=0.1))
    trainer = Trainer(..., callbacks=[profiler.callback])
    ...
    profiler.save("profile.pt")  # a packed run
    print(ProfileAnalyzer("profile.pt").get_efficiency_report())

The names are those of PRISM's profiler. Nothing here measures by itself: the profiler enters scopes
and records values of marey, and the analysis asks the run. `docs/training.md` describes both.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .config import ProfilerConfig
from .profiler import TrainingProfiler

if TYPE_CHECKING:
    from .analyzer import ProfileAnalyzer
    from .bottleneck import Bottleneck, BottleneckType
    from .call_graph import CallGraphBuilder, CallNode
    from .data import ProfileData
    from .interactive import InteractivePlotter
    from .visualization import ProfilePlotter

__all__ = [
    "Bottleneck",
    "BottleneckType",
    "CallGraphBuilder",
    "CallNode",
    "InteractivePlotter",
    "ProfileAnalyzer",
    "ProfileData",
    "ProfilePlotter",
    "ProfilerConfig",
    "TrainingProfiler",
]

# The analysis loads the engine, which a profiled program does not need.
_LAZY_NAMES = {
    "Bottleneck": "bottleneck",
    "BottleneckType": "bottleneck",
    "CallGraphBuilder": "call_graph",
    "CallNode": "call_graph",
    "InteractivePlotter": "interactive",
    "ProfileAnalyzer": "analyzer",
    "ProfileData": "data",
    "ProfilePlotter": "visualization",
}


def __getattr__(name: str) -> Any:
    """Imports the module of a name on first use."""
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
