"""The texts of a profile: the report, and two summaries beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bottleneck import Bottleneck

_LINE = "=" * 60

COMPARED = (
    "total_samples",
    "total_epochs",
    "total_time_ms",
    "avg_epoch_time_ms",
    "peak_gpu_memory_mb",
    "memory_leak_detected",
)
"""The keys of a summary that are compared."""


def text_report(
    summary: dict[str, Any], operations: Sequence[dict[str, Any]], bottlenecks: Sequence[Bottleneck]
) -> str:
    """Returns the report of a profile; lines are separated, the last one has no line end."""
    lines = [
        _LINE,
        "Training Profile Report",
        _LINE,
        "",
        "Summary:",
        f"  Total samples: {summary['total_samples']}",
        f"  Total epochs: {summary['total_epochs']}",
        f"  Total time: {summary['total_time_ms']:.1f} ms",
        f"  Avg epoch time: {summary['avg_epoch_time_ms']:.2f} ms",
        f"  Peak GPU memory: {summary['peak_gpu_memory_mb']:.1f} MB",
        *_notes(summary),
        "",
        "Top Operations:",
    ]
    for number, operation in enumerate(operations, 1):
        calls = f"{operation['calls']:.0f} calls"
        lines.append(f"  {number}. {operation['name']}: {operation['total_ms']:.1f} ms ({calls})")
    lines += ["", "Bottlenecks Detected:"]
    for bottleneck in bottlenecks:
        kind = bottleneck.type.value
        lines.append(f"  [{bottleneck.severity.upper()}] {kind}: {bottleneck.description}")
        lines.append(f"    Fix: {bottleneck.recommendation}")
    if not bottlenecks:
        lines.append("  None")
    return "\n".join([*lines, "", _LINE])


def _notes(summary: dict[str, Any]) -> list[str]:
    """Returns the lines that a profile of a CPU, or of some epochs, has in addition."""
    lines = []
    if not summary["peak_gpu_memory_mb"] and summary["peak_host_memory_mb"]:
        lines.append(f"  Peak host memory: {summary['peak_host_memory_mb']:.1f} MB")
    if "total_flops" in summary:
        recorded = f"{summary['recorded_flops']:.3g} were recorded"
        lines.append(f"  FLOP of operators: {summary['total_flops']:.3g} ({recorded})")
    if summary["is_extrapolated"]:
        low, high = summary["total_time_low_ms"], summary["total_time_high_ms"]
        interval = "unknown" if low is None else f"{low:.1f} to {high:.1f} ms"
        lines.append(
            f"  Times and calls are extrapolated from {summary['total_samples']} of"
            f" {summary['total_epochs']} epochs; 95 % interval of the total time: {interval}"
        )
    return lines


def comparison(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Returns two summaries beside each other, without a line end at the end."""
    lines = [
        "Profile Comparison",
        _LINE,
        f"{'Metric':<26}{'Profile 1':<18}{'Profile 2'}",
        "-" * 60,
    ]
    for key in COMPARED:
        lines.append(f"{key:<22}{_cell(first[key]):>13}{_cell(second[key]):>18}")
    if first["is_extrapolated"] or second["is_extrapolated"]:
        lines.append("Times are extrapolated from the recorded epochs (total_samples).")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
