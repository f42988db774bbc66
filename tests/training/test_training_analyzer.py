"""The analysis of profiles: of the profiler, of `marey run`, and of other tools."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import marey
import pytest
from marey.training import (
    BottleneckType,
    CallGraphBuilder,
    ProfileAnalyzer,
    ProfilerConfig,
    TrainingProfiler,
)
from marey.training.bottleneck import MemoryPoint, severity, trend
from paths import ROOT
from training_loops import analysed, run_epochs, saved, spin, trained

ALL = ProfilerConfig(sample_rate=1.0, export_chrome_trace=False)


def test_operations_add_up_to_all_of_the_time() -> None:
    profiler = TrainingProfiler(ALL)
    for _ in range(3):
        with profiler.profile_region("outer"):
            spin(1)
            with profiler.profile_region("inner"):
                spin(2)
    analyzer = analysed(profiler)
    found = analyzer.get_top_operations()
    assert found == sorted(found, key=lambda each: -each["total_ms"])
    operations = {each["name"]: each for each in found}
    inner, outer = operations["inner"], operations["outer"]
    assert outer["inclusive_ms"] == pytest.approx(outer["total_ms"] + inner["total_ms"])
    assert outer["percent"] + inner["percent"] == pytest.approx(100)
    assert (inner["calls"], inner["avg_ms"]) == (3, pytest.approx(inner["total_ms"] / 3))
    summary = analyzer.get_summary()
    assert summary["total_time_ms"] == pytest.approx(outer["inclusive_ms"])
    assert not summary["is_extrapolated"]
    assert len(analyzer.get_top_operations(1)) == 1
    with pytest.raises(ValueError, match="n=-1"):
        analyzer.get_top_operations(-1)


def test_totals_of_a_sample_are_those_of_all_epochs_and_say_so() -> None:
    config = dataclasses.replace(ALL, sample_rate=0.25, adaptive_sampling=False)
    analyzer = saved(config, 80, millis=0.25)  # a millisecond each
    summary = analyzer.get_summary()
    assert summary["total_epochs"] == 80
    assert summary["total_samples"] in (20, 21)
    assert summary["is_extrapolated"]
    assert summary["recorded_fraction"] == summary["total_samples"] / 80
    assert summary["total_time_low_ms"] <= summary["total_time_ms"] <= summary["total_time_high_ms"]
    assert summary["total_time_ms"] == pytest.approx(80 * summary["avg_epoch_time_ms"])
    assert summary["total_time_ms"] > 80
    forward = next(each for each in analyzer.get_top_operations() if each["name"] == "forward")
    assert forward["is_extrapolated"]
    assert forward["calls"] == pytest.approx(80)
    assert forward["total_ms"] > 80 * 0.75
    assert len(analyzer.data.region_times["epoch/step/forward"]) == summary["total_samples"]
    report = analyzer.get_efficiency_report()
    assert f"extrapolated from {summary['total_samples']} of 80 epochs; 95 % interval" in report


def test_epochs_with_operators_count_once_and_operators_for_all_epochs() -> None:
    config = dataclasses.replace(
        ALL, sample_rate=0.25, adaptive_sampling=False, warmup_samples=1, active_samples=2
    )
    analyzer = ProfileAnalyzer(trained(config, epochs=48))
    epochs = analyzer.data.epochs
    assert [epoch.has_operators for epoch in epochs] == [
        1 <= position < 3 for position in range(len(epochs))
    ]
    once_ms = sum(
        epoch.duration_ms or 0 for epoch in epochs if epoch.has_operators or epoch.probability == 1
    )
    others = [epoch.duration_ms or 0 for epoch in epochs[3:]]
    summary = analyzer.get_summary()
    expected_ms = once_ms + (48 - 3) * sum(others) / len(others)
    assert summary["total_time_ms"] == pytest.approx(expected_ms)
    operations = {each["name"]: each for each in analyzer.get_top_operations(1000)}
    assert operations["epoch"]["calls"] == pytest.approx(48)
    assert operations["aten::linear"]["calls"] == pytest.approx(48 * 2)
    assert sum(each["percent"] for each in operations.values()) == pytest.approx(100)
    assert summary["total_flops"] == pytest.approx(summary["recorded_flops"] * 48 / 2)
    assert "FLOP of operators: " in analyzer.get_efficiency_report()


@pytest.mark.parametrize("sample_rate", [1.0, 0.25])
def test_bottlenecks_of_a_sample_are_those_of_the_whole_loop(sample_rate: float) -> None:
    config = dataclasses.replace(
        ALL, sample_rate=sample_rate, adaptive_sampling=False, bottleneck_threshold_pct=1.5
    )
    analyzer = saved(config, 60, millis=0.5)
    found = {each.description.split("'")[1]: each for each in analyzer.identify_bottlenecks()}
    operations = {each["name"]: each for each in analyzer.get_top_operations()}
    for name, least_ms in (("forward", 60 * 1.5), ("backward_pass", 60 * 0.5)):
        percent = float(found[name].description.rpartition(": ")[2].partition("%")[0])
        assert percent == pytest.approx(operations[name]["percent"], abs=0.1)
        assert found[name].impact_ms == pytest.approx(operations[name]["total_ms"])
        assert found[name].impact_ms >= least_ms, "of all epochs"


def test_the_report_has_prism_s_layout() -> None:
    lines = saved(ALL, 3, millis=1).get_efficiency_report().splitlines()
    assert lines[:5] == ["=" * 60, "Training Profile Report", "=" * 60, "", "Summary:"]
    starts = ("  Total samples: 3", "  Total epochs: 3", "  Total time: ", "  Avg epoch time: ")
    assert all(line.startswith(start) for line, start in zip(lines[5:], starts, strict=False))
    assert lines[9].startswith("  Peak GPU memory: ")
    operations = lines.index("Top Operations:")
    assert re.fullmatch(r"  1\. \w+: \d+\.\d ms \(3 calls\)", lines[operations + 1])
    bottlenecks = lines.index("Bottlenecks Detected:")
    bottleneck = r"  \[(HIGH|MEDIUM)\] hot_operation: '\w+': \d+\.\d% of total time"
    assert re.fullmatch(bottleneck, lines[bottlenecks + 1])
    assert lines[bottlenecks + 2].startswith("    Fix: ")
    assert lines[-1] == "=" * 60


def test_severities_are_prism_s() -> None:
    hot, sync = BottleneckType.HOT_OPERATION, BottleneckType.CPU_GPU_SYNC
    assert [severity(hot, percent) for percent in (9.9, 10, 30, 30.1)] == [
        "low",
        "medium",
        "medium",
        "high",
    ]
    assert [severity(sync, percent) for percent in (10, 20, 20.1)] == ["medium", "medium", "high"]


@pytest.fixture(scope="module")
def imported() -> ProfileAnalyzer:
    """A trace of `torch.profiler` of six steps."""
    config = ProfilerConfig(bottleneck_threshold_pct=1.0)
    return ProfileAnalyzer(ROOT / "tests" / "data" / "kineto" / "diff-after.json.gz", config)


def test_waits_for_the_gpu_and_kernels_that_wait_for_memory_are_found(
    imported: ProfileAnalyzer,
) -> None:
    found = imported.identify_bottlenecks()
    kinds = {bottleneck.type.value for bottleneck in found}
    assert kinds == {"hot_operation", "cpu_gpu_sync", "memory_bound"}
    steps_ms = sum(imported.data.region_times["step"])
    for bottleneck in found:
        percent = float(bottleneck.description.rpartition(": ")[2].partition("%")[0])
        assert bottleneck.impact_ms == pytest.approx(steps_ms * percent / 100, rel=0.1)
        assert bottleneck.recommendation
        assert bottleneck.severity in ("high", "medium", "low")
        assert "% of total time" in bottleneck.description


def test_bottlenecks_come_by_severity_and_time(imported: ProfileAnalyzer) -> None:
    found = imported.identify_bottlenecks()
    order = [(("high", "medium", "low").index(each.severity), -each.impact_ms) for each in found]
    assert order == sorted(order)
    assert len(order) > 1


def test_a_trace_of_another_tool_has_gpu_times(imported: ProfileAnalyzer) -> None:
    summary = imported.get_summary()
    assert summary["total_epochs"] == summary["total_samples"] == 6  # its steps
    assert summary["gpu_time_ms"] > 0


def test_a_tree_of_sums_is_a_profile() -> None:
    with marey.profile("tree"), marey.scope("a"), marey.scope("b"):
        spin(1)
    names = {each["name"] for each in ProfileAnalyzer("tree.hatchet").get_top_operations()}
    assert names == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "tree.pt"),
        ('{"format":"marey.training","version":1', "not a complete profile"),
        ('{"format":"marey.training","version":9}', "version 9 of the profile is unknown"),
        ('{"format":"marey.training","version":1,"config":{}}', "not a complete profile"),
    ],
)
def test_a_damaged_file_is_named(content: str, reason: str) -> None:
    Path("tree.pt").write_text(content)
    with pytest.raises(ValueError, match=reason):
        ProfileAnalyzer("tree.pt")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.pt"):
        ProfileAnalyzer("missing.pt")


def test_a_profile_as_json_has_no_code() -> None:
    profiler = TrainingProfiler(dataclasses.replace(ALL, storage_format="json"))
    run_epochs(profiler, 2)
    profiler.save("profile.json")
    document = json.loads(Path("profile.json").read_text())
    assert set(document) >= {"config", "epochs", "operations", "region_times", "memory", "findings"}


def points(sizes: list[float]) -> list[MemoryPoint]:
    return [MemoryPoint(number, "cuda:0", size, None) for number, size in enumerate(sizes)]


def test_a_trend_ignores_warm_up_and_outliers() -> None:
    sizes = [500.0, 10.0, *(100 + 12.0 * number for number in range(20))]
    sizes[9] = 5000
    line = trend(points(sizes))
    assert line is not None
    assert line.slope_mb == pytest.approx(12)


def test_noise_and_a_single_jump_are_no_leaks() -> None:
    noise = trend(points([100 + 40 * (number % 2) for number in range(40)]))
    jump = trend(points([100.0] * 20 + [400.0] * 20))
    assert noise is not None
    assert jump is not None
    assert not noise.is_leak(1.0)
    assert not jump.is_leak(10.0)
    assert trend(points([1.0] * 11)) is None


def test_a_call_graph_has_total_and_self_times() -> None:
    root = CallGraphBuilder().build_from_regions(
        {"a": [2.0, 4.0], "a/b": 1.5, "a/c": [0.5], "d/e": 3.0}
    )
    assert (root.name, root.total_time_ms, root.self_time_ms) == ("root", 9.0, 0.0)
    a, d = root.children
    assert (a.name, a.total_time_ms, a.self_time_ms, a.call_count) == ("a", 6.0, 4.0, 2)
    assert [child.name for child in a.children] == ["b", "c"]
    assert (d.total_time_ms, d.self_time_ms) == (3.0, 0.0)  # that of the region inside
    boxes = {(box["name"], box["depth"]): box for box in root.to_flame()}
    assert boxes["e", 2]["x"] == pytest.approx(6 / 9)
    assert boxes["a", 1] == {
        "name": "a",
        "depth": 1,
        "x": 0.0,
        "width": pytest.approx(6 / 9),
        "self_time": 4.0,
        "total_time": 6.0,
        "percentage": pytest.approx(600 / 9),
    }
    assert {box["depth"] for box in root.to_flame(max_depth=1)} == {0, 1}
    assert root.to_sunburst() == {
        "ids": ["root", "a", "a/b", "a/c", "d", "d/e"],
        "labels": ["root", "a", "b", "c", "d", "e"],
        "parents": ["", "root", "a", "a", "root", "d"],
        "values": [9.0, 6.0, 1.5, 0.5, 3.0, 3.0],
    }


def test_a_call_graph_of_dotted_names() -> None:
    root = CallGraphBuilder(separator=".").build_from_regions({"forward.conv1": [1.0]})
    assert [node.name for node, _ in root.walk()] == ["root", "forward", "conv1"]


@pytest.mark.parametrize("time", [-1.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_named(time: float) -> None:
    with pytest.raises(ValueError, match="region 'a'"):
        CallGraphBuilder().build_from_regions({"a": [1.0, time]})
