"""The view `gpu_time`: compared with HTA, a brute-force count and hand-computed values."""

from __future__ import annotations

import random
from typing import Any

import marey
import pytest
from analyses import (
    Event,
    Row,
    covered_length,
    documented_rows,
    gpu_span,
    host_span,
    hta,
    launch,
    make_run,
    open_run,
    pick_columns,
    recorded_run,
    recorded_trace,
    rows,
    step,
    values,
    values_by,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning"),  # where nothing communicates
]

# Class, begin and end of an activity.
Activity = tuple[str, int, int]

CLASSES = ("compute", "communication", "memory")
TRACES = [
    "a100-nccl",
    "mi250-rocm",
    "critical-path-alexnet",
    "cuda-event-sync",
    "triton-kernel-args",
    "cpu-only-gloo",
]


def activity(name: str, start: float, duration: float, **more: Any) -> Event:
    return gpu_span(name, start, duration, correlation=1, **more)


def activities(run: marey.run.Run) -> dict[tuple[int, int], list[Activity]]:
    """Returns activities by process and device, of a trace that communicates with NCCL only."""
    found: dict[tuple[int, int], list[Activity]] = {}
    for process, device, kind, name, start, duration in run.sql(
        "SELECT process_id, device, kind, name(name_id), start_nanos, duration_nanos "
        "FROM raw.gpu_activities WHERE kind IN ('kernel', 'memcpy', 'memset')"
    ):
        kernel = "communication" if name.startswith("nccl") else "compute"
        of_class = kernel if kind == "kernel" else "memory"
        found.setdefault((process, device), []).append((of_class, start, start + duration))
    return found


def expected(activities: list[Activity], start: int, end: int) -> Row:
    """Computes every column from unions, by inclusion and exclusion."""

    def union(*classes: str) -> int:
        return covered_length([(a, b) for name, a, b in activities if name in classes], start, end)

    busy, compute, communication = union(*CLASSES), union("compute"), union("communication")
    both = union("compute", "communication")
    return {
        "busy_nanos": busy,
        "idle_nanos": end - start - busy,
        "compute_nanos": compute,
        "non_compute_nanos": busy - compute,
        "communication_nanos": communication,
        "memory_nanos": union("memory"),
        "overlap_nanos": compute + communication - both,
        "exposed_communication_nanos": both - compute,
        "compute_only_nanos": busy - union("communication", "memory"),
        "communication_only_nanos": busy - union("compute", "memory"),
        "memory_only_nanos": busy - both,
    }


def check_steps(run: marey.run.Run) -> int:
    """Compares each step on each device with a brute-force count; returns the number of rows."""
    of_devices = activities(run)
    steps = run.sql(
        "SELECT process_id, thread_id, number, start_nanos, duration_nanos FROM raw.steps"
    ).rows()
    answer = rows(run, "gpu_time_by_step")
    found = {
        (row["process_id"], row["thread_id"], row["number"], row["device"]): row for row in answer
    }
    count = 0
    for process, thread, number, start, duration in steps:
        for device in [device for of, device in of_devices if of == process]:
            count += 1
            like = expected(of_devices[process, device], start, start + duration)
            like |= {
                "start_nanos": start,
                "end_nanos": start + duration,
                "duration_nanos": duration,
            }
            assert pick_columns(found[process, thread, number, device], like) == like
    assert len(answer) == len(found) == count
    if answer:
        documented_rows(run, "gpu_time_by_step")
    return count


# HTA holds microseconds since 1970 as doubles, which are 0.25 us apart, so each end of the window
# is off by up to 0.125 us, and all that depends on it.
@pytest.mark.parametrize("name", ["a100-nccl", "mi250-rocm"])
def test_gpu_time_matches_hta(name: str) -> None:
    analysis = hta(recorded_trace(name))
    (theirs,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    overlap = analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"][0]
    (ours,) = rows(recorded_run(name), "gpu_time")
    for column, key in {
        "idle": "idle",
        "compute": "compute",
        "non_compute": "non_compute",
        "window": "kernel",
    }.items():
        micros = ours[f"{column}_nanos"] / 1000
        assert micros == pytest.approx(theirs[f"{key}_time(us)"], abs=0.3, rel=0), key
    for key in ("idle", "compute", "non_compute"):  # HTA rounds them to two places
        assert ours[f"{key}_percent"] == pytest.approx(theirs[f"{key}_time_pctg"], abs=0.0051)
    if overlap == overlap:
        assert ours["overlap_percent"] == pytest.approx(overlap, abs=0.0051)
    else:  # HTA has NaN where nothing communicates
        assert ours["overlap_percent"] is None


@pytest.mark.parametrize("name", TRACES)
def test_gpu_time_matches_a_brute_force_count(name: str) -> None:
    run = recorded_run(name)
    of_devices = activities(run)
    answer = rows(run, "gpu_time")
    ours = {(row["process_id"], row["device"]): row for row in answer}
    assert ours.keys() == of_devices.keys()
    assert len(answer) == len(ours)
    for key, found in of_devices.items():
        start, end = min(a for _, a, _ in found), max(b for _, _, b in found)
        like = expected(found, start, end)
        like |= {"start_nanos": start, "end_nanos": end, "window_nanos": end - start}
        assert pick_columns(ours[key], like) == like


def test_gpu_time_matches_hand_computed_values() -> None:
    all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    to_device = "Memcpy HtoD (Pinned -> Device)"
    run = make_run(
        [
            launch(1, 0),
            activity("gemm", 100, 40),  # 100-140
            activity("gemm", 120, 30, stream=8),  # 120-150: computation 100-150
            activity(all_reduce, 130, 40, stream=9),  # 130-170
            activity(to_device, 145, 35, stream=10, category="gpu_memcpy"),  # 145-180
            activity("Memset (Device)", 190, 10, category="gpu_memset"),  # 190-200
            activity("gemm", 195, 0),
        ],
    )
    (row,) = documented_rows(run, "gpu_time")
    like = {
        "rank": None,
        "pid": 100,
        "device": 0,
        "start_nanos": 100_000,
        "end_nanos": 200_000,
        "window_nanos": 100_000,
        "busy_nanos": 90_000,
        "idle_nanos": 10_000,
        "compute_nanos": 50_000,
        "non_compute_nanos": 40_000,
        "communication_nanos": 40_000,
        "memory_nanos": 45_000,
        "overlap_nanos": 20_000,
        "exposed_communication_nanos": 20_000,  # 150-170
        "compute_only_nanos": 30_000,  # 100-130
        "communication_only_nanos": 0,  # 150-170 is beside the copy
        "memory_only_nanos": 20_000,  # 170-180, 190-200
        "idle_percent": 10.0,
        "compute_percent": 50.0,
        "non_compute_percent": 40.0,
        "overlap_percent": 50.0,
    }
    assert pick_columns(row, like) == like


# The class of a kernel, ours and HTA 0.5.0's where that is wrong.
KERNELS = [
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication", None),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication", None),
    ("void gemm<float>(float*)", "compute", None),
    # Communication that does not begin with nccl: HTA counts it as computation.
    (
        "void vllm::cross_device_reduce_1stage<__half, 2>(RankData*)",
        "communication",
        "COMPUTATION",
    ),
    (
        "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16>(int)",
        "communication",
        "COMPUTATION",
    ),
    ("void deep_ep::intranode::dispatch<8, 768>(int4*)", "communication", "COMPUTATION"),
    ("mscclKernel_Sum_half_Simple_false(ncclDevComm*)", "communication", "COMPUTATION"),
    (
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(int)",
        "communication",
        "COMPUTATION",
    ),
    # Only the own name of a kernel counts: neither the types of its arguments, nor what Inductor
    # fused into it.
    ("void at::native::elementwise<ncclDataType_t>(ncclComm*)", "compute", None),
    ("triton_poi_fused_nccl_all_reduce_wait_0", "compute", None),
    # HTA takes any name with Sync in it for a wait, and any with Memcpy in it for none of its
    # classes.
    ("void SyncBatchNormForward<float>(float*)", "compute", "OTHER"),
    ("batched_Memcpy_like_kernel", "compute", "OTHER"),
    # HTA takes what begins with dma for a copy (as MTIA has).
    ("dma_attention_kernel", "compute", "MEMORY"),
    ("hipblasLt_gemm", "compute", None),
    # The copies of the HIP runtime run as kernels.
    ("__amd_rocclr_copyBuffer.kd", "memory", "COMPUTATION"),
    ("__amd_rocclr_fillBufferAligned.kd", "memory", "COMPUTATION"),
]


@pytest.mark.parametrize(("name", "ours"), [(name, ours) for name, ours, _ in KERNELS])
def test_every_kernel_has_a_class(name: str, ours: str) -> None:
    run = make_run([launch(1, 0), activity(name, 10, 5), step(1, 5, 20)])
    for view in ("gpu_time", "gpu_time_by_step"):
        (row,) = rows(run, view)
        found = {of_class: row[f"{of_class}_nanos"] for of_class in CLASSES}
        assert found == {"compute": 0, "communication": 0, "memory": 0} | {ours: 5000}


def test_kernel_classes_that_differ_from_hta() -> None:
    utils = pytest.importorskip("hta.utils.utils")
    wrong = {name: theirs for name, _, theirs in KERNELS if theirs is not None}
    assert {name: utils.get_kernel_type(name) for name in wrong} == wrong


@pytest.mark.parametrize("category", ["kernel", "mtia_ccp_events", "npu_task"])
def test_activities_of_all_vendors_count_as_work(category: str) -> None:
    # Meta's MTIA has a word of its own for what it runs, and `npu_task` is one that nobody knows:
    # HTA goes by the stream alone, and so it counts.
    events = [
        host_span("aten::mm", 0, 10),
        gpu_span("fba_mm", 10, 60, category=category),
        gpu_span("Memcpy DtoH", 80, 20, category="gpu_memcpy"),
    ]
    [row] = rows(make_run(events), "gpu_time")
    times = (row["compute_nanos"], row["memory_nanos"], row["busy_nanos"], row["window_nanos"])
    assert times == (60_000, 20_000, 80_000, 90_000)


def test_waits_and_annotations_are_not_work() -> None:
    events = [launch(1, 0), activity("gemm", 10, 5), activity("gemm", 30, 5)]
    (before,) = rows(make_run(events), "gpu_time")
    events += [
        activity("Stream Sync", 0, 100, category="cuda_sync"),
        activity("nccl:all_reduce", 0, 90, category="gpu_user_annotation"),
    ]
    (after,) = rows(make_run(events), "gpu_time")
    assert after == before
    assert (before["window_nanos"], before["busy_nanos"]) == (25_000, 10_000)


def test_hta_counts_waits_as_a_busy_device() -> None:
    # It takes every event that has a stream, and the window of this trace ends with a wait.
    trace = recorded_trace("critical-path-alexnet")
    (ours,) = rows(open_run(trace), "gpu_time")
    assert ours["window_nanos"] == 12_920_244_000
    theirs = hta(trace).get_temporal_breakdown(visualize=False)
    assert theirs["kernel_time(us)"][0] == 12_996_011


def test_gpu_time_of_devices_and_ranks_is_not_mixed() -> None:
    # HTA adds the devices of a process up, as if one were idle only when all are, and leaves out
    # what comes after the begin of the last step.
    run = make_run(
        *[
            [
                launch(1, 0),
                step(1, 5, 20),
                activity("gemm", 10, 10),
                activity("gemm", 30, 10),
                activity("gemm", 20, 30 + rank, device=1),
            ]
            for rank in (0, 1)
        ],
    )
    columns = ("rank", "device", "window_nanos", "busy_nanos")
    assert sorted(values(rows(run, "gpu_time"), *columns)) == [
        (0, 0, 30_000, 20_000),
        (0, 1, 30_000, 30_000),
        (1, 0, 30_000, 20_000),
        (1, 1, 31_000, 31_000),
    ]


def test_empty_runs_have_no_gpu_time() -> None:
    (row,) = rows(make_run([launch(1, 0), activity("gemm", 10, 0)]), "gpu_time")
    assert (row["window_nanos"], row["busy_nanos"]) == (0, 0)
    assert (row["idle_percent"], row["overlap_percent"]) == (None, None)
    assert rows(make_run([launch(1, 0)]), "gpu_time") == []


def test_gpu_time_needs_no_host_spans() -> None:
    (row,) = rows(make_run([activity("gemm", 10, 5)]), "gpu_time")
    assert row["busy_nanos"] == 5000


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("a100-nccl", 3),
        ("mi250-rocm", 2),
        ("cuda-event-sync", 1),
        ("cpu-only-gloo", 0),
        ("critical-path-alexnet", 0),
        ("triton-kernel-args", 0),
    ],
)
def test_gpu_time_by_step_matches_a_brute_force_count(name: str, count: int) -> None:
    assert check_steps(recorded_run(name)) == count


@pytest.mark.parametrize("seed", range(6))
def test_gpu_time_by_step_of_random_steps_matches_a_brute_force_count(seed: int) -> None:
    # Few moments, so that much begins and ends together; steps of two threads lie in each other and
    # apart.
    chance = random.Random(seed)
    kinds = [
        ("gemm", "kernel"),
        ("ncclDevKernel_AllGather", "kernel"),
        ("Memcpy DtoD", "gpu_memcpy"),
    ]
    events = [launch(1, 0)]
    for _ in range(60):
        name, category = chance.choice(kinds)
        length = chance.choice([0, 1, 2, 5, 60])
        place = {"device": chance.randrange(2), "stream": chance.randrange(3)}
        start = chance.randrange(1, 100)
        events.append(activity(name, start, length, category=category, **place))
    for thread in (0, 1):
        time = 10
        for number in range(8):
            length = chance.choice([0, 1, 7, 15])
            events.append(step(number + 10 * thread, time, length, tid=100 + thread))
            time += length + chance.choice([0, 0, 3])
    assert check_steps(make_run(events)) >= 20


def test_gpu_time_by_step_matches_hand_computed_values() -> None:
    run = make_run(
        [
            launch(1, 0),
            step(1, 100, 100),
            step(2, 200, 100),
            step(3, 350, 50),
            step(4, 500, 10),
            activity("gemm", 50, 60),  # 50-110: 10 of step 1
            # 150-360: 50 of 1, all of 2, 10 of 3
            activity("ncclDevKernel_AllReduce", 150, 210, stream=8),
            activity("gemm", 180, 40),  # 180-220: 20 of 1, 20 of 2
            # 290-310: 10 of 2, the rest between steps
            activity("Memcpy DtoH", 290, 20, stream=9, category="gpu_memcpy"),
            activity("gemm", 395, 200),  # 395-595: 5 of 3, all of 4, and goes on after the last
            activity("gemm", 700, 5),  # after the last
            activity("gemm", 120, 1, device=1),
        ],
    )
    whole = ("duration", "busy", "idle", "compute", "non_compute", "communication", "memory")
    parts = ("exposed_communication", "compute_only", "communication_only", "memory_only")
    answer = documented_rows(run, "gpu_time_by_step")
    found = {(row["number"], row["device"]): row for row in answer}
    assert len(found) == len(answer)
    micros = {
        key: tuple(row[f"{column}_nanos"] // 1000 for column in (*whole, "overlap", *parts))
        for key, row in found.items()
    }
    assert micros == {
        (1, 0): (100, 60, 40, 30, 30, 50, 0, 20, 30, 10, 30, 0),
        (2, 0): (100, 100, 0, 20, 80, 100, 10, 20, 80, 0, 70, 0),
        (3, 0): (50, 15, 35, 5, 10, 10, 0, 0, 10, 5, 10, 0),
        (4, 0): (10, 10, 0, 10, 0, 0, 0, 0, 0, 10, 0, 0),
        (1, 1): (100, 1, 99, 1, 0, 0, 0, 0, 0, 1, 0, 0),
        (2, 1): (100, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (3, 1): (50, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (4, 1): (10, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    }
    percents = {
        "idle_percent": 40.0,
        "compute_percent": 30.0,
        "non_compute_percent": 30.0,
        "overlap_percent": 40.0,
    }
    assert pick_columns(found[1, 0], percents) == percents
    assert found[2, 1]["overlap_percent"] is None


def test_gpu_time_by_step_of_ranks_and_of_empty_steps() -> None:
    run = make_run(
        *[
            [launch(1, 0), step(1, 10, 10), step(2, 20, 0), activity("gemm", 15, 3 + rank)]
            for rank in (0, 1)
        ],
    )
    answer = rows(run, "gpu_time_by_step")
    assert values_by(("rank", "number"), answer, "busy_nanos", "idle_percent") == {
        (0, 1): (3000, 70.0),
        (0, 2): (0, None),
        (1, 1): (4000, 60.0),
        (1, 2): (0, None),
    }


def test_steps_without_devices_have_no_gpu_time() -> None:
    run = make_run([launch(1, 0), step(1, 10, 10), host_span("aten::mm", 12, 2)])
    assert rows(run, "gpu_time_by_step") == []
    run = make_run([launch(1, 0), activity("gemm", 1, 2)])
    assert rows(run, "gpu_time_by_step") == []
