"""Prometheus's text format: `prometheus`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from .collector import MetricsCollector, living_collectors
from .figures import quantile
from .memory import read_memories

_SECONDS = 1e-9
_QUANTILES = (0.5, 0.99)


def prometheus(*collectors: MetricsCollector) -> str:
    """Returns the figures of collectors in Prometheus's text format, version 0.0.4.

    The families are ``marey_time_seconds`` (a summary for each measured time), ``marey_value`` (the
    last value), ``marey_values_total`` (the number of values) and ``marey_memory_bytes``. Quantiles
    are of the times that are still kept; counts and sums are of all.

    Args:
        collectors: The collectors; all of this process if none is given.
    """
    chosen = _numbered(collectors or living_collectors())
    lines = [
        *_family("marey_time_seconds", "summary", "Measured times.", _times(chosen)),
        *_family("marey_value", "gauge", "Last recorded value.", _last_values(chosen)),
        *_family("marey_values_total", "counter", "Recorded values.", _value_counts(chosen)),
        *_family("marey_memory_bytes", "gauge", "Memory of the process.", _memory()),
    ]
    return "".join(f"{line}\n" for line in lines)


def _numbered(collectors: Iterable[MetricsCollector]) -> dict[str, MetricsCollector]:
    """Returns the collectors by label; equal names are numbered, because a series is unique."""
    labels: dict[str, MetricsCollector] = {}
    for collector in dict.fromkeys(collectors):
        label, number = collector.name, 1
        while label in labels:
            number += 1
            label = f"{collector.name}-{number}"
        labels[label] = collector
    return labels


def _family(name: str, kind: str, about: str, samples: Iterable[str]) -> Iterator[str]:
    lines = [f"{name}{sample}" for sample in samples]
    if lines:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} {kind}"
        yield from lines


def _times(collectors: dict[str, MetricsCollector]) -> Iterator[str]:
    for label, collector in collectors.items():
        for name, series in collector.times().items():
            nanos = list(series.amounts(list(series.items)))
            ordered = sorted(nanos)
            for share in _QUANTILES:
                labels = _labels(collector=label, name=name, quantile=str(share))
                yield f"{labels} {_number(quantile(ordered, share) * _SECONDS)}"
            labels = _labels(collector=label, name=name)
            yield f"_sum{labels} {_number((sum(nanos) + series.dropped_total) * _SECONDS)}"
            yield f"_count{labels} {len(nanos) + series.dropped}"


def _last_values(collectors: dict[str, MetricsCollector]) -> Iterator[str]:
    for label, collector in collectors.items():
        for name, series in collector.values().items():
            yield f"{_labels(collector=label, name=name)} {_number(series.items[-1])}"


def _value_counts(collectors: dict[str, MetricsCollector]) -> Iterator[str]:
    for label, collector in collectors.items():
        for name, series in collector.values().items():
            yield f"{_labels(collector=label, name=name)} {len(series.items) + series.dropped}"


def _memory() -> Iterator[str]:
    for memory, reading in read_memories().items():
        for kind in ("allocated", "reserved", "peak_allocated", "peak_reserved"):
            number = getattr(reading, kind)
            if number is not None:
                yield f"{_labels(memory=memory, kind=kind)} {number}"


def _labels(**labels: str) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    printable = value.encode("utf-8", "backslashreplace").decode()
    return printable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
