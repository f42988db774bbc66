"""Commands on running processes: how long they take, and what sampling costs the process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from live_process import MAREY, Peers, Target, command_cost, running, target
from process import Cost
from table import NO_VALUE, duration, markdown_table, verdict

ROUNDS = 7
QUERY_ROUNDS = 3
STOP_ROUNDS = 15
NANOS_PER_MILLI = 1e6
MAX_DUMP_NANOS = 100 * NANOS_PER_MILLI
MAX_ATTACH_NANOS = 300 * NANOS_PER_MILLI
MAX_QUERY_NANOS = 1000 * NANOS_PER_MILLI
MAX_STOP_NANOS = 1 * NANOS_PER_MILLI
MAX_SAMPLED_PERCENT = 1.0
MIN_RATE_HZ = 10_000
MAX_RATE_HZ = 20_000
THREADS = 200
ONE_THREAD = "1 thread, which runs"
BLOCK_SECS = 2.0
START_SECS = 0.7
"""Time in which a sampler has surely begun."""

# Records 100,000 scopes in a second, then one each millisecond until stdin ends.
JOB = """
import os, select, sys, time
import marey
session = marey.start("job", data="trace")
start = time.perf_counter()
for number in range(100_000):
    with marey.scope("work"):
        pass
time.sleep(max(0, start + 1 - time.perf_counter()))
print(os.getpid(), flush=True)
while not select.select([0], [], [], 0.001)[0]:
    with marey.scope("work"):
        pass
"""

# Starts a session of the module in its argument, if there is one. Then waits, and runs a little
# Python meanwhile.
WAITING = """
import os, select, sys
for module in sys.argv[1:]:
    __import__(module).start("waiting", data="trace")

def wait():
    while not select.select([0], [], [], 0.01)[0]:
        pass

print(os.getpid(), flush=True)
wait()
"""

QUERY = "SELECT name, count(*), sum(duration_nanos) FROM spans GROUP BY name"


def commands_table(peers: Peers) -> str:
    """Returns the table of commands, each as a whole process."""
    lines: list[tuple[str, ...]] = [
        ("command", "process", "peer", "takes", "CPU", "marey takes", "CPU", "bar", "")
    ]
    for threads in (1, THREADS):
        lines.append(dump_row(peers, threads))
    for threads in (1, THREADS):
        lines += attach_rows(peers, threads)
    lines.append(query_row())
    lines += probing_rows(peers)
    return markdown_table(lines)


def dump_row(peers: Peers, threads: int) -> tuple[str, ...]:
    ours, theirs = [], []
    with target(threads, is_busy=False) as program:
        for _ in range(ROUNDS):
            theirs.append(command_cost([peers.py_spy, "dump", "--pid", str(program.pid)]))
            ours.append(command_cost([MAREY, "dump", str(program.pid)]))
    size = f"{threads} threads" if threads > 1 else "1 thread"
    return command_row("`marey dump`", f"{size}, waiting", "py-spy", theirs, ours, MAX_DUMP_NANOS)


def attach_rows(peers: Peers, threads: int) -> list[tuple[str, ...]]:
    """Returns the rows of attaching and of detaching."""
    attached, detached = [], []
    with target(threads, is_busy=True) as program:
        for number in range(ROUNDS):
            output = program.folder / f"run{number}"
            attached.append(command_cost([MAREY, "attach", str(program.pid), "-o", output]))
            detached.append(command_cost([MAREY, "detach", str(program.pid)]))
    size = f"{threads} threads, one runs" if threads > 1 else ONE_THREAD
    memray = memray_costs(peers, threads)
    return [
        command_row("`marey attach`", size, "memray", memray, attached, MAX_ATTACH_NANOS),
        command_row("`marey detach`", size, "", [], detached, MAX_ATTACH_NANOS),
    ]


def memray_costs(peers: Peers, threads: int) -> list[Cost]:
    """Returns the costs of `memray attach`; none if its debugger fails."""
    costs = []
    for number in range(ROUNDS):
        with target(threads, is_busy=True, interpreter=peers.python) as program:
            output = program.folder / f"memray{number}"
            attach = (peers.memray, "attach", "-o", output, str(program.pid))
            try:
                costs.append(command_cost(attach))
            except RuntimeError as error:
                print(error, file=sys.stderr)
                return []
    return costs


def query_row() -> tuple[str, ...]:
    costs = []
    for _ in range(QUERY_ROUNDS):
        with running(JOB) as job:
            costs.append(command_cost([MAREY, "query", str(job.pid), QUERY]))
    size = "has recorded 100,000 scopes in 1 s"
    return command_row("`marey query`", size, "", [], costs, MAX_QUERY_NANOS)


def probing_rows(peers: Peers) -> list[tuple[str, ...]]:
    """Returns the rows of what Probing's command line has too, each on a process of its own."""
    stacks = "SELECT func, lineno FROM python.backtrace"
    tables = "SELECT table_name FROM information_schema.tables"
    rows = []
    with (
        running(WAITING, "marey") as ours,
        running(WAITING, interpreter=peers.python, variables={"PROBING": "1"}) as theirs,
    ):
        for title, words, own_words, bar_nanos in (
            ("`marey dump`, beside `backtrace`", ["backtrace"], ["dump"], MAX_DUMP_NANOS),
            ("`marey query`, the list of tables", ["query", tables], None, MAX_QUERY_NANOS),
            ("`marey query`, the stacks", ["query", stacks], None, MAX_QUERY_NANOS),
        ):
            verb, *arguments = own_words or words
            command: list[str | Path] = [peers.probing, "-t", str(theirs.pid), *words]
            own_command: list[str | Path] = [MAREY, verb, str(ours.pid), *arguments]
            costs = [(command_cost(command), command_cost(own_command)) for _ in range(ROUNDS)]
            of_peer, of_us = ([*side] for side in zip(*costs, strict=True))
            rows.append(
                command_row(title, "1 thread, waiting", "Probing", of_peer, of_us, bar_nanos)
            )
    return rows


def stop_table(_peers: Peers) -> str:
    """Returns the table of how long `marey attach` stops a process, as it says itself."""
    lines: list[tuple[str, ...]] = [
        ("`marey attach` stops", "process", "median", "longest", "bar", "")
    ]
    for threads in (1, THREADS):
        stops = [stop_nanos(output) for output in attach_often(threads)]
        running_nanos, waiting_nanos = ([*side] for side in zip(*stops, strict=True))
        size = f"{threads} threads, one runs" if threads > 1 else ONE_THREAD
        bar = (f"≤ {duration(MAX_STOP_NANOS)}", verdict(median(running_nanos) <= MAX_STOP_NANOS))
        lines.append(stop_row("threads that run", size, running_nanos, bar))
        lines.append(stop_row("threads that wait", size, waiting_nanos, (NO_VALUE, "")))
    return markdown_table(lines)


def stop_row(title: str, process: str, nanos: list[float], bar: tuple[str, str]) -> tuple[str, ...]:
    return (title, process, duration(median(nanos)), duration(max(nanos)), *bar)


def attach_often(threads: int) -> Iterator[str]:
    """Attaches and detaches in turn; yields what each `marey attach` has printed."""
    with target(threads, is_busy=True) as program:
        for number in range(STOP_ROUNDS):
            output = program.folder / f"run{number}"
            attach: list[str | Path] = [MAREY, "attach", str(program.pid), "-o", output]
            yield command_cost(attach).output
            command_cost([MAREY, "detach", str(program.pid)])


def stop_nanos(output: str) -> tuple[float, float]:
    """Returns the times for which threads that run and threads that wait were stopped."""
    times = re.search(r"stopped for ([\d.]+) ms, its waiting threads for ([\d.]+) ms", output)
    assert times is not None, output
    return float(times[1]) * NANOS_PER_MILLI, float(times[2]) * NANOS_PER_MILLI


def command_row(
    command: str, process: str, peer: str, theirs: list[Cost], ours: list[Cost], bar_nanos: float
) -> tuple[str, ...]:
    takes = 1e9 * median(cost.seconds for cost in ours)
    return (
        command,
        process,
        peer or NO_VALUE,
        *times(theirs, "fails here" if peer else NO_VALUE),
        *times(ours, ""),
        f"≤ {duration(bar_nanos)}",
        verdict(takes <= bar_nanos),
    )


def times(costs: list[Cost], without: str) -> tuple[str, str]:
    """Returns the medians of the time by the clock and of the CPU time."""
    if not costs:
        return without, NO_VALUE
    clock = 1e9 * median(cost.seconds for cost in costs)
    return duration(clock), duration(median(cost.cpu_nanos for cost in costs))


Sampler = Callable[[Target], Sequence[str | Path]]
"""A function from a program to the command that samples it until it is interrupted."""


def sampling_table(peers: Peers) -> str:
    """Returns the table of what sampling costs the process, and of the rates that are reached."""
    lines: list[tuple[str, ...]] = [
        ("sampling from outside", "process", "py-spy", "marey", "bar", "")
    ]
    lines += cost_rows(peers)
    for threads, rate_hz, asked in (
        (1, MAX_RATE_HZ, "as often as possible"),
        (THREADS, 100, "100 Hz"),
    ):
        size = f"{threads} threads, one runs" if threads > 1 else ONE_THREAD
        with target(threads, is_busy=True) as program:
            theirs, ours = py_spy_rate(peers, program, rate_hz), marey_rate(program, rate_hz)
        bars = [(NO_VALUE, "")] * 2
        if threads == 1:
            most_nanos = 1e9 / MIN_RATE_HZ
            bars = [
                (f"≥ {MIN_RATE_HZ:,}", verdict(ours.hz >= MIN_RATE_HZ)),
                (f"≤ {duration(most_nanos)}", verdict(ours.sample_nanos <= most_nanos)),
            ]
        rates = (f"{theirs.hz:,.0f}", f"{ours.hz:,.0f}")
        costs = (duration(theirs.sample_nanos), duration(ours.sample_nanos))
        lines.append((f"samples a second, {asked}", size, *rates, *bars[0]))
        lines.append((f"CPU time of the sampler a sample, {asked}", size, *costs, *bars[1]))
    return markdown_table(lines)


def cost_rows(peers: Peers) -> list[tuple[str, ...]]:
    """Returns what a call costs while a process is sampled 100 times a second, above before."""
    samplers: dict[str, Sampler | None] = {
        "none": None,
        "py-spy": lambda program: [
            *(peers.py_spy, "record", "-p", str(program.pid), "-r", "100"),
            *("-f", "raw", "-o", program.folder / "samples"),
        ],
        "marey": lambda program: [
            *(MAREY, "record", "-p", str(program.pid), "-r", "100"),
            *("-o", program.folder / "samples.marey", "--force"),
        ],
    }
    blocks: dict[str, list[dict[str, float]]] = {name: [] for name in samplers}
    with target(1, is_busy=False) as program:
        program.call_for(START_SECS)
        for _ in range(ROUNDS):
            for name, sampler in samplers.items():
                blocks[name].append(sampled(program, sampler))
    rows: list[tuple[str, ...]] = []
    for kind, title in (("clock", "time of a call"), ("cpu", "CPU time of a call")):
        nanos = {name: median(cost[kind] for cost in costs) for name, costs in blocks.items()}
        theirs, ours = (100 * (nanos[name] / nanos["none"] - 1) for name in ("py-spy", "marey"))
        bar = (f"≤ {MAX_SAMPLED_PERCENT:g} %", verdict(ours <= MAX_SAMPLED_PERCENT))
        rows.append((f"{title}, 100 Hz", ONE_THREAD, f"{theirs:+.1f} %", f"{ours:+.1f} %", *bar))
    shares = [
        f"{100 * median(cost['sampler'] for cost in blocks[name]):.1f} %"
        for name in ("py-spy", "marey")
    ]
    rows.append(("the sampler itself, of a core, 100 Hz", ONE_THREAD, *shares, NO_VALUE, ""))
    return rows


def sampled(program: Target, sampler: Sampler | None) -> dict[str, float]:
    """Returns the cost of a call while a sampler runs, and its share of a core."""
    if sampler is None:
        return program.call_for(BLOCK_SECS)
    process = subprocess.Popen(
        sampler(program), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    program.call_for(START_SECS)
    before = cpu_secs(process.pid)
    costs = program.call_for(BLOCK_SECS)
    costs["sampler"] = (cpu_secs(process.pid) - before) / BLOCK_SECS
    process.send_signal(signal.SIGINT)
    process.wait()
    return costs


def cpu_secs(pid: int) -> float:
    """Returns the CPU time of all threads of a process."""
    nanos = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        nanos += int((task / "schedstat").read_text().split(" ", 1)[0])
    return nanos / 1e9


@dataclass(frozen=True)
class Rate:
    """The samples of a command, which waits as little as it can."""

    hz: float
    sample_nanos: float
    """CPU time of the whole command, by sample."""


def marey_rate(program: Target, rate_hz: int) -> Rate:
    record = (MAREY, "record", "-p", str(program.pid), "-d", "2", "-r", str(rate_hz), "--json")
    done = command_cost([*record, "-o", program.folder / "rate.marey", "--force"])
    samples = int(found(r'"samples": (\d+)', done.output))
    return Rate(float(found(r'"rate_hz": ([\d.]+)', done.output)), done.cpu_nanos / samples)


def py_spy_rate(peers: Peers, program: Target, rate_hz: int) -> Rate:
    """Returns the rate of `py-spy record`, which takes all samples however late."""
    record = (peers.py_spy, "record", "-p", str(program.pid), "-d", "1", "-r", str(rate_hz))
    done = command_cost([*record, "-f", "raw", "-o", program.folder / "rate"])
    samples = int(found(r"Samples: (\d+)", done.output))
    return Rate(samples / (done.seconds), done.cpu_nanos / samples)


def found(pattern: str, output: str) -> str:
    """Returns the group of a pattern in the output of a command."""
    match = re.search(pattern, output)
    assert match is not None, output
    return match[1]
