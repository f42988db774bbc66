"""Processes of benchmarks: their cost as the system counts it, and what they have measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    """The cost of a process."""

    cpu_nanos: float
    memory_bytes: float
    """Peak of resident memory."""


def run(command: list[str], output: Path) -> Cost:
    """Runs a program of this environment, with its standard output into a file.

    Raises:
        RuntimeError: The program failed.
    """
    program = Path(sys.executable).with_name(command[0])
    with output.open("wb") as stdout:
        process = subprocess.Popen([program, *command[1:]], stdout=stdout)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return Cost((usage.ru_utime + usage.ru_stime) * 1e9, usage.ru_maxrss * 1024)


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
