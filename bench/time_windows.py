"""Measures what the end of a window costs requests of a service: `python bench/time_windows.py`.

An asyncio server on a Unix socket answers requests of a client in the same process while windows
end. Requests in progress within 20 ms after the beginning of an end are compared with the others;
in a process without windows, those after the same points in time. The second table has the CPU time
of scopes after an end, which does not depend on other programs of the machine. `--update` writes
both to `docs/benchmarks.md`; `--factors` prints the factors of `marey/windows/robust.py`.
"""

from __future__ import annotations

import random
import statistics
import sys

from process import run_worker
from table import NO_VALUE, document_parser, duration, markdown_table, publish, verdict

PROCESSES = 3
PROFILERS = {
    "none": "none (the same points in time)",
    "TimeWindowProfiler": "`TimeWindowProfiler`",
    "ServiceWindowProfiler": "`ServiceWindowProfiler`",
    "ContinuousProfiler": "`ContinuousProfiler`, with an alert",
    "LLMInferenceProfiler": "`LLMInferenceProfiler`, every second window detailed",
}
NODES = (100, 10_000)
MAX_ADDED_SECS = 1e-3
"""The most that the end of a window may add to the 99th percentile of requests."""

# Prints the 99th percentiles of requests near the end of a window and of the others, in seconds.
WORKER = """
import asyncio, bisect, json, os, statistics, sys, time
import marey
from marey.windows import *

WINDOW_SECS, NEAR_SECS, SECS = 0.25, 0.02, 5
which, nodes = sys.argv[1], int(sys.argv[2])
names = [f"request {number}" for number in range(nodes)]
profiler = {
    "none": lambda: None,
    "TimeWindowProfiler": lambda: TimeWindowProfiler(WINDOW_SECS, keep=4),
    "ServiceWindowProfiler": lambda: ServiceWindowProfiler(WINDOW_SECS, keep=4),
    "ContinuousProfiler": lambda: ContinuousProfiler(
        WINDOW_SECS, print, keep=4, alerts=["scope(request 1).p99>+900%"]
    ),
    "LLMInferenceProfiler": lambda: LLMInferenceProfiler(
        WINDOW_SECS / 60, detailed_sampling_interval=2, keep=4
    ),
}[which]()
if which == "none":
    marey.start("none")
ends = []
if profiler is not None:
    rotation = profiler._windows
    measure = rotation._measure
    def noted(window):
        ends.append(time.perf_counter())
        measure(window)
    rotation._measure = noted

async def answer(reader, writer):
    number = 0
    while line := await reader.readline():
        start = time.perf_counter()
        for _ in range(20):
            number = (number + 1) % nodes
            with marey.scope(names[number]):
                sum(range(50))
        latency_ms = (time.perf_counter() - start) * 1e3
        if which == "LLMInferenceProfiler":
            profiler.record_request(names[number], 5, 20, latency_ms=latency_ms)
        elif hasattr(profiler, "record_request"):
            profiler.record_request(RequestMetrics(latency_ms, 20, True))
        writer.write(line)

async def main():
    server = await asyncio.start_unix_server(answer, "socket")
    reader, writer = await asyncio.open_unix_connection("socket")
    requests = []
    async def ask():
        start = time.perf_counter()
        writer.write(b"x" + b"\\n")
        await reader.readline()
        requests.append((start, time.perf_counter()))
    for _ in range(max(200, nodes // 10)):
        await ask()
    requests.clear()
    if hasattr(profiler, "start"):
        profiler.start()
    elif hasattr(profiler, "start_window"):
        profiler.start_window()
    elif profiler is not None:
        profiler.start_profiling_window()
    begin = time.perf_counter()
    deadline = begin + SECS
    while time.perf_counter() < deadline:
        await ask()
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.1)
    seen = list(ends)
    if profiler is None:
        seen = [begin + number * WINDOW_SECS for number in range(1, int(SECS / WINDOW_SECS))]
    else:
        ends_by = "end_window", "stop", "end_profiling_window"
        getattr(profiler, next(name for name in ends_by if hasattr(profiler, name)))()
    near, far = [], []
    for start, end in requests:
        position = bisect.bisect_right(seen, end)
        is_near = position > 0 and start < seen[position - 1] + NEAR_SECS
        (near if is_near else far).append(end - start)
    p99 = lambda values: statistics.quantiles(values, n=100)[98]
    print(json.dumps(dict(near=p99(near), far=p99(far), ends=len(seen), near_count=len(near))))

asyncio.run(main())
"""


# Prints the CPU time of the longest of many blocks of 20 scopes, before an end and after it: the
# medians over the ends, in seconds.
CPU_WORKER = """
import json, statistics, sys, threading, time
import marey

nodes = int(sys.argv[1])
names = [f"request {number}" for number in range(nodes)]
session = marey.start("cpu", mode="periodic_flushing")

def longest():
    found = 0.0
    for first in list(range(0, nodes, 20)) * 3:
        start = time.thread_time()
        for name in names[first : first + 20]:
            with marey.scope(name):
                pass
        found = max(found, time.thread_time() - start)
    return found

longest()
before, after = [], []
for _ in range(9):
    before.append(longest())
    end = threading.Thread(target=marey.data.advance_phase, args=(session,))
    end.start()
    end.join()
    after.append(longest())
print(json.dumps(dict(before=statistics.median(before), after=statistics.median(after))))
"""


def main() -> None:
    parser = document_parser("Measures the ends of windows of time.")
    parser.add_argument("--factors", action="store_true", help="print the factors of the test")
    options = parser.parse_args()
    if options.factors:
        for count in range(5, 21):
            print(f"{count}: {factor(count):.2f}")
        return
    publish("bench/time_windows.py", [costs_table(), cpu_table()], is_update=options.update)


def costs_table() -> str:
    lines = [("profiler", "scopes", "p99, others", "p99, at an end", "added", "bar", "ends", "")]
    cases = [(profiler, nodes) for profiler in PROFILERS for nodes in NODES]
    measured = [[run(profiler, nodes) for profiler, nodes in cases] for _ in range(PROCESSES)]
    for case, results in zip(cases, zip(*measured, strict=True), strict=True):
        far = statistics.median(result["far"] for result in results)
        at_end = statistics.median(result["near"] for result in results)
        added = max(0.0, at_end - far)
        has_bar = case[0] != "none"
        lines.append(
            (
                PROFILERS[case[0]],
                f"{case[1]:,}",
                duration(far * 1e9),
                duration(at_end * 1e9),
                duration(added * 1e9),
                f"≤ {duration(MAX_ADDED_SECS * 1e9)}" if has_bar else NO_VALUE,
                f"{sum(int(result['ends']) for result in results)}",
                verdict(added <= MAX_ADDED_SECS) if has_bar else "",
            )
        )
    return markdown_table(lines)


def cpu_table() -> str:
    lines = [("scopes", "CPU of the longest 20", "after an end", "added")]
    for nodes in NODES:
        results = [run_worker(CPU_WORKER, str(nodes)) for _ in range(PROCESSES)]
        before, after = (
            statistics.median(result[key] for result in results) * 1e9
            for key in ("before", "after")
        )
        lines.append(
            (f"{nodes:,}", duration(before), duration(after), duration(max(0.0, after - before)))
        )
    return markdown_table(lines)


def run(profiler: str, nodes: int) -> dict[str, float]:
    """Returns what a process has measured, and prints it to stderr."""
    result: dict[str, float] = run_worker(WORKER, profiler, str(nodes))
    print(profiler, nodes, result, file=sys.stderr)
    return result


def factor(count: int, samples: int = 200_000) -> float:
    """Returns the quantile 0.99 of |x - median| / MAD over `count` normal values before x."""
    draw = random.Random(count)
    ratios = []
    for _ in range(samples):
        values = [draw.gauss(0, 1) for _ in range(count)]
        median = statistics.median(values)
        mad = statistics.median([abs(value - median) for value in values])
        ratios.append(abs(draw.gauss(0, 1) - median) / mad)
    return sorted(ratios)[int(0.99 * samples)]


if __name__ == "__main__":
    main()
