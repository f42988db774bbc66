"""The rule `straggler`: a rank that the others wait for in collectives."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from analyses import host_span, make_run, recorded_run, step
from marey.run import Run
from rank_traces import collective, collective_traces
from rules import findings_of

RULE = "straggler"


def job(*late: tuple[float, ...], **more: Any) -> Run:
    """Makes the run of `collective_traces` in a new folder."""
    return make_run(*collective_traces(*late, **more), folder=Path(mkdtemp(dir=".")))


def test_findings_match_hand_computed_values() -> None:
    # Rank 1 is last twice, 150 and 450 us after the next; rank 2 once, 60 us after rank 1.
    [row] = findings_of(job((0, 200, 50), (0, 40, 100), (0, 450, 0)), RULE)
    assert row["subject"] == "rank 1"
    assert row["rank"] == 1
    assert row["impact_nanos"] == row["gain_nanos"] == pytest.approx(200_000)
    assert row["impact_percent"] == pytest.approx(20)
    assert row["severity"] == "medium"
    assert row["confidence"] == "likely"
    assert (row["count"], row["last_count"], row["delay_nanos"]) == (3, 2, 600_000)
    assert row["delay_percent"] == pytest.approx(100 * 600 / 660)
    assert row["process_group"] == "0"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_ranks_that_are_last_in_turn_are_no_finding(size: int) -> None:
    # They wait for each other, but for each rank equally.
    late = [tuple(400.0 * (rank == number % size) for rank in range(size)) for number in range(12)]
    run = job(*late)
    assert findings_of(run, RULE) == []
    assert len(findings_of(run, RULE, min_ratio=1)) == size
    assert findings_of(run, RULE, min_ratio=1.01) == []


def test_the_rank_with_most_of_the_delays_is_named_among_two() -> None:
    # 75 % of all delays are one and a half times what chance makes of two.
    run = job((0, 300), (100, 0))
    assert [row["rank"] for row in findings_of(run, RULE)] == [1]
    assert [row["rank"] for row in findings_of(run, RULE, min_ratio=1.6)] == []
    run = job((0, 300), (110, 0))
    assert findings_of(run, RULE) == []


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = job((0, 350, 0), (0, 350, 0))
    assert [row["severity"] for row in findings_of(run, RULE)] == ["high"]
    assert [row["severity"] for row in findings_of(run, RULE, high_percent=36)] == ["medium"]
    [row] = findings_of(run, RULE, high_percent=50, medium_percent=36)
    assert row["severity"] == "low"
    assert findings_of(run, RULE, min_percent=36) == []
    run = job((0, 15, 0), (0, 15, 0))
    assert findings_of(run, RULE) == []
    assert len(findings_of(run, RULE, min_percent=1)) == 1


def test_collectives_outside_of_steps_are_ignored() -> None:
    # What is late after the last step, such as at the end of a job, costs no step.
    run = job((0, 0, 0), (0, 0, 0), outside=(0, 900, 0))
    assert findings_of(run, RULE) == []
    # Without steps, the recording counts: from the operator at 0 to the end at 2100.
    [row] = findings_of(job((0, 0, 0), (0, 900, 0), has_steps=False), RULE)
    assert row["impact_nanos"] == 900_000
    assert row["impact_percent"] == pytest.approx(100 * 900 / 2100)


def test_ties_and_unmatched_collectives_are_ignored() -> None:
    traces = collective_traces((0, 0, 300), (0, 300, 300))
    traces[2].append(collective(9, 1700, 1800, 3))
    [row] = findings_of(make_run(*traces), RULE)
    assert (row["rank"], row["count"], row["last_count"]) == (2, 2, 1)


def test_each_process_group_is_judged_alone() -> None:
    traces = []
    for rank in range(2):
        events = [step(0, 0, 1000)]
        events.append(collective(1, 100 + 300 * rank, 450, 2, "dp"))
        events.append(collective(1, 700 - 200 * rank, 750, 2, "tp"))
        traces.append(events)
    answer = findings_of(make_run(*traces), RULE)
    assert [(row["process_group"], row["rank"], row["impact_nanos"]) for row in answer] == [
        ("dp", 1, 300_000),
        ("tp", 0, 200_000),
    ]


def test_findings_of_recorded_traces() -> None:
    # A single rank does not wait.
    assert findings_of(recorded_run("a100-nccl"), RULE) == []
    assert findings_of(recorded_run("cpu-only-gloo"), RULE) == []


def test_no_findings_without_data() -> None:
    assert findings_of(make_run([host_span("op", 0, 0)]), RULE) == []
    assert findings_of(job((0, 0), (0, 0)), RULE) == []
