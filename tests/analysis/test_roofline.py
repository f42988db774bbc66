"""The views `roofline` and `mfu`, compared with hand-computed values."""

from __future__ import annotations

import math
from typing import Any

from analysed_devices import A100, run_on
from analyses import Event, Row, gpu_span, host_span, kernel, launch, make_run, recorded_run, step
from analyses import rows as view

HALF = "c10::Half"
TF32, FP16, BANDWIDTH = 156e12, 312e12, 1555e9


def multiplied(
    number: int,
    start: float,
    duration: float,
    rows: int,
    inner: int,
    columns: int,
    dtype: str = "float",
    **more: Any,
) -> list[Event]:
    """Makes a linear layer: it calls aten::addmm, which launches a kernel of this duration."""
    shape: dict[str, Any] = {
        "Input Dims": [[columns], [rows, inner], [inner, columns], [], []],
        "Input type": [dtype, dtype, dtype, "Scalar", "Scalar"],
    }
    outer: dict[str, Any] = {
        "Input Dims": [[rows, inner], [columns, inner], [columns]],
        "Input type": [dtype] * 3,
    }
    thread = more.pop("thread", 100)
    return [
        host_span("aten::linear", start, 9, tid=thread, **outer),
        host_span("aten::addmm", start + 1, 7, tid=thread, **shape),
        launch(number, start + 2, tid=thread),
        kernel(number, start + 20, duration, **more),
    ]


def one(found: list[Row], name: str, device: int = 0) -> Row:
    (row,) = [row for row in found if (row["name"], row["device"]) == (name, device)]
    return row


def test_costs_of_a_sample_are_extrapolated_and_marked() -> None:
    def events(steps: int) -> list[Event]:
        found = [step(number, number * 100_000, 100_000) for number in range(steps)]
        for number in range(steps):
            of_step = multiplied(number + 1, number * 100_000, 10_000, 4096, 4096, 4096)
            if number > 0:  # the other steps are not in the sample
                for event in of_step[:2]:
                    del event["args"]["Input Dims"], event["args"]["Input type"]
            found += of_step
        return found

    flops = 2 * 4096**3
    sampled = run_on(events(4), A100, operator_shapes="sampled")
    row = one(view(sampled, "roofline"), "aten::addmm")
    assert (row["calls"], row["known_calls"], row["is_extrapolated"]) == (4, 1, True)
    assert row["flops"] == 4 * flops
    (mfu,) = view(sampled, "mfu")
    assert mfu["flops_per_step"] == flops
    assert mfu["covered_percent"] == 100
    assert mfu["method"].startswith("operator shapes of a sample of the steps, extrapolated; ")

    recorded = run_on(events(4), A100)
    row = one(view(recorded, "roofline"), "aten::addmm")
    assert (row["flops"], row["is_extrapolated"]) == (flops, False)
    (mfu,) = view(recorded, "mfu")
    assert (mfu["flops_per_step"], mfu["covered_percent"]) == (flops / 4, 25)
    assert mfu["method"].startswith("operator shapes, as recorded; ")


def test_operators_with_an_overload_have_a_cost() -> None:
    events = multiplied(1, 0, 10_000, 4096, 4096, 4096)
    events[1]["name"] = "aten::addmm.out"
    row = one(view(run_on(events, A100), "roofline"), "aten::addmm.out")
    assert row["flops"] == 2 * 4096**3


def test_operators_are_compared_with_the_peaks() -> None:
    events = [
        # 2 x 4096^3 FLOP in 10 ms; twice.
        *multiplied(1, 0, 10_000, 4096, 4096, 4096),
        *multiplied(2, 20_000, 10_000, 4096, 4096, 4096),
        # Without shapes, and in a place of its own.
        host_span("aten::relu", 40_000, 9),
        launch(3, 40_001),
        kernel(3, 50_000, 500),
    ]
    found = view(run_on(events, A100), "roofline")
    # What only calls others has no row, and its FLOP do not count again.
    assert sorted(row["name"] for row in found) == ["aten::addmm", "aten::relu"]
    row = one(found, "aten::addmm")
    assert (row["calls"], row["known_calls"], row["count"]) == (2, 2, 2)
    assert row["total_nanos"] == 20_000_000
    flops, moved = 2 * 2 * 4096**3, 2 * 4 * (3 * 4096**2 + 4096)
    assert (row["flops"], row["bytes"]) == (flops, moved)
    assert math.isclose(row["arithmetic_intensity"], flops / moved)
    assert math.isclose(row["flops_per_second"], flops / 20e-3)
    assert math.isclose(row["bytes_per_second"], moved / 20e-3)
    assert math.isclose(row["peak_flops_percent"], 100 * flops / 20e-3 / TF32)
    assert math.isclose(row["peak_bandwidth_percent"], 100 * moved / 20e-3 / BANDWIDTH)
    assert math.isclose(row["ridge_point"], TF32 / BANDWIDTH)
    assert row["bound"] == "compute"
    row = one(found, "aten::relu")
    assert (row["calls"], row["known_calls"], row["total_nanos"]) == (1, 0, 500_000)
    assert (row["flops"], row["bytes"], row["bound"]) == (None, None, None)
    assert row["peak_flops_percent"] is row["peak_bandwidth_percent"] is None


def test_kernels_share_the_cost_of_their_operator() -> None:
    """Cost is shared by duration, so both kernels have the operator's distance from the peak."""
    events = [
        *multiplied(1, 0, 30, 256, 256, 256, name="gemm"),
        launch(2, 5),
        kernel(2, 60, 10, name="reduce"),
    ]
    run = run_on(events, A100)
    kernels = {row["name"]: row for row in view(run, "kernel_roofline")}
    assert {row["operator"] for row in kernels.values()} == {"aten::addmm"}
    for name, share in (("gemm", 0.75), ("reduce", 0.25)):
        row = kernels[name]
        assert math.isclose(row["flops"], 2 * 256**3 * share, rel_tol=1e-6)
        assert math.isclose(row["compute_nanos"], 1e9 * row["flops"] / TF32)
        assert math.isclose(row["memory_nanos"], 1e9 * row["bytes"] / BANDWIDTH)
        assert math.isclose(
            row["peak_flops_percent"], 100 * 2 * 256**3 / TF32 / 40e-6, rel_tol=1e-6
        )
        assert row["count"] == 1
    whole = one(view(run, "roofline"), "aten::addmm")
    for column in ("flops", "bytes", "total_nanos", "count", "calls"):
        found = sum(row[column] for row in kernels.values())
        assert math.isclose(found, whole[column], rel_tol=1e-9), column


def test_kernels_have_the_cost_of_the_call_that_launched_them() -> None:
    """Two calls of one operator with other shapes; kernels name their call by external id."""
    events: list[Event] = []
    for number, size, name in ((1, 64, "small"), (2, 256, "large")):
        call: dict[str, Any] = {"External id": 70 + number}
        shape: dict[str, Any] = {"Input Dims": [[size, size]] * 2, "Input type": ["float"] * 2}
        start = 100 * number
        events += [
            host_span("aten::mm", start, 9, **shape, **call),
            launch(number, start + 2),
            gpu_span(name, start + 20, 10, correlation=number, **call),
        ]
    run = run_on(events, A100)
    found = {row["name"]: row["flops"] for row in view(run, "kernel_roofline")}
    assert found == {"small": 2 * 64**3, "large": 2 * 256**3}
    assert one(view(run, "roofline"), "aten::mm")["flops"] == 2 * 64**3 + 2 * 256**3


def test_low_arithmetic_intensity_is_bound_by_memory() -> None:
    run = run_on(multiplied(1, 0, 100, 1, 4096, 4096), A100)
    row = one(view(run, "roofline"), "aten::addmm")
    assert row["arithmetic_intensity"] < 1
    assert row["bound"] == "memory"


def test_peaks_depend_on_the_type() -> None:
    events = [
        *multiplied(1, 0, 1000, 1024, 1024, 1024),
        *multiplied(2, 2000, 1000, 1024, 1024, 1024, HALF),
    ]
    row = one(view(run_on(events, A100), "roofline"), "aten::addmm")
    each = 2 * 1024**3
    assert math.isclose(row["peak_flops_percent"], 100 * (each / TF32 + each / FP16) / 2e-3)
    # Both at once: between the ridges of the two.
    memory = row["bytes"] / BANDWIDTH
    least = each / TF32 + each / FP16
    assert math.isclose(row["ridge_point"], 2 * each / least / (row["bytes"] / memory))


def test_devices_without_known_peaks_have_no_bound() -> None:
    unknown = {**A100, "name": "Nobody's"}
    for run in [
        run_on(multiplied(1, 0, 10, 8, 8, 8), unknown),
        make_run(multiplied(1, 0, 10, 8, 8, 8)),
    ]:
        row = one(view(run, "roofline"), "aten::addmm")
        assert row["flops"] == 1024
        assert math.isclose(row["flops_per_second"], 1024 / 10e-6)
        assert row["peak_flops_percent"] is row["peak_bandwidth_percent"] is None
        assert row["ridge_point"] is row["bound"] is None


def test_devices_share_the_cost_of_one_call() -> None:
    events = [
        *multiplied(1, 0, 30, 64, 64, 64),
        *multiplied(2, 100, 10, 64, 64, 64, device=1),
        *multiplied(3, 200, 0, 64, 64, 64),
    ]
    found = view(run_on(events, A100, A100), "roofline")
    flops = [one(found, "aten::addmm", device)["flops"] for device in (0, 1)]
    assert math.isclose(flops[0], 3 * 2 * 64**3 * 0.75, rel_tol=1e-6)
    assert math.isclose(flops[1], 3 * 2 * 64**3 * 0.25, rel_tol=1e-6)


def test_ranks_are_not_mixed() -> None:
    ranks = [multiplied(1, 0, 10, size, size, size) for size in (8, 16)]
    found = view(make_run(*ranks), "roofline")
    assert {row["rank"]: row["flops"] for row in found} == {0: 1024, 1: 8192}


def test_mfu_of_steps_matches_hand_computed_values() -> None:
    events = [
        step(1, 0, 20_000),
        step(2, 20_000, 20_000),
        *multiplied(1, 0, 10_000, 4096, 4096, 4096, HALF),
        *multiplied(2, 20_000, 10_000, 4096, 4096, 4096, HALF, thread=200),
        # Of another type, and less.
        *multiplied(3, 31_000, 1_000, 1024, 1024, 1024),
        # Before and after the steps, in a place that there is in them, too.
        *multiplied(4, 40_000, 10_000, 4096, 4096, 4096, HALF, thread=200),
        *multiplied(7, -15_000, 10_000, 4096, 4096, 4096, HALF, thread=200),
        # An operator of unknown shapes, and communication, which has no FLOP.
        host_span("my::op", 12_000, 9),
        launch(5, 12_001),
        kernel(5, 13_000, 4_000),
        launch(6, 12_005),
        kernel(6, 19_000, 900, name="ncclDevKernel_AllReduce(ncclWork*)"),
    ]
    (row,) = view(run_on(events, A100), "mfu")
    flops = 2 * 2 * 4096**3 + 2 * 1024**3
    assert (row["step_count"], row["step_nanos"], row["devices"]) == (2, 20_000_000, 1)
    assert math.isclose(row["flops_per_step"], flops / 2)
    assert math.isclose(row["flops_per_second"], flops / 40e-3)
    assert (row["dtype_bits"], row["peak_flops_per_second"]) == (16, FP16)
    assert math.isclose(row["mfu_percent"], 100 * flops / 40e-3 / FP16)
    assert (row["covered_nanos"], row["device_nanos"]) == (21_000_000, 25_000_000)
    assert math.isclose(row["covered_percent"], 84)
    assert "21.0 of 25.0 ms" in row["method"]


def test_mfu_sums_the_peaks_of_several_devices() -> None:
    events = [
        step(1, 0, 1000),
        *multiplied(1, 0, 100, 512, 512, 512),
        *multiplied(2, 100, 100, 512, 512, 512, device=1),
    ]
    (row,) = view(run_on(events, A100, A100, A100), "mfu")
    assert (row["devices"], row["peak_flops_per_second"]) == (2, 2 * TF32)
    assert math.isclose(row["flops_per_step"], 2 * 2 * 512**3)
    # Without the peak of one of them there is none of both.
    (row,) = view(run_on(events, A100), "mfu")
    assert (row["devices"], row["peak_flops_per_second"], row["mfu_percent"]) == (2, None, None)


def test_without_shapes_steps_or_devices_there_are_no_rows() -> None:
    # Steps and kernels, no shapes: as it was recorded.
    (row,) = view(recorded_run("a100-nccl"), "mfu")
    assert (row["step_count"], row["covered_nanos"]) == (3, 0)
    assert row["flops_per_step"] is row["mfu_percent"] is row["dtype_bits"] is None
    # No steps.
    assert view(recorded_run("critical-path-alexnet"), "mfu") == []
    # No devices.
    assert view(recorded_run("cpu-only-gloo"), "mfu") == []
    assert view(recorded_run("cpu-only-gloo"), "roofline") == []
    # Without a host the launch is unknown.
    assert view(make_run([gpu_span("k", 0, 10)]), "roofline") == []
