"""`marey dump --core`: stacks of processes that have ended, from their core files."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from interpreters import VERSIONS, interpreters, require
from programs import DEADLINE_SECS, Live, LiveCommand, marey_command, marey_stdout, run_command

PROGRAM = """
import asyncio, sys, threading

lock = threading.Lock()
lock.acquire()
ready = threading.Barrier(3)

def waits_for_lock():
    ready.wait()
    with lock:
        pass

async def sleeps():
    await asyncio.sleep(1000)

async def main():
    ready.wait()
    await sleeps()

def spins(number):
    while True:
        number += 1

threading.Thread(target=waits_for_lock, name="läder 读", daemon=True).start()
threading.Thread(target=lambda: asyncio.run(main()), name="tasks", daemon=True).start()
ready.wait()
print("ready", flush=True)
sys.stdin.readline()
spins(0)
"""


def line_of(code: str) -> int:
    return PROGRAM.splitlines().index(code) + 1


ATTEMPTS = 100
# The lines that the main thread runs.
SPINNING = {line_of("    while True:"), line_of("        number += 1")}


def start(version: str) -> Live:
    python = require(version)
    return Live(PROGRAM, python=python)


def settle(program: Live) -> int:
    """Returns the id of the program once its threads are where they stay."""
    assert program.read_line() == "ready"
    program.write_line()
    pid = program.process.pid
    for _ in range(ATTEMPTS):
        (process,) = json.loads(marey_stdout("dump", str(pid), "--json"))
        threads = {thread["name"]: thread for thread in process["threads"]}
        lines = [threads[name]["frames"][0]["line"] for name in ("MainThread", "läder 读")]
        waits = [threads[name]["wait"] for name in ("läder 读", "tasks")]
        if lines[0] in SPINNING and lines[1] == line_of("    with lock:") and all(waits):
            return pid
    raise AssertionError(process)


def write_core(pid: int) -> Path:
    """Writes the core file of a process that goes on."""
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("gcore is not on this machine")
    done = subprocess.run([gcore, "-o", "core", str(pid)], capture_output=True, check=False)
    core = Path(f"core.{pid}")
    if not core.exists():
        pytest.skip(f"gcore could not read the process: {done.stderr.decode()[-200:]}")
    return core


def read(core: Path, *options: str | Path) -> dict[str, Any]:
    (process,) = json.loads(marey_stdout("dump", "--core", core, "--json", *options))
    assert isinstance(process, dict)
    return process


@pytest.mark.parametrize("version", VERSIONS)
def test_a_core_file_has_the_stacks_of_all_threads_and_tasks(version: str) -> None:
    with start(version) as program:
        pid = settle(program)
        core = write_core(pid)
    process = read(core)
    assert process["pid"] == pid
    assert process["python"].startswith(f"{version}.")
    assert process["argv"][-1].endswith("program.py")
    assert process["signal"] is None

    threads = {thread["name"]: thread for thread in process["threads"] if thread["frames"]}
    assert set(threads) == {"MainThread", "läder 读", "tasks"}
    assert threads["MainThread"]["os_id"] == pid
    assert threads["MainThread"]["holds_gil"]
    assert not threads["tasks"]["holds_gil"]
    waiting = threads["läder 读"]["frames"][0]
    assert (waiting["function"], waiting["line"]) == ("waits_for_lock", line_of("    with lock:"))
    outermost = threads["MainThread"]["frames"][-1]
    assert (outermost["function"], outermost["line"]) == ("<module>", line_of("spins(0)"))
    assert outermost["file"].endswith("program.py")

    sleeping = next(task for task in process["tasks"] if len(task["frames"]) == 3)
    assert [frame["function"] for frame in sleeping["frames"]] == ["sleep", "sleeps", "main"]
    assert sleeping["waits_for"] == "a timer"
    assert sleeping["thread"] == threads["tasks"]["os_id"]


# Maps the interpreter once more as data, below the place where it is loaded.
MAPS_ITSELF = """
import ctypes, os

mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
PROT_READ, MAP_PRIVATE, MAP_FIXED, LOWEST = 1, 2, 16, 0x100000
lines = [line for line in open("/proc/self/maps") if "r-xp" in line and "python" in line]
files = {line.split()[-1] for line in lines}
for number, path in enumerate(sorted(files)):
    place, file = LOWEST + number * 65536, os.open(path, os.O_RDONLY)
    assert mmap(place, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == place
"""


def test_a_library_that_is_also_mapped_as_data_is_read_where_it_is_loaded() -> None:
    with Live(MAPS_ITSELF + PROGRAM) as program:
        assert program.read_line() == "ready"
        process = read(write_core(program.process.pid))
    threads = {thread["name"] for thread in process["threads"] if thread["frames"]}
    assert threads == {"MainThread", "läder 读", "tasks"}
    assert [task["waits_for"] for task in process["tasks"]] == ["a timer"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_core_file_of_the_kernel_names_the_signal(version: str) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern != "core":
        pytest.skip("the kernel writes core files elsewhere")
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] != resource.RLIM_INFINITY:
        pytest.skip("the kernel may write no core files")
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        with start(version) as program:
            pid = settle(program)
            program.process.send_signal(signal.SIGABRT)
            program.process.wait(DEADLINE_SECS)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    core = next(path for path in (Path("core"), Path(f"core.{pid}")) if path.exists())
    process = read(core)
    assert process["signal"]["name"] == "SIGABRT"
    threads = {thread["name"]: thread for thread in process["threads"]}
    assert threads["MainThread"]["frames"][-1]["line"] == line_of("spins(0)")
    assert threads["läder 读"]["wait"]["for"] == "a lock"
    # Across the C code that calls the event loop.
    assert threads["tasks"]["frames"][-1]["function"].endswith("_bootstrap")
    text = marey_stdout("dump", "--core", core).splitlines()
    assert text[0].startswith(f"Process {pid}: ")
    assert text[1].startswith(f"CPython {process['python']}, ended by SIGABRT in ")


def test_a_file_that_is_no_core_file_is_an_error() -> None:
    Path("text").write_text("no core")
    done = marey_command("dump", "--core", "text")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: text cannot be read as a core file: ")
    program = shutil.which("true")
    assert program is not None
    done = marey_command("dump", "--core", program)
    assert done.exit_code == 2
    assert "not a core file" in done.stderr


def test_a_cut_core_file_is_an_error_and_not_a_crash() -> None:
    with start("3.11") as program:
        assert program.read_line() == "ready"
        core = write_core(program.process.pid)
    contents = core.read_bytes()
    cut = Path("cut")
    for parts in range(10):
        cut.write_bytes(contents[: len(contents) * parts // 10])
        done = marey_command("dump", "--core", cut)
        assert done.exit_code in {0, 2}, done.stderr
        assert "panic" not in done.stderr


def is_in_one_file(python: str) -> bool:
    """Whether an interpreter is in its program, rather than in a library."""
    code = "print(open('/proc/self/maps').read())"
    done = run_command(python, "-c", code)
    assert done.exit_code == 0
    return "libpython" not in done.stdout


def test_another_program_than_that_of_the_core_file_is_refused() -> None:
    versions = [name for name, python in interpreters().items() if is_in_one_file(python)]
    if not versions:
        pytest.skip("each interpreter on this machine is in a library")
    with start(versions[0]) as program:
        assert program.read_line() == "ready"
        core = write_core(program.process.pid)
    other = shutil.which("true")
    assert other is not None
    done = marey_command("dump", "--core", core, "--executable", other)
    assert done.exit_code == 2
    assert f"error: {core} has no CPython that can be read: " in done.stderr
    assert "hint: --executable PATH" in done.stderr
    copy = Path("copy")
    changed = bytearray(Path(interpreters()[versions[0]]).resolve().read_bytes())
    # Padding of the header, so that it is a program all the same.
    changed[12] ^= 1
    copy.write_bytes(changed)
    done = marey_command("dump", "--core", core, "--executable", copy.absolute())
    assert done.exit_code == 2
    assert f"error: {copy.absolute()} is not the file that the process had mapped" in done.stderr


def test_a_process_without_python_is_named() -> None:
    with LiveCommand("sleep", 100) as sleeper:
        core = write_core(sleeper.process.pid)
    done = marey_command("dump", "--core", core)
    assert done.exit_code == 2
    assert f"error: {core} has no CPython that can be read: " in done.stderr
