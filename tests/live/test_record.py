"""`marey record`: samples of running processes, taken from outside."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from interpreters import VERSIONS, require
from programs import HOT_AND_COLD, Live, LiveCommand, marey_command, marey_stdout
from trace_files import run_rows

WAITING = """
import sys, threading

class Queue:
    def get(self, depth, event):
        if depth:
            self.get(depth - 1, event)
        else:
            ready.release()
            event.wait()

event, ready = threading.Event(), threading.Semaphore(0)
arguments = (20, event)
threading.Thread(target=Queue().get, args=arguments, name="läder 读", daemon=True).start()
ready.acquire()
print("ready", flush=True)
sys.stdin.readline()
"""

# Calls functions that are made and freed again, so that their code is at the same addresses.
MADE_AGAIN = """
import os, time

def call(name):
    scope = {"time": time}
    source = f"def {name}(end):\\n    while time.perf_counter() < end: pass\\n"
    exec(compile(source, f"{name}.py", "exec"), scope)
    scope[name](time.perf_counter() + 0.002)

print(os.getpid(), flush=True)
while True:
    call("even")
    call("odd_")
"""


def arguments(pid: int, *options: str) -> list[str]:
    return ["record", "-p", str(pid), "-o", "run.marey", *options]


def start(pid: int) -> LiveCommand:
    return LiveCommand(sys.executable, "-m", "marey", *arguments(pid))


def record(pid: int, *options: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(marey_stdout(*arguments(pid, "--json", *options)))
    return report


def nanos_by_function() -> dict[str, int]:
    """Returns the sampled time by the innermost function."""
    rows = run_rows("run.marey", "SELECT name, sum(self_nanos) FROM flame GROUP BY name")
    sums: dict[str, int] = {}
    for name, nanos in rows:
        function = name.rpartition("@")[2]
        sums[function] = sums.get(function, 0) + (nanos or 0)
    return sums


def test_sampled_time_is_where_the_program_spends_it() -> None:
    with Live(HOT_AND_COLD) as program:
        report = record(int(program.read_line()), "-d", "2", "-r", "500")
    sums = nanos_by_function()
    assert sums["hot"] > sums["cold"] > 0
    assert 0.5 < sums["hot"] / (sums["hot"] + sums["cold"]) < 0.95
    assert "<module>" not in sums  # the main thread waits
    assert report["samples"] > 100
    assert report["samples"] + report["failed"] + report["skipped"] <= 1_001
    assert report["rate_hz"] == pytest.approx(report["samples"] / report["seconds"])


def test_threads_that_wait_are_sampled_on_request() -> None:
    with Live(HOT_AND_COLD) as program:
        record(int(program.read_line()), "-d", "0.5", "--idle")
    ((name, nanos),) = run_rows(
        "run.marey", "SELECT name, self_nanos FROM flame WHERE name LIKE '%program.py%<module>'"
    )
    assert name.endswith("program.py:21@<module>")
    assert 0.3e9 < nanos < 0.6e9


def path_of(frames: list[dict[str, Any]]) -> str:
    """Returns the path that a run has for frames of a dump."""
    names = [f"{frame['file']}:{frame['line']}@{frame['function']}" for frame in frames]
    return "/".join(reversed(names))


@pytest.mark.parametrize("version", VERSIONS)
def test_samples_have_the_stacks_that_a_dump_has(version: str) -> None:
    python = require(version)
    with Live(WAITING, python=python) as program:
        assert program.read_line() == "ready"
        pid = program.process.pid
        (process,) = json.loads(marey_stdout("dump", str(pid), "--json"))
        record(pid, "-d", "0.2", "--idle")
    dumped = {
        (thread["name"], path_of(thread["frames"]))
        for thread in process["threads"]
        if thread["frames"]
    }
    rows = run_rows("run.marey", "SELECT DISTINCT thread, path FROM samples")
    assert set(rows) == dumped
    assert {name for name, _ in dumped} == {"MainThread", "läder 读"}


def test_functions_that_are_made_at_the_same_address_are_told_apart() -> None:
    with Live(MADE_AGAIN) as program:
        record(int(program.read_line()), "-d", "1", "-r", "1000")
    rows = run_rows("run.marey", "SELECT DISTINCT name FROM flame WHERE name LIKE '%@____'")
    names = {name for (name,) in rows}
    assert {"even.py:2@even", "odd_.py:2@odd_"} <= names
    assert not {"even.py:2@odd_", "odd_.py:2@even"} & names


def test_missed_samples_are_losses_of_the_run() -> None:
    with Live(HOT_AND_COLD) as program:
        report = record(int(program.read_line()), "-d", "0.3", "-r", "100000")
    assert report["skipped"] > 1_000
    ((missed,),) = run_rows(
        "run.marey", "SELECT sum(count) FROM losses WHERE cause = 'samples_missed'"
    )
    assert missed == report["skipped"] + report["failed"]


def test_the_end_of_the_process_ends_the_recording() -> None:
    with Live(HOT_AND_COLD) as program:
        pid = int(program.read_line())
        recorder = start(pid)
        assert recorder.read_message() == f"sampling process {pid}; Ctrl-C ends it"
        program.write_line()
        assert program.end().exit_code == 0
        done = recorder.end()
    assert done.exit_code == 0
    assert done.stderr.startswith("wrote `run.marey`, ")


def test_an_interrupt_ends_the_recording_and_keeps_it() -> None:
    with Live(HOT_AND_COLD) as program:
        pid = int(program.read_line())
        recorder = start(pid)
        recorder.read_message()
        recorder.process.send_signal(signal.SIGINT)
        done = recorder.end()
        program.write_line()
        assert program.end().exit_code == 0
    assert done.exit_code == 0, done.stderr
    assert Path("run.marey").is_dir()


def test_samples_are_exported_analysed_and_compared() -> None:
    with Live(HOT_AND_COLD) as program:
        pid = int(program.read_line())
        record(pid, "-d", "0.3")
        Path("run.marey").rename("before.marey")
        record(pid, "-d", "0.3")
    marey_stdout("export", "run.marey", "-f", "speedscope", "-o", "x.json")
    frames = json.loads(Path("x.json").read_text())["shared"]["frames"]
    assert any(frame["name"].endswith("@hot") for frame in frames)
    marey_stdout("export", "run.marey", "-f", "collapsed", "-o", "x.folded")
    assert "@work;" in Path("x.folded").read_text()
    marey_stdout("export", "run.marey", "-f", "pprof", "-o", "x.pb.gz")
    assert "hot" in marey_stdout("query", "x.pb.gz", "SELECT DISTINCT name FROM flame")
    assert "@hot" in marey_stdout("analyze", "run.marey")
    assert "before: before.marey" in marey_stdout("compare", "before.marey", "run.marey")


@pytest.mark.parametrize("duration", ["0", "-1", "nan"])
def test_a_duration_must_be_positive(duration: str) -> None:
    done = marey_command(*arguments(1, f"--duration={duration}"))
    assert done.exit_code == 2
    assert "is not a positive number of seconds" in done.stderr
    assert not Path("run.marey").exists()


# Starts a thread after the last one has ended, so that Python gives it the same id.
THREADS_IN_TURN = """
import itertools, os, threading, time

def call(name):
    scope = {"time": time}
    source = f"def {name}(end):\\n    while time.perf_counter() < end: pass\\n"
    exec(compile(source, f"{name}.py", "exec"), scope)
    scope[name](time.perf_counter() + 0.02)

print(os.getpid(), flush=True)
idents = set()
for number in itertools.count():
    name = ("even", "odd")[number % 2]
    thread = threading.Thread(target=call, args=(name,), name=name)
    thread.start()
    idents.add(thread.ident)
    thread.join()
    if number == 9:
        print(len(idents), flush=True)
"""


def test_a_thread_that_has_the_id_of_an_ended_one_is_another_thread() -> None:
    with Live(THREADS_IN_TURN) as program:
        pid = int(program.read_line())
        assert int(program.read_line()) < 10, "ids are not used again"
        marey_stdout(*arguments(pid, "-d", "0.5", "-r", "200"))
    sql = "SELECT DISTINCT thread, thread_id, path FROM samples WHERE path LIKE '%.py:2@%'"
    rows = run_rows("run.marey", sql)
    assert len({number for _, number, _ in rows}) > 2
    # A thread that ends before its name is read has the name that the system gave it.
    named = [(thread, path) for thread, _, path in rows if thread != "python"]
    assert {thread for thread, _ in named} == {"even", "odd"}
    for thread, path in named:
        assert f"{thread}.py" in path
