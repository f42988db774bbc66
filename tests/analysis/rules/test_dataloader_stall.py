"""The rule `dataloader_stall`: the main thread waits for data."""

from __future__ import annotations

from pathlib import Path

import pytest
from analyses import Event, kernel, launch, made, on_host, opened, real, step
from rules import check_bare, found, severities

NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(name: str = NEXT, category: str = "user_annotation", tid: int = 100) -> list[Event]:
    """The loader takes 400 of 1,000 µs; the first kernel still runs for 100 of them."""
    return [
        step(0, 0, 1000),
        launch(1, 10),
        kernel(1, 50, 250),
        on_host(name, 200, 400, category=category, tid=tid),
        launch(2, 700),
        kernel(2, 710, 100),
    ]


def test_what_the_device_hides_is_not_lost(tmp_path: Path) -> None:
    (row,) = found(made(tmp_path, loading()), "dataloader_stall")
    assert (row["subject"], row["severity"], row["confidence"]) == (NEXT, "medium", "measured")
    assert row["impact_nanos"] == row["gain_nanos"] == 300_000
    assert row["impact_percent"] == pytest.approx(30)
    assert (row["load_nanos"], row["hidden_nanos"]) == (400_000, 100_000)
    assert (row["longest_nanos"], row["load_count"], row["device"]) == (400_000, 1, 0)


def test_without_a_device_all_of_it_is(tmp_path: Path) -> None:
    events = [event for event in loading() if event["cat"] != "kernel"]
    (row,) = found(made(tmp_path, events), "dataloader_stall")
    assert (row["impact_nanos"], row["severity"], row["device"]) == (400_000, "high", None)


def test_the_most_idle_of_several_devices_counts(tmp_path: Path) -> None:
    other = [kernel(3, 0, 800, device=1), kernel(4, 250, 100, device=2)]
    (row,) = found(made(tmp_path, [*loading(), *other]), "dataloader_stall")
    assert (row["device"], row["impact_nanos"]) == (0, 300_000)
    (tmp_path / "more").mkdir()
    other = [kernel(4, 250, 20, device=2)]
    (row,) = found(made(tmp_path / "more", [*loading(), *other]), "dataloader_stall")
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
def test_names(tmp_path: Path, name: str, category: str, stalls: bool) -> None:
    rows = found(made(tmp_path, loading(name, category)), "dataloader_stall")
    assert [row["subject"] for row in rows] == [name] * stalls


def test_one_inside_another_counts_once(tmp_path: Path) -> None:
    inner = on_host("DataLoader.__next__", 250, 300)
    (row,) = found(made(tmp_path, [*loading(), inner]), "dataloader_stall")
    assert (row["impact_nanos"], row["load_count"], row["subject"]) == (300_000, 2, NEXT)


def test_threads_without_steps_load_ahead(tmp_path: Path) -> None:
    assert found(made(tmp_path, loading(tid=200)), "dataloader_stall") == []
    (tmp_path / "no_steps").mkdir()
    (row,) = found(made(tmp_path / "no_steps", loading(tid=200)[1:]), "dataloader_stall")
    assert row["impact_nanos"] == 300_000


def test_before_the_first_step_it_does_not_count(tmp_path: Path) -> None:
    run = made(tmp_path, [step(0, 300, 700), *loading()[1:]])
    assert found(run, "dataloader_stall") == []


def test_thresholds(tmp_path: Path) -> None:
    run = made(tmp_path, loading())
    assert severities(run, "dataloader_stall", high_percent=29.0) == ["high"]
    assert severities(run, "dataloader_stall", medium_percent=30.0) == ["low"]
    assert severities(run, "dataloader_stall", min_percent=30.1) == []


@pytest.mark.parametrize("name", ["a100-nccl", "mi250-rocm", "cpu-only-gloo"])
def test_real_traces(name: str) -> None:
    # None of them loads anything.
    assert found(opened(real(name)), "dataloader_stall", min_percent=0.0) == []


def test_nothing_to_say(tmp_path: Path) -> None:
    check_bare(tmp_path, "dataloader_stall")
