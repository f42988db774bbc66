"""The rule `slow_steps`: steps that took longer than the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from analyses import Event, gpu_span, host_span, make_run, recorded_run, step
from rules import findings_of

RULE = "slow_steps"


def steps(durations: Sequence[float]) -> list[Event]:
    """Makes steps with these durations; an operator takes a tenth of each."""
    events = []
    for number, took in enumerate(durations):
        start = 10_000 * number
        events += [step(number, start, took), host_span("op", start + 1, took / 10)]
    return events


def test_findings_match_hand_computed_values() -> None:
    # Ten steps of 998 or 1002 us but two: 1998 and 498 more than the median of 1002, in 91002 us.
    durations = [998.0, 1002] * 5
    durations[3], durations[6] = 3000, 1500
    events = steps(durations)
    # In the worst, a checkpoint; in the others, a tenth of it.
    events += [host_span("save", 10_000 * n + 400, 1800 if n == 3 else 180) for n in range(10)]
    [row] = findings_of(make_run(events), RULE)
    assert row["subject"] == "step 3"
    assert row["impact_nanos"] == row["gain_nanos"] == 249_600
    assert row["impact_percent"] == pytest.approx(100 * 2496 / 91_002)
    assert row["severity"] == "low"
    assert (row["outlier_count"], row["step_count"], row["numbers"]) == (2, 10, "3, 6")
    assert (row["worst_number"], row["worst_nanos"], row["median_nanos"]) == (3, 3e6, 1_002_000)
    assert (row["grown_name"], row["grown_kind"]) == ("save", "operator")
    assert row["grown_nanos"] == pytest.approx(1_620_000)


def test_time_outside_of_spans_counts() -> None:
    # The step itself grew by 90 % of 2000 us.
    [row] = findings_of(make_run(steps([1000] * 9 + [3000])), RULE)
    assert row["grown_kind"] == "step"
    assert row["grown_nanos"] == pytest.approx(1_800_000)


def test_growth_on_another_thread_is_named() -> None:
    events = steps([1000] * 9 + [3000])
    events += [host_span("load", 10_000 * n, 2500 if n == 9 else 100, tid=101) for n in range(10)]
    [row] = findings_of(make_run(events), RULE)
    assert row["grown_name"] == "load"
    assert row["grown_nanos"] == pytest.approx(2_400_000)


def test_long_lists_of_steps_are_truncated() -> None:
    durations = [1000.0 + number % 3 for number in range(40)] + [9000.0] * 12
    [row] = findings_of(make_run(steps(durations)), RULE, min_percent=0)
    assert row["outlier_count"] == 12
    assert row["numbers"] == ", ".join(str(number) for number in range(40, 50))


def test_equal_steps_are_no_finding() -> None:
    assert findings_of(make_run(steps([1000 + number % 3 for number in range(10)])), RULE) == []
    # Faster ones are no slow ones.
    assert findings_of(make_run(steps([1000] * 9 + [100])), RULE) == []


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(steps([1000, 1000, 1000, 1000, 9000]))  # 8000 of 49000: 16.3 %
    assert [row["severity"] for row in findings_of(run, RULE)] == ["medium"]
    assert [row["severity"] for row in findings_of(run, RULE, high_percent=16)] == ["high"]
    assert [row["severity"] for row in findings_of(run, RULE, medium_percent=17)] == ["low"]
    assert findings_of(run, RULE, min_percent=17) == []
    assert findings_of(run, RULE, min_steps=6) == []
    run = make_run(steps([1000, 1001, 1002, 9000]))
    assert findings_of(run, RULE) == []
    assert len(findings_of(run, RULE, min_steps=4)) == 1


def test_each_rank_is_judged_alone() -> None:
    run = make_run(steps([1000] * 10), steps([1000] * 9 + [3000]), steps([1000] * 9 + [8000]))
    assert [(row["rank"], row["subject"]) for row in findings_of(run, RULE)] == [
        (2, "step 9"),
        (1, "step 9"),
    ]


def test_findings_of_recorded_traces() -> None:
    # Three steps are too few, and they are alike.
    assert findings_of(recorded_run("a100-nccl"), RULE) == []
    assert findings_of(recorded_run("a100-nccl"), RULE, min_steps=1) == []
    assert findings_of(recorded_run("critical-path-alexnet"), RULE) == []  # no steps


def test_no_findings_without_data() -> None:
    assert findings_of(make_run([host_span("op", 0, 0)]), RULE) == []
    assert findings_of(make_run([gpu_span("k", 0, 10)]), RULE) == []
    assert findings_of(make_run([step(0, 0, 0)]), RULE, min_steps=1) == []
