"""Run directories of trace sessions, and `marey run --data trace`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import marey
import pytest
from profiles import counts, profile_names, tree
from programs import Live, LiveCommand, run_command, run_marey, run_program, run_well, write_program
from trace_files import END, paths, spool, spools, traces

pytestmark = pytest.mark.usefixtures("spools_stay")

# marey run


def test_marey_run_writes_a_trace() -> None:
    write_program(
        """
        import marey
        with marey.scope("a"):
            print("hello")
        """
    )
    done = run_marey("run", "-d", "trace", "program.py")
    assert done.stdout == "hello\n"
    assert "marey: wrote program.chrome_trace\n" in done.stderr
    assert "ui.perfetto.dev" in done.stderr
    assert (
        "marey: wrote program.marey\nmarey: query it with: marey query program.marey\n"
        in done.stderr
    )
    assert paths("program.chrome_trace") == ["a"]
    run_marey("run", "-d", "trace", "-o", "out/named.chrome_trace", "program.py")
    assert traces("out") == ["named.chrome_trace"]


PARENT = """
    import subprocess, sys
    import marey
    with marey.scope("a"):
        if len(sys.argv) < 2:
            subprocess.run([sys.executable, __file__, "child"], check=True)
    """


@pytest.mark.parametrize("before", [[], ["--", sys.executable]])
def test_marey_run_records_all_processes_into_one_run(before: list[str]) -> None:
    write_program(PARENT)
    for _ in range(2):
        done = run_marey("run", "-d", "trace", "-o", "out/x.marey", *before, "program.py")
        assert "out/x.marey\n" in done.stderr
    assert sorted(os.listdir("out")) == ["x.1.marey", "x.marey"]
    assert [len(spools(f"out/{name}")) for name in ("x.1", "x")] == [2, 2]


@pytest.mark.parametrize("before", [[], ["--", sys.executable]])
def test_a_nested_marey_run_uses_the_outer_directory(before: list[str]) -> None:
    write_program(PARENT)
    run = ["run", "-d", "trace", "-o"]
    inner = [sys.executable, "-m", "marey", *run, "inner.marey", *before, "program.py"]
    assert "inner.marey" not in run_marey(*run, "outer.marey", "--", *inner).stderr
    assert sorted(os.listdir()) == ["outer.marey", "program.py"]
    assert len({name.partition("-")[0] for name in spools("outer")}) == 2


def test_sigterm_with_marey_format_writes_no_trace() -> None:
    path = write_program("""
        import sys
        import marey
        with marey.scope("a"):
            print("ready", flush=True)
            sys.stdin.read()
        """)
    run = ("-m", "marey", "run", "-d", "trace", "-o", "x.marey")
    with LiveCommand(sys.executable, *run, path) as program:
        assert program.read_line() == "ready"
        program.process.terminate()
        assert program.end().exit_code == -signal.SIGTERM
    assert sorted(os.listdir()) == ["program.py", "x.marey"]
    assert spool("x").endswith(END)


# The run directory


RECORD = """
    import marey, sys
    session = marey.start("x", data="trace")
    with marey.scope("a"):
        pass
    print(marey._native.run_dir(session), flush=True)
    sys.stdin.read()
    marey.finalize(session, "marey")
    """


def test_the_marey_format_writes_no_chrome_trace() -> None:
    session = marey.start("x", data="trace")
    assert session is not None
    assert marey._native.run_dir(session) == os.path.abspath("x.marey")
    with marey.scope("a"):
        pass
    marey._native.checkpoint()
    marey.data.advance_phase(session)
    assert marey._native.finalize(session, "marey") == [os.path.abspath("x.marey")]
    assert spool("x").endswith(END)
    [recorded] = traces()
    assert recorded == "x.chrome_trace"  # the checkpoint that was asked for


def test_a_tree_session_has_no_run_directory() -> None:
    session = marey.start("x")
    assert session is not None
    assert marey._native.run_dir(session) is None
    with pytest.raises(ValueError, match='"marey" needs data="trace"'):
        marey.finalize(session, "marey")
    with pytest.raises(IndexError):
        marey._native.run_dir(77)
    stdout = marey.start("-", data="trace")
    with pytest.raises(ValueError, match="standard output"):
        marey.finalize(stdout, "marey")
    assert stdout is not None
    marey._native.set_quiet_if_empty(stdout)


def test_processes_of_one_name_share_a_run() -> None:
    with Live(RECORD) as first:
        path = first.read_line()
        with Live(RECORD, RANK="3") as second:
            assert second.read_line() == path == os.path.abspath("x.marey")
            second.end()
        assert first.process.poll() is None
        first.end()
    pids = sorted(str(program.process.pid) for program in (first, second))
    assert [name.partition("-")[0] for name in spools("x")] == pids
    assert sorted(os.listdir()) == ["program.py", "x.marey"]


def test_an_earlier_run_is_renamed() -> None:
    for _ in range(3):
        run_well(RECORD, stdin="")
    runs = sorted(path.name for path in Path().glob("*.marey"))
    assert runs == ["x.1.marey", "x.2.marey", "x.marey"]
    assert all(len(spools(run.removesuffix(".marey"))) == 1 for run in runs)


def test_marey_run_dir_sets_the_run_directory() -> None:
    for _ in range(2):
        run_well(RECORD, stdin="", MAREY_RUN_DIR="given")
    assert len(list(Path("given/spool").iterdir())) == 2
    assert sorted(os.listdir()) == ["given", "program.py"]


def test_children_that_record_nothing_leave_nothing() -> None:
    source = """
        import marey, os
        marey._native.set_quiet_if_empty(marey.start("x", data="trace"))
        session = marey.start("y", data="trace")
        if os.fork() == 0:
            marey.deactivate(session)
            marey.activate(session)
            marey.data.advance_phase(session)
            marey.finalize()
            os._exit(0)
        os.wait()
        marey._native.set_quiet_if_empty(session)
        marey.finalize()
        """
    run_well(source)
    assert os.listdir() == ["program.py"]


def test_a_child_without_a_spool_still_records_its_tree() -> None:
    source = """
        import marey, os, pathlib, shutil
        session = marey.start("x", data="trace")
        if os.fork() == 0:
            shutil.rmtree("x.marey")
            pathlib.Path("x.marey").touch()
            with marey.scope("child"):
                pass
            marey.finalize(session, "hatchet")
            os._exit(0)
        os.wait()
        """
    run_program(source)
    [child] = [path for path in profile_names() if path != "x.hatchet"]
    assert counts(tree(child)) == {"child": 1}
    assert tree(child)["marey"]["losses"]["spool_full"] == 1


def test_a_child_that_outlives_its_parent_stays_in_the_run() -> None:
    source = """
        import marey, os, sys
        session = marey.start("x", data="trace")
        if os.fork() == 0:
            sys.stdin.read()  # until the parent is gone
            with marey.scope("child"):
                pass
            marey.finalize(session, "marey")
            os._exit(0)
        with marey.scope("parent"):
            pass
        marey.finalize(session, "marey")
        print("done", flush=True)
        """
    with Live(source) as program:
        assert program.read_line() == "done"
        program.process.wait()
        with Live(RECORD) as other:
            assert other.read_line() == os.path.abspath("x.marey")  # it is recorded into
            program.end()
            other.end()
    assert len(spools("x")) == 3


def test_secrets_of_the_command_line_and_the_environment_are_not_stored() -> None:
    path = write_program('import marey; marey.finalize(marey.start("x", data="trace"), "marey")')
    arguments = ("--lr=0.25", "--token", "hunter2")
    assert run_command(sys.executable, path, *arguments, API_KEY="hunter3").exit_code == 0
    assert b"--lr=0.25" in spool("x")
    assert b"hunter" not in spool("x")


def test_a_trace_to_standard_output_has_a_private_directory() -> None:
    runs = set()
    for _ in range(2):
        session = marey.start("-", data="trace")
        assert session is not None
        run = marey._native.run_dir(session)
        assert run is not None
        assert Path(run).stat().st_mode & 0o777 == 0o700
        marey._native.set_quiet_if_empty(session)
        marey.finalize(session)
        assert not Path(run).exists()
        runs.add(run)
    assert len(runs) == 2
