"""Collection: which process collects a run and when, and that the tables match the programs."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from programs import Live, marey_stdout, run_program, run_well, until, write_program
from run_programs import COUNTS, STEPS, record
from trace_files import run_rows

Row = tuple[Any, ...]

# Where a span is, and how often: in order.
SPANS = "SELECT path, count(*) FROM spans GROUP BY path ORDER BY path"


def spools(run: str = "train.marey") -> list[str]:
    return sorted(path.name for path in Path(run, "spool").glob("*"))


def parts(run: str = "train.marey", table: str = "spans") -> list[str]:
    return sorted(path.name for path in Path(run, "tables", table).glob("*.parquet"))


def rows(query: str, run: str = "train.marey") -> list[Row]:
    return run_rows(run, query)


def one(query: str, run: str = "train.marey") -> Row:
    [row] = rows(query, run)
    return row


def span_counts(run: str = "train.marey") -> dict[str, int]:
    """Returns how often each path was entered."""
    return dict(rows(SPANS, run))


def chrome_nanos(path: str) -> Counter[str]:
    """Returns the time of each path in the Chrome trace."""
    found: Counter[str] = Counter()
    for event in json.loads(Path(path).read_text())["traceEvents"]:
        if event["ph"] == "X":
            found["/".join(event["args"]["call_stack"][1:])] += round(event["dur"] * 1000)
    return found


# What is in the tables


def test_a_run_is_collected_when_the_program_ends() -> None:
    before, after = record()
    assert spools() == []
    assert len(parts()) == 1
    assert span_counts() == COUNTS
    tokens = "SELECT sum(value), min(integer), max(integer) FROM counters WHERE name = 'tokens'"
    assert one(tokens) == (10 * STEPS, 10, 10)
    losses = [step / 4 for step in range(STEPS)]
    by_time = rows("SELECT value FROM counters WHERE name = 'loss (exc)' ORDER BY time_nanos")
    assert [value for (value,) in by_time] == losses
    first, last = one("SELECT min(start_nanos), max(end_nanos) FROM spans")
    slack = 5_000_000
    assert before - slack <= first < last <= after + slack
    assert rows("SELECT * FROM losses") == []


def test_the_tables_agree_with_the_chrome_trace() -> None:
    record()
    by_path = "SELECT path, sum(duration_nanos) FROM spans GROUP BY path"
    sums: dict[str, int] = dict(rows(by_path))
    # The tables follow the wall clock, the Chrome trace the recorder's.
    expected = chrome_nanos("train.chrome_trace")
    assert sums == pytest.approx(expected, rel=0.01, abs=100 * max(COUNTS.values()))


def test_spans_have_the_path_where_they_were_entered() -> None:
    record()
    nested = """
        SELECT count(*) FROM spans AS inner_, spans AS outer_
        WHERE inner_.path = 'step/forward' AND outer_.path = 'step'
        AND inner_.start_nanos >= outer_.start_nanos AND inner_.end_nanos <= outer_.end_nanos
    """
    assert one(nested) == (STEPS,)
    by_thread = "SELECT thread_id, count(*) FROM spans GROUP BY thread_id ORDER BY 2"
    of_loader, of_main = (count for _, count in rows(by_thread))
    assert (of_loader, of_main) == (COUNTS["load"], sum(COUNTS.values()) - COUNTS["load"])
    self_times = """
        SELECT sum(self_nanos) = sum(duration_nanos) FROM spans WHERE name IN ('layer', 'load')
    """
    assert one(self_times) == (True,)
    outer = "SELECT sum(self_nanos) < sum(duration_nanos) FROM spans WHERE name = 'step'"
    assert one(outer) == (True,)


def test_open_spans_are_marked() -> None:
    source = """
        import marey
        marey.start("train", data="trace")
        marey.enter_scope("open")
        with marey.scope("closed"):
            pass
        """
    run_well(source)
    expected = [("open", True), ("open/closed", False)]
    assert rows("SELECT path, is_open FROM spans ORDER BY path") == expected


# Which process collects, and when


def test_spools_may_be_kept() -> None:
    record(MAREY_KEEP_SPOOL="1")
    assert len(spools()) == 1
    assert len(parts()) == 1
    assert span_counts() == COUNTS
    assert len(parts()) == 1  # opening it collects nothing twice


@pytest.mark.parametrize("off", ["0", ""])
def test_marey_collect_0_defers_collection(off: str) -> None:
    record(MAREY_COLLECT=off)
    assert len(spools()) == 1
    assert parts() == []
    assert span_counts() == COUNTS
    assert spools() == []


def test_tree_sessions_write_no_run() -> None:
    run_well('import marey; marey.start("train"); marey.enter_scope("a")')
    assert sorted(os.listdir()) == ["program.py", "train.hatchet"]


def test_the_program_loads_no_engine() -> None:
    # Exit handlers run in the opposite order: this one after marey's.
    source = """
        import atexit, os, sys
        @atexit.register
        def after_marey():
            assert os.listdir("train.marey/tables/spans") != []
            print([name for name in sys.modules if name.startswith("marey._engine")])
            print("_engine" in open("/proc/self/maps").read())
        import marey
        marey.start("train", data="trace")
        with marey.scope("a"):
            pass
        """
    assert run_well(source) == "[]\nFalse\n"


@pytest.mark.parametrize("ending", ["raise SystemExit(3)", "1 / 0", "os.kill(os.getpid(), 2)"])
def test_collection_does_not_change_the_exit_code(ending: str) -> None:
    source = f"""
        import marey, os
        marey.start("train", data="trace")
        marey.enter_scope("a")
        {ending}
        """
    plain = run_program(f"import os\n{ending}")
    done = run_program(source)
    assert done.exit_code == plain.exit_code
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if not line.startswith("marey: no GPU")]
    assert said[-1:] == plain.stderr.splitlines()[-1:]
    assert spools() == []
    assert rows(SPANS) == [("a", 1)]


def test_an_embedding_program_is_not_started_for_collection() -> None:
    # Where Python is embedded, `sys.executable` may be the program itself.
    other = write_program("#!/bin/sh\ntouch started\n", "uwsgi")
    other.chmod(0o755)
    source = f"""
        import marey, sys
        marey.start("train", data="trace")
        marey.enter_scope("a")
        sys.executable = {str(other)!r}
        """
    run_well(source)
    assert not Path("started").exists()
    assert len(spools()) == 1
    assert rows(SPANS) == [("a", 1)]


def test_a_failed_collection_prints_one_line() -> None:
    Path("python-that-fails").symlink_to("/bin/false")
    source = """
        import marey, sys
        marey.start("train", data="trace")
        marey.enter_scope("a")
        sys.executable = "./python-that-fails"
        sys.exit(4)
        """
    done = run_program(source)
    assert done.exit_code == 4
    said = [line for line in done.stderr.splitlines() if not line.startswith("marey: no GPU")]
    [line] = said
    assert line.startswith("marey: ")
    assert "train.marey could not be collected" in line
    assert rows(SPANS) == [("a", 1)]


def is_waiting(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_ctrl_c_defers_the_rest_of_the_collection() -> None:
    # In place of the interpreter: a collector that reports its start and then hangs.
    hanging = write_program("#!/bin/sh\nexec 3>$PIPE\nexec sleep 1000\n", "python-that-hangs")
    hanging.chmod(0o755)
    os.mkfifo("pipe")
    source = f"""
        import marey, sys
        marey.start("train", data="trace")
        marey.enter_scope("a")
        sys.executable = {str(hanging)!r}
        sys.exit(5)
        """
    with Live(source, PIPE=str(Path("pipe").absolute())) as program:
        with open("pipe") as pipe:
            while not is_waiting(program.process.pid):
                pass
            program.process.send_signal(signal.SIGINT)
            assert pipe.read() == ""  # at its end: the collector is gone
        done = program.end()
    assert done.exit_code == 5
    assert [line for line in done.stderr.splitlines() if "no GPU" not in line] == []
    assert len(spools()) == 1
    assert rows(SPANS) == [("a", 1)]


# Processes that were killed, and such as still run


def test_the_spool_of_a_killed_program_is_collected_later() -> None:
    source = """
        import marey, sys
        marey.start("train", data="trace")
        for _ in range(1000):
            with marey.scope("a"):
                pass
        print("ready")
        sys.stdin.read()
        """
    with Live(source) as program:
        assert program.read_line() == "ready"
        until(lambda: rows(SPANS) == [("a", 1000)])  # a run that is still recorded can be opened
        assert one("SELECT is_complete FROM processes") == (False,)
        program.process.kill()
        program.end()
    assert len(spools()) == 1
    assert rows(SPANS) == [("a", 1000)]
    assert one("SELECT pid, is_complete FROM processes") == (program.process.pid, False)
    assert spools() == []


def test_the_next_run_renames_the_last_one() -> None:
    record()
    record()
    runs = sorted(path.name for path in Path().glob("*.marey"))
    assert len(runs) == 2
    assert [span_counts(run) for run in runs] == [COUNTS, COUNTS]


# Several processes in one run


PROCESSES = "SELECT id, pid, rank, is_complete FROM processes ORDER BY id"
TWICE = "SELECT text FROM strings GROUP BY text HAVING count(*) > 1"
PATHS_TWICE = "SELECT parent_id, kind, name_id FROM contexts GROUP BY 1, 2, 3 HAVING count(*) > 1"


def test_forked_children_share_the_run() -> None:
    source = """
        import marey, os
        marey.start("train", data="trace")
        def work(name):
            with marey.scope(name):
                with marey.scope("shared"):
                    pass
        work("parent")
        child = os.fork()
        work("child" if child == 0 else "parent")
        if child:
            os.waitpid(child, 0)
            print(os.getpid(), child)
        """
    parent, child = map(int, run_well(source).split())
    assert {pid for _, pid, _, _ in rows(PROCESSES)} == {parent, child}
    expected = [("child", child, 1), ("parent", parent, 2)]
    by_process = """
        SELECT name, pid, count(*) FROM spans WHERE name <> 'shared' GROUP BY 1, 2 ORDER BY 1
    """
    assert rows(by_process) == expected
    assert span_counts()["parent/shared"] == 2
    assert rows(TWICE) == rows(PATHS_TWICE) == []
    assert spools() == []


def test_child_programs_share_the_run() -> None:
    write_program(
        """
        import marey, os
        with marey.scope("child"):
            print(os.getpid())
        """,
        "child.py",
    )
    program = write_program(
        """
        import marey, os, subprocess, sys
        with marey.scope("parent"):
            print(os.getpid(), flush=True)
            for _ in range(2):
                subprocess.run([sys.executable, "child.py"], check=True)
        """,
        "train.py",
    )
    parent, *children = map(int, marey_stdout("run", "-d", "trace", program).split())
    assert {pid for _, pid, _, _ in rows(PROCESSES)} == {parent, *children}
    in_child = "SELECT pid FROM spans WHERE name = 'child' ORDER BY start_nanos"
    assert [pid for (pid,) in rows(in_child)] == children
    assert rows("SELECT pid FROM spans WHERE name = 'parent'") == [(parent,)]
    assert rows(TWICE) == rows(PATHS_TWICE) == []
    assert spools() == []


RANK = """
    import marey, sys
    marey.start("train", data="trace")
    print("ready")
    for line in sys.stdin:
        with marey.scope("turn"):
            with marey.scope(line.strip()):
                pass
        print("done")
    marey.finalize()
"""


def test_ranks_share_the_run_and_its_clock() -> None:
    with Live(RANK, RANK="0") as first, Live(RANK, RANK="1") as second:
        ranks = (first, second)
        assert [rank.read_line() for rank in ranks] == ["ready", "ready"]
        assert len(list(Path().glob("*.marey"))) == 1
        for turn in range(6):
            ranks[turn % 2].write_line(f"turn {turn}")
            assert ranks[turn % 2].read_line() == "done"
        assert first.end().exit_code == 0
        assert len(spools()) == 2  # left to the last
        assert second.end().exit_code == 0
    assert spools() == []
    turns = "SELECT name, rank FROM spans WHERE path LIKE 'turn/%' ORDER BY start_nanos"
    assert rows(turns) == [(f"turn {turn}", turn % 2) for turn in range(6)]
    # Of two turns in a row the first was over before the second began.
    overlaps = """
        SELECT count(*) FROM spans AS a, spans AS b
        WHERE a.name = 'turn' AND b.name = 'turn' AND a.rank < b.rank
        AND a.start_nanos < b.end_nanos AND b.start_nanos < a.end_nanos
    """
    assert one(overlaps) == (0,)
    assert sorted(rank for _, _, rank, _ in rows(PROCESSES)) == [0, 1]
    assert rows(TWICE) == rows(PATHS_TWICE) == []
