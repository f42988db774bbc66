"""Each setting of the profiler for training loops, with its effect."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import marey.torch
import pytest
from marey.training import ProfileAnalyzer, ProfilerConfig, TrainingProfiler
from trace_files import run_rows
from training_loops import FILE, analysed, kinds, run_epochs, saved, trained, walk_files

torch = pytest.importorskip("torch")

ALL = ProfilerConfig(sample_rate=1.0, warmup_samples=0, export_chrome_trace=False)

# The defaults of PRISM.
DEFAULTS: dict[str, Any] = {
    "enabled": True,
    "collect_timing": True,
    "collect_memory": True,
    "collect_gpu_ops": True,
    "sample_rate": 0.1,
    "adaptive_sampling": True,
    "use_cuda_events": True,
    "cuda_sync_per_epoch": False,
    "warmup_samples": 2,
    "active_samples": 5,
    "record_shapes": True,
    "with_flops": True,
    "with_modules": True,
    "output_dir": None,
    "storage_format": "binary",
    "export_chrome_trace": True,
    "bottleneck_threshold_pct": 10.0,
    "memory_leak_threshold_mb": 10.0,
}


def changed(**fields: Any) -> ProfilerConfig:
    return dataclasses.replace(ALL, **fields)


def operator_epochs(path: Path) -> set[int]:
    """Returns the numbers of the epochs with operators."""
    epochs = run_rows(
        path, "SELECT start_nanos, end_nanos FROM spans WHERE name = 'epoch' ORDER BY 1"
    )
    operators = run_rows(path, "SELECT start_nanos FROM spans WHERE kind = 'operator'")
    return {
        number
        for number, (start, end) in enumerate(epochs)
        if any(start <= time < end for (time,) in operators)
    }


def test_the_fields_and_defaults_are_prism_s() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(ProfilerConfig)}
    assert fields == DEFAULTS


@pytest.mark.parametrize(
    ("name", "nearest"), [("sample_rat", "sample_rate"), ("cuda_sync_epoch", "cuda_sync_per_epoch")]
)
def test_a_misspelt_field_names_the_nearest(name: str, nearest: str) -> None:
    fields: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=f"no field '{name}'; did you mean '{nearest}'"):
        ProfilerConfig(**fields)


def test_an_unknown_field_lists_the_known_ones() -> None:
    fields: dict[str, Any] = {"xyz": 1}
    with pytest.raises(TypeError, match=r"no field 'xyz'; known: enabled, collect_timing, "):
        ProfilerConfig(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"sample_rate": 0},
        {"sample_rate": 1.5},
        {"sample_rate": float("nan")},
        {"warmup_samples": -1},
        {"active_samples": -1},
        {"storage_format": "pickle"},
        {"bottleneck_threshold_pct": 0},
        {"memory_leak_threshold_mb": float("nan")},
    ],
)
def test_a_value_out_of_range_names_the_field(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{next(iter(fields))}\b"):
        ProfilerConfig(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"enabled": "no"},
        {"with_modules": 1},
        {"warmup_samples": 1.5},
        {"active_samples": "5"},
        {"sample_rate": "0.1"},
        {"bottleneck_threshold_pct": None},
        {"memory_leak_threshold_mb": "10"},
        {"output_dir": 5},
    ],
)
def test_a_value_of_another_type_names_the_field(fields: dict[str, Any]) -> None:
    ((name, value),) = fields.items()
    with pytest.raises(TypeError, match=rf"^{name} must be .*, not {value!r}$"):
        ProfilerConfig(**fields)


def test_enabled_false_records_and_writes_nothing() -> None:
    profiler = TrainingProfiler(ProfilerConfig(enabled=False))
    run_epochs(profiler, 3)
    with pytest.warns(UserWarning, match="not enabled"):
        assert profiler.save(FILE) is None
    assert list(walk_files()) == []


def test_collect_timing_false_records_no_spans() -> None:
    assert kinds(trained(changed(collect_timing=False))) == {}
    assert "module" in kinds(trained(ALL))


def test_collect_timing_false_still_reads_memory_by_epoch() -> None:
    config = changed(collect_timing=False)
    assert [point.number for point in saved(config, 4).memory()["host"]] == [0, 1, 2, 3]


def test_collect_memory_false_reads_none() -> None:
    count = "SELECT count(*) FROM memory_events"
    assert run_rows(trained(changed(collect_memory=False)), count) == [(0,)]
    assert run_rows(trained(ALL), count)[0][0] > 0


def test_collect_gpu_ops_false_records_no_operators() -> None:
    assert "operator" not in kinds(trained(changed(collect_gpu_ops=False)))
    assert "operator" in kinds(trained(ALL))


def test_sample_rate_is_the_fraction_of_recorded_epochs() -> None:
    config = changed(sample_rate=0.1, adaptive_sampling=False)
    # The first epoch is always recorded, and a tenth of the others.
    assert saved(config, 201).get_summary()["total_samples"] in (20, 21, 22)
    assert saved(ALL, 20).get_summary()["total_samples"] == 20


def test_adaptive_sampling_triples_the_rate_of_the_first_ten_epochs() -> None:
    config = changed(sample_rate=0.3)
    assert saved(config, 10).get_summary()["total_samples"] in (9, 10)
    steady = dataclasses.replace(config, adaptive_sampling=False)
    assert saved(steady, 10).get_summary()["total_samples"] in (3, 4)


class Event:
    """A CUDA event of a GPU that runs 2 ms between any two events, and is late."""

    clock_ms = 0.0
    waits = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.queries = 0

    def record(self) -> None:
        Event.clock_ms += 2.0
        self.time_ms = Event.clock_ms
        self.queries = 0

    def query(self) -> bool:
        self.queries += 1
        return self.queries > 1

    def synchronize(self) -> None:
        Event.waits += 1

    def elapsed_time(self, end: Event) -> float:
        return end.time_ms - self.time_ms


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretends that the program uses a GPU; returns the calls that wait for it."""
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("synchronize"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    Event.waits = 0
    return calls


# The memory of the pretended GPU cannot be read.
ON_GPU = changed(collect_memory=False)


def gpu_ms(analyzer: ProfileAnalyzer) -> dict[str, float]:
    return {
        operation["name"]: operation["gpu_ms"]
        for operation in analyzer.get_top_operations()
        if operation["gpu_ms"]
    }


def test_use_cuda_events_times_regions_on_the_gpu(cuda: list[str]) -> None:
    analyzer = saved(ON_GPU, 5)
    assert gpu_ms(analyzer) == {"forward": 10.0, "backward_pass": 10.0}
    assert analyzer.get_summary()["gpu_time_ms"] == 20.0
    assert gpu_ms(saved(changed(collect_memory=False, use_cuda_events=False), 5)) == {}


def test_gpu_times_of_the_epochs_in_the_middle_never_wait(cuda: list[str]) -> None:
    profiler = TrainingProfiler(ON_GPU)
    run_epochs(profiler, 5)
    assert (cuda, Event.waits) == ([], 0)
    profiler.save(FILE)  # waits for the last regions
    assert Event.waits > 0


def test_inner_regions_have_their_own_gpu_time(cuda: list[str]) -> None:
    profiler = TrainingProfiler(ON_GPU)
    with profiler.profile_region("outer"), profiler.profile_region("inner"):
        pass
    # Two events of the inner region lie between those of the outer one.
    analyzer = analysed(profiler)
    assert gpu_ms(analyzer) == {"outer": 6.0, "inner": 2.0}
    assert analyzer.get_summary()["gpu_time_ms"] == 6.0


def test_regions_with_gpu_times_are_decorators(cuda: list[str]) -> None:
    profiler = TrainingProfiler(ON_GPU)

    @profiler.profile_region("work")
    def work(value: int) -> int:
        return value + 1

    assert [work(1), work(2)] == [2, 3]
    assert gpu_ms(analysed(profiler)) == {"work": 4.0}


def test_a_decorator_that_was_made_before_cuda_was_used_has_gpu_times(
    cuda: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = TrainingProfiler(ON_GPU)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)

    @profiler.profile_region("work")
    def work() -> None:
        pass

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    work()
    assert gpu_ms(analysed(profiler)) == {"work": 2.0}


def test_the_gpu_time_of_a_region_in_one_of_the_same_name_counts_once(cuda: list[str]) -> None:
    profiler = TrainingProfiler(ON_GPU)
    with profiler.profile_region("block"), profiler.profile_region("block"):
        pass
    analyzer = analysed(profiler)
    assert gpu_ms(analyzer) == {"block": 6.0}
    assert analyzer.get_summary()["gpu_time_ms"] == 6.0


def test_a_region_with_a_slash_in_its_name_has_its_gpu_time(cuda: list[str]) -> None:
    profiler = TrainingProfiler(ON_GPU)
    with profiler.profile_region("train/forward"), profiler.profile_region("train"):
        pass
    assert gpu_ms(analysed(profiler)) == {"train/forward": 6.0, "train": 2.0}


def test_cuda_sync_per_epoch_waits_once_per_recorded_epoch(cuda: list[str]) -> None:
    saved(ON_GPU, 4)
    assert cuda == []
    saved(changed(collect_memory=False, cuda_sync_per_epoch=True), 4)
    assert cuda == ["synchronize"] * 4


def test_warmup_samples_delay_operators() -> None:
    assert operator_epochs(trained(changed(warmup_samples=3, active_samples=9))) == {3, 4, 5, 6, 7}


def test_active_samples_limit_operators() -> None:
    assert operator_epochs(trained(changed(warmup_samples=1, active_samples=2))) == {1, 2}
    assert operator_epochs(trained(changed(active_samples=0))) == set()


def test_record_shapes_false_leaves_shapes_out() -> None:
    shapes = "SELECT count(*) FROM spans WHERE arg(args, 'Input Dims') IS NOT NULL"
    assert run_rows(trained(changed(with_flops=False)), shapes)[0][0] > 0
    without = trained(changed(record_shapes=False))
    assert run_rows(without, shapes) == [(0,)]
    assert "total_flops" not in ProfileAnalyzer(without).get_summary(), "they need the shapes"


def test_with_flops_counts_each_computation_once() -> None:
    config = changed(active_samples=1)
    summary = ProfileAnalyzer(trained(config, 8)).get_summary()
    # Per layer 2·m·n·k forward, as much for the weights' gradient; the inputs' only inside.
    layers = 2 * 4 * 8 * 16, 2 * 4 * 16 * 1
    products = 2 * layers[0] + 3 * layers[1]
    assert products <= summary["recorded_flops"] <= 1.5 * products
    assert summary["total_flops"] == 8 * summary["recorded_flops"], "of one in eight epochs"
    without = dataclasses.replace(config, with_flops=False)
    assert "total_flops" not in ProfileAnalyzer(trained(without)).get_summary()


def test_with_modules_false_records_none() -> None:
    assert "module" not in kinds(trained(changed(with_modules=False)))
    assert not marey.torch.is_enabled()


def test_output_dir_has_the_recording_and_relative_files(tmp_path: Path) -> None:
    profiler = TrainingProfiler(changed(output_dir=tmp_path / "experiment"))
    run_epochs(profiler, 2)
    (recording,) = walk_files("experiment")
    assert recording.startswith("training_profile-")
    assert profiler.save("sub/a.pt") == str(tmp_path / "experiment" / "sub" / "a.pt")
    assert profiler.save() == str(tmp_path / "experiment" / "profile.pt")


def test_storage_format_json_has_the_same_analysis() -> None:
    profiler = TrainingProfiler(changed(storage_format="json"))
    run_epochs(profiler, 3, millis=1)
    profiler.save("profile.json")
    document = json.loads(Path("profile.json").read_text())
    assert document["format"] == "marey.training"
    binary = TrainingProfiler(ALL)
    binary.loop.recording = profiler.loop.recording
    binary.save("profile.pt")
    assert Path("profile.pt").read_bytes()[:2] == b"PK"
    reports = [ProfileAnalyzer(path).get_efficiency_report() for path in ("profile.json", FILE)]
    assert reports[0] == reports[1]


def test_export_chrome_trace_writes_one_beside_the_profile() -> None:
    saved(changed(export_chrome_trace=True), 2)
    names = [
        event["name"] for event in json.loads(Path("profile.trace.json").read_text())["traceEvents"]
    ]
    assert names.count("forward") == 2


def test_no_chrome_trace_is_written_without_it() -> None:
    saved(ALL, 2)
    assert not Path("profile.trace.json").exists()


def test_bottleneck_threshold_pct_selects_operations() -> None:
    def hot(threshold: float) -> set[str]:
        analyzer = saved(changed(bottleneck_threshold_pct=threshold), 5, millis=2)
        return {each.description.split("'")[1] for each in analyzer.identify_bottlenecks()}

    assert {"forward", "backward_pass"} <= hot(0.1)
    assert hot(100.0) == set()


def test_memory_leak_threshold_mb_selects_leaks() -> None:
    kept = []

    def leaks(threshold: float) -> list[str]:
        profiler = TrainingProfiler(changed(memory_leak_threshold_mb=threshold))
        for _ in range(14):
            profiler.callback.on_epoch_begin()
            kept.append(bytearray(b"x") * 15_000_000)
            profiler.callback.on_epoch_end()
        profiler.save(FILE)
        kept.clear()
        found = ProfileAnalyzer(FILE).identify_bottlenecks()
        return [each.description for each in found if each.type.value == "memory_leak"]

    (leak,) = leaks(10.0)
    assert leak.startswith("Memory leak on host: 15.0 MB/epoch")
    assert leaks(20.0) == []
