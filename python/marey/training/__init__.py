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

from .analyzer import ProfileAnalyzer
from .bottleneck import Bottleneck, BottleneckType
from .call_graph import CallGraphBuilder, CallNode
from .config import ProfilerConfig
from .data import ProfileData
from .interactive import InteractivePlotter
from .profiler import TrainingProfiler
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
