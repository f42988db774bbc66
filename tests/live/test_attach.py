"""`marey attach` and `marey detach`: recording in processes that never heard of marey."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import marey
import pytest
from attaching import BUSY, IS_ENDED, attach, detach, detach_refusal, end
from interpreters import VERSIONS, require
from programs import Live, LiveCommand, marey_command, run_marey, run_program
from trace_files import run_rows

WAITING = """
import os, sys
print(os.getpid(), flush=True)
print(sys.stdin.readline().strip(), flush=True)
print(sys.stdin.readline().strip(), flush=True)
"""


def start(verb: str, pid: int) -> LiveCommand:
    """Starts a command for a process."""
    return LiveCommand(sys.executable, "-m", "marey", verb, pid)


def threads(pid: int) -> set[str]:
    return {path.name for path in Path(f"/proc/{pid}/task").iterdir()}


def until_threads_are(pid: int, expected: set[str]) -> None:
    """Waits for the end of other threads; the kernel removes them after they have answered."""
    while threads(pid) != expected:
        assert expected <= threads(pid)


def files(pid: int) -> list[str]:
    """Returns what the descriptors of a process refer to."""
    return sorted(f"{path.name} {path.readlink()}" for path in Path(f"/proc/{pid}/fd").iterdir())


def mapped_files(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}


def scripts(pid: int) -> list[Path]:
    """Returns the scripts for a process that are not removed."""
    found = []
    for path in Path("/tmp").glob("marey-attach-*/script.py"):
        with suppress(FileNotFoundError):  # another test attaches at the same time
            if f"PID = {pid}\n" in path.read_text():
                found.append(path)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_busy_process_is_recorded_and_ends_as_ever(version: str) -> None:
    with Live(BUSY, python=require(version)) as program:
        pid = int(program.read_line())
        said = attach(pid)
        run_path = str(Path(f"process-{pid}.marey").absolute())
        assert f"process {pid} records into {run_path}; end it with: marey detach {pid}\n" in said
        assert "it has not imported PyTorch" in said
        stopped = re.search(
            r"^it was stopped for (.+) ms, its waiting threads for (.+) ms$", said, re.M
        )
        assert stopped is not None, said
        assert float(stopped[1]) <= float(stopped[2])
        assert detach(pid) == [run_path]
        end(program)
    assert run_rows(run_path, "SELECT pid FROM processes") == [(pid,)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_process_that_waits_is_recorded_when_it_goes_on(version: str) -> None:
    with Live(WAITING, python=require(version)) as program:
        pid = int(program.read_line())
        recorder = start("attach", pid)
        said = recorder.read_message()
        assert said.startswith(
            f"the main thread of process {pid} has reached no Python instruction: it waits for data"
        )
        assert said.endswith("; waiting for it, Ctrl-C gives up")
        program.write_line("first")
        assert program.read_line() == "first"
        done = recorder.end()
        assert done.exit_code == 0, done.stderr
        program.write_line("second")
        outcome = program.end()
    assert outcome == (0, "second\n", "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_given_up_changes_nothing(version: str) -> None:
    with Live(WAITING, python=require(version)) as program:
        pid = int(program.read_line())
        done = marey_command("attach", pid, "--timeout", "1")
        assert done.exit_code == 2
        assert ", for 1 s\n" in done.stderr
        assert f"hint: `marey dump {pid}` shows all threads" in done.stderr
        program.write_line("first")
        assert program.read_line() == "first"
        assert str(Path(marey.__file__).parent) not in "".join(mapped_files(pid))
        program.write_line("second")
        assert program.end() == (0, "second\n", "")


def test_a_ctrl_c_gives_up() -> None:
    with Live(WAITING) as program:
        pid = int(program.read_line())
        recorder = start("attach", pid)
        recorder.read_message()
        recorder.process.send_signal(signal.SIGINT)
        assert recorder.end().exit_code == 130
        program.write_line("first")
        program.write_line("second")
        assert program.end() == (0, "first\nsecond\n", "")
    assert not scripts(pid)


def test_a_call_in_c_that_holds_the_gil_delays_the_recording() -> None:
    source = f"""
    import itertools, os, select, sys, time
    def count(n):
        return sum(itertools.repeat(1, n))
    def seconds_per_call():
        start = time.perf_counter()
        count(10**6)
        return (time.perf_counter() - start) / 10**6
    per_call = min(seconds_per_call() for _ in range(10))
    print(os.getpid(), flush=True)
    count(int(4 / per_call))  # longer than the second after which the command speaks
    while not {IS_ENDED}:
        pass
    """
    with Live(source) as program:
        pid = int(program.read_line())
        first, *others = attach(pid, "--timeout", "110").splitlines()
        assert "it is in C code, called by count (/" in first
        assert f"process {pid} records into" in "".join(others)
        program.write_line()
        assert program.end() == (0, "", "")


def test_of_two_at_once_one_attaches_and_the_other_says_so(busy: Live) -> None:
    pid = int(busy.read_line())
    both = [start("attach", pid) for _ in range(2)]
    attached, refused = sorted(command.end() for command in both)
    assert (attached.exit_code, refused.exit_code) == (0, 2), (attached, refused)
    path = Path(f"process-{pid}.marey").absolute()
    assert refused.stderr.endswith(
        f"error: process {pid} was left as it is: it is recorded already, into {path}\n"
    )
    end(busy)


def test_a_process_that_another_marey_has_stopped_is_attached_to_after_that(busy: Live) -> None:
    pid = int(busy.read_line())
    source = f"""
    import ctypes, sys
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(15, b"marey-tracer", 0, 0, 0) == 0  # PR_SET_NAME
    assert libc.ptrace(0x4206, {pid}, 0, 0) == 0  # PTRACE_SEIZE
    print(flush=True)
    sys.stdin.readline()
    """
    with Live(source) as tracer:
        tracer.read_line()
        attaching = start("attach", pid)
        while not scripts(pid) and attaching.process.poll() is None:
            os.sched_yield()
        tracer.write_line()
        done = attaching.end()
    assert done.exit_code == 0, done.stderr
    detach(pid)
    end(busy)


def test_nothing_but_libraries_stays_after_detach(busy: Live) -> None:
    pid = int(busy.read_line())
    before = threads(pid), files(pid), mapped_files(pid)
    attach(pid)
    assert len(threads(pid)) > len(before[0])
    assert files(pid) != before[1]
    detach(pid)
    until_threads_are(pid, before[0])
    assert files(pid) == before[1]
    added = {Path(path).name for path in mapped_files(pid) - before[2]}
    assert {"_native.abi3.so", "libmarey.so"} <= added
    assert [name for name in added if ".so" not in name] == []
    assert not scripts(pid)
    end(busy)


def test_a_child_forked_while_a_thread_attaches_can_be_detached() -> None:
    done = run_program(
        """
        import os, signal
        from marey import _attached

        with _attached._lock:  # as on the thread of the command
            child = os.fork()
            if child == 0:
                signal.alarm(5)
                answer = _attached.detach()
                os._exit(0 if answer == ["refused", "it is not recorded"] else 1)
        print(os.waitpid(child, 0)[1])
        """
    )
    assert done == (0, "0\n", "")


def test_a_process_can_be_attached_again(busy: Live) -> None:
    pid = int(busy.read_line())
    for name in ("first", "second"):
        attach(pid, "-o", f"{name}.marey")
        assert detach(pid) == [str(Path(f"{name}.marey").absolute())]
    assert detach_refusal(pid) == "it is not recorded"
    end(busy)


def test_a_process_with_200_threads_keeps_them() -> None:
    source = """
    import os, sys, threading
    go_on = threading.Event()
    waiting = [threading.Thread(target=go_on.wait) for _ in range(200)]
    for thread in waiting:
        thread.start()
    print(os.getpid(), flush=True)
    while sys.stdin.readline() != "end\\n":
        pass
    go_on.set()
    for thread in waiting:
        thread.join()
    print("joined", threading.active_count())
    """
    with Live(source) as program:
        pid = int(program.read_line())
        before = threads(pid)
        assert len(before) == 201
        for verb in ("attach", "detach"):
            command = start(verb, pid)
            command.read_message()  # it waits for the main thread
            program.write_line()
            done = command.end()
            assert done.exit_code == 0, done.stderr
        until_threads_are(pid, before)
        program.write_line("end")
        assert program.end() == (0, "joined 1\n", "")


@pytest.mark.parametrize("version", VERSIONS)
def test_children_that_are_forked_meanwhile_end_as_ever(version: str) -> None:
    # CPython 3.12 and later warn of a fork while another thread exists, as it does for a moment.
    source = f"""
    import os, select, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    print(os.getpid(), flush=True)
    failures = 0
    while not {IS_ENDED}:
        child = os.fork()
        if child == 0:
            import contextvars, functools, signal, typing  # as marey does
            os._exit(0)
        failures += os.waitpid(child, 0)[1] != 0
    print(failures)
    """
    with Live(source, python=require(version)) as program:
        pid = int(program.read_line())
        attach(pid)
        detach(pid)
        program.write_line()
        assert program.end() == (0, "0\n", "")


def test_a_recording_that_nobody_ends_ends_with_the_process(busy: Live) -> None:
    pid = int(busy.read_line())
    attach(pid, "--data", "tree", "-o", "whole.hatchet")
    end(busy)
    assert Path("whole.hatchet").is_file()


TRAINING = f"""
import os, select, sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.ones(4, 8)
print(os.getpid(), flush=True)
steps = 0
while steps < 100 or not {IS_ENDED}:
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    steps += 1
    if steps == 100:
        print(f"{{loss.item():.6f}}", flush=True)
module = torch.nn.Module
print(module.__call__ is module._wrapped_call_impl)
"""


def test_a_training_loop_is_analysed_and_trains_as_ever() -> None:
    pytest.importorskip("torch")
    with Live(TRAINING) as program:
        pid = int(program.read_line())
        said = attach(pid, "--operators", "-o", "train.marey")
        assert "PyTorch" not in said
        loss = program.read_line()
        assert detach(pid) == [str(Path("train.marey").absolute())]
        program.write_line()
        attached = program.end()
    with Live(TRAINING) as program:
        program.read_line()
        assert program.read_line() == loss
        program.write_line()
        assert program.end() == attached == (0, "True\n", "")
    run_marey("analyze", "train.marey")
    with marey.open("train.marey") as recorded:
        names = {name for (name,) in recorded.sql("SELECT DISTINCT name FROM spans")}
        ((steps,),) = recorded.sql("SELECT count(*) FROM steps")
    assert {"Sequential", "0", "1", "SGD.step", "aten::addmm"} <= names
    assert steps > 0
