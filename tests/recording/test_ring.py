"""Rings: a program that records only its last events, read while it runs and after its end."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import marey
import pytest
from programs import Live, marey_command, run_marey, run_program, run_well, write_program
from trace_files import run_rows

RING = {"MAREY_RING_RECORDS": "1000", "MAREY_SYSTEM_METRICS_SECS": "0"}

# Records bursts of 500 numbered scopes, each on a line of input, and prints their number so far.
PROGRAM = """
    import marey, sys
    session = marey.start("train", data="ring")
    count = 0
    for line in sys.stdin:
        for count in range(count + 1, count + 501):
            with marey.scope("step", {"number": count}):
                pass
        marey.deactivate(session, flushing=True)
        marey.activate(session)
        print(count)
    """


def numbers(run: str) -> list[int]:
    """Returns the numbers that a run has, in the order of their times."""
    query = "SELECT integer FROM counters WHERE name = 'number' ORDER BY time_nanos"
    return [row[0] for row in run_rows(run, query)]


def burst(program: Live, times: int) -> int:
    count = 0
    for _ in range(times):
        program.write_line()
        count = int(program.read_line())
    return count


def is_last(found: list[int], count: int) -> bool:
    """Whether these are the last values: a scope is a record too, and follows its value."""
    return found == list(range(count - 499, count + 1))


def test_a_ring_is_queried_while_its_program_runs_and_after_sigkill() -> None:
    with Live(PROGRAM, **RING) as program:
        count = burst(program, 6)
        assert is_last(numbers("train.marey"), count)
        count += 500
        burst(program, 1)
        assert is_last(numbers("train.marey"), count)
        program.process.kill()
        program.process.wait()
    assert is_last(numbers("train.marey"), count)
    lost = run_rows("train.marey", "SELECT sum(count) FROM losses WHERE cause = 'ring_dropped'")
    assert lost == [(2 * count - 1000,)]


def test_flush_and_dump_save_the_ring_as_a_run_of_its_own() -> None:
    with Live(PROGRAM, **RING) as program:
        pid = program.process.pid
        count = burst(program, 4)
        assert re.search(r"wrote \S*train\.1\.marey", run_marey("flush", pid).stderr)
        burst(program, 1)
        assert re.search(r"wrote \S*train\.2\.marey", run_marey("dump", "--ring", pid).stderr)
        burst(program, 1)
        assert program.end().exit_code == 0
    for number, run in enumerate(["train.1.marey", "train.2.marey", "train.marey"]):
        assert is_last(numbers(run), count + 500 * number), run


def test_flush_names_what_each_session_has_written_beside_a_ring() -> None:
    source = """
        import marey, os
        ring = marey.start("train", data="ring")
        second = marey.start("second", data="ring")
        tree = marey.start("tree")
        with marey.scope("of all"):
            pass
        marey.deactivate(ring)
        with marey.scope("of the second"):
            pass
        print(os.getpid(), flush=True)
        input()
        """
    with Live(source, **RING) as program:
        pid = program.read_line()
        written = run_marey("flush", pid).stderr
        assert set(re.findall(r"wrote `?([^`\n]*)", written)) == {
            str(Path(name).resolve()) for name in ("train.1.marey", "tree.hatchet")
        }
        # All rings of a process are one.
        names = run_rows("train.1.marey", "SELECT name FROM spans ORDER BY start_nanos")
        assert names == [("of all",), ("of the second",)]
        assert "of the second" in Path("tree.hatchet").read_text()
        program.write_line()
        assert program.end().exit_code == 0


def test_a_program_under_marey_run_records_a_ring() -> None:
    write_program(
        """
        import marey
        for number in range(3000):
            with marey.scope("step"):
                pass
        """,
        "train.py",
    )
    run_marey("run", "-d", "ring", "--ring-records", "100", "--no-torch", "train.py")
    with marey.open("train.marey") as run:
        [(spans,)] = run.sql("SELECT count(*) FROM spans").rows()
        [(lost,)] = run.sql("SELECT sum(count) FROM losses WHERE cause = 'ring_dropped'").rows()
    assert spans == 100
    assert lost >= 2900
    assert os.listdir("train.marey/spool") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ring-records", "5"], "--ring-records needs --data ring"),
        (["-d", "ring", "--ring-seconds", "0"], "above 0"),
        (["-d", "ring", "-o", "x.chrome_trace"], "cannot write .chrome_trace"),
    ],
)
def test_options_that_do_not_fit_a_ring_are_refused(arguments: list[str], says: str) -> None:
    Path("train.py").write_text("")
    done = marey_command("run", *arguments, "train.py")
    assert done.exit_code == 2
    assert says in done.stderr


def test_a_ring_has_neither_phases_nor_a_trace_beside_it() -> None:
    source = """
        import marey
        try:
            marey.start("x", data="ring", mode="periodic_flushing")
        except ValueError as error:
            print(error)
        ring = marey.start("x", data="ring")
        try:
            marey.start("y", data="trace")
        except RuntimeError as error:
            print(error)
        try:
            marey.finalize(ring, output_format="chrome_trace")
        except ValueError as error:
            print(error)
        """
    phases, beside, chrome = run_well(source).splitlines()
    assert "writes phases" in phases
    assert "cannot record at the same time" in beside
    assert "writes a run alone" in chrome


def test_sigusr1_still_ends_a_program_without_a_ring() -> None:
    source = """
        import marey, os, signal
        marey.start("x", data="trace")
        os.kill(os.getpid(), signal.SIGUSR1)
        """
    assert run_program(source).exit_code == -signal.SIGUSR1
