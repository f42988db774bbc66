"""The rule `exposed_communication`: communication that no computation hides."""

from __future__ import annotations

import pytest
from analyses import Event, gpu_span, host_span, make_run, recorded_run, step
from rules import findings_of

RULE = "exposed_communication"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def exposed(share: float, *, steps: bool = True, device: int = 0) -> list[Event]:
    """Makes two steps of 1000 us, each with 200 us of hidden and some exposed communication."""
    events = []
    for number, start in enumerate((0, 1000)):
        if steps:
            events.append(step(number, start, 1000))
        events.append(gpu_span("gemm", start, 400, device=device))
        events.append(gpu_span(REDUCE, start + 200, 200 + share, stream=20, device=device))
    events.append(gpu_span("fill", 1990, 10, device=device))
    return events


def test_findings_match_hand_computed_values() -> None:
    [row] = findings_of(make_run(exposed(300)), RULE)
    assert row["subject"] == "device 0"
    assert row["severity"] == "medium"  # not above 30 %
    assert row["impact_nanos"] == row["gain_nanos"] == 300_000
    assert row["impact_percent"] == pytest.approx(30)
    assert row["confidence"] == "measured"
    assert row["communication_nanos"] == 500_000
    assert row["overlap_percent"] == pytest.approx(40)
    assert row["kernel"] == REDUCE
    assert row["step_count"] == 2


def test_without_steps_shares_refer_to_the_recording() -> None:
    # From the first activity to the last, as one.
    [row] = findings_of(make_run(exposed(300, steps=False)), RULE)
    assert row["impact_nanos"] == 600_000
    assert row["impact_percent"] == pytest.approx(30)
    assert row["step_count"] == 0


def test_hidden_communication_is_no_finding() -> None:
    assert findings_of(make_run(exposed(0)), RULE) == []


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(exposed(300))
    assert [row["severity"] for row in findings_of(run, RULE, high_percent=29)] == ["high"]
    assert [row["severity"] for row in findings_of(run, RULE, medium_percent=31)] == ["low"]
    assert findings_of(run, RULE, min_percent=31) == []
    run = make_run(exposed(10))  # 1 %
    assert findings_of(run, RULE) == []
    assert [row["severity"] for row in findings_of(run, RULE, min_percent=0.5)] == ["low"]


def test_communication_outside_of_steps_is_ignored() -> None:
    events = [*exposed(0), gpu_span(REDUCE, 3000, 900)]
    assert findings_of(make_run(events), RULE) == []


def test_only_the_five_worst_devices_are_reported() -> None:
    run = make_run(*[exposed(100 + 10 * rank) for rank in range(6)])
    answer = findings_of(run, RULE)
    assert [row["rank"] for row in answer] == [5, 4, 3, 2, 1]
    assert [row["impact_nanos"] for row in answer] == [150e3, 140e3, 130e3, 120e3, 110e3]


def test_findings_of_recorded_traces() -> None:
    # 5.9 % of the steps: 39.6 ms of 667 ms.
    [row] = findings_of(recorded_run("a100-nccl"), RULE)
    assert row["severity"] == "low"
    assert row["impact_nanos"] == pytest.approx(13_186_489.33, abs=0.01)
    assert row["impact_percent"] == pytest.approx(5.9289, abs=1e-4)
    # One device, no communication.
    assert findings_of(recorded_run("critical-path-alexnet"), RULE) == []
    assert findings_of(recorded_run("cpu-only-gloo"), RULE) == []


def test_no_findings_without_data() -> None:
    assert findings_of(make_run([host_span("op", 0, 0)]), RULE) == []
    assert findings_of(make_run([step(0, 0, 0), gpu_span(REDUCE, 0, 0)]), RULE) == []
