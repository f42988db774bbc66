"""A rank that others wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from analyses import made, on_host, opened, real, step
from marey.run import Run
from rank_traces import collective, collective_traces
from rules import found

RULE = "straggler"


def job(folder: Path, *late: tuple[float, ...], **more: Any) -> Run:
    """A run of them, in a folder of its own."""
    place = folder / str(len(list(folder.iterdir())))
    place.mkdir()
    return made(place, *collective_traces(*late, **more))


def test_by_hand(tmp_path: Path) -> None:
    # Rank 1 is last twice, 150 and 450 us after the next; rank 2 once, 60 us after rank 1.
    [row] = found(job(tmp_path, (0, 200, 50), (0, 40, 100), (0, 450, 0)), RULE)
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
def test_silent_if_each_is_last_in_turn(tmp_path: Path, size: int) -> None:
    # They wait a good deal for one another, but for no one rank more than for another.
    late = [tuple(400.0 * (rank == number % size) for rank in range(size)) for number in range(12)]
    run = job(tmp_path, *late)
    assert found(run, RULE) == []
    assert len(found(run, RULE, min_ratio=1)) == size
    assert found(run, RULE, min_ratio=1.01) == []


def test_two_ranks(tmp_path: Path) -> None:
    # 75 % of all delays are one and a half times what chance makes of two.
    run = job(tmp_path, (0, 300), (100, 0))
    assert [row["rank"] for row in found(run, RULE)] == [1]
    assert [row["rank"] for row in found(run, RULE, min_ratio=1.6)] == []
    run = job(tmp_path, (0, 300), (110, 0))
    assert found(run, RULE) == []


def test_thresholds(tmp_path: Path) -> None:
    run = job(tmp_path, (0, 350, 0), (0, 350, 0))
    assert [row["severity"] for row in found(run, RULE)] == ["high"]
    assert [row["severity"] for row in found(run, RULE, high_percent=36)] == ["medium"]
    [row] = found(run, RULE, high_percent=50, medium_percent=36)
    assert row["severity"] == "low"
    assert found(run, RULE, min_percent=36) == []
    run = job(tmp_path, (0, 15, 0), (0, 15, 0))
    assert found(run, RULE) == []
    assert len(found(run, RULE, min_percent=1)) == 1


def test_only_what_the_steps_have(tmp_path: Path) -> None:
    # What is late after the last step, such as at the end of a job, costs no step.
    run = job(tmp_path, (0, 0, 0), (0, 0, 0), outside=(0, 900, 0))
    assert found(run, RULE) == []
    # Without steps, the recording counts: from the operator at 0 to the end at 2100.
    [row] = found(job(tmp_path, (0, 0, 0), (0, 900, 0), steps=False), RULE)
    assert row["impact_nanos"] == 900_000
    assert row["impact_percent"] == pytest.approx(100 * 900 / 2100)


def test_ties_and_what_one_rank_alone_has(tmp_path: Path) -> None:
    traces = collective_traces((0, 0, 300), (0, 300, 300))
    traces[2].append(collective(9, 1700, 1800, 3))
    [row] = found(made(tmp_path, *traces), RULE)
    assert (row["rank"], row["count"], row["last_count"]) == (2, 2, 1)


def test_each_group_by_itself(tmp_path: Path) -> None:
    traces = []
    for rank in range(2):
        events = [step(0, 0, 1000)]
        events.append(collective(1, 100 + 300 * rank, 450, 2, "dp"))
        events.append(collective(1, 700 - 200 * rank, 750, 2, "tp"))
        traces.append(events)
    answer = found(made(tmp_path, *traces), RULE)
    assert [(row["process_group"], row["rank"], row["impact_nanos"]) for row in answer] == [
        ("dp", 1, 300_000),
        ("tp", 0, 200_000),
    ]


def test_real_traces() -> None:
    # One rank has nobody to wait for.
    assert found(opened(real("a100-nccl")), RULE) == []
    assert found(opened(real("cpu-only-gloo")), RULE) == []


def test_nothing(tmp_path: Path) -> None:
    assert found(made(tmp_path, [on_host("op", 0, 0)]), RULE) == []
    assert found(job(tmp_path, (0, 0), (0, 0)), RULE) == []
