"""Costs for a program of being looked into: prepared, and while marey samples it from within."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import watch
from live_process import Peers
from process import run_worker
from table import NO_VALUE, duration, markdown_table, verdict

ROUNDS = 5
MAX_MEMORY_BYTES = 3e6
MAX_CALL_PERCENT = 0.5
MAX_SYSTEM_PERCENT = 0.1
THREADS = 200
CALLS_OF_ROUND = 465
"""Number of calls of fib(12)."""
ROUNDS_COUNTED = 100

# Prints the memory of the process, its CPU time before this line, and that of a call.
PROGRAM = """
import json, sys, time
startup = time.process_time_ns()
if sys.argv[1] != "nothing":
    __import__(sys.argv[1])

def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)

CALLS = 8361  # of fib(18)
calls = []
for _ in range(31):
    start = time.process_time_ns()
    fib(18)
    calls.append((time.process_time_ns() - start) / CALLS)
time.sleep(0.3)
found = dict(startup=startup, call=min(calls))
with open("/proc/self/smaps_rollup") as file:
    for line in file:
        name, _, value = line.partition(":")
        if name in ("Rss", "Private_Dirty"):
            found[name] = int(value.split()[0]) * 1024
print(json.dumps(found))
"""

# Makes as many calls as the argument says, without anything that depends on time.
CALLS = """
import sys

def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)

for _ in range(int(sys.argv[1])):
    fib(12)
"""

# Prints the share of a core that the process needs while it waits: sampled, and not.
SAMPLED = """
import json, os, sys, tempfile, threading, time
import marey

def wait(depth, event):
    if depth:
        wait(depth - 1, event)
    else:
        event.wait()

event = threading.Event()
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=wait, args=(10, event), daemon=True).start()
session = marey.start("sampled", data="trace")
shares = []
for is_on in (False, True):
    if is_on:
        marey.sampling.enable(0.1)
    time.sleep(0.5)
    cpu, clock = time.process_time_ns(), time.perf_counter_ns()
    time.sleep(6)
    shares.append((time.process_time_ns() - cpu) / (time.perf_counter_ns() - clock))
print(json.dumps(shares[1] - shares[0]))
"""

# Prints the CPU seconds of a reading of the system's counters.
SYSTEM = """
import json, sys
sys.path.insert(0, sys.argv[2])
import system
print(json.dumps(system.reading_secs(int(sys.argv[1]) - 1, 5.0)))
"""


# Prints the version of CPython, and the CPU times of each loop: without a watch, while one is on,
# and after it.
WATCHED = """
import json, platform, sys
sys.path.insert(0, sys.argv[1])
import watch
loops = [
    (loop.name, loop.before_nanos, loop.during_nanos, loop.after_nanos) for loop in watch.measure()
]
print(json.dumps((platform.python_version(), loops)))
"""


@dataclass(frozen=True)
class Setup:
    """A way to start a program."""

    title: str
    interpreter: Path
    variables: Mapping[str, str]


MAREY_ON = "`MAREY=1`"


def setups(peers: Peers, folder: Path) -> list[Setup]:
    """Returns the ways to start a program, the one without anything first.

    All find the same packages by `PYTHONPATH`, for which Python reads no `.pth` file. So the plain
    interpreter, made in `folder` as the one with marey is, starts without anything of marey.
    """
    packages = {"PYTHONPATH": sysconfig.get_path("purelib")}
    plain, ours = new_interpreter(folder / "plain"), new_interpreter(folder / "marey")
    start_up = Path(sysconfig.get_path("purelib"), "marey.pth")
    shutil.copy(start_up, site_packages(folder / "marey"))
    return [
        Setup("plain, or before `marey attach`", plain, packages),
        Setup("marey installed", ours, {"MAREY": "0", **packages}),
        Setup("Probing installed", peers.python, {"PROBING": "0", **packages}),
        Setup("`PROBING=1`", peers.python, {"PROBING": "1", **packages}),
        Setup(MAREY_ON, ours, {"MAREY": "1", **packages}),
        Setup('`MAREY="-d trace"`', ours, {"MAREY": "-d trace", **packages}),
    ]


def new_interpreter(folder: Path) -> Path:
    """Makes an environment of this Python without packages; returns its interpreter."""
    venv.create(folder, symlinks=True)
    assert not list(site_packages(folder).glob("*.pth"))
    return folder / "bin" / "python"


def site_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def prepared_table(peers: Peers) -> str:
    """Returns the table of what a program pays, by the way in which it was started."""
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        return table_of(setups(peers, Path(folder)))


def table_of(ways: list[Setup]) -> str:
    titles = [way.title for way in ways]
    on = titles.index(MAREY_ON)
    lines = [("what", *titles, f"bar of {MAREY_ON}", "")]
    for module, title in (("nothing", "Python alone"), ("torch", "with PyTorch")):
        rounds = [[measure(way, module) for way in ways] for _ in range(ROUNDS)]
        costs = [
            {name: median(round_[place][name] for round_ in rounds) for name in rounds[0][place]}
            for place in range(len(ways))
        ]
        lines.append(memory_row(f"resident memory, {title}", [cost["Rss"] for cost in costs], on))
        private = [cost["Private_Dirty"] for cost in costs]
        lines.append(memory_row(f"of it written by this process, {title}", private))
        if module == "nothing":
            lines.append(startup_row([cost["startup"] for cost in costs]))
            lines.append(call_row("CPU time of a call", [cost["call"] for cost in costs]))
            if shutil.which("valgrind"):
                counts = [instructions(way) for way in ways]
                lines.append(call_row("instructions of a call", counts, barred=on))
    return markdown_table(lines)


def measure(way: Setup, module: str) -> dict[str, float]:
    """Runs the program once."""
    # The first of the rounds writes what an installer writes: the bytecode of the packages.
    variables = {"PYTHONDONTWRITEBYTECODE": "", **way.variables}
    costs: dict[str, float] = run_worker(
        PROGRAM, module, interpreter=way.interpreter, variables=variables
    )
    return costs


def instructions(way: Setup) -> float:
    """Returns the instructions of a call; start and end cancel out."""
    counts = [count_instructions(way, rounds) for rounds in (ROUNDS_COUNTED, 2 * ROUNDS_COUNTED)]
    return (counts[1] - counts[0]) / (ROUNDS_COUNTED * CALLS_OF_ROUND)


def count_instructions(way: Setup, rounds: int) -> int:
    counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        done = subprocess.run(
            [*counter, way.interpreter, "-c", CALLS, str(rounds)],
            cwd=folder,
            env={**os.environ, **way.variables, "PYTHONHASHSEED": "0"},
            check=True,
            stderr=subprocess.PIPE,
            text=True,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def memory_row(title: str, sizes: list[float], barred: int | None = None) -> tuple[str, ...]:
    """Returns a row of sizes, of which the one at `barred` has a bar."""
    base, *others = sizes
    cells = [f"{base / 1e6:.1f} MB", *(f"{(size - base) / 1e6:+.1f} MB" for size in others)]
    if barred is None:
        return (title, *cells, NO_VALUE, "")
    is_within = sizes[barred] - base <= MAX_MEMORY_BYTES
    return (title, *cells, f"≤ {MAX_MEMORY_BYTES / 1e6:g} MB", verdict(is_within))


def startup_row(nanos: list[float]) -> tuple[str, ...]:
    base, *others = nanos
    cells = [duration(base), *(signed_duration(value - base) for value in others)]
    return ("CPU time before the program", *cells, NO_VALUE, "")


def signed_duration(nanos: float) -> str:
    return f"{'-' if nanos < 0 else '+'}{duration(abs(nanos))}"


def call_row(title: str, values: list[float], barred: int | None = None) -> tuple[str, ...]:
    """Returns a row of times or, with a bar for the value at `barred`, of counts."""
    base = values[0]
    percents = [100 * (value / base - 1) for value in values]
    cells = [f"{percent:+.2f} %" for percent in percents[1:]]
    if barred is None:
        return (title, duration(base), *cells, NO_VALUE, "")
    is_within = percents[barred] <= MAX_CALL_PERCENT
    return (title, f"{base:,.0f}", *cells, f"≤ {MAX_CALL_PERCENT} %", verdict(is_within))


def inside_table(_peers: Peers) -> str:
    """Returns the table of what marey's own threads need in a process that records."""
    lines = [("in a process that records a trace", "threads", "of a core", "bar", "")]
    bench = str(Path(__file__).parent)
    for threads in (1, THREADS):
        reading = median(run_worker(SYSTEM, str(threads), bench) for _ in range(3))
        percent = 100 * reading
        bar = (f"≤ {MAX_SYSTEM_PERCENT} %", verdict(percent <= MAX_SYSTEM_PERCENT))
        title = "counters of the process and the system, each second"
        lines.append((title, str(threads), f"{percent:.3f} %", *bar))
    for threads in (1, THREADS):
        percent = 100 * median(run_worker(SAMPLED, str(threads)) for _ in range(3))
        title = "`marey.sampling` each 100 ms"
        lines.append((title, str(threads), f"{percent:.3f} %", NO_VALUE, ""))
    return markdown_table(lines)


def watch_table(peers: Peers) -> str:
    """Returns the table of what a watch of variables costs, where it is on and elsewhere."""
    lines = [("CPU time, `marey watch`", "CPython", "while it is on", "after it", "bar", "")]
    bench = str(Path(__file__).parent)
    packages = {"PYTHONPATH": sysconfig.get_path("purelib")}
    for interpreter in filter(None, (Path(sys.executable), peers.newer)):
        version, loops = run_worker(WATCHED, bench, interpreter=interpreter, variables=packages)
        for name, before, during, after in loops:
            most = watch.MAX_RATIOS[name]
            ratios = (f"{during / before:.3f}", f"{after / before:.3f}")
            lines.append((name, version, *ratios, f"≤ {most}", verdict(during / before <= most)))
    return markdown_table(lines)
