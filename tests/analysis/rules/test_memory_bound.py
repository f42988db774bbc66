"""The rule `memory_bound`: kernels that wait for the memory of the device."""

from __future__ import annotations

import math

import pytest
from analyses import Event, gpu_span, kernel, make_run, recorded_run, step
from rules import findings_of

RULE = "memory_bound"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
TANH = "void at::native::elementwise_kernel<128, 2, at::native::tanh_kernel_cuda>(int)"
SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(P)"
GEMM = "ampere_sgemm_128x64_nn"


def faulty() -> list[Event]:
    """Makes two steps of 1 ms, each with 150 us of elementwise kernels and 40 us of sums."""
    return [
        step(1, 0, 1000),
        step(2, 1000, 1000),
        kernel(1, 0, 100, name=ADD),
        kernel(2, 100, 50, name=TANH),
        kernel(3, 1000, 150, name=ADD),
        kernel(4, 200, 80, name=SUM),
        kernel(5, 1200, 420, name=GEMM),
        # After the steps.
        kernel(6, 2000, 900, name=ADD),
    ]


def test_a_slow_pattern_is_found() -> None:
    elementwise, sums = findings_of(make_run(faulty()), RULE)
    assert elementwise["subject"] == "elementwise kernels"
    assert (elementwise["severity"], elementwise["confidence"]) == ("medium", "likely")
    assert (elementwise["impact_nanos"], elementwise["impact_percent"]) == (150_000, 15)
    assert elementwise["gain_nanos"] == 75_000
    assert (elementwise["count"], elementwise["kernel_names"]) == (3, 2)
    assert (elementwise["longest_kernel"], elementwise["mean_nanos"]) == (ADD, 100_000)
    assert math.isclose(elementwise["device_percent"], 37.5)
    assert (sums["subject"], sums["severity"]) == ("reduction kernels", "low")
    assert (sums["impact_nanos"], sums["impact_percent"]) == (40_000, 4)


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(faulty())
    assert len(findings_of(run, RULE, min_time_percent=11)) == 1
    assert findings_of(run, RULE, min_time_percent=38) == []
    assert len(findings_of(run, RULE, min_percent=5)) == 1
    assert findings_of(run, RULE, high_percent=14)[0]["severity"] == "high"
    assert findings_of(run, RULE, medium_percent=16)[0]["severity"] == "low"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        (ADD, "elementwise"),
        ("triton_poi_fused_add_cos_sin_0", "elementwise"),
        ("triton_red_fused_native_layer_norm_3", "normalization"),
        ("triton_per_fused_sum_1", "reduction"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, 10, true>(P)", "softmax"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>(P)", "softmax"),
        (
            "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(P)",
            "normalization",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(P)",
            "normalization",
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda>(P)",
            "copy",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 2, 128, 1>(P)",
            "copy",
        ),
        ("void cudnn::ops::nchwToNhwcKernel<float, float, float>(P)", "copy"),
        (SUM, "reduction"),
        (GEMM, None),
        (
            "void multi_tensor_apply_kernel<PointwiseOpListFunctor<float, 5> >(P)",
            None,
        ),
        ("ncclDevKernel_Reduce_RING_LL_Sum_float(ncclWork*)", None),
        ("void splitKreduce_kernel<32, 16, int, float>(P)", None),
    ],
)
def test_kernel_names_belong_to_families(name: str, family: str | None) -> None:
    rows = findings_of(make_run([kernel(1, 0, 10, name=name)]), RULE)
    assert [row["subject"] for row in rows] == ([] if family is None else [f"{family} kernels"])


def test_devices_and_ranks_are_judged_alone() -> None:
    events = [kernel(1, 0, 10, name=ADD), kernel(2, 10, 5, name=ADD, device=1)]
    rows = findings_of(make_run(events, events), RULE)
    assert [(row["rank"], row["device"], row["impact_nanos"]) for row in rows] == [
        (0, 0, 10_000),
        (1, 0, 10_000),
        (0, 1, 5_000),
        (1, 1, 5_000),
    ]


def test_findings_of_recorded_traces() -> None:
    # ResNet-like, in float32: the kernels between its convolutions.
    rows = findings_of(recorded_run("a100-nccl"), RULE)
    assert [row["subject"] for row in rows] == [
        "normalization kernels",
        "elementwise kernels",
        "copy kernels",
    ]
    # Copies from the host take nearly all of its time.
    assert findings_of(recorded_run("critical-path-alexnet"), RULE) == []


def test_no_findings_without_data() -> None:
    assert findings_of(recorded_run("cpu-only-gloo"), RULE) == []
    assert findings_of(make_run([step(1, 0, 10), gpu_span("k", 1, 5)]), RULE) == []
    assert findings_of(make_run([kernel(1, 0, 0, name=ADD)]), RULE) == []
