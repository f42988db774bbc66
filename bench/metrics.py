"""Measures `marey.metrics` beside `marey.scope`: `python bench/metrics.py`.

Each process measures all workloads in turn, in several rounds; a figure is the median of the
rounds of all processes, in CPU time, without the empty loop. `--update` writes the table to
`docs/benchmarks.md`.
"""

from __future__ import annotations

import contextlib
import statistics

from process import run_worker
from table import document_parser, duration, markdown_table, publish, verdict

PROCESSES = 5
MAX_TIME_RATIO = 1.3
"""The most that `measure_time` may take, of a scope."""
MAX_RECORD_NANOS = 300.0

SESSIONS = {"none": "no session", "tree": "a profile", "trace": "a trace"}
WORKLOADS = {
    "scope": '`with marey.scope("x")`',
    "clock": "two readings of `time.perf_counter_ns`",
    "measure_time": '`with collector.measure_time("x")`',
    "add_metrics": "a metric of the innermost scope",
    "record": '`collector.record("x", 0.5)`',
    "timer": '`with timer.measure("x")`, on the host',
}

# Prints the nanoseconds of each workload.
WORKER = """
import json, statistics, sys, time
import marey
from marey import _native
from marey.metrics import CUDATimer, MetricsCollector

data = sys.argv[1]
if data != "none":
    session = marey.start("metrics", data=data)
COUNT, ROUNDS = 20_000, 21

def empty():
    for _ in range(COUNT):
        pass

def scope():
    enter = marey.scope
    for _ in range(COUNT):
        with enter("x"):
            pass

def clock():
    read = time.perf_counter_ns
    for _ in range(COUNT):
        read()
        read()

def measure_time():
    measure = MetricsCollector().measure_time
    for _ in range(COUNT):
        with measure("x"):
            pass

def add_metrics():
    add = _native.add_metrics
    for _ in range(COUNT):
        add({"y": 0.5})

def record():
    record = MetricsCollector().record
    for _ in range(COUNT):
        record("x", 0.5)

def timer():
    measure = CUDATimer().measure
    for _ in range(COUNT):
        with measure("x"):
            pass

works = (empty, scope, clock, measure_time, add_metrics, record, timer)
found = {work.__name__: [] for work in works}
for work in works:
    work()
for _ in range(ROUNDS):
    for work in works:
        start = time.process_time_ns()
        work()
        found[work.__name__].append((time.process_time_ns() - start) / COUNT)
medians = {name: statistics.median(nanos) for name, nanos in found.items()}
print(json.dumps({name: nanos - medians["empty"] for name, nanos in medians.items()}))
"""

Costs = dict[str, float]
"""Nanoseconds by workload."""


def main() -> None:
    parser = document_parser("Measures marey.metrics.")
    options = parser.parse_args()
    rounds: list[dict[str, Costs]] = [
        {data: run_worker(WORKER, data) for data in SESSIONS} for _ in range(PROCESSES)
    ]
    costs = {data: medians([round_[data] for round_ in rounds]) for data in SESSIONS}
    publish("bench/metrics.py", [metrics_table(costs)], is_update=options.update)


def medians(runs: list[Costs]) -> Costs:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def metrics_table(costs: dict[str, Costs]) -> str:
    """Returns the table: a column for each kind of session, and the bars of both that record."""
    lines = [("what", *SESSIONS.values(), "bar with a profile, and with a trace", "")]
    recording = costs["tree"], costs["trace"]
    ratios = [cost["measure_time"] / cost["scope"] for cost in recording]
    bars = {
        "measure_time": (
            f"{ratios[0]:.2f}x and {ratios[1]:.2f}x a scope, ≤ {MAX_TIME_RATIO}x",
            verdict(max(ratios) <= MAX_TIME_RATIO),
        ),
        "record": (
            f"≤ {duration(MAX_RECORD_NANOS)}",
            verdict(all(cost["record"] <= MAX_RECORD_NANOS for cost in recording)),
        ),
    }
    for name, title in WORKLOADS.items():
        cells = [duration(costs[data][name]) for data in SESSIONS]
        lines.append((title, *cells, *bars.get(name, ("-", ""))))
    return markdown_table(lines)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
