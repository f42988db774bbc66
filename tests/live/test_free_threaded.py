"""Free-threaded builds of CPython, which are refused by name."""

from __future__ import annotations

import pytest
from interpreters import require
from programs import Live, marey_command

# Sets the flag by which CPython tells other processes that it is a free-threaded build: the third
# word of its table of offsets. Such builds have the table of their own layout behind it.
PROGRAM = """
import ctypes, sys
table = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
assert ctypes.string_at(table, 8) == b"xdebugpy"
ctypes.c_uint64.from_address(table + 16).value = 1
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("3.13", ("dump",)),
        ("3.14", ("dump",)),
        ("3.14", ("top", "--once")),
        ("3.14", ("record", "-d", "1", "-p")),
        ("3.14", ("attach",)),
    ],
)
def test_a_free_threaded_build_is_refused(version: str, command: tuple[str, ...]) -> None:
    python = require(version)
    with Live(PROGRAM, python=python) as program:
        assert program.read_line() == "ready"
        pid = program.process.pid
        done = marey_command(*command, pid)
        program.write_line()
        assert program.end().exit_code == 0
    assert done.exit_code == 2
    assert "free-threaded build" in done.stderr
    if command != ("attach",):
        assert f"error: process {pid} runs a free-threaded build of CPython" in done.stderr
        hint = "hint: start the program with the build of CPython that has the lock"
        assert hint in done.stderr
