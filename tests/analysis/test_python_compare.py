"""Comparisons from Python: `marey.compare` and the check of conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import marey
import pytest
from analyses import (
    Event,
    Row,
    by_column,
    host_span,
    kernel,
    launch,
    make_run,
    recorded_run,
    step,
    types,
    values,
)
from marey.run import Result, Run

# Comparisons


def training(*, is_after: bool, steps: int = 10) -> list[Event]:
    """Makes steps of 1000 us, plus or minus 1; `is_after`: 250 us slower.

    After, an operator takes 150 us more and its kernel 10 us more, another operator and a kernel
    are renamed, and one operator is added.
    """
    events: list[Event] = []
    for number in range(steps):
        start = 10_000 * number
        events += [
            step(number, start, 1000 + number % 3 + 250 * is_after),
            host_span("aten::mm", start + 100, 200 + 150 * is_after),
            launch(2 * number + 1, start + 110, 5),
            launch(2 * number + 2, start + 120, 5),
            kernel(2 * number + 1, start + 130, 30 + 10 * is_after, name="gemm"),
            kernel(2 * number + 2, start + 200, 10, name=("fused_" * is_after) + "norm_kernel"),
            host_span(f"model::attention_{1 + is_after}", start + 500, 90),
            host_span("load", start + 800, 20),
        ]
        if is_after:
            events.append(host_span("aten::relu", start + 700, 50))
    return events


def make_pair(path: Path) -> tuple[Run, Run]:
    before = make_run(training(is_after=False), folder=path / "before")
    return before, make_run(training(is_after=True), folder=path / "after")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def compared(pair: tuple[Run, Run]) -> marey.Comparison:
    return marey.compare(*pair)


def metrics(comparison: marey.Comparison) -> dict[str, Row]:
    return {row["metric"]: row for row in by_column(comparison.metrics)}


def test_metrics_match_hand_computed_values(compared: marey.Comparison) -> None:
    assert types(compared.metrics) == {
        "metric": "string",
        "title": "string",
        "unit": "string",
        "before": "double",
        "after": "double",
        "change": "double",
        "change_low": "double",
        "change_high": "double",
        "change_percent": "double",
        "low_percent": "double",
        "high_percent": "double",
        "significant": "string",
    }
    found = metrics(compared)
    # 0, 1, 2, 0, ... us more than 1000: in the mean 0.9, in the middle 1.
    expected = {
        "steps.count": ("count", 10, 10, 0),
        "total_time.total": ("ns", 91_000_000, 91_250_000, 250_000),
        "step_time.mean": ("ns", 1_000_900, 1_250_900, 250_000),
        "step_time.p50": ("ns", 1_001_000, 1_251_000, 250_000),
        "gpu_busy.mean": ("ns", 40_000, 50_000, 10_000),
        "gpu_idle.mean": ("ns", 960_900, 1_200_900, 240_000),
        "gpu_busy.percent": ("percent", 40_000 / 10_009, 50_000 / 12_509, None),
        "kernel_launches.mean": ("count", 2, 2, 0),
        "communication.mean": ("ns", 0, 0, 0),
        "gpu_memory.peak": ("bytes", None, None, None),
    }
    for name, (unit, before, after, change) in expected.items():
        row = found[name]
        assert row["unit"] == unit
        assert (row["before"], row["after"]) == pytest.approx((before, after)), name
        if change is not None:
            assert row["change"] == pytest.approx(change), name
            percent = 100 * change / before if before else 0
            assert row["change_percent"] == pytest.approx(percent), name
    slower = found["step_time.p50"]
    # Steps vary by 2 us, so the change is known that well at least.
    assert 248_000 <= slower["change_low"] <= 250_000 <= slower["change_high"] <= 252_000
    assert 24.7 < slower["low_percent"] <= slower["change_percent"] <= slower["high_percent"] < 25.3
    significant = {name: found[name]["significant"] for name in expected}
    assert significant == {
        "steps.count": "unknown",
        "total_time.total": "unknown",
        "step_time.mean": "yes",
        "step_time.p50": "yes",
        "gpu_busy.mean": "yes",
        "gpu_idle.mean": "yes",
        "gpu_busy.percent": "unknown",
        "kernel_launches.mean": "no",
        "communication.mean": "no",
        "gpu_memory.peak": "unknown",
    }


DIFFERENCES = {
    "path": "string",
    "name": "string",
    "kind": "string",
    "category": "string",
    "count_category": "string",
    "before_count": "double",
    "after_count": "double",
    "before_nanos": "double",
    "after_nanos": "double",
    "before_self_nanos": "double",
    "after_self_nanos": "double",
    "change_nanos": "double",
    "change_percent": "double",
}


def changes(result: Result) -> list[tuple[Any, ...]]:
    nanos = ("before_nanos", "after_nanos")
    return values(by_column(result), "path", "category", "count_category", *nanos)


def test_operations_match_hand_computed_values(compared: marey.Comparison) -> None:
    found = compared.operations
    assert types(found) == DIFFERENCES
    # The largest change comes first; equal changes are sorted by path.
    assert changes(found) == [
        ("step", "increased", "unchanged", 1_000_900, 1_250_900),
        ("step/aten::mm", "increased", "unchanged", 200_000, 350_000),
        ("step/model::attention_1", "removed", "removed", 90_000, None),
        ("step/model::attention_2", "added", "added", None, 90_000),
        ("step/aten::relu", "added", "added", None, 50_000),
        ("step/aten::mm/cudaLaunchKernel", "unchanged", "unchanged", 10_000, 10_000),
        ("step/load", "unchanged", "unchanged", 20_000, 20_000),
    ]
    of_path = {row["path"]: row for row in by_column(found)}
    slower = of_path["step/aten::mm"]
    assert (slower["name"], slower["kind"]) == ("aten::mm", "operator")
    assert (slower["before_self_nanos"], slower["after_self_nanos"]) == (190_000, 340_000)
    assert (slower["change_nanos"], slower["change_percent"]) == (150_000, 75)
    assert of_path["step/aten::mm/cudaLaunchKernel"]["before_count"] == 2
    gone, new = of_path["step/model::attention_1"], of_path["step/aten::relu"]
    assert (gone["change_nanos"], gone["change_percent"]) == (-90_000, -100)
    assert (gone["before_count"], gone["after_count"]) == (1, None)
    assert (new["change_nanos"], new["change_percent"]) == (50_000, float("inf"))
    assert (new["before_count"], new["before_self_nanos"], new["after_count"]) == (None, None, 1)


def test_kernels_match_hand_computed_values(compared: marey.Comparison) -> None:
    found = compared.kernels
    assert types(found) == DIFFERENCES
    # All three change by as much.
    assert changes(found) == [
        ("fused_norm_kernel", "added", "added", None, 10_000),
        ("gemm", "increased", "unchanged", 30_000, 40_000),
        ("norm_kernel", "removed", "removed", 10_000, None),
    ]


def test_renames_match_hand_computed_values(compared: marey.Comparison) -> None:
    found = compared.renames
    assert types(found) == dict.fromkeys(("what", "before", "after", "reason"), "string")
    function = ("step/model::attention_1", "step/model::attention_2", "same function")
    part = ("norm_kernel", "fused_norm_kernel", "one name is part of the other")
    assert found.rows() == [("operation", *function), ("kernel", *part)]


def test_a_comparison_is_symmetric(pair: tuple[Run, Run]) -> None:
    there, back = marey.compare(*pair), marey.compare(*reversed(pair))
    opposite = {"added": "removed", "removed": "added", "increased": "decreased"}
    expected = {
        (path, opposite.get(became, became), opposite.get(count, count), after, before)
        for path, became, count, before, after in changes(there.operations)
    }
    assert set(changes(back.operations)) == expected
    changed, restored = metrics(there), metrics(back)
    for name, row in changed.items():
        assert (row["before"], row["after"]) == (restored[name]["after"], restored[name]["before"])
        assert row["significant"] == restored[name]["significant"]


def test_a_run_compared_with_itself_has_no_change(pair: tuple[Run, Run]) -> None:
    for run in (pair[0], recorded_run("a100-nccl")):
        same = marey.compare(run, run)
        assert {row["change"] for row in metrics(same).values()} == {0, None}
        assert "yes" not in same.metrics.column("significant")
        for differences in (same.operations, same.kernels):
            assert len(differences) > 0
            assert set(differences.column("category")) == {"unchanged"}
            assert set(differences.column("count_category")) == {"unchanged"}
            assert set(differences.column("change_nanos")) == {0}
        assert same.renames.rows() == []


def test_compare_accepts_runs_and_paths() -> None:
    pair = make_pair(Path.cwd())
    opened_before = marey.compare(*pair)
    paths = [run.path for run in pair]
    for sides in ((paths[0], paths[1]), (Path(paths[0]), pair[1]), (pair[0], paths[1])):
        compared = marey.compare(*sides)
        assert compared.metrics.rows() == opened_before.metrics.rows()
        assert compared.operations.rows() == opened_before.operations.rows()
        assert repr(compared) == repr(opened_before)
    assert repr(opened_before) == (
        f"<marey.comparison.Comparison: {paths[0]} before, {paths[1]} after>"
    )
    # A comparison holds what it needs.
    pair[0].close()
    assert len(opened_before.metrics) > 0
    assert opened_before.check("step_time>+3%").column("outcome") == ["regression"]
    with pytest.raises(ValueError, match="closed"):
        marey.compare(*pair)
    with pytest.raises(FileNotFoundError):
        marey.compare(pair[1], "nowhere.marey")


def test_changes_within_the_tolerance_count_as_unchanged(pair: tuple[Run, Run]) -> None:
    # 150 of the longer, 350 us, are 42.9 %.
    for tolerance, category in ((42.8, "increased"), (42.9, "unchanged")):
        compared = marey.compare(*pair, tolerance=tolerance)
        of_path = {row["path"]: row for row in by_column(compared.operations)}
        assert of_path["step/aten::mm"]["category"] == category
        assert of_path["step/aten::relu"]["category"] == "added"


def test_empty_runs_can_be_compared(pair: tuple[Run, Run]) -> None:
    empty = make_run([])
    compared = marey.compare(pair[0], empty)
    assert set(compared.operations.column("category")) == {"removed"}
    assert compared.check("step_time>+3%").column("outcome") == ["inconclusive"]
    nothing = marey.compare(empty, empty)
    for table in (nothing.operations, nothing.kernels, nothing.renames):
        assert len(table) == 0
    assert types(nothing.operations) == DIFFERENCES


# Checks


@pytest.mark.parametrize(
    ("condition", "outcome", "judged", "threshold"),
    [
        # 100 * 250 / 1001
        ("step_time.p50>+3%", "regression", 24.975025, 3),
        ("step_time>+3%", "regression", 24.975025, 3),
        ("step_time.p50>+30%", "pass", 24.975025, 30),
        ("step_time.mean>+200us", "regression", 250_000, 200_000),
        ("step_time.mean>+0.3ms", "pass", 250_000, 300_000),
        ("step_time.mean>1.2ms", "regression", 1_250_900, 1_200_000),
        ("gpu_busy.mean<+20%", "pass", 25, 20),
        ("kernel_launches>+0", "pass", 0, 0),
        # 100 * 50 / 1250.9
        ("gpu_busy.percent<4", "regression", 3.997122, 4),
        # The interval of the mean contains the threshold.
        ("step_time.mean>1.2508ms", "inconclusive", 1_250_900, 1_250_800),
        # Of 10 steps none is the 99th of 100; no model is known.
        ("step_time.p99>+3%", "inconclusive", None, 3),
        ("mfu<40", "inconclusive", None, 40),
    ],
)
def test_conditions_pass_fail_or_are_inconclusive(
    compared: marey.Comparison,
    condition: str,
    outcome: str,
    judged: float | None,
    threshold: float,
) -> None:
    [row] = by_column(compared.check(condition))
    assert (row["expression"], row["outcome"]) == (condition, outcome), row["why"]
    assert row["judged"] == (None if judged is None else pytest.approx(judged))
    assert row["threshold"] == threshold
    assert row["why"]


def test_each_condition_has_a_row(compared: marey.Comparison) -> None:
    found = compared.check("mfu<40", "step_time.p90>+3%", " gpu_busy > 1s ")
    assert types(found) == {
        "expression": "string",
        "outcome": "string",
        "metric": "string",
        "unit": "string",
        "before": "double",
        "after": "double",
        "judged": "double",
        "judged_low": "double",
        "judged_high": "double",
        "threshold": "double",
        "why": "string",
    }
    assert found.column("expression") == ["mfu<40", "step_time.p90>+3%", "gpu_busy > 1s"]
    assert found.column("outcome") == ["inconclusive", "regression", "pass"]
    assert found.column("metric") == ["mfu.percent", "step_time.p90", "gpu_busy.mean"]
    assert found.column("unit") == ["percent", "ns", "ns"]
    slower = by_column(found)[1]
    assert (slower["before"], slower["after"]) == (1_002_000, 1_252_000)
    assert 3 < slower["judged_low"] <= slower["judged"] <= slower["judged_high"]
    none = compared.check()
    assert (len(none), types(none)) == (0, types(found))


def test_min_steps_decides_about_inconclusive(compared: marey.Comparison) -> None:
    for needed, outcome in ((10, "regression"), (11, "inconclusive")):
        checked = compared.check("step_time.mean>+3%", min_steps=needed)
        assert checked.column("outcome") == [outcome]
    assert "mean needs 11 steps, but the run after has 10" in checked.column("why")


@pytest.mark.parametrize(
    ("condition", "column", "problem"),
    [
        ("step_time.p50>>3%", 15, "only `>` and `<` compare"),
        ("step_tme>+3%", 1, "did you mean `step_time`"),
        ("step_time.p500>+3%", 11, "has no statistic `p500`"),
        ("step_time.p50>+3parsecs", 17, "has no unit `parsecs`"),
        ("step_time.p50>much", 15, "expected a number"),
        ("step_time.p50", 14, "is missing"),
    ],
)
def test_invalid_conditions_are_rejected(
    compared: marey.Comparison, condition: str, column: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=f"column {column}: .*{problem}"):
        compared.check("step_time>+3%", condition)
