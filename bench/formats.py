"""Measures reading and writing of formats: `python bench/formats.py`.

First the time to read a trace of torch.profiler: `json.load`, HTA and `marey.open` in turn on the
same files. Then the import of a 2 GB trace, and the export of a run to each format. `--update`
writes the tables to `docs/benchmarks.md`; `--traces FOLDER` adds traces to read.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import kineto_trace
from table import duration, grid, measured_with, update

ROUNDS = 9
EVENTS = 216_000
LARGE_BYTES = 2 << 30
LARGE_BAR_BYTES = 3 << 30
JSON_BAR = 5.0
HTA_BAR = 10.0
NAMES = {"json": "json.load", "hta": "HTA"}
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
OPEN = """
import sys, time
import marey
import marey._engine
begin = time.perf_counter()
run = marey.open(sys.argv[1])
print(time.perf_counter() - begin)
run.close()
"""
# A trace of two events, which maps the same code: the baseline for the memory of a trace.
SMALL = b"""{"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 1, "dur": 2,
 "args": {"External id": 1}},
{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3, "dur": 4,
 "args": {"stream": 7}}
]}"""
HTA = """
import logging, sys, time
from hta.common.trace import Trace
logging.disable()
begin = time.perf_counter()
Trace(trace_files={0: sys.argv[1]}, trace_dir="").parse_traces(use_multiprocessing=False)
print(time.perf_counter() - begin)
"""


@dataclass(frozen=True)
class Cost:
    """The cost of reading a trace."""

    seconds: float
    memory_bytes: float
    """Peak of resident memory."""


@dataclass(frozen=True)
class Fixed:
    """The memory of a process that does not depend on the trace, in bytes."""

    reads_nothing: float
    reads_little: float
    """With the code that reads a trace, which is mapped when it first runs."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the formats.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="more traces to read")
    options = parser.parse_args()
    take_real_time_priority()
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as name:
        folder = Path(name)
        made = folder / "made.json.gz"
        kineto_trace.write(made, EVENTS)
        traces = [made, *(sorted(options.traces.glob("*.json.gz")) if options.traces else [])]
        tables = [reading(traces, folder), large(folder), writing(made, folder)]
    texts = ["\n".join(grid(table)) for table in tables]
    print("\n\n".join(texts))
    if options.update:
        command = "bench/formats.py --update"
        update("\n\n".join([measured_with(command), *texts]), "bench/formats.py")
    return 0


def take_real_time_priority() -> None:
    """Allows threads of this process and its children to run on any free processor.

    The kernel of a small virtual machine may keep threads that wait for each other on one processor
    for some milliseconds, while the others are idle. It does not do so for real-time threads.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        print("without real-time priority: times depend on how threads are scheduled")


def reading(traces: list[Path], folder: Path) -> list[tuple[str, ...]]:
    """Measures all readers in turn on the same traces."""
    head = ("trace", "JSON", "json.load", "HTA", "marey.open", "memory of each", "of the import")
    bars = ("of its content", "faster than json.load", "faster than HTA", "")
    lines: list[tuple[str, ...]] = [(*head, *bars)]
    small = folder / "small.json.gz"
    small.write_bytes(gzip.compress(SMALL))
    fixed = Fixed(memory_of(READ_NOTHING, Path()), memory_of(OPEN, small))
    has_hta = importlib.util.find_spec("hta") is not None
    for trace in traces:
        costs: dict[str, list[Cost]] = {"json": [], "hta": [], "marey": []}
        for _ in range(ROUNDS):
            costs["json"].append(python(JSON_LOAD, trace))
            if has_hta:
                costs["hta"].append(python(HTA, trace))
            costs["marey"].append(python(OPEN, trace))
        lines.append(line(trace, costs, fixed))
        print("  ".join(lines[-1]), flush=True)
    return lines


def line(trace: Path, costs: dict[str, list[Cost]], fixed: Fixed) -> tuple[str, ...]:
    median = {
        who: Cost(
            statistics.median(cost.seconds for cost in some),
            statistics.median(cost.memory_bytes for cost in some),
        )
        for who, some in costs.items()
        if some
    }
    ours = median["marey"].seconds
    ratios = {who: median[who].seconds / ours for who in ("json", "hta") if who in median}
    bars = {"json": JSON_BAR, "hta": HTA_BAR}
    missed = [NAMES[who] for who, ratio in ratios.items() if ratio < bars[who]]
    content_bytes = unpacked_bytes(trace)
    memory_bytes = median["marey"].memory_bytes
    if memory_bytes - fixed.reads_little > content_bytes:
        missed.append("memory")
    return (
        "made of a recorded one" if trace.name == "made.json.gz" else f"`{trace.name}`",
        f"{content_bytes / 1e6:.1f} MB",
        *(duration(median[who].seconds * 1e9) if who in median else "-" for who in costs),
        " / ".join(f"{cost.memory_bytes / 2**20:,.0f}" for cost in median.values()) + " MiB",
        f"{(memory_bytes - fixed.reads_nothing) / 1e6:.1f} MB",
        f"{(memory_bytes - fixed.reads_little) / 1e6:.1f} MB",
        *(f"{ratios[who]:.1f}x" if who in ratios else "-" for who in bars),
        f"**missed**: {', '.join(missed)}" if missed else "holds",
    )


def memory_of(program: str, trace: Path) -> float:
    return statistics.median(python(program, trace).memory_bytes for _ in range(ROUNDS))


def large(folder: Path) -> list[tuple[str, ...]]:
    """Measures the import of a trace that is too large for a Python reader."""
    trace = folder / "large.json"
    events = kineto_trace.write(trace, EVENTS)
    events = kineto_trace.write(trace, -(-events * LARGE_BYTES // trace.stat().st_size))
    size = trace.stat().st_size
    cost = imported(trace, folder)
    trace.unlink()
    memory = f"{cost.memory_bytes / 2**20:,.0f} MiB"
    return [
        ("trace", "events", "marey import", "a second", "memory", "bar", ""),
        (
            f"{size / 1e9:.2f} GB of JSON",
            f"{events:,}",
            duration(cost.seconds * 1e9),
            f"{size / cost.seconds / 1e6:.0f} MB",
            memory,
            f"< {LARGE_BAR_BYTES >> 30} GiB",
            "holds" if cost.memory_bytes < LARGE_BAR_BYTES else "**missed**",
        ),
    ]


def writing(trace: Path, folder: Path) -> list[tuple[str, ...]]:
    """Measures the export of one run to each format."""
    run = folder / "run.marey"
    measured(["import", str(trace), "-o", str(run)])
    lines: list[tuple[str, ...]] = [("`marey export --format`", "it takes", "memory", "size")]
    for name in FORMATS:
        out = folder / f"out.{name}"
        costs = []
        for _ in range(3):
            costs.append(measured(["export", str(run), "--format", name, "-o", str(out)]))
            size = out.stat().st_size
            out.unlink()
        seconds = statistics.median(cost.seconds for cost in costs)
        memory = statistics.median(cost.memory_bytes for cost in costs)
        texts = (duration(seconds * 1e9), f"{memory / 2**20:,.0f} MiB", f"{size / 1e6:.1f} MB")
        lines.append((f"`{name}`", *texts))
        print("  ".join(lines[-1]), flush=True)
    return lines


def unpacked_bytes(trace: Path) -> int:
    with gzip.open(trace, "rb") as file:
        return sum(len(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))


def imported(trace: Path, folder: Path) -> Cost:
    """Measures a whole import process, from the file to tables on the disk."""
    run = folder / "imported.marey"
    cost = measured(["import", str(trace), "-o", str(run)])
    shutil.rmtree(run)
    return cost


def measured(arguments: list[str]) -> Cost:
    program = Path(sys.executable).with_name("marey")
    begin = time.perf_counter()
    process = subprocess.Popen([program, *arguments], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"marey {arguments[0]} ended with {process.returncode}")
    return Cost(seconds, usage.ru_maxrss * 1024)


def python(program: str, trace: Path) -> Cost:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(trace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"the peer ended with {process.returncode} on {trace.name}")
    return Cost(float(printed.split()[-1]), usage.ru_maxrss * 1024)


if __name__ == "__main__":
    sys.exit(main())
