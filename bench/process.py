"""Cost of a whole process, as the system counts it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


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
