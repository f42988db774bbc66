"""The view `critical_path`: compared with HTA and with hand-computed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import marey
import pytest
from analyses import (
    HTA_WARNINGS,
    TRACE_FOLDERS,
    Event,
    Row,
    documented_rows,
    gpu_span,
    host_span,
    hta,
    kernel,
    launch,
    make_run,
    open_run,
    recorded_run,
    recorded_trace,
    rows,
    step,
    values,
)

pytestmark = HTA_WARNINGS

CPU = "cpu_bound"
LOADING = "data_loading"
COMPUTE = "gpu_compute_bound"
COMMUNICATION = "gpu_communication_bound"
MEMORY = "gpu_memory_bound"
BETWEEN = "gpu_kernel_kernel_overhead"
LAUNCH = "gpu_kernel_launch_overhead"
SYNC = "synchronization"

ALL_REAL = sorted(path for folder in TRACE_FOLDERS for path in folder.glob("*.json.gz"))

FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"

# Calls of which HTA has edges that weigh nothing, whether or not they wait.
WEIGHTLESS = {
    "cudaMemcpyAsync",
    "cudaEventQuery",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
}

Sums = dict[str, int]


# Against HTA


def of_hta(name: str, annotation: str, instance: int) -> tuple[Sums, int, int]:
    """Returns nanoseconds of HTA's path by bound, and its window in the time of the run."""
    analysis = hta(recorded_trace(name))
    graph, is_done = analysis.critical_path_analysis(0, annotation, instance)
    assert is_done
    breakdown = graph.get_critical_path_breakdown()
    sums = breakdown.groupby("bound_by").duration.sum().to_dict()
    nodes = [graph.node_list[node] for node in graph.critical_path_nodes]
    # HTA's moments are since the trace's first event: the first operator is in both.
    events = analysis.t.get_trace(0)
    operators = events[events.cat == analysis.t.symbol_table.sym_index["cpu_op"]]
    query = "SELECT min(start_nanos) AS first FROM {} WHERE kind = 'operator'"
    [first] = rows(recorded_run(name), "spans", query)
    zero = first["first"] - round(1000 * float(operators.ts.min()))
    start, end = (zero + round(1000 * float(node.ts)) for node in (nodes[0], nodes[-1]))
    return {bound: round(1000 * sums[bound]) for bound in sums if bound}, start, end


def segments(name: str, start: int, end: int) -> list[Row]:
    """Returns the segments of a run, cut to a window, with the kind of their span."""
    query = "SELECT *, kind(context_id) AS kind FROM {}"
    found = [
        {
            **row,
            "start_nanos": max(row["start_nanos"], start),
            "end_nanos": min(row["end_nanos"], end),
        }
        for row in rows(recorded_run(name), "critical_path", query)
    ]
    return [row for row in found if row["start_nanos"] < row["end_nanos"]]


def nanos(found: list[Row]) -> int:
    return sum(row["end_nanos"] - row["start_nanos"] for row in found)


def by_bound(found: list[Row]) -> Sums:
    return {
        bound: nanos([row for row in found if row["bound"] == bound])
        for bound in sorted({row["bound"] for row in found})
    }


def hta_weighs(row: Row) -> bool:
    """Whether HTA gives a span a weight: operators and calls except those in `WEIGHTLESS`."""
    is_call = row["kind"] in ("operator", "runtime") and row["name"] not in WEIGHTLESS
    return row["bound"] == CPU and is_call


# HTA's path is from the first operator of an annotation to what ends last, so the walk is cut to
# that. HTA is wrong, or knows less, in these:
#
# - Copies and fills are `gpu_compute_bound`.
# - An edge to what was waited for weighs nothing, neither on a device nor on a thread. So a call
#   that waits for nothing takes no time, though the thread is busy with it; nor does what a stream
#   takes to begin once what it was told to wait for has ended; nor does all that a thread does from
#   the end of what it waits for to the end of the call.
# - Annotations and steps are no part of its graph, so the time in them but in no operator is in no
#   row: its path through a step of a100-nccl adds up to 102 ms of 222.


@pytest.mark.parametrize(("instance", "host_nanos"), [(0, 74_984_000), (1, 32_042_000)])
def test_a_forward_pass_has_htas_bounds(instance: int, host_nanos: int) -> None:
    theirs, start, end = of_hta("critical-path-alexnet", FORWARD, instance)
    found = segments("critical-path-alexnet", start, end)
    ours = by_bound(found)
    assert nanos(found) == end - start
    assert ours[COMPUTE] + ours[MEMORY] == theirs[COMPUTE] == 3_712_000
    assert ours[LAUNCH] == theirs[LAUNCH] == 30_000
    # Of 33 gaps one, of 1 us, is before a kernel that was told to wait for another stream.
    assert (ours[BETWEEN], theirs[BETWEEN]) == (51_000, 50_000)
    assert nanos([row for row in found if hta_weighs(row)]) == theirs[CPU] == host_nanos


def test_a_step_that_waits_for_events_has_htas_bounds() -> None:
    theirs, start, end = of_hta("cuda-event-sync", "ProfilerStep", 0)
    found = segments("cuda-event-sync", start, end)
    ours = by_bound(found)
    assert nanos(found) == end - start
    assert (ours[COMPUTE], ours[MEMORY]) == (36_000, 2_000)
    assert theirs[COMPUTE] == 38_000
    assert ours[LAUNCH] == theirs[LAUNCH] == 28_000
    # 1 us between two calls that wait: HTA has one edge from the end of the copy for which the
    # first waits to the end of the second.
    host_nanos = nanos([row for row in found if hta_weighs(row)])
    assert (host_nanos, theirs[CPU]) == (2_336_000, 2_335_000)


@pytest.mark.parametrize("instance", [0, 1, 2])
def test_a_step_with_a_late_host_has_htas_path(instance: int) -> None:
    # The device is never waited for, so both have the host only. HTA stays on the thread of the
    # step: what the thread of autograd does meanwhile is in no row of it.
    theirs, start, end = of_hta("a100-nccl", "ProfilerStep", instance)
    run = recorded_run("a100-nccl")
    [main] = {row["thread_id"] for row in rows(run, "steps")}
    found = segments("a100-nccl", start, end)
    assert set(by_bound(found)) == set(theirs) == {CPU}
    counted = [
        row
        for row in found
        if row["thread_id"] == main and (hta_weighs(row) or (row["name"] or "").startswith("nccl:"))
    ]
    # HTA's sum is of floats of microseconds.
    assert nanos(counted) == pytest.approx(theirs[CPU], abs=10)


@pytest.mark.parametrize("path", ALL_REAL, ids=lambda path: path.name.split(".")[0])
def test_segments_sum_to_the_step(path: Path) -> None:
    run = open_run(path)
    found = documented_rows(run, "critical_path")
    found.sort(key=lambda row: (row["process_id"], row["number"] or 0, row["start_nanos"]))
    of_step: dict[tuple[int, int | None], list[Row]] = {}
    for row in found:
        of_step.setdefault((row["process_id"], row["number"]), []).append(row)
        assert row["duration_nanos"] == row["end_nanos"] - row["start_nanos"] > 0
        is_device = row["bound"].startswith("gpu_")
        assert (row["device"] is not None) == (row["stream"] is not None) == is_device
        # With a thread, no moment is unknown.
        assert (row["thread_id"] is not None) == (not is_device)
    steps = {
        (row["process_id"], row["number"]): (row["start_nanos"], row["end_nanos"])
        for row in rows(run, "steps")
    }
    with_steps = {process for process, _ in steps}
    assert {key for key in of_step if key[0] in with_steps} == steps.keys()
    assert {number for process, number in of_step if process not in with_steps} <= {None}
    for key, parts in of_step.items():
        assert [part["position"] for part in parts] == list(range(len(parts)))
        ends = [part["end_nanos"] for part in parts]
        assert [part["start_nanos"] for part in parts[1:]] == ends[:-1]
        window = (parts[0]["start_nanos"], parts[-1]["end_nanos"])
        assert window == steps.get(key, window)
        assert sum(part["duration_nanos"] for part in parts) == window[1] - window[0]


# By hand

# From when to when in microseconds, by what, and the name.
Part = tuple[float, float, str, str | None]


def walked(run: marey.run.Run, where: str = "true") -> list[Part]:
    query = f"SELECT * FROM {{}} WHERE {where} ORDER BY process_id, number, position"
    return [
        (row["start_nanos"] / 1000, row["end_nanos"] / 1000, row["bound"], row["name"])
        for row in rows(run, "critical_path", query)
    ]


def call(name: str, correlation: int, start: float, duration: float, **more: Any) -> Event:
    return launch(correlation, start, duration, name=name, **more)


def copy(number: int, start: float, duration: float, name: str, **more: Any) -> Event:
    return gpu_span(name, start, duration, category="gpu_memcpy", correlation=number, **more)


def test_a_path_on_one_thread() -> None:
    events = [step(3, 100, 100), host_span("outer", 110, 50), host_span("inner", 120, 10)]
    # Another thread that is longer at it: the step is not its.
    events.append(host_span("else", 90, 120, tid=101))
    run = make_run(events)
    assert walked(run) == [
        (100, 110, CPU, "step"),
        (110, 120, CPU, "outer"),
        (120, 130, CPU, "inner"),
        (130, 160, CPU, "outer"),
        (160, 200, CPU, "step"),
    ]
    found = documented_rows(run, "critical_path", "SELECT * FROM {} ORDER BY position")
    assert [row["path"] for row in found[1:3]] == ["step/outer", "step/outer/inner"]
    assert {(row["number"], row["pid"], row["rank"]) for row in found} == {(3, 100, None)}
    assert {(row["device"], row["stream"]) for row in found} == {(None, None)}


def test_data_loading_is_on_the_path() -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [
        step(0, 0, 100),
        host_span(loader, 20, 40, category="user_annotation"),
        host_span("aten::stack", 30, 20),
        host_span("aten::add", 70, 10),
    ]
    assert walked(make_run(events)) == [
        (0, 20, CPU, "step"),
        (20, 30, LOADING, loader),
        (30, 50, LOADING, "aten::stack"),
        (50, 60, LOADING, loader),
        (60, 70, CPU, "step"),
        (70, 80, CPU, "aten::add"),
        (80, 100, CPU, "step"),
    ]


@pytest.mark.parametrize(
    ("activity", "bound", "name"),
    [
        (kernel(5, 25, 65), COMPUTE, "k5"),
        (kernel(5, 25, 65, name="ncclDevKernel_AllReduce"), COMMUNICATION, None),
        (copy(5, 25, 65, "Memcpy HtoD (Pinned -> Device)"), MEMORY, None),
        (gpu_span("Memset", 25, 65, category="gpu_memset", correlation=5), MEMORY, None),
    ],
    ids=["kernel", "collective", "copy", "fill"],
)
def test_a_synchronisation_leads_to_the_device(
    activity: Event, bound: str, name: str | None
) -> None:
    name = name or activity["name"]
    events = [step(0, 0, 200), launch(5, 10, 10), activity]
    events.append(call("cudaDeviceSynchronize", 6, 30, 65))
    run = make_run(events)
    assert walked(run) == [
        (0, 10, CPU, "step"),
        # Until the device begins, though the call is back at 20: it is that which is late.
        (10, 25, LAUNCH, name),
        (25, 90, bound, name),
        (90, 95, SYNC, "cudaDeviceSynchronize"),
        (95, 200, CPU, "step"),
    ]
    found = documented_rows(run, "critical_path", "SELECT * FROM {} ORDER BY position")
    places = [(row["device"], row["stream"], row["thread_id"] is None) for row in found]
    host, device = (None, None, False), (0, 7, True)
    assert places == [host, device, device, host, host]
    assert found[2]["path"] == "step"


def test_a_synchronisation_of_an_idle_device_stays_on_the_host() -> None:
    # The kernel is done before the call begins.
    events = [step(0, 0, 200), launch(5, 10, 10), kernel(5, 25, 65)]
    events.append(call("cudaDeviceSynchronize", 6, 100, 10))
    assert walked(make_run(events)) == [
        (0, 10, CPU, "step"),
        (10, 20, CPU, "cudaLaunchKernel"),
        (20, 100, CPU, "step"),
        (100, 110, CPU, "cudaDeviceSynchronize"),
        (110, 200, CPU, "step"),
    ]


def test_a_late_launch_leads_to_the_host() -> None:
    events = [
        step(0, 0, 200),
        launch(1, 10, 5),
        launch(2, 15, 5, name="cuLaunchKernel"),
        kernel(1, 20, 82),
        # It ends after kernel 4, but this waits for the stream of the last launch.
        kernel(2, 25, 117, stream=8),
        # Kernel 1 is done by then: what it waits for is the thread.
        launch(4, 105, 5),
        kernel(4, 115, 25),
        call("cudaStreamSynchronize", 9, 120, 23),
    ]
    expected: list[Part] = [
        (0, 10, CPU, "step"),
        (10, 15, CPU, "cudaLaunchKernel"),
        (15, 20, CPU, "cuLaunchKernel"),
        (20, 105, CPU, "step"),
        (105, 115, LAUNCH, "k4"),
        (115, 140, COMPUTE, "k4"),
        (140, 143, SYNC, "cudaStreamSynchronize"),
        (143, 200, CPU, "step"),
    ]
    assert walked(make_run(events)) == expected
    # Of all streams it is kernel 2 that ends last.
    events[-1] = call("cudaDeviceSynchronize", 9, 120, 23)
    assert walked(make_run(events)) == [
        *expected[:2],
        (15, 25, LAUNCH, "k2"),
        (25, 142, COMPUTE, "k2"),
        (142, 143, SYNC, "cudaDeviceSynchronize"),
        expected[-1],
    ]


def test_a_queued_kernel_leads_to_the_one_before_it() -> None:
    events = [
        step(0, 0, 200),
        launch(1, 10, 5),
        launch(2, 15, 5),
        kernel(1, 20, 40),
        kernel(2, 62, 40),
        call("cudaDeviceSynchronize", 9, 30, 75),
    ]
    assert walked(make_run(events)) == [
        (0, 10, CPU, "step"),
        (10, 20, LAUNCH, "k1"),
        (20, 60, COMPUTE, "k1"),
        (60, 62, BETWEEN, "k2"),
        (62, 102, COMPUTE, "k2"),
        (102, 105, SYNC, "cudaDeviceSynchronize"),
        (105, 200, CPU, "step"),
    ]


def test_a_stream_wait_leads_to_the_other_stream() -> None:
    # Kernel 5 waits for kernel 1, not for kernel 4, which was launched later.
    events = [
        step(0, 0, 400),
        launch(1, 10, 5),
        call("cudaEventRecord", 2, 15, 5),
        call("cudaStreamWaitEvent", 3, 20, 5),
        launch(5, 25, 5),
        launch(4, 30, 5),
        kernel(1, 20, 80),
        kernel(4, 101, 60),
        kernel(5, 125, 75, stream=20),
        call("cudaDeviceSynchronize", 9, 40, 165),
    ]
    record = {
        "correlation": 3,
        "wait_on_stream": 7,
        "wait_on_cuda_event_record_corr_id": 2,
        "wait_on_cuda_event_id": 1,
    }
    wait = gpu_span("Stream Wait Event", 20, 0, category="cuda_sync", stream=20, **record)
    first: list[Part] = [(0, 10, CPU, "step"), (10, 20, LAUNCH, "k1"), (20, 100, COMPUTE, "k1")]
    last: list[Part] = [(200, 205, SYNC, "cudaDeviceSynchronize"), (205, 400, CPU, "step")]
    assert walked(make_run([*events, wait])) == [
        *first,
        (100, 125, BETWEEN, "k5"),
        (125, 200, COMPUTE, "k5"),
        *last,
    ]
    # Without the record, 25 us after kernel 1 are too many for it to be what was waited for: but
    # kernel 4 had the device.
    assert walked(make_run(events)) == [
        *first,
        (100, 101, BETWEEN, "k4"),
        (101, 125, COMPUTE, "k4"),
        (125, 200, COMPUTE, "k5"),
        *last,
    ]
    # 10 us are not too many.
    soon = [*events[:8], kernel(5, 110, 90, stream=20), events[9]]
    assert walked(make_run(soon)) == [
        *first,
        (100, 110, BETWEEN, "k5"),
        (110, 200, COMPUTE, "k5"),
        *last,
    ]
    # With no other activity on the device, the reason for the delay is unknown.
    alone = [*events[:7], *events[8:]]
    assert walked(make_run(alone)) == [
        (0, 10, CPU, "step"),
        (10, 15, CPU, "cudaLaunchKernel"),
        (15, 20, CPU, "cudaEventRecord"),
        (20, 25, CPU, "cudaStreamWaitEvent"),
        (25, 125, LAUNCH, "k5"),
        (125, 200, COMPUTE, "k5"),
        *last,
    ]


def test_an_event_synchronisation_leads_to_its_kernel() -> None:
    events = [
        step(0, 0, 300),
        launch(1, 10, 5),
        call("cudaEventRecord", 2, 15, 5),
        launch(3, 20, 5),
        launch(4, 25, 5),
        kernel(1, 20, 80),
        kernel(3, 100, 80),  # after the event
        kernel(4, 30, 75, stream=8),
        call("cudaEventSynchronize", 5, 40, 70),
    ]
    record = {
        "correlation": 5,
        "wait_on_stream": 7,
        "wait_on_cuda_event_record_corr_id": 2,
        "wait_on_cuda_event_id": 1,
    }
    wait = gpu_span("Event Sync", 40, 70, category="cuda_sync", stream=-1, **record)
    assert walked(make_run([*events, wait])) == [
        (0, 10, CPU, "step"),
        (10, 20, LAUNCH, "k1"),
        (20, 100, COMPUTE, "k1"),
        (100, 110, SYNC, "cudaEventSynchronize"),
        (110, 300, CPU, "step"),
    ]
    # Without the record it is what ended last before the call was back.
    assert walked(make_run(events), "start_nanos >= 25000") == [
        (25, 30, LAUNCH, "k4"),
        (30, 105, COMPUTE, "k4"),
        (105, 110, SYNC, "cudaEventSynchronize"),
        (110, 300, CPU, "step"),
    ]


@pytest.mark.parametrize(
    ("name", "memory", "waits"),
    [
        ("cudaMemcpyAsync", "Pageable", True),
        ("cudaMemcpyAsync", "Pinned", False),
        ("cudaMemcpy", "Pinned", True),
        ("hipMemcpyWithStream", "Pinned", True),
    ],
)
def test_a_blocking_copy_leads_to_the_device(name: str, memory: str, waits: bool) -> None:
    copied = f"Memcpy HtoD ({memory} -> Device)"
    events = [step(0, 0, 200), call(name, 5, 10, 85), copy(5, 20, 70, copied)]
    waited: list[Part] = [(10, 20, LAUNCH, copied), (20, 90, MEMORY, copied), (90, 95, SYNC, name)]
    assert walked(make_run(events)) == [
        (0, 10, CPU, "step"),
        *(waited if waits else [(10, 95, CPU, name)]),
        (95, 200, CPU, "step"),
    ]


def test_the_path_enters_the_backward_thread() -> None:
    # It works for the thread with the step; where neither is in a span, so does it.
    engine = "autograd::engine::evaluate_function: MulBackward0"
    events = [
        step(0, 0, 100),
        host_span("forward", 10, 20),
        host_span(engine, 40, 20, tid=101),
        host_span(engine, 65, 15, tid=101),
        host_span("aten::mul", 70, 5, tid=101),
        host_span("update", 90, 5),
        # A thread for which no other thread waits.
        host_span("watch", 0, 100, tid=102),
    ]
    run = make_run(events)
    assert walked(run) == [
        (0, 10, CPU, "step"),
        (10, 30, CPU, "forward"),
        (30, 40, CPU, "step"),
        (40, 60, CPU, engine),
        (60, 65, CPU, None),
        (65, 70, CPU, engine),
        (70, 75, CPU, "aten::mul"),
        (75, 80, CPU, engine),
        (80, 90, CPU, "step"),
        (90, 95, CPU, "update"),
        (95, 100, CPU, "step"),
    ]
    found = rows(run, "critical_path", "SELECT thread_id FROM {} ORDER BY position")
    threads = values(found, "thread_id")
    assert len(set(threads[3:8])) == len({*threads[:3], *threads[8:]}) == 1
    assert threads[0] != threads[3]


# Several, and nothing


def test_the_view_can_be_grouped_and_sorted() -> None:
    # The path of a process is one row, of which many are made: its process is no key of those.
    run = recorded_run("a100-nccl")
    query = "SELECT number, position FROM {} ORDER BY process_id, number DESC, position"
    found = [(row["number"], row["position"]) for row in rows(run, "critical_path", query)]
    assert found == sorted(found, key=lambda place: (-place[0], place[1]))
    query = "SELECT number, count(*) AS count FROM {} GROUP BY process_id, number ORDER BY number"
    counts = [tuple(row.values()) for row in rows(run, "critical_path", query)]
    assert counts == [(number, [at for at, _ in found].count(number)) for number in (4, 5, 6)]


def test_steps_have_separate_paths() -> None:
    # The device is behind. Its work is cut where steps end; what is between two is in none.
    events = [
        step(4, 0, 20),
        step(5, 25, 15),
        host_span("next", 19, 10),
        launch(1, 1, 1),
        launch(2, 2, 1),
        kernel(1, 4, 46),
        kernel(2, 50, 40),
    ]
    run = make_run(events)
    query = "SELECT number, position, start_nanos, end_nanos, bound, name FROM {} ORDER BY 1, 2"
    assert [tuple(row.values()) for row in rows(run, "critical_path", query)] == [
        (4, 0, 0, 1000, CPU, "step"),
        (4, 1, 1000, 4000, LAUNCH, "k1"),
        (4, 2, 4000, 20_000, COMPUTE, "k1"),
        (5, 0, 25_000, 40_000, COMPUTE, "k1"),
    ]


def test_ranks_have_separate_paths() -> None:
    # They have the same numbers of steps, streams and correlations.
    traces = [
        [
            step(0, 0, 100, pid=100 + rank),
            launch(1, 10, 5, pid=100 + rank),
            kernel(1, 20, 40 + 10 * rank),
            call("cudaDeviceSynchronize", 2, 30, 35 + 10 * rank, pid=100 + rank),
        ]
        for rank in range(2)
    ]
    run = make_run(*traces)
    found = documented_rows(run, "critical_path", "SELECT * FROM {} ORDER BY process_id, position")
    assert values(found, "rank", "pid", "position", "bound", "duration_nanos") == [
        (rank, 100 + rank, position, bound, 1000 * length)
        for rank in range(2)
        for position, (bound, length) in enumerate(
            [(CPU, 10), (LAUNCH, 10), (COMPUTE, 40 + 10 * rank), (SYNC, 5), (CPU, 35 - 10 * rank)]
        )
    ]


def test_runs_without_steps_are_one_step() -> None:
    # All of the recording, on the thread that is longest in spans; it ends with the device.
    events = [
        host_span("other", 5, 20, tid=101),
        host_span("main", 10, 30),
        launch(1, 20, 5),
        kernel(1, 30, 40),
    ]
    run = make_run(events)
    assert walked(run) == [
        # The main thread has not begun, and it is unknown which thread waited.
        (5, 10, CPU, None),
        (10, 20, CPU, "main"),
        (20, 30, LAUNCH, "k1"),
        (30, 70, COMPUTE, "k1"),
    ]
    assert {row["number"] for row in rows(run, "critical_path")} == {None}


def test_a_run_without_a_host_has_a_device_path() -> None:
    run = make_run([kernel(1, 10, 10), kernel(2, 25, 15)])
    assert walked(run) == [
        (10, 20, COMPUTE, "k1"),
        (20, 25, BETWEEN, "k2"),
        (25, 40, COMPUTE, "k2"),
    ]
    documented_rows(run, "critical_path")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"ph": "i", "name": "x", "pid": 1, "tid": 1, "ts": 5, "s": "t"}],
        [step(0, 0, 0), host_span("op", 0, 0), launch(1, 0, 0), kernel(1, 0, 0)],
    ],
    ids=["nothing", "a moment", "no time"],
)
def test_empty_runs_have_no_path(events: list[Event]) -> None:
    assert rows(make_run(events), "critical_path") == []
