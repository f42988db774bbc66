"""The listings of PRISM's guide besides its five examples, word for word but for the imports."""

from __future__ import annotations

from typing import Any

import pytest
from marey.training import ProfileAnalyzer, ProfilerConfig, TrainingProfiler
from paths import DATA, ROOT
from prism_trainer import CENTERS, EPOCHS, run_listing
from trace_files import run_rows
from training_loops import kinds, trained

torch = pytest.importorskip("torch")

INSTALLATION = """\
from marey.training import TrainingProfiler, ProfilerConfig

# Should import without errors
print("Profiler installed successfully!")
"""

PROGRAMMATIC = """\
from marey.training import TrainingProfiler, ProfilerConfig

# 1. Configure profiler
config = ProfilerConfig(
    enabled=True,
    sample_rate=0.1,          # Profile 10% of epochs
    collect_memory=True,       # Track GPU memory
    collect_timing=True,       # Collect timing data
    collect_gpu_ops=True,      # Detailed operator stats
    adaptive_sampling=True,    # More sampling during early training
)

# 2. Create profiler instance
profiler = TrainingProfiler(config)

# 3. Pass callback to trainer
trainer = PRISMTrainer(
    model=model,
    optimizer=optimizer,
    scheduler=scheduler,
    measurement_system=measurement_system,
    args=args,
    device=device,
    callbacks=[profiler.callback],  # Add profiler callback
)

# 4. Run training (profiling happens automatically)
trainer.run_progressive_training(...)

# 5. Save profile data
profiler.save("my_profile.pt")
print("Profile saved! Analyze with: prism profile analyze my_profile.pt")
"""

REGIONS = """\
from marey.training import TrainingProfiler, ProfilerConfig

profiler = TrainingProfiler(ProfilerConfig(enabled=True))

# Profile custom regions
with profiler.profile_region("data_loading"):
    data = load_batch()

with profiler.profile_region("forward_pass"):
    output = model(data)

with profiler.profile_region("backward_pass"):
    loss.backward()

# Save and analyze
profiler.save("custom_regions.pt")
"""

CONFIGURATIONS = {
    "minimal overhead": """\
config = ProfilerConfig(
    enabled=True,
    sample_rate=0.05,          # Only 5% of epochs
    collect_gpu_ops=False,     # Skip detailed operator stats
    with_flops=False,          # Skip FLOP estimation
)
""",
    "debugging": """\
config = ProfilerConfig(
    enabled=True,
    sample_rate=0.5,           # Profile 50% of epochs
    cuda_sync_per_epoch=True,  # Sync more frequently
    record_shapes=True,        # Record tensor shapes
    with_flops=True,           # Estimate FLOPs
    bottleneck_threshold_pct=5.0,  # Stricter detection
)
""",
    "memory leaks": """\
config = ProfilerConfig(
    enabled=True,
    collect_memory=True,       # Essential for leak detection
    sample_rate=0.2,           # More samples for regression
    memory_leak_threshold_mb=5.0,  # Sensitive threshold
)
""",
    "no CUDA device": """\
config = ProfilerConfig(
    enabled=True,
    use_cuda_events=False,  # Disable CUDA timing
    collect_gpu_ops=False,  # No GPU operators
)
""",
    "slow training": """\
config = ProfilerConfig(
    enabled=True,
    sample_rate=0.05,          # Reduce from 0.1 to 0.05
    cuda_sync_per_epoch=False,  # Must be False for low overhead
    collect_gpu_ops=False,     # Disable if not needed
)
""",
    "too many bottlenecks": """\
config = ProfilerConfig(
    enabled=True,
    bottleneck_threshold_pct=20.0,  # Increase from 10.0
)
""",
    "large traces": """\
config = ProfilerConfig(
    enabled=True,
    sample_rate=0.05,  # Smaller profile
)
""",
}

SAVE_ON_ERROR = """\
try:
    trainer.run_progressive_training(...)
finally:
    profiler.save("profile_partial.pt")  # Save even on error
"""

CRITICAL = """\
bottlenecks = analyzer.identify_bottlenecks()
critical = [b for b in bottlenecks if b.severity == "high"]
print(f"Critical bottlenecks: {len(critical)}")
"""


def count(path: str, name: str) -> int:
    ((number,),) = run_rows(path, f"SELECT count(*) FROM spans WHERE name = '{name}'")
    return int(number)


def test_the_installation_is_verified() -> None:
    printed, _ = run_listing(INSTALLATION)
    assert printed == "Profiler installed successfully!\n"


def test_programmatic_usage() -> None:
    printed, names = run_listing(PROGRAMMATIC)
    assert printed.startswith("Profile saved!")
    recorded = count("my_profile.pt", "epoch")
    summary = ProfileAnalyzer("my_profile.pt").get_summary()
    assert 1 <= recorded == summary["total_samples"] < summary["total_epochs"]
    assert summary["total_epochs"] == len(CENTERS) * EPOCHS
    assert summary["peak_host_memory_mb"] > 0, "memory is read without a GPU too"
    assert names["config"].adaptive_sampling


def test_regions_without_a_trainer_are_all_recorded() -> None:
    model = torch.nn.Linear(4, 1)
    names = {"load_batch": lambda: torch.ones(2, 4), "model": model}
    run_listing(REGIONS, loss=model(torch.ones(2, 4)).sum(), **names)
    for region in ("data_loading", "forward_pass", "backward_pass"):
        assert count("custom_regions.pt", region) == 1


@pytest.mark.parametrize("purpose", CONFIGURATIONS)
def test_each_documented_configuration_records(purpose: str) -> None:
    _, names = run_listing(CONFIGURATIONS[purpose], ProfilerConfig=ProfilerConfig)
    config: ProfilerConfig = names["config"]
    path = trained(config, epochs=30)
    summary = ProfileAnalyzer(path).get_summary()
    assert 1 <= summary["total_samples"] <= summary["total_epochs"] == 30
    assert config.collect_gpu_ops or "operator" not in kinds(path)


def test_a_profile_is_saved_when_the_training_fails() -> None:
    profiler = TrainingProfiler()

    class Trainer:
        def run_progressive_training(self, _target: Any) -> None:
            profiler.callback.on_epoch_start(0)
            with profiler.profile_region("forward"):
                raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        run_listing(SAVE_ON_ERROR, trainer=Trainer(), profiler=profiler)
    assert count("profile_partial.pt", "forward") == 1


def test_bottlenecks_are_selected_by_severity() -> None:
    trace = DATA / "kineto" / "diff-after.json.gz"  # of six steps
    analyzer = ProfileAnalyzer(trace, ProfilerConfig(bottleneck_threshold_pct=1.0))
    printed, names = run_listing(CRITICAL, analyzer=analyzer)
    severities = [each.severity for each in names["bottlenecks"]]
    assert 1 <= severities.count("high") < len(severities)
    assert printed == f"Critical bottlenecks: {severities.count('high')}\n"


def test_the_listing_of_the_readme_profiles_some_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    section = (ROOT / "README.md").read_text().partition("## Profile some epochs of a training")[2]
    listing = section.partition("```python\n")[2].partition("```")[0]

    def train(callbacks: list[Any]) -> None:
        for epoch in range(12):
            for callback in callbacks:
                callback.on_epoch_begin(epoch)
                callback.on_epoch_end(epoch)

    exec(listing, {"train": train})
    assert "Total epochs: 12" in capsys.readouterr().out
