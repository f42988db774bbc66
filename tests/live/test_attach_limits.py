"""`marey attach` to processes of other users and in containers, and to those that it refuses."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import textwrap
from pathlib import Path

import marey
import pytest
from attaching import BUSY, BUSY_OUTPUT, attach, detach, detach_refusal, end
from containers import in_container, needs_mounts
from interpreters import require
from programs import NOBODY_UID, Live, LiveCommand, marey_as_nobody, marey_command, write_program
from trace_files import run_rows


def test_a_process_of_marey_run_is_left_as_it_is() -> None:
    with Live(BUSY, "-m", "marey", "run", "-d", "trace", "-n", "outer") as program:
        pid = int(program.read_line())
        done = marey_command("attach", pid)
        path = Path("outer.marey").absolute()
        assert done.stderr.endswith(
            f"error: process {pid} was left as it is: it is recorded already, into {path}\n"
        )
        assert "`marey attach` did not start it" in detach_refusal(pid)
        program.write_line()
        assert program.end().exit_code == 0


def test_a_process_that_disables_marey_is_left_as_it_is() -> None:
    with Live(BUSY, MAREY_DISABLE="1") as program:
        pid = int(program.read_line())
        done = marey_command("attach", pid)
        assert done.exit_code == 2
        assert done.stderr.endswith("left as it is: MAREY_DISABLE is set in its environment\n")
        end(program)


def test_a_process_that_forbids_remote_debugging_is_left_as_it_is() -> None:
    forbidding = {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}
    with Live(BUSY, python=require("3.14"), **forbidding) as program:
        pid = int(program.read_line())
        done = marey_command("attach", pid)
        assert done.exit_code == 2
        assert "it forbids that, by PYTHON_DISABLE_REMOTE_DEBUG" in done.stderr
        end(program)


def test_a_process_that_has_stopped_is_refused_with_the_remedy(busy: Live) -> None:
    pid = int(busy.read_line())
    busy.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    done = marey_command("attach", pid)
    busy.process.send_signal(signal.SIGCONT)
    expected = f"error: process {pid} is stopped\nhint: continue it: kill -CONT {pid}\n"
    assert (done.exit_code, done.stderr) == (2, expected)
    end(busy)


def test_a_process_without_python_is_refused() -> None:
    with LiveCommand("sleep", 100) as sleeper:
        done = marey_command("attach", sleeper.process.pid)
    assert done.exit_code == 2
    assert done.stderr.endswith("no interpreter of CPython was found in it\n")


def test_a_process_that_does_not_exist_is_an_error() -> None:
    for verb in ("attach", "detach"):
        done = marey_command(verb, 2**22 + 1)
        assert (done.exit_code, done.stderr) == (2, f"error: there is no process {2**22 + 1}\n")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@needs_root
def test_a_process_of_another_user_is_refused_with_the_remedy(busy: Live) -> None:
    pid = int(busy.read_line())
    done = marey_as_nobody("attach", pid)
    assert done.exit_code == 2
    assert f"error: process {pid} cannot be read: the system does not allow it\n" in done.stderr
    assert "--cap-add SYS_PTRACE" in done.stderr
    end(busy)


@needs_root
def test_root_attaches_to_a_process_of_another_user(tmp_path: Path) -> None:
    # The interpreter may be in root's home, so the user changes after the imports.
    imports = "import importlib.metadata, importlib.util, marey._attached, marey._backend"
    change = f"{imports}\nos.setgid({NOBODY_UID})\nos.setuid({NOBODY_UID})\nnames ="
    source = textwrap.dedent(BUSY).replace("names =", change, 1)
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.is_relative_to(tempfile.gettempdir()) and parent.owner() == "root":
            parent.chmod(parent.stat().st_mode | 0o055)
    with Live(source) as program:
        pid = int(program.read_line())
        attach(pid)
        (path,) = detach(pid)
        assert Path(path).stat().st_uid == NOBODY_UID
        end(program)


@needs_mounts
def test_a_process_in_a_container_is_reached_by_its_own_paths() -> None:
    # A /tmp of its own, as containers have.
    mounts = "mount -t tmpfs none /var/tmp && mount -t tmpfs none /dev/shm"
    program = LiveCommand(*in_container(mounts, BUSY))
    pid = int(program.read_line())
    relative = marey_command("attach", pid, "-o", "x.marey")
    assert relative.stderr.endswith("-o must be an absolute path inside of it\n")
    said = attach(pid, "-o", "/dev/shm/inner.marey")
    path = f"/proc/{pid}/root/dev/shm/inner.marey"
    assert f"process {pid} records into {path};" in said
    assert not Path("/dev/shm/inner.marey").exists()
    assert detach(pid) == [path]
    assert Path(path, "spool").is_dir()
    program.write_line()
    assert program.end().stdout == BUSY_OUTPUT


@needs_mounts
def test_a_process_in_another_pid_namespace_is_recorded() -> None:
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    program = LiveCommand(*namespaces, sys.executable, "-u", write_program(BUSY))
    assert program.read_line() == "1"  # its id inside
    outside = program.process.pid
    children = Path(f"/proc/{outside}/task/{outside}/children")
    pid = int(children.read_text())
    run = Path("inner.marey").absolute()
    assert f"process {pid} records into /proc/{pid}/root{run};" in attach(pid, "-o", str(run))
    assert detach(pid) == [f"/proc/{pid}/root{run}"]
    program.write_line()
    assert program.end().stdout == BUSY_OUTPUT
    assert run_rows(run, "SELECT pid FROM processes") == [(1,)]


@needs_mounts
def test_a_container_without_marey_is_refused_with_the_remedy() -> None:
    package = Path(marey.__file__).parent
    program = LiveCommand(*in_container(f"mount -t tmpfs none {package}", BUSY))
    pid = int(program.read_line())
    done = marey_command("attach", pid)
    assert done.exit_code == 2
    assert done.stderr.startswith(
        f"error: process {pid} cannot import marey: its file system, that of a container, has no "
    )
    assert (
        f"hint: install marey there and attach from inside: sudo nsenter -t {pid} -a" in done.stderr
    )
    program.write_line()
    assert program.end().exit_code == 0
