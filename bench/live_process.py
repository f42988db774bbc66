"""The processes that `bench/live.py` looks into, and the peers that look into them too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from process import Cost, measure_with_output, run_worker

MAREY = Path(sys.executable).with_name("marey")
VERSIONS = (
    "import json, sys; from importlib import metadata; "
    "print(json.dumps([metadata.version(name) for name in sys.argv[1:]]))"
)

# Prints its id when all threads run. Then calls Python functions, or waits if the second argument
# is "waiting"; a number on stdin makes it call for so many seconds and print the nanoseconds of a
# call, by the clock and of CPU time. Ends with stdin. All other threads wait, ten calls deep.
TARGET = """
import json, os, select, sys, threading, time

def wait(depth, event):
    if depth:
        wait(depth - 1, event)
    else:
        ready.release()
        event.wait()

def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)

CALLS = 1973  # of fib(15)
event, ready = threading.Event(), threading.Semaphore(0)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=wait, args=(10, event), daemon=True).start()
for _ in range(int(sys.argv[1]) - 1):
    ready.acquire()
print(os.getpid(), flush=True)
while True:
    if sys.argv[2] == "waiting" or select.select([0], [], [], 0)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        calls, cpu, clock = 0, time.process_time_ns(), time.perf_counter_ns()
        end = clock + float(line) * 1e9
        while time.perf_counter_ns() < end:
            fib(15)
            calls += CALLS
        cpu, clock = time.process_time_ns() - cpu, time.perf_counter_ns() - clock
        print(json.dumps({"cpu": cpu / calls, "clock": clock / calls}), flush=True)
    else:
        fib(15)
"""


class Peers:
    """The Python environment that has the peers."""

    def __init__(self, folder: Path, newer: Path | None = None) -> None:
        self.newer = newer
        """An interpreter without peers, of CPython 3.12 or later."""
        self.python = folder / "bin" / "python"
        self.py_spy = folder / "bin" / "py-spy"
        self.memray = folder / "bin" / "memray"
        self.probing = folder / "bin" / "probing"

    def versions(self) -> list[str]:
        """Returns names and versions."""
        names = "probing", "py-spy", "memray"
        versions = run_worker(VERSIONS, *names, interpreter=self.python)
        return [f"{name} {version}" for name, version in zip(names, versions, strict=True)]


class Target:
    """A running Python program, in a folder of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.folder = folder
        assert process.stdout is not None
        self.pid = int(process.stdout.readline())

    def call_for(self, seconds: float) -> dict[str, float]:
        """Makes the program call functions; returns the nanoseconds of a call by kind of time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        costs: dict[str, float] = json.loads(self._process.stdout.readline())
        return costs


@contextmanager
def running(
    source: str,
    *arguments: str,
    interpreter: str | Path = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Target]:
    """Runs a program that prints its id first, and ends when its stdin is closed."""
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        errors = Path(folder, "errors")
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [interpreter, "-c", source, *arguments],
                cwd=folder,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            yield Target(process, Path(folder))
        finally:
            with suppress(BrokenPipeError):
                process.communicate()


@contextmanager
def target(
    threads: int, *, is_busy: bool, interpreter: str | Path = sys.executable
) -> Iterator[Target]:
    """Runs a program with this many threads, one of which calls functions if it is busy."""
    arguments = (str(threads), "busy" if is_busy else "waiting")
    with running(TARGET, *arguments, interpreter=interpreter) as program:
        yield program


def command_cost(command: Sequence[str | Path]) -> Cost:
    """Runs a command to its end.

    Raises:
        RuntimeError: It failed. The message has what it printed.
    """
    cost = measure_with_output(command, stderr=subprocess.STDOUT)
    if cost.status != 0:
        raise RuntimeError(f"{Path(command[0]).name} {command[1]} failed:\n{cost.output}")
    return cost
