"""The figures of a run in the structure of a report, from SQL over its spans and counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marey import __version__

from .figures import BATCHES
from .report import FORMAT, Report
from .series import BATCH_SIZE, ITERATION

if TYPE_CHECKING:
    from marey.run import Run

# The batches are those of `figures.standard_error`.
_FIGURES = f"""
WITH numbers AS ({{source}}),
batches AS (
    SELECT
        name,
        amount,
        time_nanos,
        CASE
            WHEN count(*) OVER (PARTITION BY name) < {2 * BATCHES}
                THEN row_number() OVER (PARTITION BY name ORDER BY time_nanos)
            ELSE floor(
                (row_number() OVER (PARTITION BY name ORDER BY time_nanos) * {BATCHES} - 1)
                / count(*) OVER (PARTITION BY name)
            )
        END AS batch
    FROM numbers
),
means AS (
    SELECT name, stddev(mean) / sqrt(count(*)) AS std_error
    FROM (SELECT name, batch, avg(amount) AS mean FROM batches GROUP BY name, batch)
    GROUP BY name
)
SELECT
    n.name,
    count(*) AS count,
    avg(n.amount) AS mean,
    coalesce(stddev(n.amount), 0) AS std,
    min(n.amount) AS min,
    max(n.amount) AS max,
    percentile_cont(n.amount, 0.5) AS p50,
    percentile_cont(n.amount, 0.99) AS p99,
    sum(n.amount) AS total,
    coalesce(max(m.std_error), 0) AS std_error,
    last_value(n.amount ORDER BY n.time_nanos) AS last
FROM numbers AS n JOIN means AS m ON m.name = n.name
GROUP BY n.name
ORDER BY min(n.time_nanos)
"""

_TIMES = """
SELECT name, duration_nanos / 1e6 AS amount, start_nanos AS time_nanos
FROM spans WHERE kind = 'scope' AND NOT is_open
"""

_VALUES = """
SELECT name, value AS amount, time_nanos
FROM counters
WHERE device IS NULL AND path IS NOT NULL AND value IS NOT NULL
    AND NOT isnan(value) AND abs(value) < CAST('Infinity' AS DOUBLE)
"""

_NOT_FINITE = """
SELECT name, count(*) FROM counters
WHERE device IS NULL AND path IS NOT NULL
    AND (isnan(value) OR abs(value) = CAST('Infinity' AS DOUBLE))
GROUP BY name
"""

_MEMORY = """
SELECT
    device_type,
    device,
    max(greatest(allocated_bytes, coalesce(peak_bytes, 0))) AS peak,
    max(reserved_bytes) AS reserved
FROM memory_events WHERE allocated_bytes IS NOT NULL
GROUP BY device_type, device ORDER BY device_type = 'host', peak DESC LIMIT 1
"""

_ITERATIONS = f"""
SELECT count(*), (max(end_nanos) - min(start_nanos)) / 1e9
FROM spans WHERE kind = 'scope' AND NOT is_open AND name = '{ITERATION}'
"""


def report_of_run(run: Run) -> Report:
    """Returns the times of all scopes, the values of all metrics, memory and throughput."""
    timing = _figures(run, _TIMES)
    for figures in timing.values():
        del figures["last"]
    values = _figures(run, _VALUES)
    not_finite: dict[str, int] = dict(run.sql(_NOT_FINITE).rows())
    for name, figures in values.items():
        figures["not_finite"] = not_finite.get(name, 0)
    report = Report(
        timing=timing,
        memory=_memory(run),
        throughput=_throughput(run, values),
        values=values,
        dropped={},
        time_unit="ms",
        iteration=ITERATION,
        source=run.path,
        marey_metrics=FORMAT,
        marey_version=__version__,
    )
    report.run = run
    return report


def _figures(run: Run, source: str) -> dict[str, dict[str, Any]]:
    result = run.sql(_FIGURES.format(source=source))
    names = result.columns[1:]
    return {name: dict(zip(names, figures, strict=True)) for name, *figures in result}


def _memory(run: Run) -> dict[str, Any]:
    for kind, device, peak, reserved in run.sql(_MEMORY):
        memory = kind if device is None else f"{kind}:{device}"
        return {"peak_allocated": peak, "peak_reserved": reserved, "memory": memory}
    return {"peak_allocated": None, "peak_reserved": None, "memory": None}


def _throughput(run: Run, values: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    [(count, seconds)] = run.sql(_ITERATIONS)
    if not seconds:
        return {"samples_per_sec": None, "iterations_per_sec": None}
    samples = values[BATCH_SIZE]["total"] / seconds if BATCH_SIZE in values else None
    return {"samples_per_sec": samples, "iterations_per_sec": count / seconds}
