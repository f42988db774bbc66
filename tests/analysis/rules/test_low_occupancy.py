"""The rule `low_occupancy`: kernels that use few warps of a device."""

from __future__ import annotations

import math
from typing import Any

import pytest
from analysed_devices import A100, run_on, shaped
from analyses import Event, gpu_span, make_run, recorded_run, step
from rules import findings_of

RULE = "low_occupancy"


def faulty(**more: Any) -> list[Event]:
    """Makes two steps of 1 ms; `slow` takes 200 us of each, with 64 threads of 108 blocks."""
    return [
        step(1, 0, 1000),
        step(2, 1000, 1000),
        shaped(1, 100, 200, 108, 64, name="slow", **more),
        shaped(2, 1100, 200, 108, 64, name="slow", **more),
        # Fills the device.
        shaped(3, 400, 300, 10_000, 256, name="good"),
        # After the steps.
        shaped(4, 2000, 5000, 108, 64, name="slow", **more),
    ]


def test_a_slow_pattern_is_found() -> None:
    (row,) = findings_of(run_on(faulty(), A100), RULE)
    assert (row["subject"], row["severity"], row["confidence"]) == ("slow", "medium", "possible")
    assert (row["impact_nanos"], row["impact_percent"]) == (200_000, 20)
    # 2 warps of 64; as if it were as fast again as 25 % have more.
    assert math.isclose(row["achieved_percent"], 3.125)
    assert math.isclose(row["gain_nanos"], 200_000 * (1 - 3.125 / 25))
    assert math.isclose(row["device_percent"], 100 * 400 / 700)
    assert (row["limited_by"], row["block"], row["registers"]) == ("grid", "64,1,1", 16)


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = run_on(faulty(), A100)
    assert findings_of(run, RULE, max_occupancy_percent=3.1) == []
    assert len(findings_of(run, RULE, max_occupancy_percent=101)) == 2
    assert findings_of(run, RULE, min_time_percent=58) == []
    assert findings_of(run, RULE, min_percent=21) == []
    assert findings_of(run, RULE, high_percent=19)[0]["severity"] == "high"
    assert findings_of(run, RULE, medium_percent=21)[0]["severity"] == "low"


@pytest.mark.parametrize(
    ("name", "blocks", "is_reported"),
    [
        ("ncclDevKernel_AllReduce(ncclWork*)", 24, False),
        ("cutlass_80_tensorop_s1688gemm", 10_000, False),
        ("cutlass_80_tensorop_s1688gemm", 24, True),
        ("my_kernel", 10_000, True),
    ],
)
def test_kernels_that_need_few_warps_are_no_finding(
    name: str, blocks: int, is_reported: bool
) -> None:
    # 144 KiB: one block of 4 warps.
    event = shaped(1, 0, 100, blocks, 128, name=name, shared=144 * 1024)
    rows = findings_of(run_on([event], A100), RULE)
    assert len(rows) == is_reported


def test_without_steps_shares_refer_to_the_recording() -> None:
    events = [event for event in faulty() if event["cat"] == "kernel"]
    (row,) = findings_of(run_on(events, A100), RULE)
    assert row["impact_nanos"] == 5_400_000
    assert math.isclose(row["impact_percent"], 100 * 5400 / 6900)
    assert row["severity"] == "high"


def test_only_the_five_worst_kernels_are_reported() -> None:
    events = [shaped(at, 100 * at, 50 + at, 10, 64) for at in range(1, 8)]
    rows = findings_of(run_on(events, A100), RULE)
    assert [row["subject"] for row in rows] == ["k7", "k6", "k5", "k4", "k3"]


def test_findings_of_recorded_traces() -> None:
    # What takes long fills the device; NCCL's few blocks are meant so, and gemms of tensor cores
    # are at 12 to 25 % by their registers.
    assert findings_of(recorded_run("a100-nccl"), RULE) == []
    # The two kernels of a microbenchmark: one block each.
    rows = findings_of(recorded_run("cuda-event-sync"), RULE, min_percent=0)
    assert {row["limited_by"] for row in rows} == {"grid"}
    assert "spin_kernel" in rows[0]["subject"]


def test_no_findings_without_data() -> None:
    assert findings_of(recorded_run("cpu-only-gloo"), RULE) == []
    assert findings_of(recorded_run("mi250-rocm"), RULE) == []
    assert findings_of(make_run([step(1, 0, 10), gpu_span("k", 1, 5)]), RULE) == []
    assert findings_of(run_on([shaped(1, 0, 0, 1, 32)], A100), RULE) == []
