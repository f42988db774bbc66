"""The rule `small_kernels`: many small kernels."""

from __future__ import annotations

import pytest
from analyses import Event, kernel, launch, make_run, recorded_run, step
from rules import check_no_findings_without_data, findings_of, severities

RULE = "small_kernels"


def small(count: int, duration: float = 4, gap: float = 2) -> list[Event]:
    """Makes kernels with gaps, all launched in advance, then a long kernel; 1 ms in total."""
    events = [step(0, 0, 1000)]
    for number in range(count):
        events += [
            launch(number + 1, 1 + number * 0.05, 0.01),
            kernel(
                number + 1, 50 + number * (duration + gap), duration, name=f"k{number % 4 // 3}"
            ),
        ]
    end = 50 + count * (duration + gap)
    return [*events, launch(999, 40), kernel(999, end, 20, name="long")]


def test_many_small_kernels_are_a_finding_with_their_gaps() -> None:
    (row,) = findings_of(make_run(small(100)), RULE)
    # 100 x 4 µs, and 99 gaps of 2 µs between them: the last is that of the long one.
    assert (row["subject"], row["severity"], row["confidence"]) == ("k0", "high", "measured")
    assert row["impact_nanos"] == 400_000 + 99 * 2_000
    assert row["impact_percent"] == pytest.approx(59.8)
    assert row["gain_nanos"] == row["gap_nanos"] == 198_000
    assert (row["kernels_per_step"], row["top_per_step"]) == (100, 75)
    assert row["count_percent"] == pytest.approx(100 * 100 / 101)
    assert row["mean_nanos"] == 4_000


def test_gaps_caused_by_the_host_are_ignored() -> None:
    events = small(100)
    late = [
        {**event, "ts": 50 + (event["args"]["correlation"] - 1) * 6 - 1}
        if event["name"] == "cudaLaunchKernel" and event["args"]["correlation"] < 999
        else event
        for event in events
    ]
    (row,) = findings_of(make_run(late), RULE)
    assert (row["impact_nanos"], row["gap_nanos"]) == (400_000, 0)


def test_concurrent_small_kernels_count_once() -> None:
    events = small(100)
    twice = [
        {**event, "tid": 8, "args": {**event["args"], "stream": 8}}
        for event in events
        if event["name"] == "k0"
    ]
    (row,) = findings_of(make_run([*events, *twice]), RULE)
    assert row["impact_nanos"] == 598_000
    assert row["kernels_per_step"] == 175


def test_few_or_long_kernels_are_no_finding() -> None:
    assert findings_of(make_run(small(99)), RULE) == []
    assert findings_of(make_run(small(100, 10, 0)), RULE) == []


def test_steps_with_few_kernels_are_no_finding() -> None:
    events = [event for event in small(100) if not event["name"].startswith("ProfilerStep")]
    run = make_run([*events, step(0, 0, 500), step(1, 500, 500)])
    assert findings_of(run, RULE) == []
    (row,) = findings_of(run, RULE, min_per_step=50.0)
    assert (row["kernels_per_step"], row["impact_nanos"]) == (50, 299_000)


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(small(100))
    assert severities(run, RULE, high_percent=60.0) == ["medium"]
    assert severities(run, RULE, high_percent=60.0, medium_percent=60.0) == ["low"]
    assert severities(run, RULE, min_percent=60.0) == []
    assert severities(run, RULE, min_count_percent=99.5) == []
    assert severities(run, RULE, min_per_step=101.0) == []
    assert severities(run, RULE, short_micros=4.0) == []
    assert severities(run, RULE, short_micros=21.0, min_per_step=101.0) == ["high"]


def test_findings_of_recorded_traces() -> None:
    # 386 small ones of 900 a step: not the half, and 0.8 % of the time.
    run = recorded_run("a100-nccl")
    assert findings_of(run, RULE) == []
    (row,) = findings_of(run, RULE, min_count_percent=40.0, min_percent=0.5)
    assert row["kernels_per_step"] == pytest.approx(1159 / 3)
    assert row["severity"] == "low"
    # 5 of 7, but only 5.
    assert findings_of(recorded_run("mi250-rocm"), RULE, min_percent=0.0) == []


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
