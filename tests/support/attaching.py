"""A program that tests attach marey to, and the commands that do it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from programs import Live, marey_command

# Ends when a line arrives on stdin, without a call that waits.
IS_ENDED = "select.select([0], [], [], 0)[0]"

BUSY = f"""
import os, select, sys
names = set(globals()), list(sys.path)
print(os.getpid(), flush=True)
total = number = 0
while not {IS_ENDED}:
    for number in range(1000):
        total += number
print(total % 499500, sorted(set(globals()) - names[0]), sys.path == names[1])
import threading
print(threading.main_thread() is threading.current_thread(), sys.getswitchinterval())
"""
BUSY_OUTPUT = "0 ['names', 'number', 'total'] True\nTrue 0.005\n"


def attach(pid: int, *options: str) -> str:
    """Attaches and returns what was printed."""
    done = marey_command("attach", pid, *options)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    return done.stderr


def detach(pid: int) -> list[str]:
    """Detaches and returns the paths that were written."""
    done = marey_command("detach", pid)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    return re.findall(r"^wrote (.*)$", done.stderr, re.MULTILINE)


def detach_refusal(pid: int) -> str:
    done = marey_command("detach", pid)
    assert done.exit_code == 2, done.stderr
    return done.stderr.rpartition(f"error: process {pid} was left as it is: ")[2].rstrip("\n")


@pytest.fixture
def busy() -> Iterator[Live]:
    with Live(BUSY) as program:
        yield program


def end(program: Live) -> None:
    """Ends a busy program, which must not have noticed anything."""
    program.write_line()
    assert program.end() == (0, BUSY_OUTPUT, "")
