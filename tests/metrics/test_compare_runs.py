"""`compare_runs`: collectors, reports, paths and runs; intervals that hold what they promise."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import marey
import pytest
from marey.metrics import MetricsCollector, Reporter, compare_runs
from marey.metrics.series import TimeSeries
from trace_files import traced


def collected(millis: list[float], name: str = "iteration") -> MetricsCollector:
    """A collector with times of these lengths."""
    collector = MetricsCollector()
    series = collector._new_times(name)
    assert isinstance(series, TimeSeries)
    start = 0
    for milli in millis:
        series.items.append((start, start + round(milli * 1e6), 1))
        start += round(milli * 1e6)
    return collector


def noisy(mean: float, count: int, seed: int) -> list[float]:
    numbers = random.Random(seed)
    return [numbers.gauss(mean, 0.1 * mean) for _ in range(count)]


def test_the_speedup_is_the_ratio_of_the_means() -> None:
    comparison = compare_runs(collected([30.0, 30.0]), collected([10.0, 20.0]))
    assert comparison["speedup"] == 2.0
    assert comparison["metric"] == "iteration"
    change = comparison["metrics"]["iteration"]
    assert (change.before, change.after, change.change_percent) == (30.0, 15.0, -50.0)
    assert f"{comparison['speedup']:.2f}x" == "2.00x"


def test_few_times_have_no_interval() -> None:
    comparison = compare_runs(collected([30.0] * 4), collected([10.0] * 50))
    assert comparison["speedup_interval"] is None
    assert comparison["metrics"]["iteration"].significant is None
    assert "unknown" in str(comparison)


@pytest.mark.parametrize("count", [10, 200])
def test_a_95_percent_interval_contains_the_truth_in_95_percent_of_cases(count: int) -> None:
    hits = 0
    for seed in range(300):
        before, after = noisy(20.0, count, seed), noisy(10.0, count, 1000 + seed)
        low, high = compare_runs(collected(before), collected(after))["speedup_interval"]
        hits += low <= 2.0 <= high
    assert 0.90 <= hits / 300 <= 0.99


def test_correlated_times_are_not_significant_by_their_number() -> None:
    def drifting(seed: int) -> list[float]:
        numbers, level, found = random.Random(seed), 0.0, []
        for _ in range(2000):
            level = 0.99 * level + numbers.gauss(0, 0.1)
            found.append(20 + level)
        return found

    wrong = 0
    for seed in range(60):
        changes = compare_runs(collected(drifting(seed)), collected(drifting(999 + seed)))
        wrong += bool(changes["metrics"]["iteration"].significant)
    # With an interval for independent times it is more than half of them.
    assert wrong <= 12


def test_values_are_compared_too() -> None:
    before, after = MetricsCollector(), MetricsCollector()
    for collector, loss in ((before, 1.0), (after, 0.5)):
        for number in range(10):
            collector.record("loss", loss + number / 1000)
            with collector.measure_time("iteration"):
                pass
    change = compare_runs(before, after)["metrics"]["loss"]
    assert change.change_percent == pytest.approx(-50, abs=1)
    assert change.significant


def test_without_iterations_the_longest_time_is_compared() -> None:
    before, after = collected([30.0] * 5, "long"), collected([10.0] * 5, "long")
    for collector in (before, after):
        collector._new_times("short").items.append((0, 1_000_000, 1))
    comparison = compare_runs(before, after)
    assert (comparison["metric"], comparison["speedup"]) == ("long", 3.0)
    assert compare_runs(before, after, metric="short")["speedup"] == 1.0


def test_reports_and_saved_reports_are_compared() -> None:
    before, after = collected(noisy(20, 30, 1)), collected(noisy(10, 30, 2))
    expected = compare_runs(before, after)
    assert compare_runs(before.generate_report(), after.generate_report()) == expected
    Reporter(before).save_json("before.json")
    Reporter(after).save_json(Path("after.json"))
    assert compare_runs("before.json", Path("after.json")) == expected
    assert compare_runs(before, "after.json") == expected
    document = json.loads(Path("after.json").read_text())
    Path("sorted.json").write_text(json.dumps(document, sort_keys=True))
    assert compare_runs(before, "sorted.json") == expected


def recorded(name: str, work: int) -> str:
    with traced(name):
        collector = MetricsCollector()
        for _ in range(30):
            marey._native.step_begin()
            with collector.measure_time("iteration"):
                sum(range(work))
            marey._native.step_end()
    return f"{name}.marey"


def test_runs_are_compared_by_their_steps_and_scopes() -> None:
    before, after = recorded("before", 40_000), recorded("after", 4_000)
    comparison = compare_runs(before, after)
    assert comparison["metric"] == "step_time.mean"
    assert comparison["speedup"] > 2
    assert comparison["metrics"]["iteration"].significant
    table = marey.compare(before, after).metrics
    [steps] = [row for row in table if row[0] == "step_time.mean"]
    change = comparison["metrics"]["step_time.mean"]
    assert (change.before, change.after) == steps[3:5]
    with marey.open(before) as run:
        assert compare_runs(run, after) == comparison
        assert run.sql("SELECT count(*) FROM steps").rows() == [(30,)], "it is still open"


def test_runs_that_were_opened_by_path_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def remember(path: str | Path) -> marey.run.Run:
        opened.append(open_run(path))
        return opened[-1]

    open_run = marey.run.open
    monkeypatch.setattr(marey.run, "open", remember)
    compare_runs(recorded("before", 100), recorded("after", 100))
    assert list(map(repr, opened)) == ["<marey.run.Run: closed>"] * 2


def test_a_run_and_a_collector_are_compared() -> None:
    path = recorded("before", 20_000)
    comparison = compare_runs(path, collected([0.001] * 30))
    assert comparison["metric"] == "iteration"
    assert comparison["speedup"] > 1


# Bad input


def test_nothing_in_common_names_the_times() -> None:
    with pytest.raises(ValueError, match="no time in common: before has a, after has b"):
        compare_runs(collected([1.0], "a"), collected([1.0], "b"))


def test_an_unknown_metric_names_the_common_ones() -> None:
    with pytest.raises(KeyError, match="the common times are: iteration"):
        compare_runs(collected([1.0]), collected([1.0]), metric="forward")


@pytest.mark.parametrize("source", [3, None, {"timing": {}}])
def test_something_else_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="compares collectors, reports, runs and paths"):
        compare_runs(source, collected([1.0]))


def test_files_that_are_no_reports_are_refused_by_name() -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        compare_runs("missing.json", collected([1.0]))
    Path("cut.json").write_text('{"timing": {')
    with pytest.raises(ValueError, match=r"cut\.json: not a report of marey\.metrics"):
        compare_runs("cut.json", collected([1.0]))
    Path("other.json").write_text(json.dumps({"timing": {}, "marey_metrics": 99}))
    with pytest.raises(ValueError, match=r"other\.json: .*marey_metrics is not 1"):
        compare_runs("other.json", collected([1.0]))


def test_a_zero_time_has_no_interval() -> None:
    comparison = compare_runs(collected([1.0] * 5), collected([0.0] * 5))
    assert comparison["speedup"] == float("inf")
    assert comparison["metrics"]["iteration"].significant is None
