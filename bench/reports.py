"""A row of `scale.py`, and those of `marey analyze`: from a trace of some operators to runs of many
host spans.
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
LARGE_SIZE = 100
"""From this size on, in million host spans, a run is measured once and without the baseline."""
A100_TRACE = Path(__file__).parent.parent / "tests" / "data" / "kineto" / "a100-nccl.json.gz"
OPERATORS = 375
STEPS = 3
BARS = {8: (1.5, 500e6), 100: (15.0, 1e9), 600: (60.0, 2e9)}
"""Seconds and bytes, by million host spans."""


Command = Callable[[Path], list[str | Path]]
"""A function from an output path, which does not exist, to the arguments of `marey`."""


@dataclass(frozen=True)
class Row:
    """A measured command."""

    what: str
    size: str
    command: Command
    bar_seconds: float | None = None
    bar_bytes: float | None = None
    max_open_files: int | None = None
    """Limit of open files of the process."""
    is_large: bool = False


def analyze_rows(store: RunStore, sizes: tuple[int, ...]) -> Iterator[Row]:
    """Yields the reports to measure; each input is made before its command runs."""
    what = "`marey analyze`"
    operators = partial(analyze_arguments, partial(operators_trace, store.folder))
    yield Row(what, f"{OPERATORS} operators", operators, 0.12)
    yield Row(what, "a100-nccl", partial(analyze_arguments, lambda: A100_TRACE), 0.3)
    for size in sizes:
        if size in BARS:
            command = partial(analyze_arguments, partial(store.run, size * MILLION))
            is_large = size >= LARGE_SIZE
            yield Row(what, f"{size} M spans", command, *BARS[size], is_large=is_large)


def analyze_arguments(make_input: Callable[[], Path], output: Path) -> list[str | Path]:
    return ["analyze", make_input(), "-f", "txt", "-o", output]


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
