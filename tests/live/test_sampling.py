"""Samples of Python's stacks in traces, taken in the process itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from programs import Live, marey_stdout, query, run_well

PROGRAM = """
import os, sys, threading
import marey

def waits_for_main():
    release.wait()

def waits_for_input():
    for line in sys.stdin:
        print("done", flush=True)

release = threading.Event()
if "MAREY_SAMPLE_SECS" not in os.environ and len(sys.argv) > 1:
    marey.sampling.enable(interval_s=0.005)
session = marey.start("program", data="trace")
threading.Thread(target=waits_for_main, name="waiter").start()
print(os.getpid(), flush=True)
waits_for_input()
release.set()
"""
LAST_STACKS = "SELECT thread, func, lineno, depth FROM python.backtrace ORDER BY thread, depth"


def line_of(text: str) -> int:
    """Returns the number of the program's line that is this text."""
    return [line.strip() for line in PROGRAM.splitlines()].index(text) + 1


def until_sampled(pid: str) -> list[dict[str, Any]]:
    """Returns the last stacks of a running process, once both threads wait."""
    for _ in range(100):
        rows = query(pid, LAST_STACKS)
        waiting = {row["thread"] for row in rows if row["func"].startswith("waits_for_")}
        if waiting == {"MainThread", "waiter"}:
            return rows
    raise AssertionError(rows)


def test_a_running_process_is_asked_for_the_stacks_of_its_threads() -> None:
    with Live(PROGRAM, MAREY_SAMPLE_SECS="0.005") as program:
        rows = until_sampled(program.read_line())
        assert program.end().exit_code == 0
    (waiting,) = (row for row in rows if row["func"] == "waits_for_main")
    assert waiting["lineno"] == line_of("release.wait()")
    (main,) = (row for row in rows if row["func"] == "waits_for_input")
    assert (main["depth"], main["lineno"]) == (0, line_of("for line in sys.stdin:"))
    outermost = {row["thread"]: row["func"] for row in rows}  # the rows end with the largest depth
    assert outermost == {"MainThread": "<module>", "waiter": "_bootstrap"}


def test_sampling_begins_and_ends_in_a_running_process_by_its_setting() -> None:
    count = "SELECT count(*) AS samples FROM samples"
    with Live(PROGRAM) as program:
        pid = program.read_line()
        program.write_line()
        assert program.read_line() == "done"
        assert query(pid, count) == [{"samples": 0}]
        # The name of the Probing documentation, which has the process first.
        assert (
            marey_stdout(pid, "config", "probing.sample_rate=0.005")
            == "sample.interval = 0.005 s\n"
        )
        program.write_line()  # the main thread runs a line of Python
        until_sampled(pid)
        marey_stdout("config", pid, "sample.interval=0")
        assert program.end().exit_code == 0


def test_samples_stand_for_the_time_between_them_and_have_their_threads() -> None:
    source = """
    import time
    import marey

    def spins():
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            pass

    marey.sampling.enable(interval_s=0.005)
    session = marey.start("program", data="trace")
    spins()
    marey.finalize(session, "marey")
    marey.sampling.disable()
    """
    run_well(source)
    (row,) = query(
        "program.marey",
        "SELECT thread, sum(integer) / 1e9 AS seconds, count(*) AS samples FROM samples"
        " WHERE path LIKE '%@spins' GROUP BY thread",
    )
    assert row["thread"] == "MainThread"
    assert 0.2 < row["seconds"] < 1
    assert row["samples"] >= 5
    marey_stdout("export", "program.marey", "-f", "collapsed", "-o", "program.txt")


def test_a_fork_neither_hangs_nor_warns_and_the_child_samples_itself() -> None:
    source = """
    import os, sys, time, warnings
    import marey

    warnings.simplefilter("error")

    def spins_in_the_child():
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass

    marey.sampling.enable(interval_s=0.005)
    marey.start("program", data="trace")
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    child = os.fork()
    if child == 0:
        spins_in_the_child()
        marey.finalize(output_format="marey")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """
    run_well(source)
    rows = query(
        "program.marey",
        "SELECT count(*) > 2 AS sampled FROM samples WHERE path LIKE '%@spins_in_the_child'",
    )
    assert rows == [{"sampled": True}]


def test_the_thread_is_not_among_the_program_s_and_ends_with_the_session() -> None:
    source = """
    import os, sys, threading
    import marey

    def threads():
        return len(os.listdir("/proc/self/task"))

    before = threads()
    marey.sampling.enable(interval_s=0.002)
    session = marey.start("program", data="trace")
    assert threading.active_count() == 1, threading.enumerate()
    marey.sampling.disable()
    marey.finalize(session, "marey")
    print(sys._current_frames().keys() == {threading.get_ident()})
    """
    assert run_well(source) == "True\n"
    assert Path("program.marey").is_dir()


def test_a_stack_is_complete_also_if_the_program_ran_while_its_threads_were_listed() -> None:
    source = """
    import threading
    import marey

    list_threads = marey.sampling._threads

    def list_slowly():
        threads = list_threads()
        is_listed.set()
        has_returned.wait()  # the main thread leaves the function that it was in
        return threads

    def leaves():
        is_listed.wait()

    def is_sampled():
        has_returned.set()
        ends.wait(0.05)

    is_listed, has_returned, ends = (threading.Event() for _ in range(3))
    marey.sampling._threads = list_slowly
    marey.start("program", data="trace")
    marey.sampling.enable(0.002)
    leaves()
    is_sampled()
    marey.sampling.disable()
    """
    run_well(source)
    rows = query(
        "program.marey",
        "SELECT DISTINCT path LIKE '%@<module>/%' AS is_complete FROM samples"
        " WHERE thread = 'MainThread'",
    )
    assert rows == [{"is_complete": True}]


def test_a_sample_runs_no_code_of_the_program() -> None:
    source = """
    import threading
    import marey

    class Text(str):
        def __eq__(self, other):
            if is_sampled:
                print("compared")
            return str.__eq__(self, other)

        def __hash__(self):
            return hash("_name")

    class Computed(threading.Thread):
        def __init__(self):
            super().__init__(name="stored")
            self.__dict__ = {Text("first"): 1, **self.__dict__}

        def __getattribute__(self, name):
            if is_sampled:
                print("read", name)
            return super().__getattribute__(name)

        @property
        def name(self):
            print("computed")
            return "computed"

        ident = native_id = name

        def run(self):
            started.set()
            ends.wait()

    is_sampled = False
    started, ends = threading.Event(), threading.Event()
    thread = Computed()
    thread.start()
    started.wait()
    marey.start("program", data="trace")
    is_sampled = True
    marey.sampling.sample()
    is_sampled = False
    ends.set()
    """
    assert run_well(source) == ""
    counts = "SELECT count(DISTINCT path) AS stacks FROM samples WHERE thread = 'stored'"
    assert query("program.marey", counts) == [{"stacks": 1}]


def test_a_sample_that_fails_is_counted_and_the_next_one_is_drawn() -> None:
    source = """
    import threading
    import marey

    list_threads = marey.sampling._threads
    failures = 0

    def fail_at_first():
        global failures
        if failures < 3:
            failures += 1
            raise MemoryError
        recovers.set()
        return list_threads()

    recovers = threading.Event()
    marey.sampling._threads = fail_at_first
    marey.sampling.enable(0.002)
    marey.start("program", data="trace")
    recovers.wait()
    """
    run_well(source)
    losses = query("program.marey", "SELECT cause, count FROM losses WHERE cause LIKE 'samples%'")
    assert losses == [{"cause": "samples_missed", "count": 3}]
    (row,) = query("program.marey", "SELECT count(*) > 0 AS sampled FROM samples")
    assert row == {"sampled": True}


@pytest.mark.parametrize("interval", ["0", "-1", "float('nan')", "1e-9", "1e9"])
def test_an_interval_out_of_range_is_refused(interval: str) -> None:
    source = f"""
    import marey
    try:
        marey.sampling.enable(interval_s={interval})
    except ValueError as error:
        print(error)
    """
    assert run_well(source).count("\n") == 1


@pytest.mark.parametrize(
    "event",
    [
        "scope=''",
        "slow_step=0",
        "slow_step=float('nan')",
        "slow_step=1e9",
        "signal=9",
        "signal=-1",
        "signal=0",
    ],
)
def test_an_event_that_cannot_be_sampled_is_refused_by_name(event: str) -> None:
    source = f"""
    import marey
    try:
        marey.sampling.enable({event})
    except ValueError as error:
        print(error)
    """
    assert run_well(source).startswith(f"{event.partition('=')[0]} must ")
