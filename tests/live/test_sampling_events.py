"""Samples of Python's stacks that an event draws: a request, a signal, a scope, a slow step."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from programs import DEADLINE_SECS, Live, marey_command, marey_stdout, query, run_well, until

# Runs Python now and then while it waits for a line, as an event loop does.
EVENTS = """
import os, select, signal
import marey

def read():
    while not select.select([0], [], [], 0.01)[0]:
        pass
    return os.read(0, 100)

def works():
    while read() != b"end\\n":
        print("done", flush=True)

session = marey.start("program", data="trace")
print(os.getpid(), flush=True)
works()
"""


def causes(run: str) -> dict[str, int]:
    """Returns the number of samples by cause."""
    sql = "SELECT arg(args, 'cause') AS cause, count(*) AS samples FROM samples GROUP BY 1"
    rows = query(run, f"{sql} ORDER BY 1")
    return {row["cause"]: row["samples"] for row in rows}


def line(program: Live) -> None:
    """Lets the main thread run some lines of Python."""
    program.write_line()
    assert program.read_line() == "done"


def test_a_sample_is_requested_of_a_running_process() -> None:
    with Live(EVENTS) as program:
        pid = program.read_line()
        line(program)
        threads = set(Path(f"/proc/{pid}/task").iterdir())
        done = marey_command("sample", pid)
        expected = f"process {pid} sampled 1 thread into `{Path('program.marey').resolve()}`\n"
        assert (done.exit_code, done.stderr) == (0, expected)
        assert causes(pid) == {"request": 1}
        (row,) = query(pid, "SELECT path LIKE '%@works/%@read' AS is_there, integer FROM samples")
        assert row == {"is_there": True, "integer": 0}
        until(lambda: set(Path(f"/proc/{pid}/task").iterdir()) == threads)
        program.write_line("end")
        assert program.end().exit_code == 0


def test_a_process_without_a_trace_is_not_sampled() -> None:
    with Live(EVENTS.replace('data="trace"', 'data="tree"')) as program:
        pid = program.read_line()
        done = marey_command("sample", pid)
    assert done.exit_code == 2
    assert "error: process" in done.stderr
    assert "records no trace" in done.stderr


def test_the_program_requests_a_sample_that_ends_at_the_caller() -> None:
    source = """
    import marey

    def finds_a_fault():
        marey.sampling.sample()

    marey.start("program", data="trace")
    finds_a_fault()
    """
    run_well(source)
    assert causes("program.marey") == {"request": 1}
    (row,) = query("program.marey", "SELECT path FROM samples")
    assert row["path"].endswith("@finds_a_fault")


def test_a_signal_draws_a_sample_each_time() -> None:
    with Live(EVENTS) as program:
        pid = program.read_line()
        marey_stdout("config", pid, "sample.signal=SIGUSR2")
        line(program)
        os.kill(int(pid), signal.SIGUSR2)
        until(lambda: causes(pid) == {"signal": 1})
        os.kill(int(pid), signal.SIGUSR2)
        until(lambda: causes(pid) == {"signal": 2})
        marey_stdout("config", pid, "sample.signal=off")
        os.kill(int(pid), signal.SIGUSR2)  # has its default action again
        assert program.process.wait(DEADLINE_SECS) == -signal.SIGUSR2


def test_a_signal_that_the_program_handles_is_refused() -> None:
    source = "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: None)\n" + EVENTS
    with Live(source) as program:
        pid = program.read_line()
        done = marey_command("config", pid, "sample.signal=SIGUSR2")
        assert done.exit_code == 2
        assert "the process handles SIGUSR2 already" in done.stderr
        assert marey_stdout("config", pid, "sample.signal") == "sample.signal = off\n"


def test_samples_are_drawn_while_a_scope_of_the_name_is_open() -> None:
    source = """
    import time
    import marey

    def loads():
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass

    def computes():
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass

    marey.sampling.enable(scope="load data")
    session = marey.start("program", data="trace")
    for _ in range(2):
        with marey.scope("load data"):
            loads()
        with marey.scope("compute"):
            computes()
    """
    run_well(source)
    assert list(causes("program.marey")) == ["scope"]
    rows = query(
        "program.marey", "SELECT DISTINCT split_part(path, '@', -1) AS function FROM samples"
    )
    assert "loads" in {row["function"] for row in rows}
    assert "computes" not in {row["function"] for row in rows}


def test_a_slow_step_is_sampled_to_its_end() -> None:
    source = """
    import time
    import torch
    import marey, marey.torch

    def waits(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def is_fast():
        waits(0.05)

    def is_slow():
        waits(0.5)

    marey.sampling.enable(slow_step=4)
    session = marey.start("program", data="trace")
    marey.torch.enable()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    for number in range(10):
        model(torch.ones(1, 2)).sum().backward()
        is_slow() if number == 8 else is_fast()
        optimizer.step()
    marey.finalize(session, "marey")
    """
    pytest.importorskip("torch")
    run_well(source)
    assert list(causes("program.marey")) == ["slow step"]
    (samples,) = query(
        "program.marey",
        "SELECT count(*) FILTER (WHERE path LIKE '%@is_slow%') AS slow,"
        " count(*) FILTER (WHERE path LIKE '%@is_fast%') AS fast FROM samples",
    )
    assert samples["slow"] >= 5
    # On a busy machine a fast step may be slow too.
    assert samples["fast"] < samples["slow"] / 4
