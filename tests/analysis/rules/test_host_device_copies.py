"""The rule `host_device_copies`: copies that no kernel hides."""

from __future__ import annotations

import pytest
from analyses import (
    Event,
    gpu_span,
    host_span,
    kernel,
    launch,
    make_run,
    recorded_run,
    step,
    values,
)
from rules import check_no_findings_without_data, findings_of, severities

RULE = "host_device_copies"


def copy(number: int, start: float, duration: float, name: str, **more: int) -> Event:
    """Makes a copy at 1,000 bytes per microsecond."""
    size = int(1000 * duration)
    return gpu_span(
        name, start, duration, category="gpu_memcpy", correlation=number, bytes=size, **more
    )


PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"
BACK = "Memcpy DtoH (Device -> Pinned)"

# 300 µs to the device, 200 of them without a kernel; 50 µs back, 30 of them without; 1,000 µs.
COPIES: list[Event] = [
    step(0, 0, 1000),
    host_span("aten::to", 0, 9),
    launch(1, 1, name="cudaMemcpyAsync"),
    copy(1, 100, 200, PAGEABLE),
    launch(2, 3, name="cudaMemcpyAsync"),
    copy(2, 300, 100, PINNED, stream=8),
    launch(3, 5),
    kernel(3, 300, 100),
    launch(4, 20, name="cudaMemcpyAsync"),
    copy(4, 380, 50, BACK, stream=9),
    copy(5, 700, 100, "Memcpy DtoD (Device -> Device)"),
]


def test_exposed_copies_are_a_finding_for_each_direction() -> None:
    into, back = findings_of(make_run(COPIES), RULE)
    assert (into["subject"], into["severity"]) == ("host to device", "medium")
    assert into["confidence"] == "measured"
    assert into["impact_nanos"] == into["gain_nanos"] == 200_000
    assert into["impact_percent"] == pytest.approx(20)
    assert into["copy_nanos"] == 300_000
    assert (into["copied_bytes"], into["pageable_bytes"]) == (300_000, 200_000)
    assert (into["pageable_percent"], into["copies_per_step"]) == (50, 2)
    assert into["path"] == "step/aten::to"
    assert (back["subject"], back["severity"]) == ("device to host", "low")
    assert (back["impact_nanos"], back["copy_nanos"]) == (30_000, 50_000)
    assert (back["pageable_bytes"], back["copied_bytes"]) == (0, 50_000)


def test_a_kernel_of_another_device_hides_nothing() -> None:
    events = [*COPIES, kernel(6, 0, 900, device=1)]
    found = findings_of(make_run(events), RULE)
    assert values(found, "impact_nanos") == [200_000, 30_000]
    events = [*COPIES, kernel(6, 0, 900, stream=10)]
    assert findings_of(make_run(events), RULE) == []


def test_devices_are_not_mixed() -> None:
    other = copy(6, 500, 250, PINNED, device=1)
    rows = findings_of(make_run([*COPIES, other]), RULE)
    assert [(row["device"], row["impact_nanos"]) for row in rows] == [
        (1, 250_000),
        (0, 200_000),
        (0, 30_000),
    ]


def test_copies_are_divided_by_the_steps() -> None:
    run = make_run([*COPIES[1:], step(0, 200, 300), step(1, 500, 300)])
    # The first copy began before; the second one is hidden.
    (back,) = findings_of(run, RULE)
    assert (back["subject"], back["impact_nanos"]) == ("device to host", 15_000)
    assert back["impact_percent"] == pytest.approx(5)


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(COPIES)
    assert severities(run, RULE, high_percent=19.0) == ["high", "low"]
    assert severities(run, RULE, medium_percent=20.0) == ["low", "low"]
    assert severities(run, RULE, min_percent=3.1) == ["medium"]
    assert severities(run, RULE, min_percent=21.0) == []


def test_findings_of_recorded_traces() -> None:
    # The parameters of a model: 244 MB, in 0.1 % of a recording without steps.
    run = recorded_run("critical-path-alexnet")
    assert findings_of(run, RULE) == []
    (row,) = findings_of(run, RULE, min_percent=0.1)
    assert (row["copied_bytes"], row["pageable_percent"]) == (244_403_360, 100)
    assert row["impact_nanos"] == row["copy_nanos"] == 55_503_000
    # ROCm reports neither the bytes nor the kind of memory.
    (row,) = findings_of(recorded_run("mi250-rocm"), RULE, min_percent=0.1)
    assert (row["copied_bytes"], row["pageable_bytes"], row["pageable_percent"]) == (None, None, 0)
    # Copies within the device only.
    assert findings_of(recorded_run("a100-nccl"), RULE, min_percent=0.0) == []


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
