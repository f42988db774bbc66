"""The rule `hot_operation`: operations that take a large share of the step."""

from __future__ import annotations

from typing import Any

import pytest
from analyses import Event, Row, gpu_span, host_span, make_run, open_run, recorded_run, step, values
from paths import DATA, FORMATS_DATA
from rules import findings_of

RULE = "hot_operation"


def trained(*events: Event) -> list[Event]:
    """Makes two steps of 1000 us with the given events."""
    return [step(0, 0, 1000), step(1, 1000, 1000), *events]


def brief(answer: list[Row]) -> list[Any]:
    return values(answer, "subject", "side", "kind", "severity", "impact_nanos", "gain_nanos")


def test_host_operations_match_hand_computed_values() -> None:
    # `outer` has 300 us, but itself 100 + 20 only; `inner` 200 + 500 of 2000 us.
    events = trained(
        host_span("outer", 100, 300),
        host_span("inner", 150, 200),
        host_span("outer", 1000, 520),
        host_span("inner", 1010, 500),
    )
    [row] = findings_of(make_run(events), RULE)
    assert brief([row]) == [("inner", "host", "operator", "high", 350_000, 350_000)]
    assert row["impact_percent"] == pytest.approx(35)
    assert (row["count"], row["mean_nanos"], row["device"]) == (2, 350_000, None)


def test_kernels_match_hand_computed_values() -> None:
    # At the same time on two streams it counts once: 300 us; and its last ends after the steps.
    events = trained(
        gpu_span("gemm", 100, 200),
        gpu_span("gemm", 200, 200, stream=8),
        gpu_span("norm", 500, 100),
        gpu_span("tail", 1700, 900),
        # Kernels that do not compute are covered by other rules.
        gpu_span("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 600, 1000),
        gpu_span("Memcpy HtoD (Pageable -> Device)", 600, 1000, category="gpu_memcpy"),
    )
    assert brief(findings_of(make_run(events), RULE)) == [
        ("gemm", "device", "kernel", "medium", 150_000, 150_000),
        ("tail", "device", "kernel", "medium", 150_000, 150_000),
    ]


def test_each_device_is_judged_alone() -> None:
    events = trained(gpu_span("gemm", 0, 600), gpu_span("gemm", 0, 150, device=1))
    answer = findings_of(make_run(events), RULE)
    assert [(row["device"], row["impact_nanos"]) for row in answer] == [(0, 300_000)]


def test_the_host_cannot_gain_what_the_device_needs() -> None:
    # The device is busy for 1700 of 2000 us.
    events = trained(host_span("op", 100, 800), gpu_span("k", 0, 1700))
    answer = {row["subject"]: row for row in findings_of(make_run(events), RULE)}
    assert answer["op"]["impact_nanos"] == 400_000
    assert answer["op"]["gain_nanos"] == 150_000
    assert answer["k"]["gain_nanos"] == 850_000


def test_waits_annotations_and_other_threads_are_no_hot_operations() -> None:
    frame: dict[str, Any] = {"category": "python_function"}
    events = trained(
        host_span("cudaDeviceSynchronize", 0, 900, category="cuda_runtime"),
        host_span(
            "<built-in method acquire of _thread.lock object at 0x1>", 0, 900, tid=101, **frame
        ),
        host_span("nccl:all_reduce", 0, 900, category="user_annotation", tid=102),
        host_span("PyTorch Profiler (0)", 0, 1900, category="Trace", tid=103),
        host_span("before", -900, 900, tid=104),
        host_span("after", 2000, 900, tid=104),
    )
    assert findings_of(make_run(events), RULE) == []
    # What only sounds like it does.
    frames = host_span("<built-in method acquired of X object>", 0, 900, tid=101, **frame)
    answer = findings_of(make_run(trained(frames, host_span("nccl_op", 0, 900, tid=102))), RULE)
    assert len(answer) == 2


def test_waiting_for_the_backward_thread_is_ignored() -> None:
    node = host_span("autograd::engine::evaluate_function: AddBackward0", 100, 700, tid=101)
    inner = host_span("aten::add", 100, 600, tid=101)
    backward = host_span("## backward ##", 50, 800, category="user_annotation")
    answer = findings_of(make_run(trained(backward, node, inner)), RULE)
    assert brief(answer) == [("aten::add", "host", "operator", "medium", 300_000, 300_000)]
    # What the other thread does not account for is its own.
    answer = findings_of(make_run(trained(backward)), RULE)
    assert brief(answer) == [("## backward ##", "host", "scope", "high", 400_000, 400_000)]


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(trained(host_span("op", 100, 400)))
    assert [row["severity"] for row in findings_of(run, RULE)] == ["medium"]
    assert [row["severity"] for row in findings_of(run, RULE, high_percent=19)] == ["high"]
    assert findings_of(run, RULE, medium_percent=20) == []
    run = make_run(trained(host_span("op", 100, 200)))  # 10 %
    assert findings_of(run, RULE) == []
    assert [row["severity"] for row in findings_of(run, RULE, medium_percent=9)] == ["medium"]


def test_without_steps_shares_refer_to_the_recording() -> None:
    run = make_run([host_span("a", 0, 700), host_span("b", 900, 100)])
    assert brief(findings_of(run, RULE)) == [("a", "host", "operator", "high", 700_000, 700_000)]


def test_each_rank_is_judged_alone() -> None:
    run = make_run(trained(host_span("a", 0, 100)), trained(host_span("a", 0, 500)))
    assert [(row["rank"], row["impact_nanos"]) for row in findings_of(run, RULE)] == [(1, 250_000)]


def test_a_profile_without_times_has_findings_from_its_sums() -> None:
    folder = FORMATS_DATA
    # Of 76.5 s, of which the steps themselves are 0.5.
    [row] = findings_of(open_run(folder / "train.hatchet"), RULE)
    assert (row["subject"], row["kind"], row["severity"]) == ('evaluate "quick"', "scope", "high")
    assert row["impact_nanos"] == row["gain_nanos"] == 75_002_000_000
    assert row["impact_percent"] == pytest.approx(98.0239, abs=1e-4)
    answer = findings_of(open_run(folder / "pprof" / "go-cpu.pb.gz"), RULE)
    assert [row["subject"] for row in answer] == ["main.spin", "runtime.asyncPreempt"]
    assert [row["impact_percent"] for row in answer] == pytest.approx([700 / 13, 600 / 13])
    # No times in it.
    assert findings_of(open_run(folder / "collapsed" / "perf.txt"), RULE) == []


def test_findings_of_recorded_traces() -> None:
    # cudaLaunchKernel waits as the queue is full: the device has little time left to gain.
    path = DATA / "kineto" / "v100-fractional-us.json.gz"
    if path.exists():
        answer = findings_of(open_run(path), RULE)
        assert [row["subject"] for row in answer] == ["cudaLaunchKernel", "cudaMemcpyAsync"]
    # Gloo's time is that of waiting for the other rank.
    assert findings_of(recorded_run("cpu-only-gloo"), RULE) == []
    [row] = findings_of(recorded_run("a100-nccl"), RULE)
    assert (row["subject"], row["severity"]) == ("## backward ##", "medium")
    assert row["impact_percent"] == pytest.approx(12.05, abs=0.01)


def test_no_findings_without_data() -> None:
    assert findings_of(make_run([step(0, 0, 0), host_span("op", 0, 0)]), RULE) == []
    # A tree without times.
    path = FORMATS_DATA / "proton.hatchet"
    assert findings_of(open_run(path), RULE) == []
