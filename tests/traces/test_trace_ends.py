"""Trace sessions that end with their process, at a fork, by a signal, or without space."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import marey
import pytest
from programs import Live, LiveCommand, run_program, run_well, write_program
from trace_files import END, events, losses, paths, spool, spools, traces

pytestmark = pytest.mark.usefixtures("spools_stay")

IN_SCOPES = """
    import marey, os, signal, sys
    marey.start("x", data="trace")
    with marey.scope("in scope"):
        with marey.scope("done"):
            pass
        print("ready")
        {ending}
    """


@pytest.mark.parametrize(
    ("ending", "exit_code"),
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGINT)", -2),
        ("os.closerange(3, 1000)", 0),
        ("os.chdir('/')", 0),
    ],
)
def test_a_program_that_never_finalizes_writes_its_trace(ending: str, exit_code: int) -> None:
    done = run_program(IN_SCOPES.format(ending=ending))
    assert (done.exit_code, done.stdout) == (exit_code, "ready\n")
    assert paths("x.chrome_trace") == ["in scope", "in scope/done"]
    assert spool("x").endswith(END)


def test_a_program_that_closes_every_descriptor_over_and_over() -> None:
    source = """
        import marey, os
        marey.start("x", data="trace")
        for _ in range(200_000):
            with marey.scope("scope"):
                os.closerange(3, 1000)
        """
    # Room for all of them, however long a busy machine takes to write them.
    run_well(source, MAREY_TRACE_BUFFER_BYTES=str(1 << 26))
    assert paths("x.chrome_trace") == ["scope"] * 200_000


@pytest.mark.parametrize("waiting", ["sys.stdin.read()", "while True: pass"])
def test_sigterm_writes_the_file_and_ends_as_it_would(waiting: str) -> None:
    with Live(IN_SCOPES.format(ending=waiting)) as program:
        assert program.read_line() == "ready"
        program.process.send_signal(signal.SIGTERM)
        done = program.end()
    assert (done.exit_code, done.stderr) == (-signal.SIGTERM, "")
    in_scope, done_scope = events("x.chrome_trace")
    assert in_scope["args"]["open"] is True
    assert done_scope["name"] == "done"
    assert spool("x").endswith(END)


def test_sigterm_during_finalize_finishes_the_file() -> None:
    source = """
        import marey
        marey.start("x", data="trace")
        for _ in range(300_000):
            with marey.scope("x"):
                pass
        print("ready")
        marey.finalize()
        while True: pass
        """
    with Live(source, MAREY_TRACE_BUFFER_BYTES=str(1 << 26)) as program:
        assert program.read_line() == "ready"
        while not list(Path().glob(".x.chrome_trace.*.tmp")):
            assert program.process.poll() is None
        program.process.send_signal(signal.SIGTERM)
        assert program.end().exit_code == -signal.SIGTERM
    assert len(events("x.chrome_trace")) == 300_000
    assert sorted(os.listdir()) == ["program.py", "x.chrome_trace", "x.marey"]


def test_sigkill_leaves_the_spool() -> None:
    with Live(IN_SCOPES.format(ending="sys.stdin.read()")) as program:
        assert program.read_line() == "ready"
        program.process.kill()
        program.end()
    [killed] = spools("x")
    assert killed == f"{program.process.pid}-0.spool"
    assert spool("x").startswith(b"MAREYSPL")
    assert not spool("x").endswith(END)


def test_losses_are_written_when_the_disk_has_space_again() -> None:
    source = """
        import marey, resource
        session = marey.start("x", data="trace")
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
        for number in range(1_000):
            with marey.scope(f"scope {number}"):
                pass
        marey.data.advance_phase(session)  # the logs are taken over
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        with marey.scope("after"):
            pass
        marey.finalize(session, "marey")
        """
    run_well(source)
    assert len(spool("x")) < 1_200
    assert spool("x").endswith(END)


def test_a_spool_that_cannot_be_created_is_an_error() -> None:
    Path("file").touch()
    with pytest.raises(OSError, match=r"cannot create .*file/x\.marey/spool"):
        marey.start("file/x", data="trace")
    assert marey._native.sessions() == []


def test_forked_children_write_their_own_traces() -> None:
    source = """
        import marey, os, sys
        marey.start("x", data="trace")
        with marey.scope("parent"):
            if os.fork() == 0:
                with marey.scope("child"):
                    pass
                marey.finalize()
                os._exit(0)
            os.wait()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", ""])
            os.wait()
        """
    run_well(source)
    child, parent = sorted(traces(), key=len, reverse=True)
    assert parent == "x.chrome_trace"
    assert paths(parent) == ["parent"]
    assert paths(child) == ["parent/child"]
    [event] = events(child)
    assert child == f"x.{event['pid']}.chrome_trace"
    assert event["pid"] != events(parent)[0]["pid"]
    # One run, with a spool of each process that has recorded.
    assert [path.name for path in Path().glob("*.marey")] == ["x.marey"]
    assert [name.partition("-")[0] for name in spools("x")] == sorted(
        str(events(path)[0]["pid"]) for path in (child, parent)
    )


def test_workers_of_multiprocessing_write_their_own_traces() -> None:
    source = """
        import marey, multiprocessing
        def work(number):
            with marey.scope("work"):
                return number
        if __name__ == "__main__":
            marey.start("x", data="trace")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.map(work, range(20), chunksize=1)
                pool.close(); pool.join()
        """
    run_well(source)
    children = [name for name in traces() if name != "x.chrome_trace"]
    assert sum(len(paths(name)) for name in children) == 20
    assert [path.name for path in Path().glob("*.marey")] == ["x.marey"]
    assert len(spools("x")) == 1 + len(children)


def test_data_beyond_a_full_spool_is_counted() -> None:
    run_well(
        """
        import resource
        import marey

        session = marey.start("full", data="trace")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        for _ in range(200_000):
            with marey.scope("x"):
                pass
        marey.data.advance_phase(session)  # the logs are taken over
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        marey.finalize(session)
        """
    )
    # The last event of the spool may be the start of a scope, which is then open.
    ended = [event for path in traces() for event in events(path) if "open" not in event["args"]]
    lost = losses(traces()[-1])
    assert lost["spool_full"] > 0
    assert len(ended) + sum(lost.values()) == 200_000


def test_processes_of_one_name_may_start_and_end_at_the_same_time() -> None:
    program = write_program(
        """
        import marey

        for _ in range(200):
            marey.finalize(marey.start("same", data="trace"))
        """
    )
    running = [LiveCommand(sys.executable, program) for _ in range(2)]
    done = [process.end() for process in running]
    assert [outcome.exit_code for outcome in done] == [0, 0], done
    spools = [path.name for path in Path().glob("same*.marey/spool/*")]
    assert len(spools) == 400


def test_threads_may_end_all_sessions_at_the_same_time() -> None:
    source = """
        import marey, threading
        failed = []
        def work(name):
            try:
                for _ in range(200):
                    marey.start(name, data="trace")
                    marey.finalize(output_format="marey")
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(failed)
        """
    assert run_well(source, MAREY_COLLECT="0") == "[]\n"
