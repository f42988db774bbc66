"""`marey dump`: stacks of running processes, read from outside."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import (
    HOT_AND_COLD,
    Live,
    LiveCommand,
    marey_as_nobody,
    marey_command,
    marey_stdout,
    run_command,
    write_program,
)

PROGRAM = """
import os, socket, sys, threading

lock = threading.Lock()
lock.acquire()
reader, writer = os.pipe()

def waits_for_lock():
    learning_rate, names = 0.5, ["a", "b"]
    with lock:
        pass

def waits_for_data():
    os.read(reader, 1)

def spins():
    while True:
        pass

for function in (waits_for_lock, waits_for_data, spins):
    threading.Thread(target=function, name=function.__name__, daemon=True).start()
print(os.getpid(), flush=True)
sys.stdin.readline()
"""
ATTEMPTS = 100


def processes(pid: int, *options: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(marey_stdout("dump", pid, "--json", *options))
    return result


def threads(pid: int, *options: str) -> dict[str, dict[str, Any]]:
    """Returns the threads of a process by their names."""
    (process,) = processes(pid, *options)
    return {thread["name"]: thread for thread in process["threads"]}


def until(pid: int, is_reached: Callable[[dict[str, Any]], bool], *options: str) -> dict[str, Any]:
    """Returns the threads once they have reached a state."""
    for _ in range(ATTEMPTS):
        found = threads(pid, *options)
        if is_reached(found):
            return found
    raise AssertionError(found)


def all_wait(found: dict[str, Any]) -> bool:
    return all(found[name]["wait"] for name in ("MainThread", "waits_for_lock", "waits_for_data"))


@pytest.fixture
def pid() -> Any:
    with Live(PROGRAM) as program:
        yield int(program.read_line())
        program.write_line()
        assert program.end().exit_code == 0


def test_each_thread_has_its_stack_and_what_it_waits_for(pid: int) -> None:
    found = until(pid, all_wait)
    place = {
        name: (thread["frames"][0]["function"], thread["frames"][0]["line"])
        for name, thread in found.items()
    }
    assert place["waits_for_lock"] == ("waits_for_lock", 10)
    assert place["waits_for_data"] == ("waits_for_data", 14)
    assert place["spins"][0] == "spins"
    assert place["MainThread"] == ("<module>", 23)
    waits = {name: thread["wait"] and thread["wait"]["for"] for name, thread in found.items()}
    assert waits["waits_for_lock"] == "a lock"
    assert waits["waits_for_data"] == "data"
    assert found["waits_for_data"]["wait"]["file"].startswith("pipe:[")
    assert found["MainThread"]["wait"]["call"] == "read"
    assert found["spins"]["wait"] is None


def test_the_thread_that_runs_holds_the_gil(pid: int) -> None:
    def spins(found: dict[str, Any]) -> bool:
        return bool(found["spins"]["holds_gil"] and found["spins"]["is_running"])

    found = until(pid, spins)
    assert [name for name, thread in found.items() if thread["holds_gil"]] == ["spins"]
    assert found["MainThread"]["os_id"] == pid
    assert len({thread["os_id"] for thread in found.values()}) == len(found)


def test_local_variables_are_read_on_request(pid: int) -> None:
    frame = until(pid, all_wait, "--locals")["waits_for_lock"]["frames"][0]
    assert dict(frame["locals"]) == {"learning_rate": "0.5", "names": '["a", "b"]'}
    assert "locals" not in until(pid, all_wait)["waits_for_lock"]["frames"][0]


def test_the_text_names_process_threads_and_lines(pid: int) -> None:
    until(pid, all_wait)
    lines = marey_stdout("dump", pid).splitlines()
    assert lines[0].startswith(f"Process {pid}: ")
    assert lines[0].endswith("program.py")
    version = ".".join(map(str, sys.version_info[:3]))
    assert lines[1] == f"CPython {version}"
    at = next(index for index, line in enumerate(lines) if line.startswith("waits_for_lock ("))
    assert lines[at].endswith(") waits for a lock (futex)")
    assert lines[at + 1].startswith("    waits_for_lock (/")
    assert lines[at + 1].endswith("program.py:10)")


def test_the_tree_includes_children_of_children() -> None:
    source = """
    import os, subprocess, sys
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if depth < 2:
        child = subprocess.Popen([sys.executable, __file__, str(depth + 1)], stdin=subprocess.PIPE)
    else:
        print(os.getppid(), os.getpid(), flush=True)
    sys.stdin.readline()
    """
    with Live(source) as program:
        parent, grandchild = map(int, program.read_line().split())
        found = processes(program.process.pid, "--tree")
        assert [process["pid"] for process in found] == [program.process.pid, parent, grandchild]
        assert found[-1]["argv"][-1] == "2"


def test_the_tree_of_a_program_that_is_not_python_has_its_children() -> None:
    program = write_program("import os; print(os.getpid(), flush=True); input()")
    with LiveCommand("sh", "-c", f"{sys.executable} {program}; :") as shell:
        child, pid = int(shell.read_line()), shell.process.pid
        done = marey_command("dump", pid, "--tree", "--json")
        assert done.stderr.startswith(f"warning: process {pid} is not a CPython process")
        assert [process["pid"] for process in json.loads(done.stdout)] == [child]
        shell.write_line()
        shell.end()


def test_the_tree_of_a_job_has_its_ranks() -> None:
    pytest.importorskip("torch")
    source = """
    import os
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, as another rank writes too
    open("end").read()
    """
    os.mkfifo("end")
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", str(write_program(source))]
    job = LiveCommand(sys.executable, "-m", *launcher)
    try:
        ranks = {int(job.read_line()) for _ in range(2)}
        root, *others = processes(job.process.pid, "--tree")
        assert root["pid"] == job.process.pid
        stacks = {process["pid"]: process["threads"][0]["frames"] for process in others}
        assert {pid for pid in stacks if pid in ranks} == ranks
        for rank in ranks:
            assert stacks[rank][-1]["file"].endswith("program.py")
    finally:
        Path("end").write_text("")
        assert job.end().exit_code == 0


FORBIDDEN = """
import ctypes, os, platform, struct, sys

# Numbers of ptrace and process_vm_writev.
CALLS = {"x86_64": (101, 311), "aarch64": (117, 271)}[platform.machine()]
LOAD, IS_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
steps = [(LOAD, 0, 0, 0), (IS_EQUAL, 2, 0, CALLS[0]), (IS_EQUAL, 1, 0, CALLS[1])]
steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, KILL_PROCESS)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
prctl = ctypes.CDLL(None, use_errno=True).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, MODE_FILTER, program):
    sys.exit("no filter: " + os.strerror(ctypes.get_errno()))
os.execv(sys.executable, [sys.executable, "-m", "marey", *sys.argv[1:]])
"""


def test_reading_needs_no_call_that_stops_or_writes() -> None:
    def exit_code(*arguments: str) -> int:
        program = write_program(FORBIDDEN, "forbidden.py")
        done = run_command(sys.executable, program, *arguments)
        assert "no filter" not in done.stderr, done.stderr
        return done.exit_code

    with Live(HOT_AND_COLD) as program:
        pid = program.read_line()
        assert exit_code("dump", pid, "--locals", "--tree") == 0
        assert exit_code("inspect", pid, "sys.argv") == 0
        assert exit_code("top", pid, "--once", "--duration", "0.2") == 0
        assert exit_code("record", "-p", pid, "-d", "0.2") == 0
        assert exit_code("hang", pid, "--interval", "0.1") == 0
        # The filter works.
        assert exit_code("dump", pid, "--native") == -signal.SIGSYS


def test_native_frames_are_not_of_a_ring() -> None:
    done = marey_command("dump", os.getpid(), "--ring", "--native")
    assert done.exit_code == 2
    assert "cannot be used with" in done.stderr


def test_a_process_that_does_not_exist_is_an_error() -> None:
    done = marey_command("dump", 2**22 + 1)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: there is no process {2**22 + 1}\n"


def test_a_process_without_python_is_an_error() -> None:
    with LiveCommand("sleep", 100) as sleeper:
        done = marey_command("dump", sleeper.process.pid)
    assert done.exit_code == 2
    expected = f"error: process {sleeper.process.pid} is not a CPython process that can be read: "
    assert done.stderr.startswith(expected)


def test_a_process_of_another_user_is_refused_with_the_remedy(pid: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    done = marey_as_nobody("dump", pid)
    assert done.exit_code == 2
    assert f"error: process {pid} cannot be read: the system does not allow it\n" in done.stderr
    assert "hint: " in done.stderr
    assert "--cap-add SYS_PTRACE" in done.stderr


def test_secrets_of_the_command_line_and_the_environment_are_not_shown() -> None:
    source = "import sys; print('ready', flush=True); sys.stdin.readline()"
    command = [sys.executable, "-c", source, "--lr=0.25", "--token", "hunter2"]
    with LiveCommand(*command, API_KEY="hunter3") as program:
        assert program.read_line() == "ready"
        shown = [
            marey_stdout("dump", program.process.pid, *options)
            for options in ((), ("--json",), ("--locals",))
        ]
    for text in shown:
        assert "--lr=0.25" in text
        assert "hunter" not in text
    assert "--token ***" in shown[0]


def test_a_process_that_was_read_ends_as_ever() -> None:
    source = """
    import os, sys, threading
    def work(n=0):
        return work(n + 1) if n < 50 else sum(range(1000))
    print(os.getpid(), flush=True)
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), done.set())).start()
    total = 0
    while not done.is_set():
        total += work()
    print(total % work())
    """
    with Live(source) as program:
        pid = int(program.read_line())
        for _ in range(20):
            assert threads(pid)["MainThread"]["frames"]
        program.write_line()
        outcome = program.end()
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "0\n", "")


def test_one_thread_is_shown_and_an_unknown_one_named(pid: int) -> None:
    found = until(pid, all_wait)
    waiter = found["waits_for_lock"]["os_id"]
    (process,) = processes(pid, str(waiter))
    assert [thread["name"] for thread in process["threads"]] == ["waits_for_lock"]
    done = marey_command("dump", pid, "1")
    assert done.exit_code == 2
    assert f"process {pid} has no thread 1" in done.stderr


def has_native_frames(pid: int) -> bool:
    return "has_native_frames" in threads(pid, "--native")["waits_for_data"]


IN_CONTAINER = f"""
import ctypes, os, sys

CLONE_NEWPID = 0x20000000
if ctypes.CDLL(None).unshare(CLONE_NEWPID) != 0:
    sys.exit("not permitted")
if child := os.fork():
    print(child, flush=True)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
{PROGRAM}
"""


def test_threads_of_a_container_are_understood_from_outside(pid: int) -> None:
    # A stripped CPython 3.14 whose instructions are functions has none.
    until(pid, all_wait)
    has_native = has_native_frames(pid)
    assert has_native or sys.version_info >= (3, 14)
    with Live(IN_CONTAINER) as program:
        lines = {program.read_line(), program.read_line()} - {"1"}  # its id in the container
        if lines == {""}:
            pytest.skip("no PID namespace may be created here")
        contained = int(lines.pop())
        found = until(contained, lambda found: found["waits_for_lock"]["wait"] is not None)
        assert set(found) == {"MainThread", "waits_for_lock", "waits_for_data", "spins"}
        os_ids = {thread["os_id"] for thread in found.values()}
        assert os_ids == {int(name) for name in os.listdir(f"/proc/{contained}/task")}
        assert found["MainThread"]["os_id"] == contained
        assert found["spins"]["is_running"]
        assert not found["waits_for_data"]["is_running"]
        assert found["waits_for_data"]["wait"]["file"].startswith("pipe:[")
        assert has_native_frames(contained) == has_native
        marey_stdout("record", "--pid", contained, "--duration", "0.3", "--output", "run.marey")
        names = marey_stdout("query", "run.marey", "SELECT name FROM threads", "--format", "csv")
        assert "spins" in names
        program.write_line()
