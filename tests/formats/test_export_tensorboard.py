"""TensorBoard reads what `marey export --format tensorboard` writes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import RUNS
from programs import run_marey

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

# Three training steps of one process, and another process without any.
RUN = RUNS / "version-1.marey"


def export(form: str, out: Path) -> None:
    run_marey("export", RUN, "--format", form, "-o", out)


def rows(lines: Path, table: str) -> Iterator[dict[str, Any]]:
    for line in lines.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["table"] == table:
            yield row


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "run.jsonl"
    export("json", path)
    return path


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("board") / "logs"
    export("tensorboard", folder)
    assert [path.name.startswith("events.out.tfevents.") for path in folder.iterdir()] == [True]
    accumulator = event_accumulator.EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def test_step_times_are_scalars_by_step(board: Any, lines: Path) -> None:
    expected = [(row["number"], row["duration_nanos"] / 1e6) for row in rows(lines, "steps")]
    starts = [row["start_nanos"] / 1e9 for row in rows(lines, "steps")]
    pid = next(rows(lines, "steps"))["process"]
    scalars = board.Scalars(f"process {pid}/step/time_ms")
    assert [scalar.step for scalar in scalars] == [number for number, _ in expected] == [0, 1, 2]
    assert [scalar.value for scalar in scalars] == pytest.approx([time for _, time in expected])
    assert [scalar.wall_time for scalar in scalars] == pytest.approx(starts, abs=1e-6)


def test_metrics_are_scalars(board: Any, lines: Path) -> None:
    expected: dict[str, list[float]] = {}
    for row in rows(lines, "metrics"):
        if "value" in row:
            tag = f"process {row['process']}/metric/{row['name']}"
            expected.setdefault(tag, []).append(row["value"])
    found = {tag for tag in board.Tags()["scalars"] if "/metric/" in tag}
    assert found == set(expected) != set()
    for tag, values in expected.items():
        assert [scalar.value for scalar in board.Scalars(tag)] == pytest.approx(values)


def test_times_of_scopes_are_scalars_by_step(board: Any, lines: Path) -> None:
    steps = list(rows(lines, "steps"))
    pid = steps[0]["process"]

    def inside(step: dict[str, Any]) -> float:
        end = step["start_nanos"] + step["duration_nanos"]
        return sum(
            float(span["duration_nanos"]) / 1e6
            for span in rows(lines, "spans")
            if span["name"] == "backward" and step["start_nanos"] <= span["start_nanos"] < end
        )

    scalars = board.Scalars(f"process {pid}/scope/backward_ms")
    assert [scalar.value for scalar in scalars] == pytest.approx([inside(step) for step in steps])


def test_the_flame_graph_is_an_image(board: Any) -> None:
    (picture,) = board.Images("marey/flame")
    content: bytes = picture.encoded_image_string
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (picture.width, picture.height)
