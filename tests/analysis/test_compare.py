"""`marey.compare`: compared with HTA's `TraceDiff` and with hand-computed values."""

from __future__ import annotations

import contextlib
import functools
import logging
from pathlib import Path
from typing import Any

import marey
import pytest
from analyses import (
    HTA_WARNINGS,
    Event,
    Row,
    by_column,
    compare_query,
    gpu_span,
    host_span,
    kernel,
    launch,
    make_run,
    open_run,
    recorded_run,
    recorded_trace,
    step,
    values_by,
    write,
)

pytestmark = HTA_WARNINGS

# By name: how many in each of two runs, and how long in each.
Sums = dict[str, tuple[float, float, float, float]]


def answer(run: Any, query: str) -> list[Row]:
    return by_column(run.sql(compare_query(query)))


def operations(run: Any, *columns: str) -> dict[str, Any]:
    return values_by("path", answer(run, "operations"), *columns)


def kernels(run: Any, *columns: str) -> dict[str, Any]:
    return values_by("name", answer(run, "kernels"), *columns)


def joined(before: list[Row], after: list[Row], steps: tuple[int, int]) -> Sums:
    """Sums by name over all steps, as HTA does, except steps, whose names have numbers."""
    sums: dict[str, list[float]] = {}
    for side, found in enumerate((before, after)):
        for row in found:
            if row["kind"] != "step":
                of_name = sums.setdefault(row["name"], [0, 0, 0, 0])
                of_name[side] += row["count"] * steps[side]
                of_name[side + 2] += row["total_nanos"] * steps[side]
    return {name: (one, two, three, four) for name, (one, two, three, four) in sums.items()}


def changes(sums: Sums) -> dict[str, set[str]]:
    """Returns the classes of HTA's `ops_diff`."""

    def change(before: float, after: float) -> str:
        if before == 0 or after == 0:
            return "added" if before == 0 else "deleted"
        if before == after:
            return "unchanged"
        return "increased" if after > before else "decreased"

    classes = ("added", "deleted", "increased", "decreased", "unchanged")
    found: dict[str, set[str]] = {name: set() for name in classes}
    for name, (before, after, _, _) in sums.items():
        found[change(before, after)].add(name)
    return found


@functools.cache
def labeled(path: Path, label: str) -> Any:
    """Returns a trace in the form that HTA compares."""
    diff = pytest.importorskip("hta.trace_diff")
    traces = pytest.importorskip("hta.common.trace")
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(None):
        trace = traces.Trace(trace_files={0: str(path)}, trace_dir=str(path.parent))
        found = diff.LabeledTrace(label, trace)
    # HTA attributes annotations of a device to the host if they have no stream.
    symbols = trace.symbol_table.get_sym_table()
    events = trace.traces[0]
    is_else = events["cat"].map(lambda category: symbols[category] != "gpu_user_annotation")
    trace.traces[0] = events[is_else]
    return found


@pytest.mark.parametrize(
    ("names", "outside"),
    [
        # Operators that run between two steps, of which there are 5: in no iteration of HTA, but
        # what a step takes here.
        (
            ("diff-before", "diff-after"),
            {"aten::zeros": 10, "aten::zero_": 5, "aten::empty": 5},
        ),
        (("a100-nccl", "a100-nccl"), {}),
    ],
)
@pytest.mark.parametrize("device", ["CPU", "GPU"])
def test_differences_match_htas_trace_diff(
    names: tuple[str, str], outside: dict[str, int], device: str
) -> None:
    paths = [recorded_trace(name) for name in names]
    diff = pytest.importorskip("hta.trace_diff")
    control, test = labeled(paths[0], "control"), labeled(paths[1], "test")
    asked = {
        "control_iteration": control.iterations(),
        "test_iteration": test.iterations(),
        "device_type": diff.DeviceType[device],
    }
    compared = diff.TraceDiff.compare_traces(control, test, **asked)
    compared = compared[~compared.index.str.startswith("ProfilerStep#")]
    expected = {
        name: [
            row["control_counts"],
            row["test_counts"],
            1000 * row["control_total_duration"],
            1000 * row["test_total_duration"],
        ]
        for name, row in compared.to_dict("index").items()
    }
    classes = {
        change: {name for name in found if not name.startswith("ProfilerStep#")}
        for change, found in diff.TraceDiff.ops_diff(control, test, **asked).items()
    }

    query = {"CPU": "operations", "GPU": "kernels"}[device]
    runs = [open_run(path) for path in paths]
    steps = (len(control.iterations()), len(test.iterations()))
    sums = joined(answer(runs[0], query), answer(runs[1], query), steps)
    rounded = {name: tuple(round(value, 3) for value in row) for name, row in sums.items()}
    assert len(rounded) > 50
    assert set(rounded) == set(expected)
    for name, row in expected.items():
        if device == "GPU" or name not in outside:
            assert rounded[name] == pytest.approx(row), name
        else:
            number = outside[name]
            assert rounded[name][:2] == pytest.approx([row[0] + number, row[1] + number]), name
    found = changes({name: (row[0], row[1], row[2], row[3]) for name, row in rounded.items()})
    assert found == classes
    signs = {"+": {"added", "increased"}, "-": {"deleted", "decreased"}, "=": {"unchanged"}}
    for sign, kinds in signs.items():
        of_sign = compared.index[compared["counts_change_categories"] == sign]
        assert set(of_sign) == set().union(*(found[kind] for kind in kinds))


def test_operations_match_hand_computed_values() -> None:
    run = make_run(
        [
            host_span("warmup", 0, 50),  # before all steps
            step(1, 100, 100),
            host_span("forward", 110, 40, category="user_annotation"),
            host_span("aten::mm", 115, 10),
            launch(1, 120, 2),
            host_span("aten::mm", 130, 10),
            host_span("aten::mm", 160, 10),
            host_span("between", 200, 10),  # between two steps: a step takes it
            step(2, 220, 80),
            host_span("aten::mm", 299, 10, tid=200),  # another thread; it ends after the last step
            host_span("late", 300, 10, tid=200),  # begins after the last step
        ],
    )
    found = operations(run, "name", "kind", "count", "total_nanos", "self_nanos")
    assert found == {
        "step": ("step", "step", 1, 90_000, 65_000),
        "step/forward": ("forward", "scope", 0.5, 20_000, 10_000),
        "step/forward/aten::mm": ("aten::mm", "operator", 1, 10_000, 9000),
        "step/forward/aten::mm/cudaLaunchKernel": ("cudaLaunchKernel", "runtime", 0.5, 1000, 1000),
        "step/aten::mm": ("aten::mm", "operator", 0.5, 5000, 5000),
        "between": ("between", "operator", 0.5, 5000, 5000),
        "aten::mm": ("aten::mm", "operator", 0.5, 5000, 5000),
    }


def trained(*, first: int, work: float, category: str = "user_annotation") -> list[Event]:
    """Makes three steps from this number on, with spans that have the step number in their name."""
    events = []
    for number in range(first, first + 3):
        start = 100 * number
        named = host_span(f"ProfilerStep#{number}", start, 80, category=category)
        events.append(named)
        events.append(host_span(f"iteration {number}", start + 1, 60))
        events.append(host_span("aten::conv2d", start + 5, work))
        events.append(host_span("block 4", start + 70, 5))
    return events


@pytest.mark.parametrize("category", ["user_annotation", "Operator"])
def test_step_numbers_in_names_are_ignored(category: str) -> None:
    # `Operator` is what torch.profiler of 2021 called steps, as everything else. `block 4` is in
    # all steps, and so it is a name.
    write(Path("before.json"), trained(first=3, work=20, category=category))
    write(Path("after.json"), trained(first=8, work=40, category=category))
    comparison = marey.compare("before.json", "after.json")
    found = by_column(comparison.operations)
    assert values_by("path", found, "category", "before_nanos", "after_nanos") == {
        "step": ("unchanged", 80_000, 80_000),
        "step/iteration": ("unchanged", 60_000, 60_000),
        "step/iteration/aten::conv2d": ("increased", 20_000, 40_000),
        "step/block 4": ("unchanged", 5_000, 5_000),
    }
    [steps] = [row for row in comparison.metrics.rows() if "step_time.mean" in row]
    assert 80_000 in steps


def test_kernels_match_hand_computed_values() -> None:
    run = make_run(
        [
            launch(1, 50),  # before all steps, though it runs in one
            step(1, 100, 100),
            launch(2, 110),
            launch(3, 120),
            step(2, 200, 100),
            launch(4, 210),
            launch(5, 299),  # runs after the last step
            # cudaLaunchKernel with a call inside it that begins after the step: one launch.
            launch(5, 301, name="cuLaunchKernel"),
            launch(6, 310),
            kernel(1, 150, 10, name="a"),
            kernel(2, 160, 10, name="a"),
            kernel(3, 170, 6, name="a", device=1),
            gpu_span("Memset", 180, 3, category="gpu_memset", correlation=4, bytes=1),
            kernel(5, 400, 20, name="ncclDevKernel_AllReduce"),
            kernel(6, 430, 20, name="late"),
            kernel(99, 150, 20, name="unknown"),  # launched before the recording
            gpu_span("Stream Sync", 160, 40, category="cuda_sync", correlation=2),
        ],
    )
    assert kernels(run, "kind", "class", "count", "total_nanos") == {
        "a": ("kernel", "compute", 1, 8000),
        "Memset": ("memset", "memory", 0.5, 1500),
        "ncclDevKernel_AllReduce": ("kernel", "communication", 0.5, 10_000),
    }


def test_values_are_means_over_ranks() -> None:
    # Rank 1 has two steps, rank 2 none: it does not count where others have some. A mean of means
    # over the ranks 0 and 1.
    traces = []
    for rank in range(3):
        pid = 100 + rank
        events = [host_span("op", 10, 10, pid=pid), launch(1, 12, pid=pid), kernel(1, 30, 6)]
        if rank < 2:
            events.append(step(1, 0, 100, pid=pid))
        if rank == 1:
            events.append(step(2, 100, 100, pid=pid))
        if rank == 0:
            events += [host_span("save", 50, 8, pid=pid), launch(2, 51, pid=pid)]
            events += [kernel(2, 60, 4)]
        traces.append(events)
    run = make_run(*traces)
    of_host = operations(run, "count", "total_nanos", "self_nanos")
    assert of_host["step/op"] == (0.75, 7500, 6750)
    assert of_host["step/save"] == (0.5, 4000, 3500)
    assert "op" not in of_host
    assert kernels(run, "count", "total_nanos") == {"k1": (0.75, 4500), "k2": (0.5, 2000)}


def test_runs_without_steps_are_one_step() -> None:
    # The whole recording, as if it were one step; the mean of both processes.
    traces = [
        [
            host_span("op", 0, 10, pid=100 + rank),
            launch(1, 5, pid=100 + rank),
            kernel(1, 20, 6),
            kernel(9, 40, 10 * rank, name="of no launch"),
            host_span("last", 100, 0, pid=100 + rank),
            kernel(8, 100, 0, name="at the end"),
        ]
        for rank in range(2)
    ]
    run = make_run(*traces)
    assert operations(run, "count", "total_nanos", "self_nanos") == {
        "op": (1, 10_000, 9000),
        "op/cudaLaunchKernel": (1, 1000, 1000),
        "last": (1, 0, 0),
    }
    assert kernels(run, "count", "total_nanos") == {
        "k1": (1, 6000),
        "of no launch": (1, 5000),
        "at the end": (1, 0),
    }


def test_without_launches_kernels_are_assigned_by_time() -> None:
    # What ran while steps lasted: nothing else is known.
    events = [step(1, 100, 100), kernel(1, 150, 5), kernel(2, 250, 5)]
    assert kernels(make_run(events), "count", "total_nanos") == {"k1": (1, 5000)}
    # Of another rank more is known.
    known = [step(1, 100, 100, pid=200), launch(3, 150, pid=200)]
    known += [kernel(3, 160, 3), kernel(4, 170, 7)]
    found = kernels(make_run(events, known), "count", "total_nanos")
    assert found == {"k1": (0.5, 2500), "k3": (0.5, 1500)}


def test_empty_runs_have_no_rows() -> None:
    assert answer(recorded_run("cpu-only-gloo"), "kernels") == []
    alone = make_run([kernel(1, 0, 5)])
    assert answer(alone, "operations") == []
    assert kernels(alone, "count", "total_nanos") == {"k1": (1, 5000)}
