"""Profiles of long-running programs, in windows of time or in phases.

Each profiler here keeps one session, whose phases are its windows: a window ends and the next one
begins at one point in time, so no event is lost between two windows or counted in both. A thread
ends the windows by itself; no event loop has to run. Each window is a file ``.hatchet``.

    import marey

    profiler = marey.windows.TimeWindowProfiler(window_duration_seconds=300, keep="12")
    profiler.start_window()
    serve()  # every five minutes a profile, of which the last twelve are kept
    profiler.end_window()

`ServiceWindowProfiler` and `LLMInferenceProfiler` also have the requests of a window as metrics,
`RollingWindowProfiler` compares windows, `ContinuousProfiler` alerts, `MultiGPUProfiler` separates
the phases of a program by rank.
"""

from __future__ import annotations

from .alert import Alert
from .continuous import ContinuousProfiler
from .inference import LLMInferenceProfiler
from .multi_gpu import MultiGPUProfiler, PhaseProfiler
from .requests import RequestMetrics
from .rolling import RollingWindowProfiler
from .service import ServiceWindowProfiler
from .time_window import TimeWindowProfiler
from .trends import Trends
from .window import Window

__all__ = [
    "Alert",
    "ContinuousProfiler",
    "LLMInferenceProfiler",
    "MultiGPUProfiler",
    "PhaseProfiler",
    "RequestMetrics",
    "RollingWindowProfiler",
    "ServiceWindowProfiler",
    "TimeWindowProfiler",
    "Trends",
    "Window",
]
