"""The analysis of a profile: summary, operations, bottlenecks."""

from __future__ import annotations

import os
from typing import Any

from .bottleneck import (
    SEVERITIES,
    Bottleneck,
    BottleneckType,
    MemoryPoint,
    Trend,
    severity,
    trend,
)
from .config import ProfilerConfig
from .data import Finding, ProfileData
from .report import text_report
from .sampling import Estimate, counted, estimate

_HOST_MEMORIES = ("host", "cpu")


class ProfileAnalyzer:
    """Analyses a profile. Times are in milliseconds, memory in MB of 10^6 bytes.

    Args:
        path: A file of `TrainingProfiler.save`, a run, or a file of any format that marey reads.
        config: Thresholds for bottlenecks; those of the recording if not given.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no profile.
    """

    def __init__(self, path: str | os.PathLike[str], config: ProfilerConfig | None = None) -> None:
        self.data = ProfileData.load(path)
        self.config = self.data.config if config is None else config

    def get_summary(self) -> dict[str, Any]:
        """Returns the figures of the whole training.

        ``total_samples`` and ``total_epochs`` are the epochs that were recorded, and all; in a
        profile without epochs both are the number of steps. ``total_time_ms`` is the time of the
        epochs, or the exclusive time of all operations. If ``is_extrapolated``, it is an estimate,
        with the ends of its 95 % confidence interval, which are `None` if unknown.
        ``total_flops`` and ``recorded_flops`` are there if operators with shapes were recorded: the
        FLOP of all epochs, each as the mean of those with operators, and of these alone.
        """
        data = self.data
        total = self.total_time()
        samples = len(data.epochs) or data.steps
        summary = {
            "total_samples": samples,
            "total_epochs": data.total_epochs,
            "total_time_ms": total.total,
            "avg_epoch_time_ms": total.total / max(1, data.total_epochs),
            "peak_gpu_memory_mb": self._peak_mb(is_host=False),
            "memory_leak_detected": bool(self._leaks()),
            "peak_host_memory_mb": self._peak_mb(is_host=True),
            "is_extrapolated": data.is_extrapolated,
            "total_time_low_ms": total.low,
            "total_time_high_ms": total.high,
            "recorded_fraction": samples / data.total_epochs if data.total_epochs else 1.0,
            "gpu_time_ms": data.gpu_ms,
        }
        if self.config.with_flops and data.flops is not None:
            with_operators = sum(epoch.has_operators for epoch in data.epochs)
            factor = data.total_epochs / with_operators if with_operators else 1.0
            summary["total_flops"] = data.flops * factor
            summary["recorded_flops"] = data.flops
        return summary

    def total_time(self) -> Estimate:
        """Returns the time of all epochs, or the exclusive time of all operations."""
        timed = [epoch for epoch in self.data.epochs if epoch.duration_ms is not None]
        if not timed:
            total_ms = sum(operation.total_ms for operation in self.data.operations)
            return Estimate(total_ms, total_ms, total_ms)
        durations = [epoch.duration_ms or 0.0 for epoch in timed]
        probabilities = counted(
            [epoch.probability for epoch in timed], [epoch.has_operators for epoch in timed]
        )
        return estimate(durations, probabilities, self.data.total_epochs)

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html(self.get_top_operations(20))

    def get_top_operations(self, n: int = 10) -> list[dict[str, Any]]:
        """Returns the `n` operations with the longest exclusive time.

        Each has ``name, kind, total_ms, inclusive_ms, calls, avg_ms, percent, gpu_ms`` and
        ``is_extrapolated``. ``total_ms`` is exclusive, so that ``percent`` of all operations add up
        to 100. ``inclusive_ms`` has the time of inner operations too.

        Raises:
            ValueError: `n` is negative.
        """
        if n < 0:
            raise ValueError(f"n={n} must not be negative")
        all_ms = sum(operation.total_ms for operation in self.data.operations)
        return [
            {
                "name": operation.name,
                "kind": operation.kind,
                "total_ms": operation.total_ms,
                "inclusive_ms": operation.inclusive_ms,
                "calls": operation.calls,
                "avg_ms": operation.total_ms / operation.calls if operation.calls else 0.0,
                "percent": 100 * operation.total_ms / all_ms if all_ms else 0.0,
                "gpu_ms": operation.gpu_ms,
                "is_extrapolated": self.data.is_extrapolated,
            }
            for operation in self.data.operations[:n]
        ]

    def identify_bottlenecks(self) -> list[Bottleneck]:
        """Returns the bottlenecks, the most severe first, then by their time."""
        found = [
            _bottleneck(finding)
            for finding in self.data.findings
            if finding.percent > self.config.bottleneck_threshold_pct
        ]
        found += [_leak(memory, line) for memory, line in self._leaks()]
        return sorted(found, key=lambda each: (SEVERITIES.index(each.severity), -each.impact_ms))

    def get_efficiency_report(self) -> str:
        """Returns summary, operations and bottlenecks as text."""
        return text_report(
            self.get_summary(), self.get_top_operations(5), self.identify_bottlenecks()
        )

    def memory(self) -> dict[str, list[MemoryPoint]]:
        """Returns the readings of each memory, GPUs first."""
        points: dict[str, list[MemoryPoint]] = {}
        for point in sorted(self.data.memory, key=lambda point: _is_host(point.memory)):
            points.setdefault(point.memory, []).append(point)
        return points

    def _leaks(self) -> list[tuple[str, Trend]]:
        """Returns the memories that grow too much, with their trends."""
        lines = ((memory, trend(points)) for memory, points in self.memory().items())
        threshold_mb = self.config.memory_leak_threshold_mb
        return [(memory, line) for memory, line in lines if line and line.is_leak(threshold_mb)]

    def _peak_mb(self, *, is_host: bool) -> float:
        """Returns the largest memory of the process or of a device; 0 if none was read."""
        sizes = (
            point.allocated_mb if point.peak_mb is None else max(point.peak_mb, point.allocated_mb)
            for point in self.data.memory
            if _is_host(point.memory) == is_host
        )
        return max(sizes, default=0.0)


def _bottleneck(finding: Finding) -> Bottleneck:
    kind = BottleneckType(finding.rule)
    share = f"{finding.percent:.1f}% of total time"
    description = {
        BottleneckType.HOT_OPERATION: f"'{finding.subject}': {share}",
        BottleneckType.CPU_GPU_SYNC: f"CPU-GPU sync in '{finding.subject}': {share}",
        BottleneckType.MEMORY_BOUND: f"'{finding.subject}' kernels wait for memory: {share}",
    }[kind]
    return Bottleneck(
        type=kind,
        severity=severity(kind, finding.percent),
        description=description,
        recommendation=finding.remedy,
        impact_ms=finding.impact_ms,
    )


def _is_host(memory: str) -> bool:
    return memory in _HOST_MEMORIES


def _leak(memory: str, line: Trend) -> Bottleneck:
    return Bottleneck(
        type=BottleneckType.MEMORY_LEAK,
        severity="high",
        description=f"Memory leak on {memory}: {line.slope_mb:.1f} MB/epoch,"
        f" {line.growth_mb:.0f} MB in all",
        recommendation="Look for tensors that lists, attributes or closures keep: append"
        " loss.item() or loss.detach(), and close figures.",
        impact_ms=0.0,
    )
