"""Training loops with a GPU: kernels of a sample, memory of devices, events that are late."""

from __future__ import annotations

import dataclasses

import pytest
from gpu_programs import run
from marey import _torch_memory
from marey.training import ProfileAnalyzer, ProfilerConfig, TrainingProfiler
from torch_devices import MIB, Device
from trace_files import run_rows
from training_loops import FILE, analysed

torch = pytest.importorskip("torch")

HALF = ProfilerConfig(sample_rate=0.5, adaptive_sampling=False, export_chrome_trace=False)


def test_kernels_of_a_sample_are_extrapolated_and_nothing_waits_for_the_gpu() -> None:
    program = """
        from marey.training import ProfilerConfig, TrainingProfiler

        config = ProfilerConfig(
            sample_rate=0.5, adaptive_sampling=False, export_chrome_trace=False
        )
        profiler = TrainingProfiler(config)
        waits = "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"
        calls = 0
        for epoch in range(40):
            profiler.callback.on_epoch_begin(epoch)
            with profiler.profile_region("train/forward"):
                double.launch("gemm", 3000)
                with profiler.profile_region("inner"):
                    double.launch("add", 1000)
            profiler.callback.on_epoch_end(epoch)
            if epoch == 38:
                calls = sum(map(double.calls, waits))
        print(calls, double.calls("cuLaunchKernel"))
        profiler.save("profile.pt")
    """
    printed = run(program, "clock real")
    assert printed.split()[0] == "0"
    analyzer = ProfileAnalyzer(FILE)
    summary = analyzer.get_summary()
    recorded = summary["total_samples"]
    assert recorded in (20, 21)
    kernels = "SELECT count(*) FROM gpu_activities WHERE kind = 'kernel'"
    assert run_rows(FILE, kernels) == [(2 * recorded,)], "a launch of another epoch was recorded"
    assert summary["gpu_time_ms"] == pytest.approx(40 * 0.004)
    gpu_ms = {each["name"]: each["gpu_ms"] for each in analyzer.get_top_operations(100)}
    assert gpu_ms["train/forward"] == pytest.approx(40 * 0.004)
    assert gpu_ms["inner"] == pytest.approx(40 * 0.001)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """The memory of a GPU."""
    double = Device()
    allocator = _torch_memory.Allocator("cuda", lambda: True, lambda: 2, double.counters)
    monkeypatch.setattr(_torch_memory, "find_allocator", lambda _: allocator)
    return double


@pytest.mark.parametrize("leaks_mib", [0, 16])
def test_memory_of_a_gpu_has_a_peak_and_leaks_in_epochs_that_were_not_recorded(
    device: Device, leaks_mib: int
) -> None:
    profiler = TrainingProfiler(dataclasses.replace(HALF, collect_gpu_ops=False))
    device.allocate(100)
    for _ in range(40):
        profiler.callback.on_epoch_begin()
        device.allocate(50 + leaks_mib)
        device.allocate(-50)
        profiler.callback.on_epoch_end()
    analyzer = analysed(profiler)
    summary = analyzer.get_summary()
    recorded_peak = (
        150 * MIB + max(epoch.number for epoch in analyzer.data.epochs) * leaks_mib * MIB
    )
    assert recorded_peak <= summary["peak_gpu_memory_mb"] * 1e6 <= device.peak
    assert summary["memory_leak_detected"] == (leaks_mib > 0)
    if leaks_mib:
        (leak,) = (
            each for each in analyzer.identify_bottlenecks() if each.type.value == "memory_leak"
        )
        slope_mb = leaks_mib * MIB / 1e6
        assert leak.description.startswith(f"Memory leak on cuda:0: {slope_mb:.1f} MB/epoch")
