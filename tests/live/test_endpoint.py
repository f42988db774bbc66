"""`marey ps`, `flush`, `config`, and a process in the place of a run, on live processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from containers import in_container, needs_mounts
from programs import (
    DEADLINE_SECS,
    NOBODY_UID,
    Live,
    LiveCommand,
    marey_command,
    marey_stdout,
    run_command,
    until,
)

PROGRAM = """
import os, sys
import marey

marey.start("program", data=sys.argv[1] if len(sys.argv) > 1 else "tree")
print(os.getpid(), flush=True)
for line in sys.stdin:
    with marey.scope(line.strip()):
        pass
    print("done", flush=True)
"""
STEPS = """
import os, sys
import torch
import marey
import marey.torch

marey.start("steps")
marey.torch.enable()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters())
print(os.getpid(), flush=True)
for line in sys.stdin:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    print("done", flush=True)
"""
# Runs PROGRAM as the first process of a container, as far as its process ids go.
CONTAINER = f"""
import ctypes, os, sys

CLONE_NEWPID = 0x20000000
if ctypes.CDLL(None).unshare(CLONE_NEWPID) != 0:
    sys.exit("not permitted")
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
{PROGRAM}
"""
# More requests than the endpoint once kept for Python.
MANY_REQUESTS = 40
# No test runs longer: a greater age has another unit or begins at another time.
MAX_AGE_SECS = 120


def listed(pid: int) -> dict[str, Any] | None:
    """Returns what `marey ps` says of a process, `None` if it does not list the process."""
    processes: list[dict[str, Any]] = json.loads(marey_stdout("ps", "--json"))
    return next((process for process in processes if process["pid"] == pid), None)


def record(program: Live, name: str) -> None:
    program.write_line(name)
    assert program.read_line() == "done"


@contextlib.contextmanager
def recording(source: str = PROGRAM, **env: str) -> Iterator[tuple[Live, int]]:
    """Runs a program that prints its id once it records, until its socket is there."""
    with Live(source, **env) as program:
        pid = int(program.read_line())
        wait_for_socket(pid, env.get("XDG_RUNTIME_DIR"))
        yield program, pid


def wait_for_socket(pid: int, runtime_dir: str | None = None) -> None:
    until(socket_path(pid, runtime_dir).exists)


def test_a_recording_process_is_listed_until_it_ends() -> None:
    with recording(RANK="3") as (program, pid):
        record(program, "work")
        process = listed(pid)
        assert process is not None
        assert process["rank"] == 3
        assert process["is_active"]
        assert process["events"] >= 2
        assert process["losses"] == {}
        assert 0 < process["age_s"] < MAX_AGE_SECS
        assert process["paths"] == [os.path.realpath("program.rank3.hatchet")]
        assert process["command"][-1].endswith("program.py")
        later = listed(pid)
        assert later is not None
        assert process["age_s"] < later["age_s"] < MAX_AGE_SECS
        title, *rows = marey_stdout("ps").splitlines()
        row = next(row for row in rows if row.split()[0] == str(pid))
        assert row.split()[1] == "3"
        age = row[: title.index("AGE") + 3].split()[3:]  # "1.2 s"; from a minute on "1:01"
        if later["age_s"] < 55:
            assert later["age_s"] - 0.1 <= float(age[0]) < MAX_AGE_SECS
            assert age[1:] == ["s"]
        assert row.endswith("program.rank3.hatchet")
        assert program.end().exit_code == 0
        assert listed(pid) is None


def test_the_losses_of_a_process_are_listed() -> None:
    source = """
    import os
    import marey

    marey.start("program", data="tree")
    for number in range(12):
        with marey.scope(f"scope {number}"):
            pass
    print(os.getpid(), flush=True)
    input()
    """
    with recording(source, MAREY_MAX_NODES="10") as (_, pid):
        process = listed(pid)
        assert process is not None
        count = process["losses"]["nodes"]
        assert count >= 2
        assert process["losses"] == {"nodes": count}
        title, *rows = marey_stdout("ps").splitlines()
        row = next(row for row in rows if row.split()[0] == str(pid))
        assert row[: title.index("LOSSES") + len("LOSSES")].split()[-1] == str(count)


def test_the_socket_of_a_killed_process_is_removed() -> None:
    with recording() as (program, pid):
        assert listed(pid) is not None
        program.process.send_signal(signal.SIGKILL)
        program.process.wait(DEADLINE_SECS)
        assert listed(pid) is None
        assert not socket_path(pid).exists()


def test_the_socket_of_an_ended_process_whose_id_another_one_has_is_removed() -> None:
    with Live("import os; print(os.getpid(), flush=True); input()") as program:
        pid = int(program.read_line())
        path = socket_path(pid)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as abandoned:
            abandoned.bind(str(path))
        done = marey_command("ps", "--json")
        assert f"process {pid}" not in done.stderr
        assert not path.exists()


def test_processes_that_are_stopped_are_named_and_the_others_listed() -> None:
    with contextlib.ExitStack() as stack:
        _, pid = stack.enter_context(recording())
        stopped = [stack.enter_context(recording()) for _ in range(2)]
        for program, stopped_pid in stopped:
            program.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, stopped_pid, os.WSTOPPED)
        start = time.monotonic()
        done = marey_command("ps", "--json")
        # Both share the two seconds of the command.
        assert time.monotonic() - start < 10
        assert pid in [process["pid"] for process in json.loads(done.stdout)]
        for _, stopped_pid in stopped:
            expected = (
                f"warning: process {stopped_pid} does not answer: it is stopped; no answer in 2 s; "
                f"`marey dump {stopped_pid}` shows where the process is\n"
            )
            assert expected in done.stderr


def test_a_process_that_ends_by_sigterm_leaves_no_socket() -> None:
    with recording() as (program, pid):
        assert socket_path(pid).exists()
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(DEADLINE_SECS) == -signal.SIGTERM
        assert not socket_path(pid).exists()


def test_a_flush_writes_the_profile_of_a_running_process() -> None:
    with recording() as (program, pid):
        record(program, "first")
        assert not Path("program.hatchet").exists()
        done = marey_command("flush", str(pid))
        assert done.stderr == f"process {pid} wrote `{os.path.realpath('program.hatchet')}`\n"
        assert "first" in marey_stdout("view", "program.hatchet")
        record(program, "second")
        assert "second" in marey_stdout("view", str(pid))


def test_a_process_takes_the_place_of_a_run_with_all_that_it_has_recorded() -> None:
    names = "SELECT DISTINCT name(name_id) AS name FROM spans ORDER BY 1"
    source = 'import sys; sys.argv.append("trace")\n' + PROGRAM
    with recording(source) as (program, pid):
        record(program, "first")
        rows = json.loads(marey_stdout("query", str(pid), names, "-f", "json"))
        assert rows == [{"name": "first"}]
        record(program, "second")
        rows = json.loads(marey_stdout("query", str(pid), names, "-f", "json"))
        assert rows == [{"name": "first"}, {"name": "second"}]
        # The process is first in the commands of the Probing documentation.
        assert json.loads(marey_stdout(str(pid), "query", names, "-f", "json")) == rows
        assert json.loads(marey_stdout("info", str(pid), "--json"))["events"] >= 2


def test_a_setting_is_shown_and_changed_in_the_running_process() -> None:
    with recording() as (_, pid):
        assert (
            marey_stdout("config", str(pid), "checkpoint.interval")
            == "checkpoint.interval = 10 s\n"
        )
        changed = marey_stdout("config", str(pid), "checkpoint.interval=0.25", "spool.max_bytes=7")
        assert changed == "checkpoint.interval = 0.25 s\nspool.max_bytes = 7 B\n"
        shown = json.loads(marey_stdout("config", str(pid), "--json"))
        assert shown["checkpoint.interval"]["value"] == "0.25"
        assert shown["checkpoint.interval"]["range"] == [0, 86400]
        assert "spool.max_bytes = 7 B\n" in marey_stdout("config", str(pid))


def test_no_setting_is_changed_if_one_is_unknown_or_out_of_its_range() -> None:
    with recording() as (_, pid):
        done = marey_command("config", str(pid), "spool.max_bytes=7", "checkpoint.intervall=1")
        assert done.exit_code == 2
        assert "there is no setting `checkpoint.intervall`" in done.stderr
        assert "did you mean `checkpoint.interval`?" in done.stderr
        done = marey_command("config", str(pid), "spool.max_bytes=7", "checkpoint.interval=-1")
        assert "`checkpoint.interval` is a number from 0 to 86400 s, not `-1`" in done.stderr
        assert "17179869184" in marey_stdout("config", str(pid), "spool.max_bytes")


def test_operators_are_recorded_from_the_step_after_they_are_switched_on() -> None:
    with recording(STEPS) as (program, pid):
        record(program, "")
        assert "aten::" not in marey_stdout("view", str(pid))
        process = listed(pid)
        assert process is not None
        assert process["steps"] == 1
        # The name of the Probing documentation.
        assert (
            marey_stdout(str(pid), "config", "probing.torch.profiling=on")
            == "torch.operators = on\n"
        )
        record(program, "")
        record(program, "")
        assert "aten::addmm" in marey_stdout("view", str(pid))
        marey_stdout("config", str(pid), "torch.operators=off")
        record(program, "")
        assert "torch.operators = off\n" in marey_stdout("config", str(pid))


def test_a_setting_that_has_no_effect_yet_is_set_with_a_warning() -> None:
    with recording() as (_, pid):  # a profile, without PyTorch
        done = marey_command("config", pid, "probing.sample_rate=0.1", "sample.scope=load")
        assert (done.exit_code, done.stdout) == (
            0,
            "sample.interval = 0.1 s\nsample.scope = load\n",
        )
        for key in ("sample.interval", "sample.scope"):
            assert f"warning: `{key}`: nothing is sampled, because the process" in done.stderr
        done = marey_command("config", pid, "probing.torch.profiling=on")
        assert done.stdout == "torch.operators = on\n"
        assert "warning: `torch.operators`: it begins at the end of" in done.stderr
        done = marey_command("config", pid, "torch.memory=on")
        assert "warning: `torch.memory`: it begins at the end of" in done.stderr
        done = marey_command("config", pid, "torch.operators=off", "torch.shapes=all")
        assert "warning: `torch.shapes`: no shapes are recorded while operators" in done.stderr
        done = marey_command("config", pid, "torch.memory=off", "sample.interval=0")
        assert (done.exit_code, done.stderr) == (0, "")


def test_a_setting_that_has_an_effect_is_set_without_a_warning() -> None:
    with recording('import sys; sys.argv.append("trace")\n' + PROGRAM) as (_, pid):
        assert marey_command("config", pid, "sample.interval=0.1").stderr == ""


def test_a_variable_whose_value_a_setting_cannot_have_is_noted_in_the_run() -> None:
    source = 'import sys; sys.argv.append("trace")\n' + PROGRAM
    with recording(source, MAREY_SAMPLE_SECS="abc", MAREY_CHECKPOINT_SECS="5") as (_, pid):
        assert marey_stdout("config", pid, "sample.interval") == "sample.interval = 0 s\n"
        notes = "SELECT key, value FROM metadata WHERE key LIKE 'MAREY_%' ORDER BY key"
        rows = json.loads(marey_stdout("query", pid, notes, "-f", "json"))
        assert [row["key"] for row in rows] == ["MAREY_SAMPLE_SECS"], rows
        assert "ignored: `sample.interval` is" in rows[0]["value"]


@pytest.mark.parametrize("arguments", [["flush"], ["config"], ["query"], ["info"]])
def test_a_process_that_does_not_record_is_refused_with_what_works(arguments: list[str]) -> None:
    with Live("import os; print(os.getpid(), flush=True); input()") as program:
        pid = int(program.read_line())
        done = marey_command(
            *arguments, str(pid), *(["SELECT 1"] if arguments == ["query"] else [])
        )
        assert done.exit_code == 2
        assert f"process {pid} does not record" in done.stderr
        assert f"`marey dump {pid}`" in done.stderr


def test_a_process_that_does_not_exist_is_named() -> None:
    done = marey_command("flush", "4194303")
    assert (done.exit_code, done.stderr) == (2, "error: there is no process 4194303\n")


def test_python_that_hangs_in_c_with_the_gil_is_still_answered_for() -> None:
    source = """
    import os, re, sys
    import marey

    marey.start("hangs")
    print(os.getpid(), flush=True)
    re.match(r"(a+)+$", "a" * 64 + "b")
    """
    with recording(source) as (_, pid):
        assert listed(pid) is not None
        marey_stdout("flush", str(pid))
        assert Path("hangs.hatchet").exists()


def test_a_request_to_python_is_withdrawn_when_its_client_has_gone() -> None:
    source = """
    import os, sys, threading
    import marey

    def step(number):
        return number  # watched

    marey.start("waits", data="trace")
    ends = threading.Event()
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    threading.Thread(target=lambda: (sys.stdin.readline(), ends.set())).start()
    while not ends.is_set():
        step(1)
    """
    with recording(source) as (program, pid):
        wait_for_read(pid)
        lines = Path("program.py").read_text().splitlines()
        line = next(n for n, text in enumerate(lines, 1) if text.endswith("# watched"))
        spec = f"program.py:{line}:number"
        for request in (f"watch {spec}", "sample") * MANY_REQUESTS:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(socket_path(pid)))
                client.sendall(f"marey 1 {request}\n".encode())
        assert listed(pid) is not None  # answered after all of them
        program.write_line()
        assert json.loads(marey_stdout("watch", str(pid), "--json")) == []
        (watch,) = json.loads(marey_stdout("watch", str(pid), spec, "--json"))
        assert watch["spec"] == spec
        samples = marey_stdout("query", str(pid), "SELECT count(*) FROM samples", "-f", "csv")
        assert samples.split() == ["count(*)", "0"]
        marey_stdout("sample", str(pid))
        program.write_line()
        assert program.end().exit_code == 0


def test_python_whose_queue_of_pending_calls_is_full_is_asked_again() -> None:
    source = """
    import ctypes, os, select, sys
    import marey

    Call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    add = ctypes.pythonapi.Py_AddPendingCall
    add.argtypes = [Call, ctypes.c_void_p]

    @Call
    def do_nothing(_):
        return 0

    # While it runs, as a pending call itself, no other one begins.
    @Call
    def hold(_):
        sys.stdin.readline()
        free = 0
        while add(do_nothing, None) == 0:
            free += 1
        print(free, flush=True)
        sys.stdin.readline()
        while not marey._native.needs_sampling():  # for a request
            os.sched_yield()
        return 0

    marey.start("full", data="trace")
    print(os.getpid(), flush=True)
    for _ in range(2):
        add(hold, None)
        while not select.select([0], [], [], 0.01)[0]:
            pass
        sys.stdin.readline()
    """
    with recording(source) as (program, pid):
        wait_for_read(pid)
        program.write_line()
        places = int(program.read_line())
        assert places > 0
        done = marey_command("config", pid, "sample.interval=0.01")
        assert done.exit_code == 0
        assert "warning: `sample.interval`: nothing is sampled yet, because its" in done.stderr
        assert marey_command("config", pid, "sample.interval=0").stderr == ""
        program.write_line()
        assert marey_command("sample", pid).exit_code == 0
        program.write_line()
        wait_for_read(pid)
        for _ in range(places):
            marey_request(pid, "set sample.interval 0")
        program.write_line()
        assert int(program.read_line()) == places - 1  # one call for all of them
        program.write_line()
        assert marey_command("sample", pid).exit_code == 0
        program.write_line()
        assert program.end().exit_code == 0


def marey_request(pid: int, request: str) -> str:
    """Returns the answer of a process to a request of its socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path(pid)))
        client.sendall(f"marey 1 {request}\n".encode())
        return client.makefile().read()


def wait_for_read(pid: int) -> None:
    """Waits until the main thread of a process is in the system call `read`."""

    def is_in_read() -> object:
        (process,) = json.loads(marey_stdout("dump", str(pid), "--json"))
        wait = process["threads"][0]["wait"]
        return wait is not None and wait["call"] == "read"

    until(is_in_read)


def test_no_socket_is_opened_where_the_environment_forbids_it() -> None:
    with Live(PROGRAM, MAREY_ENDPOINT="0") as program:
        pid = int(program.read_line())
        assert listed(pid) is None
        assert not socket_path(pid).exists()


def test_a_recording_process_listens_on_no_network() -> None:
    source = """
    import os
    import marey

    marey.start("program", data="trace")
    print(os.getpid(), flush=True)
    input()
    """
    with recording(source) as (_, pid):
        assert listed(pid) is not None
        descriptors = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        own = {name[8:-1] for name in descriptors if name.startswith("socket:[")}
        assert own  # its Unix socket
        for table in ("tcp", "tcp6", "udp", "udp6", "raw", "packet"):
            path = Path(f"/proc/{pid}/net/{table}")
            lines = path.read_text().splitlines()[1:] if path.exists() else []
            assert not own.intersection(word for line in lines for word in line.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces of process ids")
def test_processes_of_containers_with_equal_ids_have_sockets_of_their_own() -> None:
    with contextlib.ExitStack() as stack:
        runtime_dir = stack.enter_context(tempfile.TemporaryDirectory())
        for name in ("first", "second"):
            source = CONTAINER.replace('"program"', f'"{name}"')
            program = stack.enter_context(Live(source, XDG_RUNTIME_DIR=runtime_dir))
            assert program.read_line() == "1"
            record(program, name)
        sockets = Path(runtime_dir, "marey")
        until(lambda: len(list(sockets.glob("*"))) >= 2)
        processes = json.loads(marey_command("ps", "--json", XDG_RUNTIME_DIR=runtime_dir).stdout)
        for name in ("first", "second"):
            path = os.path.realpath(f"{name}.hatchet")
            pids = [process["pid"] for process in processes if process["paths"] == [path]]
            assert len(pids) == 1
            done = marey_command("flush", str(pids[0]))
            assert done.stderr == f"process {pids[0]} wrote `{path}`\n"
            assert name in marey_stdout("view", path)


@needs_mounts
def test_paths_in_a_container_are_shown_as_they_are_reached_from_outside() -> None:
    line = in_container("mount -t tmpfs none /dev/shm && cd /dev/shm", PROGRAM)
    with LiveCommand(*line) as program:
        pid = int(program.read_line())
        wait_for_socket(pid)
        path = f"/proc/{pid}/root/dev/shm/program.hatchet"
        for is_written in (False, True):
            if is_written:
                marey_stdout("flush", str(pid))
            assert Path(path).exists() == is_written
            recorded = listed(pid)
            assert recorded is not None
            assert recorded["paths"] == [path]
        program.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_socket_in_a_folder_of_another_user_is_not_trusted() -> None:
    with (
        tempfile.TemporaryDirectory() as runtime_dir,
        recording(XDG_RUNTIME_DIR=runtime_dir) as (_, pid),
    ):
        assert "checkpoint.interval" in marey_stdout("config", str(pid))
        os.chown(Path(runtime_dir, "marey"), NOBODY_UID, NOBODY_UID)
        done = marey_command("config", str(pid))
        assert done.exit_code == 2
        assert f"process {pid} does not record" in done.stderr
        os.chown(Path(runtime_dir, "marey"), 0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_is_refused_and_counted() -> None:
    with (
        tempfile.TemporaryDirectory() as runtime_dir,
        recording(XDG_RUNTIME_DIR=runtime_dir) as (_, pid),
    ):
        path = socket_path(pid, runtime_dir)
        status = b"marey 1 status\n"
        assert connect(path, status).startswith("ok\n")
        assert Path(path.parent).stat().st_mode & 0o777 == 0o700
        assert connect(path, status, NOBODY_UID) == "PermissionError"
        # Even with a way in through the folders, the peer is checked.
        for openable in (Path(runtime_dir), path.parent, path):
            openable.chmod(0o777)
        assert "belongs to another user" in connect(path, b"", NOBODY_UID)
        path.parent.chmod(0o700)
        assert "refused_connections\t1\n" in connect(path, status)


def connect(path: Path, request: bytes, uid: int = 0) -> str:
    """Returns the answer to a request of a user, or the name of the error."""
    source = f"""
import os, socket
os.setuid({uid})
try:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect({str(path)!r})
        if {request!r}:
            peer.sendall({request!r})
        print(peer.makefile().read(), end="")
except OSError as error:
    print(type(error).__name__, end="")
"""
    done = run_command("/usr/bin/env", "python3", "-c", source)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def socket_path(pid: int, runtime_dir: str | None = None) -> Path:
    runtime_dir = runtime_dir or os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime_dir, "marey") if runtime_dir else Path(f"/tmp/marey-{os.geteuid()}")
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return folder / f"{pid}-{namespace}.sock"
