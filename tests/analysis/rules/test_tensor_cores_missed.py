"""The rule `tensor_cores_missed`: matrix products without tensor cores."""

from __future__ import annotations

import math

import pytest
from analysed_devices import A100, MI250, P100, RTX_4090, V100, Properties, run_on
from analyses import Event, gpu_span, kernel, make_run, recorded_run, step
from rules import findings_of

RULE = "tensor_cores_missed"


def faulty() -> list[Event]:
    """Makes two steps of 1 ms, each with 200 us of products and 50 us of convolutions."""
    return [
        step(1, 0, 1000),
        step(2, 1000, 1000),
        kernel(1, 0, 120, name="ampere_sgemm_128x64_nn"),
        kernel(2, 200, 80, name="ampere_sgemm_32x32_sliced1x4_tn"),
        kernel(3, 1000, 200, name="ampere_sgemm_128x64_nn"),
        kernel(4, 300, 100, name="cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1"),
        kernel(5, 1300, 500, name="cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4"),
        # After the steps.
        kernel(6, 2000, 900, name="ampere_sgemm_128x64_nn"),
    ]


def test_a_slow_pattern_is_found() -> None:
    products, convolutions = findings_of(run_on(faulty(), A100), RULE)
    assert (products["subject"], products["operation"]) == (
        "ampere_sgemm_128x64_nn",
        "matrix product",
    )
    assert (products["severity"], products["confidence"]) == ("medium", "possible")
    assert (products["impact_nanos"], products["impact_percent"]) == (200_000, 20)
    assert products["gain_nanos"] == 175_000
    assert (products["count"], products["kernel_names"]) == (3, 2)
    assert math.isclose(products["device_percent"], 40)
    assert products["compute_capability"] == "8.0"
    assert (convolutions["operation"], convolutions["severity"]) == ("convolution", "low")
    assert (convolutions["impact_nanos"], convolutions["impact_percent"]) == (50_000, 5)


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = run_on(faulty(), A100)
    assert len(findings_of(run, RULE, min_time_percent=11)) == 1
    assert findings_of(run, RULE, min_time_percent=41) == []
    assert len(findings_of(run, RULE, min_percent=6)) == 1
    assert findings_of(run, RULE, high_percent=19)[0]["severity"] == "high"
    assert findings_of(run, RULE, medium_percent=21)[0]["severity"] == "low"


@pytest.mark.parametrize(
    ("name", "is_missed"),
    [
        ("volta_sgemm_64x64_nt", True),
        ("volta_hgemm_64x64_nt", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(P)", True),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", True),
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3>(int)", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_aligna4", True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_g1_tensor16x8x8", False),
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize96x128x32_tensor16x8x16", False),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", False),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", False),
        ("turing_h1688gemm_128x128_ldg8_nn", False),
        ("void cutlass::Kernel<cutlass_80_wmma_tensorop_s161616gemm_f16_16x16>(P)", False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1", False),
        ("sm90_xmma_gemm_tf32tf32_tf32f32_f32_tn_n_tilesize128x128x32_stage4", False),
        ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", False),
        ("volta_dgemm_64x64_nn", False),
        ("ampere_gcgemm_64x64_nt", False),
        ("void gemv2T_kernel_val<int, int, float>(P)", False),
        ("void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", False),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN", False),
        ("void at::native::vectorized_elementwise_kernel<4, float>(int)", False),
    ],
)
def test_data_loader_names_are_recognised(name: str, is_missed: bool) -> None:
    rows = findings_of(run_on([kernel(1, 0, 10, name=name)], A100), RULE)
    assert [row["subject"] for row in rows] == [name] * is_missed


@pytest.mark.parametrize(
    ("device", "gain"),
    [(V100, 7 / 8), (A100, 7 / 8), (RTX_4090, 3 / 4), (P100, None), (MI250, None)],
)
def test_only_devices_with_tensor_cores_have_findings(
    device: Properties, gain: float | None
) -> None:
    run = run_on([kernel(1, 0, 10, name="some_sgemm")], device)
    # Before Volta there are no tensor cores, and elsewhere they have other names.
    gains = [row["gain_nanos"] for row in findings_of(run, RULE)]
    assert gains == ([] if gain is None else [10_000 * gain])


def test_findings_of_recorded_traces() -> None:
    # TF32 is on: s1688, tf32 and the like; what is left of sgemm takes less than 5 %.
    assert findings_of(recorded_run("a100-nccl"), RULE) == []
    # Float32 without TF32 for its linear layers, and copies that take far longer.
    run = recorded_run("critical-path-alexnet")
    assert findings_of(run, RULE) == []
    rows = findings_of(run, RULE, min_time_percent=2, min_percent=0)
    assert {row["subject"] for row in rows} == {
        "ampere_sgemm_32x32_sliced1x4_tn",
        "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
    }


def test_no_findings_without_data() -> None:
    assert findings_of(recorded_run("cpu-only-gloo"), RULE) == []
    # Of another vendor.
    assert findings_of(recorded_run("mi250-rocm"), RULE, min_time_percent=0, min_percent=0) == []
    # Of an unknown device.
    assert findings_of(make_run([step(1, 0, 10), gpu_span("some_sgemm", 1, 5)]), RULE) == []
    assert findings_of(run_on([kernel(1, 0, 0, name="some_sgemm")], A100), RULE) == []
