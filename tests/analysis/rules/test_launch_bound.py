"""The rule `launch_bound`: the host launches too slowly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from analyses import Event, host_span, kernel, launch, make_run, recorded_run, step, write
from programs import marey_stdout
from rules import check_no_findings_without_data, findings_of, severities

RULE = "launch_bound"


def launches(work: float, cycle: float = 50, count: int = 10, delay: float = 5) -> list[Event]:
    """Operators back to back, each with a kernel that begins `delay` after its call of 1 µs."""
    events = [step(0, 0, count * cycle + 200)]
    for number in range(count):
        begin = number * cycle
        events += [
            host_span("aten::add", begin, cycle),
            launch(number + 1, begin + 20),
            kernel(number + 1, begin + 21 + delay, work),
        ]
    return events


def test_short_kernels_wait_for_launches() -> None:
    # Kernels of 10 µs every 50 µs: 9 gaps of 40 µs in 700 µs.
    (row,) = findings_of(make_run(launches(10)), RULE)
    assert (row["subject"], row["severity"], row["confidence"]) == ("device 0", "high", "likely")
    assert row["impact_nanos"] == 360_000
    assert row["impact_percent"] == pytest.approx(100 * 360 / 700)
    assert row["gain_nanos"] == 360_000
    assert (row["cycle_nanos"], row["work_nanos"]) == (50_000, 10_000)
    assert (row["empty_percent"], row["launch_count"]) == (100, 10)
    assert row["operator_percent"] == pytest.approx(100)


def test_gpu_idle_and_launch_bound_report_their_overlap() -> None:
    trace = write(Path("trace.json"), launches(10))
    report = json.loads(marey_stdout("analyze", trace, "-f", "json"))
    overlaps = {
        finding["rule"]: {(other["rule"], other["nanos"]) for other in finding["overlaps"]}
        for finding in report["findings"]
    }
    assert {"gpu_idle", "launch_bound"} <= set(overlaps)
    assert ("launch_bound", 360_000) in overlaps["gpu_idle"]
    assert ("gpu_idle", 360_000) in overlaps["launch_bound"]
    for finding in report["findings"]:
        for other in finding["overlaps"]:
            assert report["findings"][other["finding"]]["subject"] == other["subject"]
    for form in ("txt", "md"):
        text = marey_stdout("analyze", trace, "-f", form).replace("\\", "")
        said = [line for line in text.splitlines() if "Overlaps in time with:" in line]
        assert any("launch_bound of device 0 (up to 360 µs)" in line for line in said), form


def test_long_kernels_are_no_finding() -> None:
    # As long as the cycle: no gaps.
    assert findings_of(make_run(launches(50)), RULE) == []


def test_one_long_wait_is_not_a_slow_launch() -> None:
    # The device is idle for 40 % of the step, but the median launch comes early enough.
    events = launches(60)
    late = 600 + 300
    events[0] = step(0, 0, 1000)
    events += [host_span("aten::slow", 500, 400), launch(99, late), kernel(99, late + 6, 50)]
    run = make_run(events)
    (idle,) = findings_of(run, "gpu_idle")
    assert idle["subject"] == "host wait: operators"
    assert findings_of(run, RULE) == []


def test_a_synchronisation_is_not_a_launch() -> None:
    events = launches(10)
    waits = [
        host_span("cudaStreamSynchronize", 50 * number + 22, 27, category="cuda_runtime")
        for number in range(10)
    ]
    (row,) = findings_of(make_run([*events, *waits]), RULE, min_operator_percent=0.0)
    # Of 40 µs between kernels (36 to 76), synchronising takes 36 to 49 and 72 to 76.
    assert row["impact_nanos"] == 9 * (40 - 17) * 1000
    assert row["operator_percent"] == pytest.approx(100 * 23 / 40)


def test_a_graph_is_one_launch() -> None:
    events = launches(10)
    # Each call launches 4 more kernels of 10 µs: 50 µs of work in a cycle of 50 µs, in gaps of 0.
    graph = [
        kernel(number + 1, 50 * number + 26 + 10 * node, 10)
        for number in range(10)
        for node in range(1, 4)
    ]
    (row,) = findings_of(make_run([*events, *graph]), RULE)
    assert (row["launch_count"], row["work_nanos"]) == (10, 40_000)
    assert row["impact_nanos"] == 9 * 10_000


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(launches(10))
    assert severities(run, RULE, high_percent=52.0) == ["medium"]
    assert severities(run, RULE, high_percent=60.0, medium_percent=52.0) == ["low"]
    assert severities(run, RULE, min_percent=52.0) == []
    assert severities(run, RULE, min_operator_percent=100.0) == []
    assert severities(run, RULE, min_empty_percent=100.0) == []
    assert severities(run, RULE, queue_micros=5.0) == []
    assert severities(run, RULE, queue_micros=5.1) == ["high"]


def test_findings_of_recorded_traces() -> None:
    # A launch every 172 µs that gives 60 µs of work.
    (row,) = findings_of(recorded_run("a100-nccl"), RULE)
    assert row["severity"] == "high"
    assert row["work_nanos"] < row["cycle_nanos"] / 2
    # A model so small that nothing keeps the device busy.
    (row,) = findings_of(recorded_run("mi250-rocm"), RULE)
    assert row["severity"] == "high"
    # Also idle, but because of memory: launches are less than half of it.
    assert findings_of(recorded_run("critical-path-alexnet"), RULE) == []


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
