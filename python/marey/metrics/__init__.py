"""Timers, memory trackers, collectors and reports, under the names of Kitsune's profiler.

A measured time is a marey scope, a recorded value is a marey metric, and a memory reading is a row
of `memory_events`: while a session records, all of them are in the profile or run. Each object also
keeps its own figures, so that it works without a session.

    collector = marey.metrics.MetricsCollector()
    with collector.measure_time("iteration"):
        ...
    collector.record("loss", 0.5)
    marey.metrics.Reporter(collector).save_html("report.html")
"""

from __future__ import annotations

from .collector import MetricsCollector
from .comparison import RunComparison, compare_runs
from .exposition import prometheus
from .figures import Statistics
from .loggers import MLflowLogger, TensorBoardLogger, WandbLogger
from .memory import MemoryTracker
from .report import Report
from .reporter import Reporter
from .streams import StreamProfiler
from .timer import CUDATimer

__all__ = [
    "CUDATimer",
    "MLflowLogger",
    "MemoryTracker",
    "MetricsCollector",
    "Report",
    "Reporter",
    "RunComparison",
    "Statistics",
    "StreamProfiler",
    "TensorBoardLogger",
    "WandbLogger",
    "compare_runs",
    "prometheus",
]
