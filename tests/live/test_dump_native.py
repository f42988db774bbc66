"""`marey dump --native`: native and Python frames as one stack."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import Live, marey_stdout

# The C library sorts by a function of Python, which waits.
PROGRAM = """
import ctypes, os, sys, threading

libc = ctypes.CDLL(None)
Compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
reader, writer = os.pipe()

@Compare
def compare(a, b):
    os.write(1, f"{os.getpid()}\\n".encode())
    os.read(reader, 1)
    return 0

def sort():
    numbers = (ctypes.c_int * 2)(2, 1)
    libc.qsort(numbers, 2, 4, compare)

def spin(is_done):
    while not is_done.is_set():
        pass

is_done = threading.Event()
threads = [
    threading.Thread(target=sort, name="sorts"),
    threading.Thread(target=spin, args=[is_done], name="spins"),
]
for thread in threads:
    thread.start()
sys.stdin.readline()
is_done.set()
os.write(writer, b".")
for thread in threads:
    thread.join()
print("done")
"""
ATTEMPTS = 20


def threads(pid: int) -> dict[str, dict[str, Any]]:
    """Returns the threads by their names, once the one that sorts waits."""
    for _ in range(ATTEMPTS):
        (process,) = json.loads(marey_stdout("dump", pid, "--native", "--json"))
        found = {thread["name"]: thread for thread in process["threads"]}
        if (found["sorts"]["wait"] or {}).get("call") == "read":
            if sys.version_info >= (3, 14) and "has_native_frames" not in found["sorts"]:
                pytest.skip("this interpreter runs Python code in functions without symbols")
            return found
    raise AssertionError(found)


@pytest.fixture
def program() -> Iterator[Live]:
    with Live(PROGRAM) as program:
        yield program


def test_native_frames_are_between_the_python_calls_that_they_connect(program: Live) -> None:
    pid = int(program.read_line())
    thread = threads(pid)["sorts"]
    assert thread["has_native_frames"]
    frames = thread["frames"]
    names = [frame["function"] for frame in frames]
    innermost = [frame for frame in frames[: names.index("compare")] if frame.get("is_native")]
    assert "libc" in Path(innermost[0]["file"]).name
    between = frames[names.index("compare") + 1 : names.index("sort")]
    assert all(frame["is_native"] for frame in between)
    assert any("libc" in Path(frame["file"]).name for frame in between)
    assert any("ctypes" in frame["file"] or "ffi" in frame["file"] for frame in between)
    assert [name for name in names if name in {"compare", "sort"}] == ["compare", "sort"]
    line = frames[names.index("compare")]["line"]
    assert PROGRAM.splitlines()[line - 1].strip() == "os.read(reader, 1)"


def test_a_thread_that_runs_is_shown_as_running_although_it_is_stopped(program: Live) -> None:
    pid = int(program.read_line())
    for _ in range(ATTEMPTS):
        thread = threads(pid)["spins"]
        if thread["is_running"]:
            break
    assert thread["is_running"]
    assert any(frame["function"] == "spin" for frame in thread["frames"])


def test_the_process_goes_on_and_is_not_traced(program: Live) -> None:
    pid = int(program.read_line())
    for _ in range(5):
        threads(pid)
    status = Path(f"/proc/{pid}/status").read_text()
    assert "TracerPid:\t0\n" in status
    program.write_line()
    outcome = program.end()
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "done\n", "")


def test_the_text_names_the_library_of_a_native_frame(program: Live) -> None:
    pid = int(program.read_line())
    threads(pid)
    lines = marey_stdout("dump", pid, "--native").splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("sorts ("))
    assert lines[at + 1].startswith("    ")
    assert "(libc" in lines[at + 1]
    assert any(line.endswith("program.py:11)") for line in lines[at:])
