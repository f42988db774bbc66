"""Trace sessions: file content, pauses, forks, ends and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import marey
import pytest
from profiles import counts, profile_names, tree
from programs import Live, run_program, run_well, write_program

pytestmark = pytest.mark.usefixtures("own_directory", "spools_stay")

Event = dict[str, Any]

BUFFER = "MAREY_TRACE_BUFFER_BYTES"


@pytest.fixture
def spools_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables collection, because the tests read the spools."""
    monkeypatch.setenv("MAREY_COLLECT", "0")


def events(path: str | Path) -> list[Event]:
    """Returns the scopes of a trace in order of start."""
    document = json.loads(Path(path).read_text())
    found = [event for event in document["traceEvents"] if event["ph"] == "X"]
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def paths(path: str | Path) -> list[str]:
    """Returns the paths of the scopes of a trace in order of start; names joined by slashes."""
    return ["/".join(event["args"]["call_stack"][1:]) for event in events(path)]


def losses(path: str | Path) -> dict[str, int]:
    document = json.loads(Path(path).read_text())
    return {cause: count for cause, count in document["marey"]["losses"].items() if count}


def traces(directory: str | Path = ".") -> list[str]:
    return profile_names(".chrome_trace", directory)


def spools(profile: str) -> list[str]:
    return sorted(path.name for path in Path(f"{profile}.marey/spool").glob("*"))


def spool(profile: str) -> bytes:
    """Returns the only spool of a run."""
    [name] = spools(profile)
    return Path(f"{profile}.marey/spool", name).read_bytes()


# What is in a trace


def test_the_trace_of_a_small_program() -> None:
    source = """
        import marey, threading
        marey.start("x", data="trace")
        with marey.scope("outer", {"tokens": 3, "loss (exc)": 0.5}):
            for _ in range(2):
                with marey.scope("inner"):
                    pass
        @marey.scope("work")
        def work():
            pass
        thread = threading.Thread(target=work)
        thread.start(); thread.join()
        marey.finalize()
        """
    assert run_well(source) == ""
    outer, first, second, work = events("x.chrome_trace")
    assert paths("x.chrome_trace") == ["outer", "outer/inner", "outer/inner", "work"]
    assert outer["args"]["metrics"] == {"tokens": "3", "loss (exc)": "0.500000"}
    assert outer["ts"] <= first["ts"]
    assert first["ts"] + first["dur"] <= second["ts"]
    assert second["ts"] + second["dur"] <= outer["ts"] + outer["dur"] <= work["ts"]
    assert len({event["pid"] for event in (outer, first, second, work)}) == 1
    assert outer["tid"] == first["tid"] == second["tid"] != work["tid"]
    assert sorted(os.listdir()) == ["program.py", "x.chrome_trace", "x.marey"]


def test_names_of_every_kind_survive_the_spool() -> None:
    names = [
        '"quoted"',
        "back\\slash",
        "new\nline",
        "nul\0",
        "\x1b[31m",
        "",
        "日本語 😀",
        "a" * 9000,
    ]
    session = marey.start("x", data="trace")
    for name in names:
        with marey.scope(name):
            pass
    marey.finalize(session)
    assert [event["args"]["call_stack"][-1] for event in events("x.chrome_trace")] == names


def test_a_name_that_is_too_long_for_the_spool_is_counted() -> None:
    session = marey.start("x", data="trace")
    with marey.scope("a" * (1 << 21)):
        pass
    marey.finalize(session)
    assert paths("x.chrome_trace") == ["<lost>"]
    assert losses("x.chrome_trace")["names"] >= 1


def test_tree_and_trace_sessions_record_at_the_same_time() -> None:
    first = marey.start("first", data="trace")
    plain = marey.start("plain")
    with marey.scope("before"):
        second = marey.start("second", data="trace")
        with marey.scope("both"):
            pass
        marey.deactivate(first)
        with marey.scope("paused"):
            pass
        marey.activate(first)
        with marey.scope("again"):
            pass
    marey.finalize(first)
    with marey.scope("after first"):
        pass
    marey.finalize(second)
    marey.finalize(plain)
    assert paths("first.chrome_trace") == ["before", "before/both", "before/again"]
    assert paths("second.chrome_trace") == ["both", "paused", "again", "after first"]
    assert counts(tree("plain.hatchet"))["before/paused"] == 1
    # All sessions of a process share the spool of the first.
    assert [path.name for path in Path().glob("*.marey")] == ["first.marey"]
    assert len(spools("first")) == 1


def test_a_trace_session_can_write_its_tree() -> None:
    session = marey.start("x", data="trace")
    with marey.scope("a", {"m": 2}):
        pass
    with pytest.raises(RuntimeError, match='only the data of a session with data="tree"'):
        marey.data.get(session)
    with pytest.raises(RuntimeError, match='only the data of a session with data="tree"'):
        marey.data.get_msgpack(session)
    marey.finalize(session, "hatchet")
    assert counts(tree("x.hatchet")) == {"a": 1}
    assert (traces(), len(spools("x"))) == ([], 1)


def test_a_tree_session_cannot_write_a_trace() -> None:
    session = marey.start("x")
    with pytest.raises(ValueError, match="chrome_trace"):
        marey.finalize(session, "chrome_trace")
    with pytest.raises(ValueError, match='needs data="trace"'):
        marey.start("y", mode="periodic_flushing:format=chrome_trace")
    assert marey._native.sessions() == [session]


def test_each_phase_has_its_own_file() -> None:
    session = marey.start("x", data="trace")
    for number in range(3):
        with marey.scope(f"phase {number}"):
            pass
        if number < 2:
            assert marey.data.advance_phase(session) == number + 1
            assert marey.data.is_phase_complete(session, number)
    marey.data.clear(session, 1)
    marey.finalize(session)
    assert traces() == ["x.part_0.chrome_trace", "x.part_2.chrome_trace"]
    assert paths("x.part_0.chrome_trace") == ["phase 0"]
    assert paths("x.part_2.chrome_trace") == ["phase 2"]


def test_clearing_the_open_phase_restarts_it() -> None:
    session = marey.start("x", data="trace")
    with marey.scope("forgotten"):
        pass
    marey.data.clear(session, 0)
    with marey.scope("kept"):
        pass
    marey.finalize(session)
    assert paths("x.chrome_trace") == ["kept"]


def test_periodic_flushing_writes_phases_when_they_close() -> None:
    session = marey.start("x", data="trace", mode="periodic_flushing")
    with marey.scope("first"):
        pass
    marey.data.advance_phase(session)
    assert paths("x.part_0.chrome_trace") == ["first"]
    with marey.scope("second"):
        pass
    marey.deactivate(session, flushing=True)
    assert paths("x.part_1.chrome_trace") == ["second"]
    marey.finalize(session)
    assert traces() == ["x.part_0.chrome_trace", "x.part_1.chrome_trace"]


def test_python_frames_are_in_the_call_stack() -> None:
    def inner() -> None:
        with marey.scope("here"):
            pass

    session = marey.start("x", data="trace", context="python")
    inner()
    marey.finalize(session)
    [event] = events("x.chrome_trace")
    *_, caller, callee, name = event["args"]["call_stack"]
    assert caller.endswith("@test_python_frames_are_in_the_call_stack")
    assert callee.endswith("inner")
    assert name == "here"


def test_modules_and_steps_have_their_kinds() -> None:
    torch = pytest.importorskip("torch")
    import marey.torch

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters())
    session = marey.start("x", data="trace")
    marey.torch.enable()
    try:
        for _ in range(3):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    finally:
        marey.torch.disable()
    marey.finalize(session)
    kinds = Counter(event["args"].get("kind") for event in events("x.chrome_trace"))
    assert kinds["module"] == 9
    assert kinds["step"] == 3


def test_the_profile_decorator_writes_a_trace() -> None:
    source = """
        import marey
        @marey.profile(name="x", data="trace")
        def run():
            with marey.scope("in run"):
                pass
        run()
        with marey.scope("outside"):
            pass
        run()
        marey.finalize()
        """
    run_well(source)
    assert paths("x.chrome_trace") == ["in run", "in run"]


def test_a_trace_can_be_written_to_standard_output() -> None:
    source = """
        import marey
        session = marey.start("-", data="trace")
        with marey.scope("a"):
            pass
        marey.finalize(session)
        """
    Path("printed").write_text(run_well(source, TMPDIR=os.getcwd()))
    assert paths("printed") == ["a"]
    assert sorted(os.listdir()) == ["printed", "program.py"]


# How much


@pytest.mark.parametrize("buffer_bytes", ["4194304", "1024"])
def test_threads_record_every_scope_or_count_it(buffer_bytes: str) -> None:
    source = """
        import marey, threading
        marey.start("x", data="trace")
        def work():
            for _ in range(10_000):
                for name in ("one", "two", "three"):
                    with marey.scope(name):
                        pass
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """
    run_well(source, **{BUFFER: buffer_bytes})
    by_lane: dict[int, list[str]] = {}
    for event in events("x.chrome_trace"):
        by_lane.setdefault(event["tid"], []).append(event["name"])
    recorded = sum(map(len, by_lane.values()))
    lost = losses("x.chrome_trace").get("trace_buffer_full", 0)
    assert recorded + lost == 240_000
    if buffer_bytes == "4194304":
        assert list(by_lane.values()) == [["one", "two", "three"] * 10_000] * 8


def test_memory_does_not_grow_with_the_trace() -> None:
    source = """
        import marey, sys
        marey.start("x", data="trace")
        scope = marey.scope
        for _ in range(int(sys.argv[1])):
            with scope("x"):
                pass
        marey.finalize()
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM:"):
                print(line.split()[1])
        """
    write_program(source)

    def peak_kib(scopes: int) -> int:
        done = os.popen(f"{sys.executable} program.py {scopes} 2>/dev/null")
        peak = int(done.read())
        with Path("x.chrome_trace").open() as trace:
            recorded = 0
            for line in trace:
                recorded += '"ph":"X"' in line
        tail = line
        lost = json.loads("{" + tail.removeprefix("],"))["marey"]["losses"]
        assert recorded + sum(lost.values()) == scopes
        Path("x.chrome_trace").unlink()
        return peak

    assert peak_kib(5_000_000) - peak_kib(1_000_000) < 4096


# The end of a process


# The frame without contents: its length, its CRC and its kind.
END = bytes([1, 0, 0, 0, *zlib.crc32(b"\x0b").to_bytes(4, "little"), 0x0B])

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
def test_a_program_that_never_finalizes(ending: str, exit_code: int) -> None:
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
        for _ in range(1_000_000):
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
    assert len(events("x.chrome_trace")) == 1_000_000
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


def test_multiprocessing() -> None:
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


# marey run


def test_marey_run_writes_a_trace() -> None:
    import subprocess

    write_program(
        """
        import marey
        with marey.scope("a"):
            print("hello")
        """
    )
    run = [sys.executable, "-m", "marey", "run", "-d", "trace"]
    done = subprocess.run([*run, "program.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "hello\n"
    assert "marey: wrote program.chrome_trace\n" in done.stderr
    assert "ui.perfetto.dev" in done.stderr
    assert (
        "marey: wrote program.marey\nmarey: query it with: marey query program.marey\n"
        in done.stderr
    )
    assert paths("program.chrome_trace") == ["a"]
    subprocess.run([*run, "-o", "out/named.chrome_trace", "program.py"], check=True)
    assert traces("out") == ["named.chrome_trace"]


def marey_run(*arguments: str) -> str:
    """Returns the stderr of `marey run` and its program."""
    run = [sys.executable, "-m", "marey", "run", "-d", "trace"]
    done = subprocess.run([*run, *arguments], capture_output=True, text=True, check=True)
    return done.stderr


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
        said = marey_run("-o", "out/x.marey", *before, "program.py")
        assert "out/x.marey\n" in said
    assert sorted(os.listdir("out")) == ["x.1.marey", "x.marey"]
    assert [len(spools(f"out/{name}")) for name in ("x.1", "x")] == [2, 2]


@pytest.mark.parametrize("before", [[], ["--", sys.executable]])
def test_a_nested_marey_run_uses_the_outer_directory(before: list[str]) -> None:
    write_program(PARENT)
    inner = ["-m", "marey", "run", "-d", "trace", "-o", "inner.marey", *before, "program.py"]
    said = marey_run("-o", "outer.marey", "--", sys.executable, *inner)
    assert "inner.marey" not in said
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
    run = [sys.executable, "-m", "marey", "run", "-d", "trace", "-o", "x.marey", str(path)]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait() == -signal.SIGTERM
    assert sorted(os.listdir()) == ["program.py", "x.marey"]
    assert spool("x").endswith(END)


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
    # What the spool took last may be that a scope was open.
    ended = [event for path in traces() for event in events(path) if "open" not in event["args"]]
    lost = losses(traces()[-1])
    assert lost["spool_full"] > 0
    assert len(ended) + sum(lost.values()) == 200_000


def test_processes_of_one_name_may_start_and_end_at_the_same_time() -> None:
    program = """
        import marey

        for _ in range(200):
            marey.finalize(marey.start("same", data="trace"))
        """
    path = write_program(program)
    command = [sys.executable, str(path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], errors
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
    source = """
        import marey
        marey.finalize(marey.start("x", data="trace"), "marey")
        """
    path = write_program(source)
    command = [sys.executable, str(path), "--lr=0.25", "--token", "hunter2"]
    subprocess.run(command, check=True, env={**os.environ, "API_KEY": "hunter3"})
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
