"""`marey.hpp`: what a profile of a C++ program has, by the accessors and in its files."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cpp_programs import Report, Trace, compile_program, environment, run_case
from profiles import counts, tree
from trace_files import run_rows

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cpp") / "cases"
    options = ("-O1", "-rdynamic")
    return compile_program(path, PROGRAMS / "cases.cpp", standard="c++20", options=options)


def profile(program: Path, case: str, *arguments: str) -> Report:
    return Report(run_case(program, case, *arguments)[-1])


def span_names(run: str) -> list[str]:
    """Returns the names of the spans of a run, in the order of their starts."""
    return [name for (name,) in run_rows(run, "SELECT name FROM spans ORDER BY start_nanos")]


def test_scopes_have_their_inputs_and_metadata(program: Path) -> None:
    report = profile(program, "metadata")
    assert (report.warnings, report.dropped, report.trace_id) == ([], 0, 'night "7"')
    inputs = report["inputs"]
    assert inputs["shapes"] == [[2, 3], [], [], [], [], [], [2], [2], [2, 2]]
    assert inputs["dtypes"] == [
        *("float", "Scalar", "Scalar", "Scalar", "String"),
        *("TensorList", "double", "int", "half"),
    ]
    assert inputs["values"] == [""] * 9
    assert inputs["strides"] == [[]] * 9
    assert report["list"]["shapes"] == [[2, 3], [2, 3]]
    assert report["one"]["shapes"] == [[2, 3]]
    assert (report["numbers"]["shapes"], report["none"]["shapes"]) == ([[1]], [])
    assert report["sequence"]["sequence"] == 17
    assert (report["both"]["sequence"], report["both"]["forward_thread"]) == (18, 4711)
    assert report["kwargs"]["kwargs"] == {"stride": "[1, 2]", "groups": "1", "mode": "same"}
    assert report["only kwargs"]["kwargs"] == {"groups": "2"}
    assert (report["edge"]["debug_handle"], report["edge"]["scope"]) == (99, 6)
    assert (report["plain edge"]["scope"], report["plain edge"]["debug_handle"]) == (6, -1)
    assert report["script"]["scope"] == 2
    assert report["user"]["scope"] == 7
    assert report["user inputs"]["shapes"] == [[2, 3]]
    assert "dynamic 1" in report.names()
    assert "dynamic 2" in report.names()
    assert (report["manual"]["scope"], report["manual"]["sequence"]) == (8, 5)
    ids = [event["id"] for event in report.events]
    starts = [event["start_us"] for event in report.events]
    assert len(set(ids)) == len(ids)
    assert starts == sorted(starts)
    assert starts[0] >= 0
    for event in report.events:
        assert event["duration_us"] * 1000 == pytest.approx(event["duration_ns"], abs=1)
    # Two scopes in one block: open when the profile ends.
    assert [report[name]["is_finished"] for name in ("first", "second", "manual")] == [0, 0, 1]


def test_a_trace_has_the_keys_of_the_metadata_reference(program: Path) -> None:
    profile(program, "metadata")
    trace = Trace()
    assert trace.content["trace_id"] == 'night "7"'
    assert trace.content["record_shapes"] == 1
    args = trace.args("inputs")
    tensors = [[2, 3], [2, 3]]
    assert args["Input Dims"] == [[2, 3], [], [], [], [], tensors, [2], [2], [2, 2]]
    assert args["Input type"][:2] == ["float", "Scalar"]
    assert "Input Strides" not in args
    assert "Concrete Inputs" not in args
    assert args["Record function id"] == args["External id"] > 0
    assert trace.args("kwargs")["stride"] == "[1, 2]"
    both = trace.args("both")
    assert (both["Sequence number"], both["Fwd thread id"]) == (18, 4711)
    assert trace.args("first")["finished"] == "false"
    assert trace.scopes["user"]["cat"] == "user_annotation"
    assert trace.scopes["inputs"]["cat"] == "cpu_op"
    assert trace.args("edge")["Debug handle"] == 99


def test_the_run_has_the_same_scopes_and_inputs(program: Path) -> None:
    report = profile(program, "metadata")
    spans = run_rows("run.marey", "SELECT name, kind, args FROM spans")
    # Also of the scopes that were open at the end.
    assert Counter(name for name, _, _ in spans) == Counter(report.names())
    by_name = {name: (kind, args) for name, kind, args in spans}
    args = json.loads(by_name["kwargs"][1])
    assert args["Input Dims"] == [[2, 3]]
    assert args["groups"] == "1"
    assert (by_name["inputs"][0], by_name["user"][0]) == ("operator", "scope")


def test_concrete_inputs_have_strides_and_values_while_they_are_enabled(program: Path) -> None:
    lines = run_case(program, "concrete")
    report = Report(lines[-1])
    assert lines[0] == "1"
    values = report["values"]
    assert values["strides"] == [[4, 1], [], [], [], []]
    image = "tensor([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]])"
    assert values["values"] == [image, "3", "0.5", "True", "mean"]
    (many,) = report["many"]["values"]
    assert many.count("7") == 1000
    assert many.endswith("7, ...])")
    assert report["empty"]["values"] == ["tensor([])"]
    assert (report["span"]["shapes"], report["span"]["dtypes"]) == ([[8]], ["float"])
    assert report["without"]["shapes"] == []
    args = Trace().args("values")
    assert args["Concrete Inputs"] == values["values"]
    assert args["Input Strides"] == values["strides"]


def test_inputs_that_nobody_needs_are_not_evaluated(program: Path) -> None:
    lines = run_case(program, "quiet")
    assert lines[:2] == ["0", "2"]
    report = Report(lines[-1])
    assert report["no shapes"]["shapes"] == []
    assert report["no kwargs"]["kwargs"] == {}
    observed = report["for a callback"]
    assert (observed["dtypes"], observed["kwargs"]) == ([], {})


def test_a_profile_can_be_limited_to_kinds_of_scopes_and_activities(program: Path) -> None:
    kinds, no_host, host_state, is_enabled, disabled, full = run_case(program, "filters")
    assert Report(kinds).names() == ["user", "dtype"]
    assert Report(no_host).names() == []
    assert Report(host_state).names() == ["user"]
    assert (is_enabled, Report(disabled).names()) == ("0", [])
    report = Report(full)
    assert (len(report.events), report.dropped) == (10, 15)
    assert Trace().content["dropped_events"] == 15
    assert span_names("kinds.marey") == Report(kinds).names()
    assert span_names("run.marey") == ["user"] * 25, "the limit is one of memory"


def test_a_session_beside_a_profile_has_what_the_profile_leaves_out(program: Path) -> None:
    assert profile(program, "beside").names() == []
    assert counts(tree("tree.hatchet")) == {"function": 1, "module": 1, "module/user": 1}


def test_verbose_adds_modules_and_the_scopes_around(program: Path) -> None:
    report = profile(program, "verbose")
    around = {event["name"]: (event["modules"], event["stack"]) for event in report.events}
    assert around == {
        "forward": ("model", []),
        "encode": ("model.encoder", ["forward"]),
        "leaf": ("model.encoder.conv1", ["forward", "encode"]),
        "after": ("model", ["forward"]),
        "outside": ("", []),
    }
    args = Trace().args("leaf")
    assert args["Module Hierarchy"] == "model.encoder.conv1"
    assert args["Call stack"] == "forward;encode"


def test_modules_alone_add_no_stack(program: Path) -> None:
    leaf = profile(program, "modules")["leaf"]
    assert (leaf["modules"], leaf["stack"]) == ("model.encoder.conv1", [])
    assert Trace().content["with_modules"] == 1


def test_native_stacks_end_with_the_function_of_the_scope(program: Path) -> None:
    stack = profile(program, "stacks")["inner"]["stack"]
    assert "main" in stack
    # Functions of an unnamed namespace are no dynamic symbols.
    assert stack[-1].startswith(str(program))
    assert "marey" not in stack[-1]
    assert stack[-2].startswith(str(program))


def test_flops_follow_from_the_shapes(program: Path) -> None:
    report = profile(program, "flops")
    flops = {event["name"]: event["flops"] for event in report.events}
    assert flops == {
        "aten::mm": 2 * 2 * 3 * 4,
        "aten::addmm": 2 * 2 * 3 * 4,
        "linear": 2 * 2 * 3 * 5,
        "aten::add": 6,
        "aten::relu": 6,
        # 8 + 2 - 3 steps of two, plus one: 4 x 4 outputs of 6 channels, each of 2 x 3 x 3 weights.
        "aten::conv2d": 2 * 2 * 6 * 4 * 4 * 2 * 3 * 3,
        "bmm": 2 * 5 * 2 * 3 * 4,
        "aten::matmul": 2 * 5 * 2 * 3 * 4,
        "aten::mm of other sizes": 0,
        "mm": 0,
        "aten::mul": 12,
    }
    assert report["aten::mm"]["shapes"] == [], "no shapes were asked for"
    assert "Input Dims" not in Trace().args("aten::mm")
    assert Trace().args("aten::mm")["flops"] == 48


def test_reported_memory_is_an_event(program: Path) -> None:
    requested, not_requested = map(Report, run_case(program, "memory"))
    events = requested.events
    assert {event["name"] for event in events} == {"[memory]"}
    assert all(event["is_memory"] for event in events)
    totals = [(event["bytes"], event["total_allocated"]) for event in events]
    assert totals == [(100, 100), (100, 200), (-100, 100), (-100, 0), (7, 70), (64, 71), (-64, 7)]
    assert events[0]["address"] == events[3]["address"] != events[1]["address"]
    assert events[1]["address"] == events[2]["address"]
    assert (events[4]["device"], events[4]["device_index"]) == (1, 1)
    assert events[4]["total_reserved"] == 700
    assert not_requested.events == []
    memory = [event for event in Trace().events if event["name"] == "[memory]"]
    assert memory[4]["args"]["Device Type"] == 1
    assert memory[4]["args"]["Bytes"] == 7
    assert memory[4]["ph"] == "i"
    assert memory[4]["args"]["Total Reserved"] == 700


def test_counters_count_in_each_scope_with_the_scopes_inside(program: Path) -> None:
    report = profile(program, "counters", "page_faults,task_clock")
    assert report.warnings == []
    faults = {event["name"]: event["counters"]["page_faults"] for event in report.events}
    assert faults["touches"] >= 4096
    assert faults["outer"] >= faults["touches"]
    assert faults["nothing"] < 100
    assert report["touches"]["counters"]["task_clock"] > 0
    assert Trace().args("touches")["page_faults"] == faults["touches"]


def test_counters_that_cannot_be_counted_leave_the_others(program: Path) -> None:
    # A raw number that no processor has, and the spelling of `perf list`.
    events = "cycels,page-faults,rffffffffffffffff"
    report = profile(program, "counters", events)
    unknown, raw = report.warnings
    assert "`cycels`" in unknown
    assert "`rffffffffffffffff`" in raw
    assert Trace().content["WARNING"] == report.warnings
    assert report["touches"]["counters"]["page-faults"] >= 4096
    assert set(report["outer"]["counters"]) == {"page-faults"}


def test_metrics_of_devices_are_refused_by_name(program: Path) -> None:
    report = profile(program, "device_metrics")
    first, second, per_kernel = report.warnings
    assert first.startswith("the metric `sm__cycles_active.avg` is not recorded: ")
    assert second.startswith('the metric `no "metric"` is not recorded: ')
    assert per_kernel.startswith("`profiler_measure_per_kernel` has no effect: ")
    assert Trace().content["WARNING"] == report.warnings
    assert report.names() == ["outer", "inner"], "the rest is recorded"


def test_states_and_devices_without_events_are_refused_by_name(program: Path) -> None:
    reports = list(map(Report, run_case(program, "other_devices")))
    refused = [warning.split("`")[1] for report in reports for warning in report.warnings]
    states = ["NVTX", "ITT", "PRIVATEUSE1", "KINETO_PRIVATEUSE1_FALLBACK"]
    activities = ["XPU", "HPU", "MTIA", "PrivateUse1"]
    assert refused == [
        *(f"ProfilerState::{state}" for state in states),
        *(f"ActivityType::{activity}" for activity in activities),
    ]
    assert [report.names() for report in reports] == [["user"]] * 9, "the rest is recorded"


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("threads", {"child", "main"}),
        ("ondemand", {"child", "main"}),
        ("main_thread", {"main"}),
        ("joined_thread", {"child", "main"}),
    ],
)
def test_a_profile_records_the_threads_it_is_to(program: Path, case: str, names: set[str]) -> None:
    report = profile(program, case)
    assert set(report.names()) == names
    assert len({event["thread"] for event in report.events}) == len(names)
    assert set(span_names("run.marey")) == names


def test_backward_is_linked_to_forward_by_the_sequence_number(program: Path) -> None:
    report = profile(program, "backward")
    thread = report["aten::mul"]["thread"]
    assert report["MulBackward0"]["thread"] != thread
    links = {event["name"]: event["forward_thread"] for event in report.events}
    backward = {"MulBackward0", "AddBackward0", "AccumulateGrad"}
    assert {name for name, link in links.items() if link == thread} == backward
    assert links["MulBackward1"] == report["aten::mul of the next step"]["thread"]
    assert links["Unknown"] == 0
    assert links["Contested"] == 0, "two threads have an operator with its number"
    flows = [event for event in Trace().events if event.get("cat") == "fwdbwd"]
    names = {(event["tid"], event["ts"]): event["name"] for event in Trace().scopes.values()}
    points = {(flow["id"], flow["ph"]): names[flow["tid"], flow["ts"]] for flow in flows}
    linked = {(points[number, "s"], points[number, "f"]) for number, _ in points}
    assert linked == {
        ("aten::add", "AddBackward0"),
        ("aten::mul", "MulBackward0"),
        ("aten::mul", "AccumulateGrad"),
        ("aten::mul of the next step", "MulBackward1"),
    }
    calls = run_rows("run.marey", "SELECT forward_name, name FROM autograd_calls")
    assert set(calls) == linked


def test_any_bytes_are_a_name(program: Path) -> None:
    bad = "bad \ufffd\ufffd\ufffd \ufffd\ufffd\ufffd \ufffd"
    names = profile(program, "hostile_names").names()
    assert names == ['a "quote", a \\, a\nline and a \x01', bad, "grüß 😀", "", "embedded \0 zero"]
    assert set(Trace().scopes) == set(names)


def test_a_million_names_are_kept(program: Path) -> None:
    (line,) = run_case(program, "a_million_names")
    assert line.startswith("1000000 1 0 ")


def test_names_beyond_the_table_of_names_are_kept(program: Path) -> None:
    assert run_case(program, "long_names") == ["20000 1 0 1"]


def test_events_beyond_a_limit_of_memory_are_counted(program: Path) -> None:
    (line,) = run_case(program, "memory_limit")
    assert line.startswith("1 1 ")


def test_scopes_that_never_end_are_unfinished_events(program: Path) -> None:
    first, second = map(Report, run_case(program, "unbalanced"))
    states = {event["name"]: event["is_finished"] for event in first.events}
    assert states == {"never ended": False, "ended late": False, "inside": True}
    assert second.names() == ["next profile"]


def test_a_scope_may_end_on_another_thread(program: Path) -> None:
    report = profile(program, "other_thread")
    moved, other = report["moved"], report["on the other thread"]
    assert moved["is_async"]
    assert moved["is_finished"]
    assert (moved["thread"], moved["end_thread"]) == (report["after"]["thread"], other["thread"])
    assert Trace().args("moved")["End thread id"] == other["thread"]


def test_scopes_of_a_session_end_in_any_order_and_on_any_thread(program: Path) -> None:
    run_case(program, "disorder")
    root = tree("tree.hatchet")
    assert counts(root) == {
        "moved": 1,
        "moved/on the other thread": 1,
        "after": 2,
        "same name": 1,
        "same name/same name": 1,
        "same name/same name/inside the second": 1,
        "of an ended thread": 1,
    }


def test_scopes_that_overlap_are_on_threads_of_their_own_in_the_trace(program: Path) -> None:
    thread = profile(program, "overlapping")["around"]["thread"]
    trace = Trace()  # which checks that events nest
    threads = {name: event["tid"] for name, event in trace.scopes.items()}
    assert threads["around"] == threads["first"] == threads["after"] == thread
    assert len({threads[name] for name in ("first", "second", "third")}) == 3
    assert threads["second"] % 2**22 == thread
    names = {e["tid"]: e["args"]["name"] for e in trace.events if e["name"] == "thread_name"}
    assert names[threads["third"]] == f"thread {thread}, overlapping"


def test_exceptions_end_scopes(program: Path) -> None:
    report = profile(program, "exceptions")
    assert report.names() == ["outer", "fails", "handler", "throwing inputs"]
    assert all(event["is_finished"] for event in report.events)
    ends = {event["name"]: event["start_us"] + event["duration_us"] for event in report.events}
    assert ends["fails"] <= ends["outer"] <= report["handler"]["start_us"]


def test_many_threads_may_record_while_the_profile_ends(program: Path) -> None:
    summary, after = run_case(program, "many_threads")
    assert summary == "1 1 64 0"
    assert Report(after).events == []


def test_the_run_has_the_trace_id_of_its_own_profile(program: Path) -> None:
    run_case(program, "trace_ids")
    notes = []
    for run in ("first.marey", "second.marey"):
        notes.append(run_rows(run, "SELECT value FROM metadata WHERE key = 'trace_id'"))
    assert notes == [[('"of the first"',)], []]


def test_a_second_profile_at_a_time_is_refused(program: Path) -> None:
    command = [str(program), "twice"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    report, none = done.stdout.splitlines()
    assert Report(report).names() == ["kept"]
    assert none.startswith("0 nothing was recorded")
    assert done.stderr.startswith("marey: a profile is being recorded already")


def test_files_that_cannot_be_written_are_named(program: Path) -> None:
    Path("exists.marey").write_text("of another")
    lines = [line.split("|") for line in run_case(program, "saves", LC_ALL="C")]
    assert lines == [
        ["missing/trace.json", "0", "No such file or directory"],
        ["a.json", "1", ""],
        ["a.json", "1", ""],
        ["exists.marey", "0", "it exists already"],
        ["a.marey", "1", ""],
        ["b.marey", "0", "there is no run, or it was saved already"],
    ]


def test_a_run_is_saved_from_another_file_system(program: Path, tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    with TemporaryDirectory(dir=memory) as folder:
        run_case(program, "main_thread", TMPDIR=folder)
        assert list(Path(folder).iterdir()) == []
    assert span_names("run.marey") == ["main"]


def test_a_run_that_is_not_saved_is_deleted(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    run_case(program, "main_thread", TMPDIR=str(folder))
    run_case(program, "filters", TMPDIR=str(folder))
    assert list(folder.iterdir()) == []


def test_sessions_see_the_scopes_without_a_profile(program: Path) -> None:
    run_case(program, "session")
    assert counts(tree("tree.hatchet")) == {
        "model": 1,
        "model/forward": 1,
        "model/forward/plain": 1,
        "model/forward/plain/user": 1,
    }


@pytest.mark.parametrize("absence", [{"MAREY_DISABLE": "1"}, {"MAREY_LIB": "./no.so"}])
def test_without_the_library_nothing_is_recorded(program: Path, absence: dict[str, str]) -> None:
    lines = run_case(program, "metadata", **absence)
    assert Report(lines[-1]).events == []
    assert list(Path().iterdir()) == []
