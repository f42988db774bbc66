"""Trace sessions: content of files, pauses, phases, and the number of scopes."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import marey
import pytest
from profiles import counts, record_scope, tree
from programs import run_well, write_program
from trace_files import events, losses, paths, spools, traces

pytestmark = pytest.mark.usefixtures("spools_stay")

BUFFER = "MAREY_TRACE_BUFFER_BYTES"


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
    with marey.profile("x", data="trace"):
        for name in names:
            record_scope(name)
    assert [event["args"]["call_stack"][-1] for event in events("x.chrome_trace")] == names


def test_a_name_that_is_too_long_for_the_spool_is_counted() -> None:
    with marey.profile("x", data="trace"):
        record_scope("a" * (1 << 21))
    assert paths("x.chrome_trace") == ["<lost>"]
    assert losses("x.chrome_trace")["names"] >= 1


def test_tree_and_trace_sessions_record_at_the_same_time() -> None:
    first = marey.start("first", data="trace")
    plain = marey.start("plain")
    with marey.scope("before"):
        second = marey.start("second", data="trace")
        record_scope("both")
        marey.deactivate(first)
        record_scope("paused")
        marey.activate(first)
        record_scope("again")
    marey.finalize(first)
    record_scope("after first")
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
    record_scope("a", {"m": 2})
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
        record_scope(f"phase {number}")
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
    record_scope("forgotten")
    marey.data.clear(session, 0)
    record_scope("kept")
    marey.finalize(session)
    assert paths("x.chrome_trace") == ["kept"]


def test_periodic_flushing_writes_phases_when_they_close() -> None:
    session = marey.start("x", data="trace", mode="periodic_flushing")
    record_scope("first")
    marey.data.advance_phase(session)
    assert paths("x.part_0.chrome_trace") == ["first"]
    record_scope("second")
    marey.deactivate(session, flushing=True)
    assert paths("x.part_1.chrome_trace") == ["second"]
    marey.finalize(session)
    assert traces() == ["x.part_0.chrome_trace", "x.part_1.chrome_trace"]


def test_python_frames_are_in_the_call_stack() -> None:
    def inner() -> None:
        with marey.scope("here"):
            pass

    with marey.profile("x", data="trace", context="python"):
        inner()
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
    with marey.profile("x", data="trace"):
        marey.torch.enable()
        try:
            for _ in range(3):
                net(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        finally:
            marey.torch.disable()
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
