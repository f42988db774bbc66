"""Sums of kernels, copies and annotations by name: compared with HTA and hand-computed values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from analyses import (
    HTA_WARNINGS,
    Event,
    documented_rows,
    gpu_span,
    host_span,
    hta,
    make_run,
    open_run,
    recorded_run,
    recorded_trace,
    rows,
    values_by,
)

pytestmark = HTA_WARNINGS

TO_DEVICE = "Memcpy HtoD (Pinned -> Device)"
TO_HOST = "Memcpy DtoH (Device -> Pageable)"
BETWEEN = "Memcpy DtoD (Device -> Device)"
PEERS = "Memcpy PtoP (Device -> Device)"
FILL = "Memset (Device)"

CLASSES_OF_HTA = {
    "COMPUTATION": "compute",
    "COMMUNICATION": "communication",
    "MEMORY": "memory",
}


def copy(
    start: float,
    duration: float,
    size: int | None,
    name: str = TO_DEVICE,
    category: str = "gpu_memcpy",
    **more: Any,
) -> Event:
    if size is not None:
        more["bytes"] = size
    return gpu_span(name, start, duration, category=category, **more)


def annotation(name: str, start: float, duration: float, **more: Any) -> Event:
    return gpu_span(name, start, duration, category="gpu_user_annotation", **more)


@pytest.mark.parametrize("name", ["a100-nccl", "critical-path-alexnet"])
def test_kernels_match_hta(name: str) -> None:
    # All kernels, none lumped into "others". HTA's sums are of floats of microseconds, so to 1e-9.
    _, theirs = hta(recorded_trace(name)).get_gpu_kernel_breakdown(
        visualize=False, duration_ratio=1.0, num_kernels=1_000_000, include_memory_kernels=True
    )
    expected = {
        (CLASSES_OF_HTA[row["kernel_type"]], row["name"]): row
        for row in theirs.to_dict("records")
        # Where a trace has several streams, HTA counts "Stream Sync" and the like as type OTHER or,
        # by a name without "Sync" such as "Stream Wait Event", as COMPUTATION: nothing runs while
        # it waits.
        if "Stream Wait Event" not in row["name"]
    }
    run = recorded_run(name)
    ours = documented_rows(run, "kernel_summary")
    assert {(row["class"], row["name"]) for row in ours} == set(expected)
    assert len(ours) == len(expected) > 5
    for row in ours:
        row_of_hta = expected[row["class"], row["name"]]
        for column, key in {"total": "sum", "min": "min", "max": "max", "mean": "mean"}.items():
            nanos = 1000 * row_of_hta[f"{key} (us)"]
            assert row[f"{column}_nanos"] == pytest.approx(nanos, rel=1e-9), (column, row)
        # HTA has 0 for a kernel that ran once; the deviation of one number is unknown, not 0.
        if row["count"] == 1:
            assert row["stddev_nanos"] is None
            assert row_of_hta["stddev"] == 0
        else:
            stddev = pytest.approx(1000 * row_of_hta["stddev"], rel=1e-6, abs=1e-3)
            assert row["stddev_nanos"] == stddev
    assert sum(row["device_percent"] for row in ours) == pytest.approx(100)


def test_kernels_match_hand_computed_values() -> None:
    run = make_run(
        [
            gpu_span("gemm", 0, 2),
            gpu_span("gemm", 10, 4),
            gpu_span("gemm", 10, 9, stream=8),  # at the same time: counted each time
            gpu_span("gemm", 0, 5, device=1),  # another device: a row of its own
            gpu_span("once", 30, 5),
            gpu_span("nothing", 40, 0, device=1),
            copy(50, 10, 10),
            copy(70, 20, 10, FILL, "gpu_memset"),
            annotation("a range", 0, 1000),
            gpu_span("Stream Sync", 0, 1000, category="cuda_sync"),
        ],
    )
    ours = documented_rows(run, "kernel_summary")
    keys = ("device", "name")
    assert values_by(keys, ours, "kind", "class") == {
        (0, "gemm"): ("kernel", "compute"),
        (1, "gemm"): ("kernel", "compute"),
        (0, "once"): ("kernel", "compute"),
        (1, "nothing"): ("kernel", "compute"),
        (0, TO_DEVICE): ("memcpy", "memory"),
        (0, FILL): ("memset", "memory"),
    }
    times = ("total_nanos", "mean_nanos", "min_nanos", "max_nanos")
    assert values_by(keys, ours, "count", *times)[0, "gemm"] == (3, 15000, 5000, 2000, 9000)
    deviations = values_by(keys, ours, "stddev_nanos")
    # Differences from the mean: -3, -1, 4; squares 9 + 1 + 16 = 26; over 2 is 13.
    assert deviations[0, "gemm"] == pytest.approx(1000 * math.sqrt(13))
    assert deviations[0, "once"] is None
    # Device 0 ran for 15 + 5 + 10 + 20 = 50.
    assert values_by(keys, ours, "device_percent") == {
        (0, "gemm"): pytest.approx(30),
        (1, "gemm"): pytest.approx(100),
        (0, "once"): pytest.approx(10),
        (1, "nothing"): 0,
        (0, TO_DEVICE): pytest.approx(20),
        (0, FILL): pytest.approx(40),
    }


def test_kernels_are_classified_by_name() -> None:
    classes = {
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
            "communication"
        ),
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, ncclWork*)": "communication",
        "void ncclKernel_SendRecv(ncclWorkElem)": "communication",
        "void ncclSymDevKernel_AllGather_LL()": "communication",
        "mscclKernel_Sum_float_LL(int)": "communication",
        "void at::native::elementwise_kernel<128>()": "compute",
        # HTA's `^hip` and `^dma` take these for communication and memory; they compute.
        "hipcubReduceKernel": "compute",
        "dmag_gemm": "compute",
        # HTA 0.5.0 takes whatever has Sync or Memcpy in its name for type OTHER, and leaves it out;
        # it ran, and computed.
        "void SyncFreeBatchNorm<float>": "compute",
        # A kernel of the program; a fill is an activity of that kind.
        "void Memset32Bit(float*)": "compute",
    }
    run = make_run([gpu_span(name, 10 * at, 1) for at, name in enumerate(classes)])
    assert {row["name"]: row["class"] for row in rows(run, "kernel_summary")} == classes


def test_kernels_of_ranks_are_not_mixed() -> None:
    run = make_run(
        *[[host_span("aten::mm", 0, 5), gpu_span("gemm", 10, 1 + rank)] for rank in range(3)],
    )
    answer = rows(run, "kernel_summary")
    found = values_by("rank", answer, "count", "total_nanos", "device_percent")
    assert found == {0: (1, 1000, 100), 1: (1, 2000, 100), 2: (1, 3000, 100)}


def test_empty_runs_and_zero_durations_have_kernel_rows() -> None:
    assert rows(recorded_run("cpu-only-gloo"), "kernel_summary") == []
    (row,) = rows(make_run([gpu_span("nothing", 0, 0)]), "kernel_summary")
    assert (row["total_nanos"], row["device_percent"]) == (0, None)


def test_copies_match_hta() -> None:
    # HTA adds up a series over time, +bandwidth where a copy starts and -bandwidth where it ends,
    # and gives statistics of its values above 0. While no two copies of a kind overlap, these are
    # the bandwidths of the single copies, which is what our minimum, mean and maximum are of. To
    # 1e-9: HTA's come from the decimal numbers of the trace, through a running sum of floats.
    trace = recorded_trace("a100-nccl")
    theirs = hta(trace).get_memory_bw_summary(ranks=[0])["memory_bw_gbps"]
    run = open_run(trace)
    ours = documented_rows(run, "gpu_copies")
    assert len(ours) == len(theirs) == 2
    for row in ours:
        assert row["busy_nanos"] == row["total_nanos"]  # none overlap
        row_of_hta = theirs.loc[(0, row["name"][:11] if row["kind"] == "memcpy" else "Memset")]
        assert row["count"] == row_of_hta["count"]
        for column in ("min", "mean", "max"):
            rate = pytest.approx(1e9 * row_of_hta[column], rel=1e-9)
            assert row[f"{column}_bytes_per_second"] == rate


def test_bandwidths_that_a_trace_gives_differ_by_its_rounding() -> None:
    # Old traces have durations in whole microseconds, but bandwidths of the durations before
    # rounding, which HTA takes: those of single copies differ by up to 1 us.
    trace = recorded_trace("critical-path-alexnet")
    run = open_run(trace)
    given = run.sql(
        "SELECT bytes, duration_nanos, CAST(arg(args, 'memory bandwidth (GB/s)') AS DOUBLE) "
        "FROM gpu_activities WHERE kind IN ('memcpy', 'memset') AND bytes > 0"
    ).rows()
    ours = rows(run, "gpu_copies")
    assert len(given) == sum(row["count"] for row in ours) > 0
    for size, nanos, bandwidth in given:
        assert nanos - 1000 <= size / bandwidth <= nanos + 1000
    theirs = hta(trace).get_memory_bw_summary(ranks=[0])["memory_bw_gbps"]["count"]
    for row in ours:
        assert theirs[0, row["name"][:11] if row["kind"] == "memcpy" else "Memset"] == row["count"]


def test_copies_match_hand_computed_values() -> None:
    run = make_run(
        [
            copy(0, 10, 1000),  # 1e8 bytes a second
            copy(5, 10, 4000, stream=8),  # 4e8, half of it beside the other: together busy for 15
            copy(100, 5, 1000),  # 2e8
            copy(0, 20, 100, device=1),
            copy(200, 10, 300, TO_HOST),
            copy(300, 1, 64, FILL, "gpu_memset"),
            gpu_span("gemm", 400, 10),
            annotation(TO_DEVICE, 0, 99),
        ],
    )
    ours = documented_rows(run, "gpu_copies")
    found = {(row["device"], row["name"]): row for row in ours}
    assert len(found) == len(ours)
    assert {key: row["kind"] for key, row in found.items()} == {
        (0, TO_DEVICE): "memcpy",
        (1, TO_DEVICE): "memcpy",
        (0, TO_HOST): "memcpy",
        (0, FILL): "memset",
    }
    row = found[0, TO_DEVICE]
    columns = ["count", "bytes", "total_nanos", "busy_nanos"]
    assert [row[column] for column in columns] == [3, 6000, 25000, 20000]
    assert row["bytes_per_second"] == pytest.approx(6000 / 20e-6)
    # HTA's series is 1e8, 5e8, 4e8, 0, 2e8: it calls 5e8 the maximum and 3e8 the mean of 4
    # "copies". Two that run beside each other share the bus: neither reached that.
    assert row["min_bytes_per_second"] == pytest.approx(1e8)
    assert row["mean_bytes_per_second"] == pytest.approx(7e8 / 3)
    assert row["max_bytes_per_second"] == pytest.approx(4e8)
    assert found[1, TO_DEVICE]["bytes_per_second"] == pytest.approx(5e6)


def test_copies_without_duration_or_size_have_no_bandwidth() -> None:
    run = make_run(
        [
            # HTA replaces a duration of 0 by 1 us, which gives a bandwidth that was not measured.
            copy(0, 0, 500),
            copy(10, 10, 1000),
            copy(30, 70, None),  # its time is busy, but not time for the bytes that are known
            copy(200, 0, 8, FILL, "gpu_memset"),
            copy(300, 5, None, BETWEEN),
            copy(400, 10, 0, PEERS),
        ],
    )
    ours = documented_rows(run, "gpu_copies")
    found = {row["name"]: row for row in ours}
    row = found[TO_DEVICE]
    columns = ["count", "bytes", "total_nanos", "busy_nanos"]
    assert [row[column] for column in columns] == [3, 1500, 80000, 80000]
    assert row["bytes_per_second"] == pytest.approx(1500 / 10e-6)
    of_each = [f"{of}_bytes_per_second" for of in ("min", "mean", "max")]
    assert [row[column] for column in of_each] == pytest.approx([1e8] * 3)
    rates = ["bytes_per_second", *of_each]
    for name, size in {FILL: 8, BETWEEN: None}.items():
        assert found[name]["bytes"] == size
        assert [found[name][column] for column in rates] == [None] * 4
    assert [found[PEERS][column] for column in rates] == [0] * 4


def test_copies_of_ranks_are_not_mixed() -> None:
    run = make_run(
        *[[host_span("op", 0, 1), copy(10, 10, 100 + rank)] for rank in range(3)],
    )
    found = {row["rank"]: row["bytes"] for row in rows(run, "gpu_copies")}
    assert found == {0: 100, 1: 101, 2: 102}


def test_runs_without_copies_have_no_copy_rows() -> None:
    assert rows(recorded_run("cpu-only-gloo"), "gpu_copies") == []
    # ROCm 6.2 reports no bytes.
    (row,) = rows(recorded_run("mi250-rocm"), "gpu_copies")
    assert (row["count"], row["bytes"], row["bytes_per_second"]) == (2, None, None)


@pytest.mark.parametrize("name", ["a100-nccl", "mi250-rocm"])
def test_annotations_match_hta(name: str) -> None:
    # Equal up to HTA's sums of microseconds as floats.
    theirs = hta(recorded_trace(name)).get_gpu_user_annotation_breakdown(
        visualize=False, num_kernels=1_000_000
    )
    run = recorded_run(name)
    ours = documented_rows(run, "gpu_annotations")
    found = {row["name"]: row for row in ours}
    assert len(ours) == len(theirs) == len(found) > 0
    for row_of_hta in theirs.to_dict("records"):
        row = found[row_of_hta["name"]]
        for column, key in {"total": "sum", "min": "min", "max": "max", "mean": "mean"}.items():
            nanos = 1000 * row_of_hta[f"{key} (us)"]
            assert row[f"{column}_nanos"] == pytest.approx(nanos, rel=1e-9), (column, row)
        if row["count"] == 1:  # as of kernels
            assert row["stddev_nanos"] is None
            assert row_of_hta["stddev"] == 0
        else:
            assert row["stddev_nanos"] == pytest.approx(1000 * row_of_hta["stddev"], rel=1e-6)


def test_annotations_match_hand_computed_values() -> None:
    run = make_run(
        [
            annotation("forward", 0, 10),
            annotation("forward", 5, 10, stream=8),  # the same one on another stream: 15 in all
            annotation("forward", 100, 40),
            annotation("forward", 0, 3, device=1),
            annotation("backward", 200, 0),
            gpu_span("forward", 0, 1000),  # a kernel of that name
            host_span("forward", 0, 1000, category="user_annotation"),
        ],
    )
    ours = documented_rows(run, "gpu_annotations")
    columns = ("count", "total_nanos", "mean_nanos", "min_nanos", "max_nanos", "busy_nanos")
    assert values_by(("device", "name"), ours, *columns) == {
        (0, "forward"): (3, 60000, 20000, 10000, 40000, 55000),
        (1, "forward"): (1, 3000, 3000, 3000, 3000, 3000),
        (0, "backward"): (1, 0, 0, 0, 0, 0),
    }
    # Differences from the mean: -10, -10, 20; squares 600; over 2 is 300.
    deviations = values_by(("device", "name"), ours, "stddev_nanos")
    assert deviations[0, "forward"] == pytest.approx(1000 * math.sqrt(300))


def test_annotations_of_ranks_are_not_mixed() -> None:
    run = make_run(
        *[[host_span("op", 0, 1), annotation("step", 10, 5 + rank)] for rank in range(3)],
    )
    found = {row["rank"]: row["total_nanos"] for row in rows(run, "gpu_annotations")}
    assert found == {0: 5000, 1: 6000, 2: 7000}


@pytest.mark.parametrize("name", ["cpu-only-gloo", "critical-path-alexnet"])
def test_runs_without_annotations_have_no_annotation_rows(name: str) -> None:
    assert rows(recorded_run(name), "gpu_annotations") == []
