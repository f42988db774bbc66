"""Processes of benchmarks: their cost as the system counts it, and what they have measured."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    """The cost of a process, and what it has printed if that was read."""

    seconds: float
    """Time by the clock."""
    memory_bytes: float
    """Peak of resident memory."""
    cpu_nanos: float = 0.0
    status: int = 0
    """The exit code; a signal number is negative."""
    output: str = ""


def measure(command: Sequence[str | Path], **options: Any) -> Cost:
    """Runs a program to its end, also if it fails; the options are those of `Popen`."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_nanos = (usage.ru_utime + usage.ru_stime) * 1e9
    return Cost(seconds, usage.ru_maxrss * 1024, cpu_nanos, process.returncode)


def measure_with_output(command: Sequence[str | Path], **options: Any) -> Cost:
    """Does the same, and reads what the program has printed."""
    with tempfile.TemporaryFile("w+") as output:
        cost = measure(command, stdin=subprocess.DEVNULL, stdout=output, **options)
        output.seek(0)
        return replace(cost, output=output.read())


def median(costs: Sequence[Cost]) -> Cost:
    """Returns the medians of times and memory."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.memory_bytes for cost in costs),
        statistics.median(cost.cpu_nanos for cost in costs),
    )


def run(command: list[str], output: Path, **options: Any) -> Cost:
    """Runs a program of this environment, with its standard output into a file.

    Raises:
        RuntimeError: The program failed.
    """
    program = Path(sys.executable).with_name(command[0])
    with output.open("wb") as stdout:
        cost = measure([program, *command[1:]], stdout=stdout, **options)
    if cost.status != 0:
        raise RuntimeError(f"{' '.join(command[:2])} ended with {cost.status}")
    return cost


def run_worker(
    program: str,
    *arguments: str,
    interpreter: str | Path = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Any:
    """Runs a Python program in a folder of its own; returns its last line, which is JSON.

    Args:
        program: The source.
        arguments: Those of the program.
        interpreter: The Python that runs it.
        variables: Environment variables to set.

    Raises:
        RuntimeError: The program failed. The message has its standard error.
    """
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        done = subprocess.run(
            [interpreter, "-c", program, *arguments],
            cwd=folder,
            env={**os.environ, **(variables or {})},
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise RuntimeError(f"a worker ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
