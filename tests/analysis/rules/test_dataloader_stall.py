"""The rule `dataloader_stall`: the main thread waits for data."""

from __future__ import annotations

import pytest
from analyses import Event, host_span, kernel, launch, make_run, recorded_run, step
from rules import check_no_findings_without_data, findings_of, severities

RULE = "dataloader_stall"

NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(name: str = NEXT, category: str = "user_annotation", tid: int = 100) -> list[Event]:
    """The loader takes 400 of 1,000 µs; the first kernel still runs for 100 of them."""
    return [
        step(0, 0, 1000),
        launch(1, 10),
        kernel(1, 50, 250),
        host_span(name, 200, 400, category=category, tid=tid),
        launch(2, 700),
        kernel(2, 710, 100),
    ]


def test_loading_while_the_device_is_busy_is_ignored() -> None:
    (row,) = findings_of(make_run(loading()), RULE)
    assert (row["subject"], row["severity"], row["confidence"]) == (NEXT, "medium", "measured")
    assert row["impact_nanos"] == row["gain_nanos"] == 300_000
    assert row["impact_percent"] == pytest.approx(30)
    assert (row["load_nanos"], row["hidden_nanos"]) == (400_000, 100_000)
    assert (row["longest_nanos"], row["load_count"], row["device"]) == (400_000, 1, 0)
    assert "For 300 µs of that (30.0 %) the device was idle." in row["description"]


def test_without_a_device_all_loading_counts() -> None:
    events = [event for event in loading() if event["cat"] != "kernel"]
    (row,) = findings_of(make_run(events), RULE)
    assert (row["impact_nanos"], row["severity"], row["device"]) == (400_000, "high", None)
    assert "no device worked" in row["description"]


def test_the_most_idle_device_decides() -> None:
    other = [kernel(3, 0, 800, device=1), kernel(4, 250, 100, device=2)]
    (row,) = findings_of(make_run([*loading(), *other]), RULE)
    assert (row["device"], row["impact_nanos"]) == (0, 300_000)
    other = [kernel(4, 250, 20, device=2)]
    (row,) = findings_of(make_run([*loading(), *other]), RULE)
    assert (row["device"], row["impact_nanos"]) == (2, 380_000)


@pytest.mark.parametrize(
    ("name", "category", "stalls"),
    [
        ("torch/utils/data/dataloader.py(628): __next__", "python_function", True),
        ("DataLoader.__next__", "user_annotation", True),
        ("next(loader)", "user_annotation", True),
        ("torch/utils/data/dataloader.py(480): __iter__", "python_function", False),
        ("nextafter", "cpu_op", False),
        ("aten::copy_", "cpu_op", False),
    ],
)
def test_data_loader_names_are_recognised(name: str, category: str, stalls: bool) -> None:
    rows = findings_of(make_run(loading(name, category)), RULE)
    assert [row["subject"] for row in rows] == [name] * stalls


def test_nested_loaders_count_once() -> None:
    inner = host_span("DataLoader.__next__", 250, 300)
    (row,) = findings_of(make_run([*loading(), inner]), RULE)
    assert (row["impact_nanos"], row["load_count"], row["subject"]) == (300_000, 2, NEXT)


def test_loader_threads_without_steps_are_ignored() -> None:
    assert findings_of(make_run(loading(tid=200)), RULE) == []
    (row,) = findings_of(make_run(loading(tid=200)[1:]), RULE)
    assert row["impact_nanos"] == 300_000


def test_time_before_the_first_step_is_ignored() -> None:
    run = make_run([step(0, 300, 700), *loading()[1:]])
    assert findings_of(run, RULE) == []


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(loading())
    assert severities(run, RULE, high_percent=29.0) == ["high"]
    assert severities(run, RULE, medium_percent=30.0) == ["low"]
    assert severities(run, RULE, min_percent=30.1) == []


@pytest.mark.parametrize("name", ["a100-nccl", "mi250-rocm", "cpu-only-gloo"])
def test_findings_of_recorded_traces(name: str) -> None:
    # None of them loads anything.
    assert findings_of(recorded_run(name), RULE, min_percent=0.0) == []


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
