"""The requests of a window: counts, tokens, errors and percentiles of the latency."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from marey import _checks
from marey._forks import follow

from .sketch import Sketch

__all__ = ["RequestLog", "RequestMetrics"]

RECENT_REQUESTS = 1000
"""Requests of the open window that are kept whole, the latest ones."""


@dataclass
class RequestMetrics:
    """A request that has ended.

    Attributes:
        latency_ms: Its duration in milliseconds.
        tokens_generated: Tokens of the answer.
        success: Whether it was answered without an error.
    """

    latency_ms: float
    tokens_generated: int
    success: bool

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([vars(self)])


class _Totals:
    """The requests of one window."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.prompt_tokens = 0
        self.tokens = 0
        self.latencies = Sketch()
        self.recent: deque[RequestMetrics] = deque(maxlen=RECENT_REQUESTS)


class RequestLog:
    """The requests of the open window. Any thread may add some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = _Totals()
        follow(self, RequestLog.forget)

    def add(self, request: RequestMetrics) -> None:
        """Adds a request.

        Raises:
            TypeError: The request has another type, or a value is not a number.
            ValueError: A number is negative, infinite or NaN. The request is not added.
        """
        if not isinstance(request, RequestMetrics) and not hasattr(request, "latency_ms"):
            raise TypeError(f"record_request takes a RequestMetrics, not {request!r}")
        latency_ms = _checks.not_negative("latency_ms", request.latency_ms)
        tokens = _checks.count("tokens_generated", request.tokens_generated)
        with self._lock:
            totals = self._totals
            self._count(totals, tokens, bool(request.success), latency_ms)
            totals.recent.append(request)

    def add_counts(
        self, prompt_tokens: int, tokens: int, success: bool, latency_ms: float | None
    ) -> None:
        """Adds a request whose latency may be unknown. Raises as `add`."""
        checked_prompt_tokens = _checks.count("prompt_tokens", prompt_tokens)
        checked_tokens = _checks.count("generated_tokens", tokens)
        if latency_ms is not None:
            latency_ms = _checks.not_negative("latency_ms", latency_ms)
        with self._lock:
            self._totals.prompt_tokens += checked_prompt_tokens
            self._count(self._totals, checked_tokens, success, latency_ms)

    @staticmethod
    def _count(totals: _Totals, tokens: int, success: bool, latency_ms: float | None) -> None:
        totals.count += 1
        totals.tokens += tokens
        totals.failed += not success
        if latency_ms is not None:
            totals.latencies.add(latency_ms)

    def counts(self) -> tuple[int, int, int]:
        """Returns the requests, tokens and errors so far."""
        with self._lock:
            return self._totals.count, self._totals.tokens, self._totals.failed

    def recent(self) -> list[RequestMetrics]:
        """Returns the latest requests, at most `RECENT_REQUESTS`."""
        with self._lock:
            return list(self._totals.recent)

    def drain(self, duration_seconds: float) -> dict[str, float]:
        """Returns the metrics of the requests so far, and begins a new window."""
        fresh = _Totals()
        with self._lock:
            totals, self._totals = self._totals, fresh
        return _metrics(totals, duration_seconds)

    def forget(self) -> None:
        """Begins anew, in a forked child."""
        self._lock = threading.Lock()
        self._totals = _Totals()


def _metrics(totals: _Totals, duration_seconds: float) -> dict[str, float]:
    metrics: dict[str, float] = {
        "total_requests": totals.count,
        "total_tokens_generated": totals.tokens,
        "failed_requests": totals.failed,
    }
    if totals.count == 0:
        return {"requests_count": 0, **metrics}
    if totals.prompt_tokens:
        metrics["total_prompt_tokens"] = totals.prompt_tokens
    metrics["success_rate"] = (totals.count - totals.failed) / totals.count
    if duration_seconds > 0:
        metrics["requests_per_second"] = totals.count / duration_seconds
        metrics["tokens_per_second"] = totals.tokens / duration_seconds
    latencies = totals.latencies
    if latencies.count:
        names = ("p50_latency_ms", "p90_latency_ms", "p95_latency_ms", "p99_latency_ms")
        metrics |= zip(names, latencies.percentiles((50, 90, 95, 99)), strict=True)
        metrics["max_latency_ms"] = latencies.greatest
        metrics["min_latency_ms"] = latencies.least
        metrics["avg_latency_ms"] = latencies.total / latencies.count
    return metrics


SUMS = (
    "requests_count",
    "total_requests",
    "total_tokens_generated",
    "total_prompt_tokens",
    "failed_requests",
)
"""Metrics of requests that may be added over windows; the others are properties of a window."""


def as_scope_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """Returns the metrics of a window as those of a scope: a property is not added to another."""
    return {key if key in SUMS else f"{key} (pty)": value for key, value in metrics.items()}
