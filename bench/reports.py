"""Rows of `scale.py` for `marey analyze`, as whole processes: from a trace of some operators to
runs of many host spans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from spans import RunStore

MILLION = 1_000_000
A100_TRACE = Path(__file__).parent.parent / "tests" / "data" / "kineto" / "a100-nccl.json.gz"
OPERATORS = 375
STEPS = 3
BARS = {8: (1.5, 500e6), 100: (15.0, 1e9), 600: (60.0, 2e9)}
"""Seconds and bytes, by million host spans."""


@dataclass(frozen=True)
class Analysis:
    """A report to measure, with its bars."""

    size: str
    make_input: Callable[[], Path]
    bar_seconds: float
    bar_bytes: float | None = None
    million_spans: int = 0

    def arguments(self, output: Path) -> list[str | Path]:
        return ["analyze", self.make_input(), "-f", "txt", "-o", output]


def analyses(store: RunStore, folder: Path, sizes: tuple[int, ...]) -> Iterator[Analysis]:
    """Yields the reports to measure; each input is made before its command runs."""
    yield Analysis(f"{OPERATORS} operators", lambda: operators_trace(folder), 0.12)
    yield Analysis("a100-nccl", lambda: A100_TRACE, 0.3)
    for size in sizes:
        if size in BARS:
            max_seconds, max_bytes = BARS[size]
            make_run = partial(store.run, size * MILLION)
            yield Analysis(f"{size} M spans", make_run, max_seconds, max_bytes, size)


def operators_trace(folder: Path) -> Path:
    """Returns a trace of some steps of host operators."""
    path = folder / f"operators_{OPERATORS}.json"
    if not path.is_file():
        events: list[dict[str, Any]] = []
        names = ("aten::linear", "aten::addmm", "aten::expand")
        for number in range(OPERATORS):
            step, index = divmod(number, OPERATORS // STEPS)
            group, depth = divmod(index, len(names))
            if index == 0:
                add_event(events, "user_annotation", f"ProfilerStep#{step}", step * 1_000, 990)
            start_micros = step * 1_000 + 10 + group * 23 + depth
            add_event(events, "cpu_op", names[depth], start_micros, 20 - 2 * depth)
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def add_event(events: list[dict[str, Any]], category: str, name: str, ts: int, dur: int) -> None:
    fields = {"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": dur}
    events.append({"cat": category, "name": name, **fields})
