"""The view `operator_kernels`: compared with HTA's call graph and with hand-computed values."""

from __future__ import annotations

from typing import Any

import pytest
from analyses import (
    HTA_WARNINGS,
    documented_rows,
    gpu_span,
    host_span,
    hta,
    launch,
    make_run,
    open_run,
    recorded_run,
    recorded_trace,
    rows,
    step,
    values,
    values_by,
)

pytestmark = HTA_WARNINGS

VIEW = "operator_kernels"


def test_operators_match_htas_call_graph() -> None:
    # What HTA gives each entered operator (num_kernels, kernel_dur_sum: what it and all inside it
    # launched), added up by name. An operator inside one of its own name counts twice in both.
    # Equal up to float sums.
    graphs = pytest.importorskip("hta.common.trace_call_graph")
    trace = hta(recorded_trace("a100-nccl")).t
    graphs.CallGraph(trace, ranks=[0])
    symbols = trace.symbol_table.get_sym_table()
    events = trace.get_trace(0)
    operators = events[
        events["stream"].eq(-1)
        & (events["num_kernels"] > 0)
        & events["cat"].map(lambda category: symbols[category] == "cpu_op")
    ]
    expected = {
        symbols[name]: (
            int(group["num_kernels"].sum()),
            round(1000 * group["kernel_dur_sum"].sum()),
        )
        for name, group in operators.groupby("name")
    }
    run = recorded_run("a100-nccl")
    documented_rows(run, VIEW)
    ours = rows(
        run,
        VIEW,
        "SELECT name, sum(count) AS count, sum(total_nanos) AS total_nanos FROM {} "
        "WHERE kind = 'operator' GROUP BY name",
    )
    assert len(expected) > 50
    assert {row["name"]: (row["count"], row["total_nanos"]) for row in ours} == expected


def test_operators_match_htas_aten_operators() -> None:
    # Each launch goes to the deepest aten operator around it: here, to the nearest aten context
    # around the place it was launched from. One thread at a time only: HTA looks at the operators
    # of ALL threads, and takes the one that began last, so launches of one thread end up under
    # operators that happen to run on another. This trace has one thread that launches. And only of
    # cudaLaunchKernel: copies and fills are none.
    trace = recorded_trace("critical-path-alexnet")
    expected: dict[str, int] = {}
    for row in hta(trace).get_aten_op_kernels_and_delay(ranks=[0])[0].to_dict("records"):
        number = len(row["kernel_sequence"].split(" -> ")) * row["occurrence_count"]
        name = row["aten_op_name"]
        expected[name] = expected.get(name, 0) + number
    answer = rows(open_run(trace), VIEW)
    ours: dict[str, int] = {}
    for row in answer:
        of_children = [
            child["kernel_count"] for child in answer if child["parent_id"] == row["context_id"]
        ]
        own = row["kernel_count"] - sum(of_children)
        aten = [part for part in row["path"].split("/") if part.startswith("aten::")]
        if aten and own > 0:
            ours[aten[-1]] = ours.get(aten[-1], 0) + own
    assert ours == expected
    assert sum(ours.values()) > 50


def test_the_view_matches_hand_computed_values() -> None:
    run = make_run(
        [
            host_span("outer", 0, 100),
            launch(1, 5),
            host_span("inner", 10, 40),
            launch(2, 15),
            launch(3, 20),
            host_span("leaf", 30, 10),
            launch(4, 32),
            host_span("idle", 60, 10),  # launches nothing: no row
            host_span("outer", 200, 100),  # again, from the same place: the same row
            launch(5, 210),
            launch(6, 400),  # outside of everything: in no row
            gpu_span("a", 10, 10, correlation=1),
            gpu_span("b", 100, 10, correlation=2),
            gpu_span("c", 105, 10, stream=8, correlation=3),  # beside b: 15 in all
            gpu_span("Memset (Device)", 120, 7, category="gpu_memset", correlation=4, bytes=1),
            gpu_span("a", 300, 0, correlation=5),
            gpu_span("a", 500, 50, correlation=6),
            gpu_span("orphan", 600, 50, correlation=99),  # of no launch: in no row
            gpu_span("Stream Sync", 0, 500, category="cuda_sync", correlation=1),
        ],
    )
    ours = documented_rows(run, VIEW)
    counts = ("count", "self_count", "kernel_count")
    times = ("total_nanos", "self_nanos", "busy_nanos", "self_busy_nanos")
    assert values_by("path", ours, *counts, *times, "depth") == {
        "outer": (5, 2, 4, 37000, 10000, 32000, 10000, 1),
        "outer/inner": (3, 2, 2, 27000, 20000, 22000, 15000, 2),
        "outer/inner/leaf": (1, 1, 0, 7000, 7000, 7000, 7000, 3),
    }
    names = {row["context_id"]: row["name"] for row in ours}
    assert {row["name"]: names.get(row["parent_id"]) for row in ours} == {
        "outer": None,
        "inner": "outer",
        "leaf": "inner",
    }


def test_launches_of_two_threads_are_not_mixed() -> None:
    # HTA's get_aten_op_kernels_and_delay puts this launch under aten::other, an operator of another
    # thread that began last before it. It is of aten::mine.
    run = make_run(
        [
            host_span("aten::mine", 0, 100, tid=1),
            launch(1, 50, tid=1),
            host_span("aten::other", 20, 100, tid=2),
            gpu_span("a", 60, 10, correlation=1),
        ],
    )
    assert values(rows(run, VIEW), "path", "self_count") == [("aten::mine", 1)]


def test_nested_operators_of_one_name_count_once() -> None:
    # What is launched inside is not added to its own operator twice.
    run = make_run(
        [
            host_span("aten::to", 0, 100),
            host_span("aten::to", 10, 50),
            launch(1, 20),
            gpu_span("a", 60, 10, correlation=1),
        ],
    )
    found = values_by("path", rows(run, VIEW), "count", "self_count")
    assert found == {"aten::to": (1, 0), "aten::to/aten::to": (1, 1)}


def test_of_nested_runtime_calls_the_outermost_launches() -> None:
    # A call of the runtime and the driver's inside it share the number of the launch.
    shape: dict[str, Any] = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float"] * 2}
    run = make_run(
        [
            step(1, 0, 200),
            host_span("aten::mm", 0, 100, **shape),
            launch(5, 20, 30),
            launch(5, 25, 10, name="cuLaunchKernel"),
            gpu_span("gemm", 60, 10, correlation=5),
        ],
    )
    found = values_by("path", rows(run, VIEW), "count", "self_count")
    assert found == {"step": (1, 0), "step/aten::mm": (1, 1)}
    [call] = rows(run, "launches")
    assert (call["launch_name"], call["path"]) == ("cudaLaunchKernel", "step/aten::mm")
    assert values(rows(run, "step_kernels"), "number", "count") == [(1, 1)]
    # What it computed is known by the operator that launched.
    assert values(rows(run, "roofline"), "name", "flops") == [("aten::mm", 128)]


def test_ranks_and_devices_are_not_mixed() -> None:
    # The same context in all ranks, a row for each; two devices of a process together.
    run = make_run(
        *[
            [
                host_span("aten::mm", 0, 50, pid=100 + rank),
                launch(1, 10, pid=100 + rank),
                launch(2, 20, pid=100 + rank),
                gpu_span("a", 60, 10, correlation=1),
                gpu_span("a", 65, 10 + rank, device=1, correlation=2),
            ]
            for rank in range(3)
        ],
    )
    found = values_by("rank", rows(run, VIEW), "path", "count", "total_nanos", "busy_nanos")
    assert found == {
        rank: ("aten::mm", 2, 20000 + 1000 * rank, 15000 + 1000 * rank) for rank in range(3)
    }


def test_runs_without_devices_or_operators_have_no_rows() -> None:
    assert rows(recorded_run("cpu-only-gloo"), VIEW) == []
    # No host: nothing is known of launches.
    assert rows(make_run([gpu_span("a", 0, 5, correlation=1)]), VIEW) == []
