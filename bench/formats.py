"""Measures reading and writing of formats: `python bench/formats.py`.

First the time to read a trace of torch.profiler: `json.load`, HTA and `marey.open` in turn on the
same files. Then the import of a 2 GB trace, and the export of a run to each format. `--update`
writes the tables to `docs/benchmarks.md`; `--traces FOLDER` adds traces to read.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import kineto_trace
from process import Cost, measure_with_output, median
from process import run as run_process
from table import document_parser, duration, markdown_table, publish, verdict

READING_ROUNDS = 9
WRITING_ROUNDS = 3
TRACE_EVENTS = 216_000
LARGE_TRACE_BYTES = 2 << 30
MAX_IMPORT_BYTES = 3 << 30
MIN_SPEEDUPS = {"json": 5.0, "hta": 10.0}
PEER_NAMES = {"json": "json.load", "hta": "HTA"}
GENERATED_NAME = "generated.json.gz"
FORMATS = (
    "kineto",
    "chrome-trace",
    "perfetto",
    "speedscope",
    "pprof",
    "collapsed",
    "svg",
    "csv",
    "json",
    "hatchet",
)

# Each program prints the seconds of reading, without interpreter start and imports.
JSON_LOAD = """
import gzip, json, sys, time
begin = time.perf_counter()
with (gzip.open if sys.argv[1].endswith(".gz") else open)(sys.argv[1], "rb") as file:
    json.load(file)
print(time.perf_counter() - begin)
"""
# The memory baseline: a process that reads nothing.
READ_NOTHING = """
import marey
import marey._engine
print(0)
"""
MAREY_OPEN = """
import sys, time
import marey
import marey._engine
begin = time.perf_counter()
run = marey.open(sys.argv[1])
print(time.perf_counter() - begin)
run.close()
"""
# A trace of two events, which maps the same code: the baseline for the memory of a trace.
SMALL_TRACE = b"""{"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
 "args": {"External id": 1}},
{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3, "dur": 4,
 "args": {"stream": 7}}
]}"""
HTA_PARSE = """
import logging, sys, time
from hta.common.trace import Trace
logging.disable()
begin = time.perf_counter()
Trace(trace_files={0: sys.argv[1]}, trace_dir="").parse_traces(use_multiprocessing=False)
print(time.perf_counter() - begin)
"""


@dataclass(frozen=True)
class Baseline:
    """The memory in bytes of a process that reads no trace, or one of two events."""

    without_trace: float
    with_small_trace: float
    """Also contains the code that reads a trace, which is mapped when it first runs."""


def main() -> None:
    parser = document_parser("Measures the formats.")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="more traces to read")
    options = parser.parse_args()
    take_real_time_priority()
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as name:
        folder = Path(name)
        generated = folder / GENERATED_NAME
        kineto_trace.write(generated, TRACE_EVENTS)
        traces = [generated, *(sorted(options.traces.glob("*.json.gz")) if options.traces else [])]
        tables = [measure_reading(traces, folder), measure_import(folder)]
        tables.append(measure_export(generated, folder))
    texts = [markdown_table(table) for table in tables]
    publish("bench/formats.py", texts, is_update=options.update)


def take_real_time_priority() -> None:
    """Allows threads of this process and its children to run on any free processor.

    The kernel of a small virtual machine may keep threads that wait for each other on one processor
    for some milliseconds, while the others are idle. It does not do so for real-time threads.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        print("without real-time priority: times depend on how threads are scheduled")


def measure_reading(traces: list[Path], folder: Path) -> list[tuple[str, ...]]:
    """Measures all readers in turn on the same traces."""
    columns = ("trace", "JSON", "json.load", "HTA", "marey.open", "memory of each", "of the import")
    bars = ("of its content", "faster than json.load", "faster than HTA", "")
    rows: list[tuple[str, ...]] = [(*columns, *bars)]
    small = folder / "small.json.gz"
    small.write_bytes(gzip.compress(SMALL_TRACE))
    baseline = Baseline(peak_bytes(READ_NOTHING, Path()), peak_bytes(MAREY_OPEN, small))
    has_hta = importlib.util.find_spec("hta") is not None
    for trace in traces:
        costs: dict[str, list[Cost]] = {"json": [], "hta": [], "marey": []}
        for _ in range(READING_ROUNDS):
            costs["json"].append(run_python(JSON_LOAD, trace))
            if has_hta:
                costs["hta"].append(run_python(HTA_PARSE, trace))
            costs["marey"].append(run_python(MAREY_OPEN, trace))
        rows.append(reading_row(trace, costs, baseline))
        print("  ".join(rows[-1]), flush=True)
    return rows


def reading_row(trace: Path, costs: dict[str, list[Cost]], baseline: Baseline) -> tuple[str, ...]:
    medians = {reader: median(rounds) for reader, rounds in costs.items() if rounds}
    marey_seconds = medians["marey"].seconds
    speedups = {
        peer: medians[peer].seconds / marey_seconds for peer in MIN_SPEEDUPS if peer in medians
    }
    missed = [PEER_NAMES[peer] for peer in speedups if speedups[peer] < MIN_SPEEDUPS[peer]]
    content_bytes = unpacked_bytes(trace)
    memory_bytes = medians["marey"].memory_bytes
    if memory_bytes - baseline.with_small_trace > content_bytes:
        missed.append("memory")
    return (
        "made of a recorded one" if trace.name == GENERATED_NAME else f"`{trace.name}`",
        f"{content_bytes / 1e6:.1f} MB",
        *(duration(medians[name].seconds * 1e9) if name in medians else "-" for name in costs),
        " / ".join(f"{cost.memory_bytes / 2**20:,.0f}" for cost in medians.values()) + " MiB",
        f"{(memory_bytes - baseline.without_trace) / 1e6:.1f} MB",
        f"{(memory_bytes - baseline.with_small_trace) / 1e6:.1f} MB",
        *(f"{speedups[peer]:.1f}x" if peer in speedups else "-" for peer in MIN_SPEEDUPS),
        f"**missed**: {', '.join(missed)}" if missed else "holds",
    )


def peak_bytes(program: str, trace: Path) -> float:
    return median([run_python(program, trace) for _ in range(READING_ROUNDS)]).memory_bytes


def measure_import(folder: Path) -> list[tuple[str, ...]]:
    """Measures a whole import process of a trace that is too large for a Python reader."""
    trace = folder / "large.json"
    events = kineto_trace.write(trace, TRACE_EVENTS)
    events = kineto_trace.write(trace, -(-events * LARGE_TRACE_BYTES // trace.stat().st_size))
    trace_bytes = trace.stat().st_size
    run = folder / "imported.marey"
    cost = measure_marey(["import", str(trace), "-o", str(run)])
    shutil.rmtree(run)
    trace.unlink()
    memory = f"{cost.memory_bytes / 2**20:,.0f} MiB"
    return [
        ("trace", "events", "marey import", "a second", "memory", "bar", ""),
        (
            f"{trace_bytes / 1e9:.2f} GB of JSON",
            f"{events:,}",
            duration(cost.seconds * 1e9),
            f"{trace_bytes / cost.seconds / 1e6:.0f} MB",
            memory,
            f"< {MAX_IMPORT_BYTES >> 30} GiB",
            verdict(cost.memory_bytes < MAX_IMPORT_BYTES),
        ),
    ]


def measure_export(trace: Path, folder: Path) -> list[tuple[str, ...]]:
    """Measures the export of one run to each format."""
    run = folder / "run.marey"
    measure_marey(["import", str(trace), "-o", str(run)])
    rows: list[tuple[str, ...]] = [("`marey export --format`", "it takes", "memory", "size")]
    for name in FORMATS:
        output = folder / f"out.{name}"
        costs = []
        for _ in range(WRITING_ROUNDS):
            costs.append(measure_marey(["export", str(run), "--format", name, "-o", str(output)]))
            output_bytes = output.stat().st_size
            output.unlink()
        cost = median(costs)
        texts = (f"{cost.memory_bytes / 2**20:,.0f} MiB", f"{output_bytes / 1e6:.1f} MB")
        rows.append((f"`{name}`", duration(cost.seconds * 1e9), *texts))
        print("  ".join(rows[-1]), flush=True)
    return rows


def unpacked_bytes(trace: Path) -> int:
    with gzip.open(trace, "rb") as file:
        return sum(len(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))


def measure_marey(arguments: list[str]) -> Cost:
    return run_process(["marey", *arguments], Path(os.devnull), stderr=subprocess.DEVNULL)


def run_python(program: str, trace: Path) -> Cost:
    """Runs a program that prints its time, which replaces that of the whole process."""
    command = [sys.executable, "-c", program, str(trace)]
    cost = measure_with_output(command, stderr=subprocess.DEVNULL)
    if cost.status != 0:
        raise RuntimeError(f"the reader ended with {cost.status} on {trace.name}")
    return replace(cost, seconds=float(cost.output.split()[-1]))


if __name__ == "__main__":
    main()
