"""Rows of `scale.py` for `marey analyze`, as whole processes: from a trace of some operators to
runs of many host spans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

MILLION = 1_000_000
A100 = Path(__file__).parent.parent / "tests" / "data" / "kineto" / "a100-nccl.json.gz"
OPERATORS = 375
STEPS = 3
BARS = {8: (1.5, 500e6), 100: (15.0, 1e9), 600: (60.0, 2e9)}
"""Seconds and bytes, by million host spans."""


class Recorded(Protocol):
    """Stores runs of host spans."""

    def run(self, spans: int) -> Path: ...


@dataclass(frozen=True)
class Analysis:
    """A report to measure, with its bars."""

    size: str
    command: Callable[[Path], list[str | Path]]
    bar_seconds: float
    bar_bytes: float | None = None


def analyses(recorded: Recorded, folder: Path, sizes: tuple[int, ...]) -> Iterator[Analysis]:
    """Yields the reports to measure; the input of a command is made before the command runs."""
    yield Analysis(f"{OPERATORS} operators", partial(report, lambda: trace_of(folder)), 0.12)
    yield Analysis("a100-nccl", partial(report, lambda: A100), 0.3)
    for size in sizes:
        if size in BARS:
            seconds, max_bytes = BARS[size]
            run = partial(recorded.run, size * MILLION)
            yield Analysis(f"{size} M spans", partial(report, run), seconds, max_bytes)


def report(of: Callable[[], Path], out: Path) -> list[str | Path]:
    return ["analyze", of(), "-f", "txt", "-o", out]


def trace_of(folder: Path) -> Path:
    """Returns a trace of some steps of host operators."""
    path = folder / f"operators_{OPERATORS}.json"
    if not path.is_file():
        events: list[dict[str, Any]] = []
        names = ("aten::linear", "aten::addmm", "aten::expand")
        for number in range(OPERATORS):
            step, place = divmod(number, OPERATORS // STEPS)
            outer, depth = divmod(place, len(names))
            if place == 0:
                add(events, "user_annotation", f"ProfilerStep#{step}", step * 1_000, 990)
            start = step * 1_000 + 10 + outer * 23 + depth
            add(events, "cpu_op", names[depth], start, 20 - 2 * depth)
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def add(events: list[dict[str, Any]], category: str, name: str, start: int, duration: int) -> None:
    of_thread = {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": duration}
    events.append({"cat": category, "name": name, **of_thread})
