"""The examples of PRISM's documentation, word for word but for the lines that import.

`prism.profiling` is `marey.training`; the trainer and the monitor are those of `prism_trainer`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from prism_trainer import CENTERS, EPOCHS, run_listing
from trace_files import run_rows

torch = pytest.importorskip("torch")

EXAMPLE_1 = """\
from marey.training import TrainingProfiler, ProfilerConfig

# Configure profiler
config = ProfilerConfig(
    enabled=True,
    sample_rate=0.1,  # Profile 10% of epochs
)

profiler = TrainingProfiler(config)

# Create trainer with profiler callback
trainer = PRISMTrainer(
    model=model,
    optimizer=optimizer,
    scheduler=scheduler,
    measurement_system=measurement_system,
    args=args,
    device=device,
    callbacks=[profiler.callback],
)

# Train (profiling happens automatically)
trainer.run_progressive_training(
    target_image=target,
    sample_centers=sample_centers,
)

# Save profile
profiler.save("runs/my_experiment/profile.pt")
print("Profile saved! Analyze with: prism profile analyze runs/my_experiment/profile.pt")
"""

EXAMPLE_2 = """\
from marey.training import TrainingProfiler, ProfilerConfig

profiler = TrainingProfiler(ProfilerConfig(enabled=True))

# Profile specific training phases
for sample_idx, center in enumerate(sample_centers):
    with profiler.profile_region("data_preparation"):
        measurement = measurement_system.measure(image, reconstruction, [center])

    for epoch in range(n_epochs):
        with profiler.profile_region("forward"):
            output = model()

        with profiler.profile_region("loss"):
            loss = criterion(output, measurement)

        with profiler.profile_region("backward"):
            optimizer.zero_grad()
            loss.backward()

        with profiler.profile_region("optimizer"):
            optimizer.step()

profiler.save("detailed_profile.pt")
"""

EXAMPLE_3 = """\
from marey.training import TrainingProfiler, ProfilerConfig

# Create multiple callbacks
profiler = TrainingProfiler(ProfilerConfig(enabled=True))
convergence = ConvergenceMonitor(patience=10)

# Pass all callbacks to trainer
trainer = PRISMTrainer(
    model=model,
    optimizer=optimizer,
    scheduler=scheduler,
    measurement_system=measurement_system,
    args=args,
    device=device,
    callbacks=[
        profiler.callback,      # Profiling
        convergence.callback,   # Convergence monitoring
    ],
)

trainer.run_progressive_training(...)

# Both callbacks collect data independently
profiler.save("profile.pt")
print(f"Converged: {convergence.has_converged}")
"""

EXAMPLE_4 = """\
from marey.training import ProfileAnalyzer
from marey.training.visualization import ProfilePlotter
from marey.training.call_graph import CallGraphBuilder

# Load profile
analyzer = ProfileAnalyzer("my_profile.pt")

# 1. Get summary statistics
summary = analyzer.get_summary()
print(f"Total time: {summary['total_time_ms']:.1f} ms")
print(f"Peak memory: {summary['peak_gpu_memory_mb']:.1f} MB")

# 2. Get top operations
top_ops = analyzer.get_top_operations(n=10)
for i, op in enumerate(top_ops, 1):
    print(f"{i}. {op['name']}: {op['total_ms']:.1f} ms")

# 3. Detect bottlenecks
bottlenecks = analyzer.identify_bottlenecks()
for b in bottlenecks:
    print(f"[{b.severity}] {b.type.value}: {b.description}")
    print(f"  Fix: {b.recommendation}")

# 4. Generate report
report = analyzer.get_efficiency_report()
print(report)

# 5. Create visualizations
plotter = ProfilePlotter(analyzer)
plotter.plot_timing_breakdown().savefig("timing.png")
plotter.plot_memory_timeline().savefig("memory.png")
plotter.create_report("full_report.png")

# 6. Build call graph
builder = CallGraphBuilder()
call_graph = builder.build_from_regions(analyzer.data.region_times)
print(f"Root time: {call_graph.total_time_ms:.1f} ms")
"""

EXAMPLE_5 = """\
from marey.training import ProfileAnalyzer

# Profile before optimization
analyzer_before = ProfileAnalyzer("before_optimization.pt")
before_summary = analyzer_before.get_summary()

# Profile after optimization
analyzer_after = ProfileAnalyzer("after_optimization.pt")
after_summary = analyzer_after.get_summary()

# Compare metrics
print("Optimization Impact:")
print(f"  Time: {before_summary['total_time_ms']:.1f} ms -> {after_summary['total_time_ms']:.1f} ms")
speedup = before_summary['total_time_ms'] / after_summary['total_time_ms']
print(f"  Speedup: {speedup:.2f}x")

memory_reduction = before_summary['peak_gpu_memory_mb'] - after_summary['peak_gpu_memory_mb']
print(f"  Memory saved: {memory_reduction:.1f} MB")

# Compare bottlenecks
before_bottlenecks = analyzer_before.identify_bottlenecks()
after_bottlenecks = analyzer_after.identify_bottlenecks()
print(f"  Bottlenecks fixed: {len(before_bottlenecks) - len(after_bottlenecks)}")
"""  # noqa: E501


def epochs(path: str) -> int:
    ((count,),) = run_rows(path, "SELECT count(*) FROM spans WHERE name = 'epoch'")
    return int(count)


def test_example_1_basic_integration() -> None:
    printed, _ = run_listing(EXAMPLE_1)
    assert printed.startswith("Profile saved!")
    assert 1 <= epochs("runs/my_experiment/profile.pt") < len(CENTERS) * EPOCHS


def test_example_2_custom_regions() -> None:
    run_listing(EXAMPLE_2)
    counts = dict(
        run_rows(
            "detailed_profile.pt",
            "SELECT name, sum(count) FROM top WHERE kind = 'scope' GROUP BY name",
        )
    )
    total = len(CENTERS) * EPOCHS
    assert counts["data_preparation"] == len(CENTERS)
    assert all(counts[name] == total for name in ("forward", "loss", "optimizer"))
    assert counts["backward"] == 2 * total  # the region, and PyTorch's own backward in it


def test_example_3_multiple_callbacks() -> None:
    printed, _ = run_listing(EXAMPLE_3)
    assert printed == "Converged: True\n"
    assert epochs("profile.pt") >= 1


def test_example_4_analysis() -> None:
    run_listing(EXAMPLE_2.replace("detailed_profile.pt", "my_profile.pt"))
    printed, scope = run_listing(EXAMPLE_4)
    lines = printed.splitlines()
    assert lines[0].startswith("Total time: ")
    assert lines[1] == "Peak memory: 0.0 MB"  # of a GPU
    assert lines[2].startswith("1. ")
    assert "Training Profile Report" in printed
    root_ms = sum(
        sum(times) for path, times in scope["analyzer"].data.region_times.items() if "/" not in path
    )
    assert lines[-1] == f"Root time: {root_ms:.1f} ms"
    for name in ("timing.png", "memory.png", "full_report.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")


def test_example_5_comparison() -> None:
    for name in ("before_optimization.pt", "after_optimization.pt"):
        run_listing(EXAMPLE_2.replace("detailed_profile.pt", name))
    printed, scope = run_listing(EXAMPLE_5)
    assert printed.splitlines()[0] == "Optimization Impact:"
    assert scope["speedup"] > 0
    assert "  Bottlenecks fixed: " in printed
