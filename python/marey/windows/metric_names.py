"""Names of the metrics of a window."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["NAMES", "REQUESTS", "SCOPE", "check_metric", "is_count"]

KERNELS = ("total_kernel_time_ms", "avg_kernel_time_ms", "max_kernel_time_ms", "kernels")
STEPS = ("steps", "step_time.mean", "step_time.p50", "step_time.p90", "step_time.p99")
NAMES = (*KERNELS, "avg_utilization", *STEPS, "step_time.max")
"""Metrics of every profile. Times are in milliseconds."""

REQUESTS = (
    "requests_per_second",
    "tokens_per_second",
    "success_rate",
    "failed_requests",
    "total_requests",
    "total_tokens_generated",
    "p50_latency_ms",
    "p90_latency_ms",
    "p95_latency_ms",
    "p99_latency_ms",
    "max_latency_ms",
    "min_latency_ms",
    "avg_latency_ms",
)
"""Metrics of windows whose requests the program records."""

COUNTS = ("kernels", "steps", "failed_requests", "total_requests", "total_tokens_generated")
"""Metrics that count something."""

SCOPE = re.compile(r"scope\((.+)\)\.(count|mean|p50|p90|p99|max)")
"""A metric of the wall time of a scope: ``scope(decode).p99``."""


def is_count(name: str) -> bool:
    """Returns whether a metric counts something, so that it is a whole number."""
    return name in COUNTS or (name.startswith("scope(") and name.endswith(").count"))


def check_metric(name: str, known: Iterable[str] = NAMES) -> None:
    """Raises `ValueError`, with the nearest name, unless the metric exists."""
    names = [*known]
    if name in names or SCOPE.fullmatch(name):
        return
    nearest = difflib.get_close_matches(name, names, n=1)
    remedy = f"did you mean {nearest[0]}?" if nearest else f"known: {', '.join(names)}."
    raise ValueError(f"no metric {name!r}; {remedy} Of a scope: scope(NAME).p99")
