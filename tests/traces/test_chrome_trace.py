"""The Chrome trace of a session: its schema, and a comparison with Proton's trace."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import marey
import pytest
from profiles import record_scope
from programs import run_well
from threads import run_in_threads

Event = dict[str, Any]
Document = dict[str, Any]

MICRO = Decimal("0.001")
"""Times are microseconds, down to the nanosecond."""

COMMON = {"args", "name", "ph", "pid"}
KEYS = {
    "M": COMMON | {"tid"},
    "X": COMMON | {"cat", "dur", "tid", "ts"},
    "i": COMMON | {"cat", "s", "tid", "ts"},
}
ARGUMENTS = {"call_stack", "kind", "metrics", "open", "scope_id"}
KINDS = {"state", "module", "operator", "frame", "step"}


def read(path: str | Path) -> Document:
    """Reads a trace and checks all rules of the format."""
    document: Document = json.loads(Path(path).read_text(), parse_float=Decimal)
    check(document)
    return document


def check(document: Document) -> None:
    assert set(document) == {"baseTimeNanoseconds", "displayTimeUnit", "marey", "traceEvents"}
    assert document["displayTimeUnit"] == "us"
    assert isinstance(document["baseTimeNanoseconds"], int)
    assert set(document["marey"]) == {"losses", "process", "torn_bytes", "version"}
    pid = document["marey"]["process"]["pid"]
    for event in document["traceEvents"]:
        assert set(event) == KEYS[event["ph"]] or event["name"].startswith("process_"), event
        assert event["pid"] == pid
        if event["ph"] != "M":
            check_event(event)
    found = scopes(document)
    assert sorted(event["args"]["scope_id"] for event in found) == list(range(1, len(found) + 1))
    check_lanes(document)


def check_event(event: Event) -> None:
    for key in {"dur", "ts"} & set(event):
        assert isinstance(event[key], Decimal)
        assert event[key].as_tuple().exponent == -3, "exactly three decimals"
    arguments = event["args"]
    assert set(arguments) <= ARGUMENTS
    assert arguments["call_stack"][0] == "ROOT"
    assert all(isinstance(name, str) for name in arguments["call_stack"])
    assert arguments.get("kind", "state") in KINDS
    assert arguments.get("open", True) is True
    assert event["cat"] == ("metric" if "metrics" in arguments else "scope")
    name = arguments["call_stack"][-1]
    metrics = arguments.get("metrics", {})
    assert all(isinstance(value, str) for value in metrics.values())
    told = ", ".join(f"<{key}, {value}>" for key, value in sorted(metrics.items()))
    assert event["name"] == (f"{name}: {told}" if told else name)
    assert ("scope_id" in arguments) == (event["ph"] == "X")


def check_lanes(document: Document) -> None:
    """Checks that every lane has one name and position, and that its complete events nest."""
    lanes = {event["tid"] for event in document["traceEvents"] if event["ph"] != "M"}
    for kind in ("thread_name", "thread_sort_index"):
        named = [event["tid"] for event in document["traceEvents"] if event["name"] == kind]
        assert sorted(named) == sorted(lanes)
    for lane in lanes:
        open_until: list[Decimal] = []
        events = [event for event in scopes(document) if event["tid"] == lane]
        for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
            end = event["ts"] + event["dur"]
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            assert not open_until or end <= open_until[-1], event
            open_until.append(end)


def scopes(document: Document) -> list[Event]:
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def of_name(document: Document, name: str) -> Event:
    found = [event for event in scopes(document) if event["args"]["call_stack"][-1] == name]
    assert len(found) == 1
    return found[0]


def traced(program: Callable[[], object], **options: Any) -> Document:
    """Runs a program in its own session and returns the trace."""
    with marey.profile("traced", data="trace", **options):
        program()
    return read("traced.chrome_trace")


def test_times_are_nanoseconds_since_the_session_started() -> None:
    began = time.time_ns()

    def program() -> None:
        with marey.scope("outer"):
            for _ in range(3):
                record_scope("inner")

    document = traced(program)
    ended = time.time_ns()
    # The wall clock may be set while the program runs, but not by as much as this.
    tolerance_nanos = 10**9
    base = document["baseTimeNanoseconds"]
    assert began - tolerance_nanos <= base <= ended + tolerance_nanos
    outer = of_name(document, "outer")
    inner = [event for event in scopes(document) if event["name"] == "inner"]
    assert len(inner) == 3
    assert outer["ts"] >= 0
    assert outer["ts"] + outer["dur"] < (ended - began + tolerance_nanos) * MICRO
    for event in inner:
        assert outer["ts"] < event["ts"]
        assert event["ts"] + event["dur"] < outer["ts"] + outer["dur"]
        assert event["args"]["call_stack"] == ["ROOT", "outer", "inner"]
    starts = [event["ts"] for event in inner]
    assert starts == sorted(set(starts))


def test_lanes_name_their_thread_and_process() -> None:
    out = run_well(
        """
        import os, threading
        import marey

        def work() -> None:
            with marey.scope("in thread"):
                print(threading.get_native_id())

        marey.start("lanes", data="trace")
        with marey.scope("in main"):
            pass
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print(os.getpid())
        """,
        RANK="3",
    )
    os_id, pid = map(int, out.split())
    document = read("lanes.rank3.chrome_trace")
    process = document["marey"]["process"]
    assert (process["pid"], process["rank"], process["host"]) == (pid, 3, socket.gethostname())
    meta = {
        (event["name"], event.get("tid")): event["args"]
        for event in document["traceEvents"]
        if event["ph"] == "M"
    }
    assert meta["process_name", None] == {"name": f"Trace (rank 3, {socket.gethostname()})"}
    assert meta["process_sort_index", None] == {"sort_index": 3}
    main, thread = (of_name(document, name)["tid"] for name in ("in main", "in thread"))
    assert meta["thread_name", main]["os_id"] == pid
    assert meta["thread_name", thread]["os_id"] == os_id
    orders = [meta["thread_sort_index", lane]["sort_index"] for lane in (main, thread)]
    assert orders == sorted(set(orders))


def test_any_name_is_valid_json() -> None:
    names = [
        'a "quoted" \\ name',
        "tab\tline\nzero\0bell\a",
        "é 漢字 🜚",
        "",
        "\x7f\u2028",
        "</script>",
    ]

    def program() -> None:
        for name in names:
            record_scope(name, {name or "empty": 1})

    found = [event["args"] for event in scopes(traced(program))]
    assert [arguments["call_stack"][-1] for arguments in found] == names
    assert [list(arguments["metrics"]) for arguments in found] == [
        [name or "empty"] for name in names
    ]


def test_metrics_are_in_the_event_of_their_scope() -> None:
    def program() -> None:
        for number in range(3):
            with marey.scope("step", {"tokens": number, "lr (pty)": 0.5}):
                record_scope("inner")
                marey._native.add_metrics({"tokens": 10, "lr (pty)": 0.25, "small (exc)": 1e-9})
                marey._native.add_metrics({"vector": [1, 2], "reals": [0.5, 1e300]})

    document = traced(program)
    metrics = [event["args"].get("metrics") for event in scopes(document)]
    assert metrics[::2] == [None] * 3
    assert metrics[1::2] == [
        {
            "lr (pty)": "0.250000",
            "reals": "[0.5,1e300]",
            "small (exc)": "1e-9",
            "tokens": str(10 + number),
            "vector": "[1,2]",
        }
        for number in range(3)
    ]


def test_metrics_outside_of_scopes_are_instants() -> None:
    document = traced(lambda: marey._native.add_metrics({"tokens": 3}))
    moments = [event for event in document["traceEvents"] if event["ph"] == "i"]
    assert [event["name"] for event in moments] == ["ROOT: <tokens, 3>"]
    assert scopes(document) == []


def test_states_are_scopes_that_may_overlap_others() -> None:
    def program() -> None:
        marey.enter_state("warm")
        marey.enter_scope("a", metrics={"tokens": 1})
        marey.exit_state()
        marey.exit_scope("a")

    document = traced(program)
    state, scope = of_name(document, "warm"), of_name(document, "a")
    assert state["args"]["kind"] == "state"
    assert scope["args"]["metrics"] == {"tokens": "1"}
    assert state["ts"] < scope["ts"] < state["ts"] + state["dur"] < scope["ts"] + scope["dur"]
    assert state["tid"] != scope["tid"]


def test_tasks_that_interleave_get_lanes_that_nest() -> None:
    async def task(barrier: asyncio.Event, number: int) -> None:
        with marey.scope(f"task {number}"):
            await barrier.wait()
            with marey.scope("inner"):
                await asyncio.sleep(0)

    async def program() -> None:
        barrier = asyncio.Event()
        tasks = [asyncio.create_task(task(barrier, number)) for number in range(20)]
        await asyncio.sleep(0)
        barrier.set()
        await asyncio.gather(*tasks)

    document = traced(lambda: asyncio.run(program()))
    found = Counter(event["name"] for event in scopes(document))
    assert found == {"inner": 20, **{f"task {number}": 1 for number in range(20)}}
    assert len({event["tid"] for event in scopes(document)}) > 1
    for event in scopes(document):
        if event["name"] == "inner":
            assert event["args"]["call_stack"][1].startswith("task ")


def test_open_scopes_are_marked() -> None:
    with marey.profile("open", data="trace"):
        marey.enter_scope("outer", metrics={"tokens": 1})
        marey.enter_scope("inner")
        record_scope("closed")
    document = read("open.chrome_trace")
    state = {
        event["args"]["call_stack"][-1]: event["args"].get("open") for event in scopes(document)
    }
    assert state == {"outer": True, "inner": True, "closed": None}
    assert of_name(document, "outer")["args"]["metrics"] == {"tokens": "1"}
    marey.exit_scope("inner")
    marey.exit_scope("outer")


def test_phases_share_the_clock_and_no_events() -> None:
    session = marey.start("phased", data="trace")
    for phase in range(3):
        record_scope(f"in {phase}")
        if phase < 2:
            marey.data.advance_phase(session)
    marey.finalize(session)
    parts = [read(f"phased.part_{phase}.chrome_trace") for phase in range(3)]
    assert [[event["name"] for event in scopes(part)] for part in parts] == [
        ["in 0"],
        ["in 1"],
        ["in 2"],
    ]
    assert len({part["baseTimeNanoseconds"] for part in parts}) == 1
    starts = [scopes(part)[0]["ts"] for part in parts]
    assert starts == sorted(set(starts))


def test_sessions_have_their_own_events() -> None:
    first = marey.start("first", data="trace")
    with marey.scope("before"):
        second = marey.start("second", data="trace")
        record_scope("both")
        marey.deactivate(first)
        record_scope("only second")
        marey.activate(first)
    marey.finalize(first)
    marey.finalize(second)
    paths = [
        sorted(
            "/".join(event["args"]["call_stack"]) for event in scopes(read(f"{name}.chrome_trace"))
        )
        for name in ("first", "second")
    ]
    assert paths == [["ROOT/before", "ROOT/before/both"], ["ROOT/both", "ROOT/only second"]]


def test_a_session_without_events_writes_a_valid_trace() -> None:
    document = traced(lambda: None)
    assert {event["ph"] for event in document["traceEvents"]} == {"M"}
    assert document["marey"]["process"]["pid"] == os.getpid()


NAMES = ["a", "b", 'c "quoted" \\ \t é']
METRICS: dict[str, Any] = {
    "int": 3,
    "float": 0.5,
    "large": 1e20,
    "negative (exc)": -7,
    "property (pty)": 11,
    "ints": [1, -2, 3],
    "floats": [0.5, 1.5],
    "one": [4],
    "none": [],
}


def run_block(
    rng: random.Random,
    enter: Callable[[str], int],
    measure: Callable[[int, dict[str, Any]], object],
    leave: Callable[[int, str], object],
    depth: int = 0,
) -> None:
    """Runs a random program of scopes and metrics."""
    for _ in range(rng.randrange(1, 5)):
        name = rng.choice(NAMES)
        number = enter(name)
        for _ in range(rng.randrange(3)):
            measured = rng.sample(list(METRICS), rng.randrange(1, 4))
            measure(number, {name: METRICS[name] for name in measured})
        if depth < 4:
            run_block(rng, enter, measure, leave, depth + 1)
        leave(number, name)


def told(document: Document) -> list[list[Event]]:
    """Returns the events that both profilers write, by thread, in order of start."""
    threads: dict[int, list[Event]] = {}
    for event in sorted(scopes(document), key=lambda event: (event["ts"], -event["dur"])):
        arguments = {key: event["args"].get(key) for key in ("call_stack", "metrics")}
        same = {key: event[key] for key in ("cat", "name", "ph")}
        threads.setdefault(event["tid"], []).append({**same, **arguments})
    return list(threads.values())


@pytest.mark.parametrize("seed", range(10))
def test_marey_and_proton_write_the_same_events(seed: int) -> None:
    libproton = pytest.importorskip("triton._C.libproton").proton

    def enter_theirs(name: str) -> int:
        number: int = libproton.record_scope()
        libproton.enter_scope(number, name)
        return number

    def run_theirs(seed: int) -> None:
        run_block(random.Random(seed), enter_theirs, libproton.add_metrics, libproton.exit_scope)

    def run_ours(seed: int) -> None:
        run_block(
            random.Random(seed),
            lambda name: marey.enter_scope(name) or 0,
            lambda _, values: marey._native.add_metrics(values),
            lambda _, name: marey.exit_scope(name),
        )

    theirs = libproton.start("theirs", "shadow", "trace", "instrumentation", "cuda")
    run_theirs(seed)
    run_in_threads(lambda: run_theirs(seed + 1000))
    libproton.finalize(theirs, "chrome_trace")
    with marey.profile("ours", data="trace"):
        run_ours(seed)
        run_in_threads(lambda: run_ours(seed + 1000))
    their_document = json.loads(Path("theirs.chrome_trace").read_text())
    assert {*their_document, "marey"} == set(read("ours.chrome_trace"))
    their_keys = {key for event in their_document["traceEvents"] for key in event}
    assert their_keys == KEYS["X"]
    expected = told(their_document)
    assert len(expected) == 2
    assert told(read("ours.chrome_trace")) == expected
