"""`marey/proton.hpp`: Proton's C++ classes, and plug-ins written after its extension guide."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cpp_programs
import profiles
import pytest
from replay import environment

SESSIONS = cpp_programs.SOURCES / "proton" / "sessions.cpp"
PLUGINS = cpp_programs.SOURCES / "proton" / "plugins.cpp"
EXTENSION = cpp_programs.EXAMPLES / "proton_extension.cpp"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_programs.compile_program(tmp_path_factory.mktemp("sessions") / "program", SESSIONS)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_programs.compile_program(tmp_path_factory.mktemp("plugins") / "program", PLUGINS)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_programs.compile_program(tmp_path_factory.mktemp("extension") / "program", EXTENSION)


def metrics(file: str) -> dict[str, dict[str, Any]]:
    """Returns the user metrics of all nodes that have any."""
    found = {path: profiles.metrics(node) for path, node in profiles.walk(profiles.tree(file))}
    return {path: values for path, values in found.items() if values}


def test_contexts_are_the_scopes_of_the_thread_and_its_state(sessions: Path) -> None:
    cpp_programs.run(sessions, "contexts")
    assert profiles.counts(profiles.tree("contexts.hatchet")) == {
        "outer": 1,
        "outer/inner of marey.h": 1,
    }


def test_metrics_are_added_to_scopes_that_are_open_exited_or_of_another_thread(
    sessions: Path,
) -> None:
    cpp_programs.run(sessions, "tree")
    root = profiles.tree("tree.hatchet")
    assert profiles.counts(root) == {
        "outer": 1,
        "outer/inner": 3,
        "outer/warm": 1,
        "outer/warm/kernel": 1,
        "outer/of marey.h": 1,
    }
    assert metrics("tree.hatchet") == {
        "outer": {"energy (J)": 1.5, "device": "north"},
        # Unsigned values beyond int64_t are its maximum, and so is the sum.
        "outer/inner": {"items": 10, "bytes": 2**63 - 1},
    }
    assert profiles.find(root, "outer/warm/kernel")["marey"]["kind"] == "operator"
    assert root["metrics"]["items"] == 0, "readers sum up inclusive metrics from the root"


def test_each_session_has_the_values_of_its_own_time_once(sessions: Path) -> None:
    cpp_programs.run(sessions, "sessions")
    assert metrics("first.hatchet") == {"both": {"items": 1}, "one": {"items": 1}}
    assert metrics("second.hatchet") == {"both": {"items": 1}}
    counts = [profiles.counts(profiles.tree(f"{name}.hatchet")) for name in ("first", "second")]
    assert counts == [{"both": 1, "one": 1, "again": 1}, {"both": 1, "again": 1}]
    # Data without a source has what it was told, and the values that were added to it alone.
    assert metrics("third.hatchet") == {
        "both": {"items": 1, "alone": 0.5},
        "both/op": {"alone": 0.25},
        "one": {"items": 1},
    }


def test_a_trace_has_single_scopes_and_values(sessions: Path) -> None:
    cpp_programs.run(sessions, "trace")
    events = json.loads(Path("events.chrome_trace").read_text())["traceEvents"]
    scopes = {event["name"] for event in events if event.get("cat") == "scope"}
    assert scopes == {"inner"}
    [outer] = [event for event in events if event.get("cat") == "metric"]
    assert outer["name"].startswith("outer") or "items" in outer["name"]
    assert Path("run.marey").is_dir()


def test_metrics_of_kernels_and_samples_are_stored_as_proton_does(sessions: Path) -> None:
    msgpack = pytest.importorskip("msgpack")
    cpp_programs.run(sessions, "metrics")
    root, _devices = msgpack.unpackb(Path("kernels.hatchet_msgpack").read_bytes())
    [launch] = root["children"]
    [matmul] = launch["children"]
    kernel = {"count": 2, "time (ns)": 300, "device_id": "2", "device_type": "CUDA"}
    stalls = {"num_samples": 8, "num_stalled_samples": 3, "stalled_wait": 3}
    stored = {key: value for key, value in matmul["metrics"].items() if value}
    assert stored == {**kernel, **stalls}
    assert launch["metrics"]["mixed"] == 1
    assert root["marey"]["losses"]["metrics_refused"] == 1


def test_errors_name_what_is_wrong_and_what_is_right(sessions: Path) -> None:
    out = cpp_programs.run(sessions, "errors").stdout
    assert out.splitlines()[:8] == [
        'unknown profiler "roctracer": known are "", "cupti"',
        'unknown context source "stack": known are "python", "shadow"',
        'unknown data "table": known are "trace", "tree"',
        "there is no session 99",
        'unknown format "csv": it is hatchet, hatchet_msgpack, chrome_trace or marey',
        'the value "a" of the metric "FlexibleMetric" has the type double, not int64_t',
        'marey takes no samples of the program counter: use "cupti"',
        'the data of "mended" cannot be written as chrome_trace: use data "trace"',
    ]
    assert re.match(r"cannot create .*mended.hatchet: ", out.splitlines()[8])
    assert Path("mended.hatchet").exists()


def test_values_for_forgotten_scopes_are_counted_as_losses(sessions: Path) -> None:
    cpp_programs.run(sessions, "late")
    assert profiles.losses(profiles.tree("late.hatchet")) == {"metrics_unfetched": 2}


def test_a_fork_in_the_middle_of_scopes_of_other_threads_does_not_hang(sessions: Path) -> None:
    cpp_programs.run(sessions, "forked")
    children = sorted(Path().glob("forked.*.hatchet"))
    assert len(children) == 20
    counts = profiles.counts(profiles.tree(children[0]))
    assert counts["outer/in the child"] == 1
    busy = profiles.find(profiles.tree("forked.hatchet"), "outer/busy")
    assert busy["metrics"]["items"] == busy["metrics"]["wall_count"]


def test_sessions_change_while_many_threads_record(sessions: Path) -> None:
    cpp_programs.run(sessions, "threads")
    root = profiles.tree("threads.hatchet")
    assert profiles.counts(root) == {"outer": 3200, "outer/even": 1600, "outer/odd": 1600}
    assert metrics("threads.hatchet") == {
        "outer/even": {"items": 1600},
        "outer/odd": {"items": 1600},
    }
    assert profiles.losses(profiles.tree("threads.hatchet")) == {}


def test_hostile_names_and_exits_break_nothing(sessions: Path) -> None:
    cpp_programs.run(sessions, "hostile")
    counts = profiles.counts(profiles.tree("hostile.hatchet"))
    assert counts == {
        '"quoted" \\ \ufffd\ufffd': 1,
        "": 1,
        "left": 1,
        "reused": 1,
        "reused/reused": 1,
    }
    assert profiles.losses(profiles.tree("hostile.hatchet")) == {
        "unmatched_exits": 2,
        "unclosed_scopes": 1,
    }


def test_destructors_of_static_objects_may_record(sessions: Path) -> None:
    cpp_programs.run(sessions, "exits")
    # The destructor of the object that is older than the session runs after its end.
    assert profiles.counts(profiles.tree("exits.hatchet")) == {"in a destructor": 1}
    assert profiles.counts(profiles.tree("static.hatchet")) == {"scope": 1}


def test_a_profile_can_be_read_while_it_is_recorded(sessions: Path) -> None:
    cpp_programs.run(sessions, "stream")


def test_without_the_library_nothing_is_recorded_and_nothing_fails(sessions: Path) -> None:
    for case in ("tree", "sessions", "trace", "late", "threads", "hostile", "exits"):
        cpp_programs.run(sessions, case, MAREY_LIB="./no.so")
    assert list(Path().iterdir()) == []


def test_the_extensions_of_the_guide_record_in_their_sessions(extension: Path) -> None:
    cpp_programs.run(extension)
    kernel = {"count": 6, "time (ns)": 6000, "device_id": "0", "device_type": "CUDA"}
    energy = {"energy (J)": 3.0, "peak power (W)": 240.0, "rail": "device"}
    assert metrics("extension.hatchet") == {
        "solve": {"items": 16},
        "solve/matmul": {**kernel, **energy},
    }
    each = {
        **kernel,
        "count": 3,
        "time (ns)": 3000,
        **energy,
        "energy (J)": 1.5,
        "peak power (W)": 120.0,
    }
    assert metrics("requests.hatchet") == {
        f"server/request {number}{below}": values
        for number in (1, 2)
        for below, values in (("/solve", {"items": 8}), ("/matmul", each))
    }
    # Exclusive values are not summed up into outer nodes, so the root does not list them.
    roots = set(profiles.tree("extension.hatchet")["metrics"])
    assert "energy (J)" in roots
    assert "peak power (W)" not in roots


def test_a_profiler_of_two_sessions_is_told_once(plugins: Path) -> None:
    heard = cpp_programs.run(plugins, "listener").stdout.splitlines()
    assert heard == [
        "start in /opt/vendor",
        *("+scope", "start op", "stop op", "-scope"),
        *("flush", "flush", "stop"),
        *("start in /opt/vendor", "flush", "stop"),
    ]
    for name in ("first", "second"):
        assert metrics(f"{name}.hatchet") == {"scope/op": {"stopped": 1}}


def test_paths_of_a_source_are_in_its_sessions_alone(plugins: Path) -> None:
    cpp_programs.run(plugins, "source")
    assert profiles.counts(profiles.tree("own.hatchet")) == {
        "program": 0,
        "program/outer": 1,
        "program/outer/inner": 1,
    }
    assert metrics("own.hatchet") == {"program/outer/inner": {"items": 2}}
    assert "of marey.h/outer/inner" in profiles.counts(profiles.tree("other.hatchet"))
    events = json.loads(Path("own-trace.chrome_trace").read_text())["traceEvents"]
    stacks = {
        tuple(event["args"]["call_stack"][1:])
        for event in events
        if "call_stack" in event.get("args", {})
    }
    assert ("program", "outer") in stacks
    assert not any("of marey.h" in stack for stack in stacks)


def test_data_may_be_a_class_of_the_program(plugins: Path) -> None:
    out = cpp_programs.run(plugins, "data").stdout
    assert out == Path("lines.hatchet").read_text() == "1 outer\n2 inner\nitems\n"


def test_a_profiler_is_flushed_when_the_program_exits(plugins: Path) -> None:
    cpp_programs.run(plugins, "unfinished")
    assert metrics("unfinished.hatchet") == {"scope": {"flushed": 1}}


def test_cupti_records_the_kernels_of_a_scope(plugins: Path) -> None:
    double = environment(Path("lib"))
    cpp_programs.run(plugins, "cupti", **double)
    kernel = profiles.metrics(profiles.find(profiles.tree("cupti.hatchet"), "step/kernel"))
    assert (kernel["count"], kernel["time (ns)"]) == (5, 50)


@pytest.mark.parametrize(
    ("compiler", "standard", "options"),
    [
        ("g++", "c++20", ("-fno-rtti",)),
        ("g++", "c++23", ("-fno-rtti", "-fno-exceptions")),
        ("clang++", "c++17", ("-fno-rtti", "-fno-exceptions")),
    ],
    ids=["C++20", "C++23", "Clang"],
)
def test_the_header_compiles_without_rtti_and_exceptions(
    compiler: str, standard: str, options: tuple[str, ...]
) -> None:
    program = cpp_programs.compile_program(
        Path("program"), SESSIONS, standard=standard, options=options, compiler=compiler
    )
    cpp_programs.run(program.absolute(), "tree")
    assert metrics("tree.hatchet")["outer/inner"]["items"] == 10
    done = cpp_programs.run(program.absolute(), "errors")
    if "-fno-exceptions" in options:
        assert 'marey: error: unknown profiler "roctracer": known are "", "cupti"\n' in done.stderr
