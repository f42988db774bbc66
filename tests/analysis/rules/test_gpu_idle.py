"""The rule `gpu_idle`: why a device was idle."""

from __future__ import annotations

import pytest
from analyses import (
    Event,
    host_span,
    kernel,
    launch,
    make_run,
    recorded_run,
    step,
    values,
    values_by,
)
from rules import check_no_findings_without_data, findings_of, severities

RULE = "gpu_idle"

# From 100 to 620 µs the device waits: 292 µs for operators, 200 µs for memory, 28 µs for Python.
IDLE: list[Event] = [
    step(0, 0, 1000),
    launch(1, 10),
    kernel(1, 20, 80),
    host_span("aten::slow", 110, 490),
    host_span("cudaMalloc", 200, 200, category="cuda_runtime"),
    launch(2, 610),
    kernel(2, 620, 80),
    launch(3, 615),
    kernel(3, 710, 90),
]


def test_idle_time_is_attributed_to_what_the_host_did() -> None:
    run = make_run(IDLE)
    operators, memory = findings_of(run, RULE)
    assert operators["subject"] == "host wait: operators"
    assert operators["severity"] == "medium"
    assert operators["impact_nanos"] == 292_000
    assert operators["impact_percent"] == pytest.approx(29.2)
    assert operators["gain_nanos"] == 292_000
    assert operators["confidence"] == "measured"
    assert operators["host_span"] == "aten::slow"
    assert operators["host_path"] == "step/aten::slow"
    assert operators["host_span_nanos"] == 290_000
    assert operators["device_idle_percent"] == pytest.approx(53.0)
    assert memory["subject"] == "host wait: memory allocation"
    assert memory["impact_nanos"] == 200_000
    # Every nanosecond has a cause, and no span but the step is no operator.
    everything = {row["subject"]: row for row in findings_of(run, RULE, min_percent=0.0)}
    assert everything["host wait: outside operators"]["impact_nanos"] == 28_000
    assert everything["host wait: outside operators"]["gap_count"] == 1
    assert everything["kernel wait"]["impact_nanos"] == 10_000
    assert everything["kernel wait"]["gain_nanos"] == 0
    assert sum(row["impact_nanos"] for row in everything.values()) == 530_000


def test_idle_time_is_split_at_span_boundaries() -> None:
    events = [
        step(0, 0, 1000),
        launch(1, 10),
        kernel(1, 20, 80),
        host_span("aten::outer", 150, 50),
        host_span("aten::inner", 160, 40),
        host_span("cudaMalloc", 200, 300, category="cuda_runtime"),
        launch(2, 510),
        kernel(2, 520, 80),
    ]
    found = findings_of(make_run(events), RULE)
    assert values_by("subject", found, "impact_nanos") == {
        "host wait: memory allocation": 300_000,
        "host wait: outside operators": 69_000,
        "host wait: operators": 51_000,
    }


def test_work_on_another_stream_hides_idle_time() -> None:
    hidden = [*IDLE, launch(4, 30), kernel(4, 90, 600, stream=8)]
    assert findings_of(make_run(hidden), RULE) == []


def test_device_side_waits_are_not_blamed_on_the_host() -> None:
    run = make_run(
        [step(0, 0, 1000), launch(1, 1), launch(2, 5), kernel(1, 10, 90), kernel(2, 400, 9)],
    )
    columns = ("subject", "impact_nanos", "gain_nanos", "confidence", "host_span")
    expected = ("other", 300_000, None, "possible", "no span")
    assert values(findings_of(run, RULE), *columns) == [expected]


def test_idle_time_outside_of_steps_is_ignored() -> None:
    # Two steps from 200 µs on: 100 of the 520 µs were before.
    late = [event for event in IDLE if not event["name"].startswith("ProfilerStep")]
    run = make_run([*late, step(0, 200, 300, tid=200), step(1, 500, 500, tid=200)])
    memory, operators = sorted(findings_of(run, RULE), key=lambda row: str(row["subject"]))
    assert memory["impact_nanos"] == 100_000
    assert operators["impact_nanos"] == 101_000
    assert operators["impact_percent"] == pytest.approx(100 * 202 / 800)


def test_devices_and_ranks_are_not_mixed() -> None:
    other = [
        {**event, "args": {**event["args"], "device": 1}} if event["cat"] == "kernel" else event
        for event in IDLE
    ]
    rows = findings_of(make_run(IDLE, other), RULE)
    assert {(row["rank"], row["device"], row["subject"], row["impact_nanos"]) for row in rows} == {
        (0, 0, "host wait: operators", 292_000),
        (0, 0, "host wait: memory allocation", 200_000),
        (1, 1, "host wait: operators", 292_000),
        (1, 1, "host wait: memory allocation", 200_000),
    }
    # Two devices that one thread feeds wait for themselves.
    events = [
        *IDLE,
        launch(5, 40),
        kernel(5, 50, 50, device=1),
        launch(6, 700),
        kernel(6, 710, 9, device=1),
    ]
    found = findings_of(make_run(events), RULE)
    by_device = values_by(("device", "subject"), found, "impact_nanos")
    assert by_device[0, "host wait: operators"] == 292_000
    assert by_device[1, "host wait: operators"] == 293_000  # and the launch at 700 µs


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(IDLE)
    assert severities(run, RULE, high_percent=25.0) == ["high", "medium"]
    assert severities(run, RULE, medium_percent=25.0) == ["medium", "low"]
    assert severities(run, RULE, min_percent=25.0) == ["medium"]
    assert severities(run, RULE, min_percent=29.3) == []


def test_findings_of_recorded_traces() -> None:
    # 75 % idle, with operators that launch too slowly.
    first, *_ = findings_of(recorded_run("a100-nccl"), RULE)
    assert (first["subject"], first["severity"]) == ("host wait: operators", "high")
    # The first call of a library gives memory back.
    first, *_ = findings_of(recorded_run("critical-path-alexnet"), RULE)
    assert (first["subject"], first["host_span"]) == ("host wait: memory allocation", "cudaFree")
    # One kernel, so no gap between two.
    assert findings_of(recorded_run("triton-kernel-args"), RULE) == []


def test_all_idle_time_has_a_cause() -> None:
    run = recorded_run("a100-nccl")
    rows = findings_of(run, RULE, min_percent=0.0)
    ((idle, window),) = run.sql("SELECT idle_nanos, window_nanos FROM gpu_time").rows()
    assert window > 0
    assert sum(row["impact_nanos"] for row in rows) * 3 == pytest.approx(idle, rel=0.001)


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
