"""The rule `memory_leak`: memory that grows from step to step."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from analyses import Event, host_span, make_run, memory_event, open_run, recorded_run, step, write
from rules import findings_of

RULE = "memory_leak"
MB = 1_000_000


def grown(totals: list[int], **more: Any) -> list[Event]:
    """Makes a step for each total, with that much allocated at its end."""
    events = []
    for number, total in enumerate(totals):
        events.append(step(number, 1000 * number, 1000))
        # More within the step, which is not what is left of it.
        events.append(memory_event(1000 * number + 100, total + 700 * MB, **more))
        events.append(memory_event(1000 * number + 900, total, **more))
    return events


def slope(totals: Sequence[float], steps: Sequence[float] | None = None) -> float:
    """Returns the median of all pairwise slopes, by brute force."""
    at = range(len(totals)) if steps is None else steps
    pairs = [
        (totals[right] - totals[left]) / (at[right] - at[left])
        for left in range(len(totals))
        for right in range(left + 1, len(totals))
    ]
    return statistics.median(pairs)


def test_findings_match_hand_computed_values() -> None:
    totals = [500 * MB, 900 * MB] + [1000 * MB + 12 * MB * number for number in range(10)]
    [row] = findings_of(make_run(grown(totals)), RULE)
    assert row["subject"] == "cuda:0"
    assert row["severity"] == "high"
    assert (row["impact_nanos"], row["impact_percent"], row["gain_nanos"]) == (0, 0, None)
    assert row["slope_bytes"] == 12 * MB
    assert row["r2"] == pytest.approx(1)
    assert row["growth_bytes"] == 108 * MB
    assert row["last_bytes"] == 1108 * MB
    assert row["step_count"] == 10
    assert row["steps_left"] is None  # the total memory is unknown


def test_the_slope_matches_a_brute_force_estimate() -> None:
    random.seed(7)
    totals = [1000 * MB + number * 15 * MB + random.randrange(60 * MB) for number in range(60)]
    totals[30] += 3000 * MB  # one step more or less does not change it
    [row] = findings_of(make_run(grown(totals)), RULE, min_r2=0)
    assert row["slope_bytes"] == pytest.approx(slope(totals[2:]), rel=1e-12)
    assert findings_of(make_run(grown(totals)), RULE, min_r2=0.99) == []


def test_many_steps_are_averaged() -> None:
    # 428 steps after the first two are 400 points, the mean of one or two each.
    random.seed(7)
    totals = [number * 11 * MB + random.randrange(500 * MB) for number in range(430)]
    bins: dict[int, list[int]] = {}
    for place in range(1, 429):
        bins.setdefault(place * 400 // 429, []).append(place)
    assert len(bins) == 400
    steps = [statistics.mean(places) + 1 for places in bins.values()]
    means = [statistics.mean(totals[place + 1] for place in places) for places in bins.values()]
    [row] = findings_of(make_run(grown(totals)), RULE)
    assert row["slope_bytes"] == pytest.approx(slope(means, steps), rel=1e-12)
    assert row["slope_bytes"] != pytest.approx(slope(totals[2:]), rel=1e-6)
    assert row["step_count"] == 428


def test_constant_memory_is_no_finding() -> None:
    assert findings_of(make_run(grown([900 * MB] * 30)), RULE) == []
    # It grows in the first steps only, as it does where an optimizer makes its state.
    assert findings_of(make_run(grown([0, 500 * MB] + [900 * MB] * 30)), RULE) == []
    shrunk = grown([9000 * MB - 50 * MB * number for number in range(30)])
    assert findings_of(make_run(shrunk), RULE) == []
    # Up and down: a line through it explains nothing.
    totals = [1000 * MB + 800 * MB * (number % 2) for number in range(30)]
    assert findings_of(make_run(grown(totals)), RULE) == []


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(grown([20 * MB * number for number in range(12)]))
    assert len(findings_of(run, RULE)) == 1
    assert findings_of(run, RULE, min_steps=11) == []
    assert findings_of(run, RULE, warmup_steps=3) == []
    assert len(findings_of(run, RULE, warmup_steps=3, min_steps=9)) == 1
    assert findings_of(run, RULE, min_slope_bytes=20 * MB) == []
    assert len(findings_of(run, RULE, min_slope_bytes=19 * MB)) == 1
    assert findings_of(run, RULE, min_growth_bytes=181 * MB) == []
    assert len(findings_of(run, RULE, min_growth_bytes=180 * MB)) == 1
    # From 9 MB per step on, if the threshold is lowered.
    run = make_run(grown([9 * MB * number for number in range(20)]))
    assert findings_of(run, RULE) == []
    assert len(findings_of(run, RULE, min_slope_bytes=8 * MB)) == 1


def test_the_remaining_time_is_estimated() -> None:
    path = write(Path("trace.json"), grown([20 * MB * number for number in range(12)]))
    devices = '{"deviceProperties":[{"id":0,"name":"x","totalGlobalMem":1000000000}],'
    path.write_text(devices + path.read_text()[1:])
    [row] = findings_of(open_run(path), RULE)
    assert row["total_bytes"] == 1000 * MB
    assert row["steps_left"] == 39  # 780 MB are left
    # The host's memory is not the device's, even with the same number.
    events = grown([20 * MB * number for number in range(12)], kind=0)
    path.write_text(devices + write(path, events).read_text()[1:])
    [row] = findings_of(open_run(path), RULE)
    assert (row["subject"], row["total_bytes"], row["steps_left"]) == ("cpu:0", None, None)


def test_each_memory_is_judged_alone() -> None:
    # The host's leaks, too; that of the device does not.
    totals = [20 * MB * number for number in range(12)]
    events = grown(totals, device=-1, kind=0)
    events += [event for event in grown([0] * 12) if event["name"] == "[memory]"]
    run = make_run(events)
    assert [row["subject"] for row in findings_of(run, RULE)] == ["cpu"]
    run = make_run(grown([0] * 12), grown(totals))
    assert [row["rank"] for row in findings_of(run, RULE)] == [1]


def test_findings_of_recorded_traces() -> None:
    # None was recorded with profile_memory.
    assert findings_of(recorded_run("a100-nccl"), RULE) == []


def test_no_findings_without_data() -> None:
    assert findings_of(make_run([host_span("op", 0, 0)]), RULE) == []
    # Without steps there is nothing to measure growth by.
    events = [memory_event(number, number * 100 * MB) for number in range(50)]
    assert findings_of(make_run([host_span("op", 0, 100), *events]), RULE) == []
