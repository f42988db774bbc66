"""The view `step_times`: durations of steps, and outliers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from analyses import Event, host_span, make_run, recorded_run, step
from analyses import rows as viewed

VIEW = "step_times"


def steps(durations: Sequence[float]) -> list[Event]:
    return [step(number, 1000 * number, took) for number, took in enumerate(durations)]


def test_the_view_matches_hand_computed_values() -> None:
    # The median is 104, the deviations are 4, 2, 0, 2, 96: their median is 2.
    found = viewed(make_run(steps([100, 102, 104, 106, 200])), VIEW)
    found.sort(key=lambda row: int(row["number"]))
    assert [row["between_nanos"] for row in found] == [None, 900_000, 898_000, 896_000, 894_000]
    assert {row["median_nanos"] for row in found} == {104_000}
    assert [row["deviation_nanos"] for row in found] == [-4000, -2000, 0, 2000, 96_000]
    expected = [0.6745 * deviation / 2 for deviation in (-4, -2, 0, 2, 96)]
    assert [row["robust_z"] for row in found] == pytest.approx(expected)
    assert [row["is_outlier"] for row in found] == [False] * 4 + [True]


def test_robust_z_if_most_steps_are_equal() -> None:
    # The median of the deviations is 0, their mean is 10.
    found = viewed(make_run(steps([100] * 9 + [200])), VIEW)
    found.sort(key=lambda row: int(row["number"]))
    assert [row["robust_z"] for row in found[:9]] == [0] * 9
    assert found[9]["robust_z"] == pytest.approx(100 / 12.53314)
    assert [row["is_outlier"] for row in found] == [False] * 9 + [True]
    found = viewed(make_run(steps([100] * 4)), VIEW)
    assert [row["robust_z"] for row in found] == [0] * 4


def test_small_deviations_are_not_outliers() -> None:
    # Far out for steps that are this much alike, but 4 % only.
    found = viewed(make_run(steps([1000, 1001, 1002, 1003, 1042])), VIEW)
    assert max(row["robust_z"] for row in found) > 20
    assert not any(row["is_outlier"] for row in found)


def test_fast_steps_are_not_outliers() -> None:
    found = viewed(make_run(steps([500, 502, 504, 506, 100])), VIEW)
    assert min(row["robust_z"] for row in found) < -100
    assert not any(row["is_outlier"] for row in found)


def test_each_process_has_its_own_median() -> None:
    found = viewed(make_run(steps([100, 102, 104]), steps([500, 502, 504])), VIEW)
    assert {row["rank"]: row["median_nanos"] for row in found} == {0: 102_000, 1: 502_000}
    assert sum(row["between_nanos"] is None for row in found) == 2
    assert not any(row["is_outlier"] for row in found)


def test_empty_and_overlapping_steps_are_supported() -> None:
    events = [step(0, 0, 0), step(1, 10, 0), step(2, 20, 50), step(3, 40, 50, tid=101)]
    found = viewed(make_run(events), VIEW)
    assert {row["number"]: row["between_nanos"] for row in found} == {
        0: None,
        1: 10_000,
        2: 10_000,
        3: -30_000,
    }


def test_runs_without_steps_are_one_step() -> None:
    assert viewed(make_run([host_span("op", 0, 1)]), VIEW) == []
    assert viewed(recorded_run("critical-path-alexnet"), VIEW) == []


def test_recorded_steps_match_known_times() -> None:
    run = recorded_run("a100-nccl")
    found = viewed(run, VIEW)
    assert [row["number"] for row in found] == [4, 5, 6]
    durations = [row["duration_nanos"] for row in found]
    assert durations == [222_442_191, 219_726_905, 224_936_243]
    assert {row["median_nanos"] for row in found} == {222_442_191}
    assert not any(row["is_outlier"] for row in found)
