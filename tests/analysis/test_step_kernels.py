"""The view `step_kernels`: compared with HTA's iterations and with hand-computed values."""

from __future__ import annotations

from analyses import (
    HTA_WARNINGS,
    documented_rows,
    gpu_span,
    hta,
    kernel,
    launch,
    make_run,
    recorded_run,
    recorded_trace,
    rows,
    step,
    values_by,
)

pytestmark = HTA_WARNINGS

VIEW = "step_kernels"


def test_steps_match_htas_iterations() -> None:
    # HTA gives each activity of a device the iteration that its launch began in (none, and so does
    # not count it, on stream 0, which this trace has not).
    trace = hta(recorded_trace("a100-nccl")).t
    events = trace.get_trace(0)
    symbols = trace.symbol_table.get_sym_table()
    ran = events[
        events["stream"].ne(-1)
        & (events["iteration"] >= 0)
        & events["cat"].map(lambda category: symbols[category] != "gpu_user_annotation")
    ]
    expected = {
        int(number): (len(group), round(1000 * group["dur"].sum()))
        for number, group in ran.groupby("iteration")
    }
    run = recorded_run("a100-nccl")
    ours = documented_rows(run, VIEW)
    assert values_by("number", ours, "count", "total_nanos") == expected
    assert sorted(expected) == [4, 5, 6]


def test_the_view_matches_hand_computed_values() -> None:
    run = make_run(
        [
            step(3, 100, 100),
            step(4, 200, 50),
            step(5, 300, 50),  # launches nothing: no row
            launch(1, 50),  # before all steps
            launch(2, 150),
            launch(3, 160, tid=200),  # another thread, as that of backward is
            launch(4, 199, 10),
            launch(5, 200),  # the moment in which one step ends and another begins
            # cudaLaunchKernel with a call inside it that begins in the next step: one launch.
            launch(4, 201, 2, name="cuLaunchKernel"),
            launch(6, 250),  # after the end
            launch(7, 260),
            kernel(1, 60, 10),
            kernel(2, 160, 10),
            kernel(3, 165, 10, stream=8),
            # It runs in the next step.
            gpu_span("Memset", 220, 7, category="gpu_memset", bytes=1, correlation=4),
            kernel(5, 230, 0),
            kernel(5, 231, 5, device=1),
            kernel(6, 240, 5),
            kernel(99, 250, 5),  # of no launch
            gpu_span("Stream Sync", 160, 400, category="cuda_sync", correlation=2),
        ],
    )
    ours = documented_rows(run, VIEW)
    times = ("total_nanos", "kernel_nanos", "busy_nanos", "end_delay_nanos")
    assert values_by(("number", "device"), ours, "count", "kernel_count", *times) == {
        (3, 0): (3, 2, 27_000, 20_000, 22_000, 27_000),
        (4, 0): (1, 1, 0, 0, 0, -20_000),
        (4, 1): (1, 1, 5000, 5000, 5000, -14_000),
    }
    (first,) = [row for row in ours if row["number"] == 3]
    assert (first["start_nanos"], first["end_nanos"]) == (160_000, 227_000)


def test_ranks_are_not_mixed() -> None:
    # Numbers of launches mean nothing in another process; nor do those of steps. Rank 2 launches
    # after its step.
    traces = [
        [
            step(rank, 0, 100, pid=100 + rank),
            launch(1, 10 + 200 * (rank == 2), pid=100 + rank),
            kernel(1, 300, 5 + rank),
        ]
        for rank in range(3)
    ]
    found = rows(make_run(*traces), VIEW)
    assert values_by("rank", found, "number", "total_nanos") == {0: (0, 5000), 1: (1, 6000)}


def test_empty_runs_have_no_rows() -> None:
    assert rows(recorded_run("cpu-only-gloo"), VIEW) == []
    assert rows(recorded_run("critical-path-alexnet"), VIEW) == []  # no steps
    assert rows(make_run([kernel(1, 0, 5)]), VIEW) == []
    assert rows(make_run([step(1, 0, 5), kernel(1, 0, 5)]), VIEW) == []  # no launches
