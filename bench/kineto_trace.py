"""Writes a torch.profiler trace of any length by repeating a recorded one."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import IO, Any

RECORDED_TRACE = (
    Path(__file__).parent.parent
    / "crates/marey-formats/tests/data/trace_event/critical-path-alexnet.json.gz"
)

# Ids by which events refer to each other; each repetition has other ids.
RENUMBERED = ("id", "External id", "Ev Idx", "correlation", "Record function id", "Sequence number")
PLACEHOLDER = "placeholder:"


def write(path: Path, events: int) -> int:
    """Writes at least this many events, compressed for a suffix `.gz`; returns the number."""
    with gzip.open(RECORDED_TRACE, "rt", encoding="utf-8") as recorded:
        trace = json.load(recorded)
    repeated = trace["traceEvents"]
    template, values, increments = make_template(repeated)
    repetitions = -(-events // len(repeated))
    with open_output(path) as out:
        header = {key: value for key, value in trace.items() if key != "traceEvents"}
        out.write(json.dumps(header)[:-1] + ', "traceEvents": [\n')
        for repetition in range(repetitions):
            pairs = zip(values, increments, strict=True)
            shifted = tuple(value + repetition * increment for value, increment in pairs)
            out.write((",\n" if repetition else "") + template % shifted)
        out.write("\n]}\n")
    return repetitions * len(repeated)


def open_output(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "wt", compresslevel=6, encoding="utf-8")
    return path.open("w", encoding="utf-8")


def make_template(events: list[dict[str, Any]]) -> tuple[str, list[float], list[float]]:
    """Returns the events as a template, its values, and their increments per repetition."""
    starts = [event["ts"] for event in events if event.get("dur")]
    trace_micros = max(starts) - min(starts) + 1000.0
    values: list[float] = []
    increments: list[float] = []

    def add_placeholder(conversion: str, value: float, increment: float) -> str:
        values.append(value)
        increments.append(increment)
        return PLACEHOLDER + conversion

    def with_placeholders(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: with_placeholders(key, value) for key, value in value.items()}
        if key == "ts":
            return add_placeholder("%.3f", value, trace_micros)
        if key in RENUMBERED and isinstance(value, int) and value > 0:
            return add_placeholder("%d", value, len(events))
        return value

    texts = [json.dumps(with_placeholders("", event)).replace("%", "%%") for event in events]
    text = re.sub(f'"{PLACEHOLDER}%(%[.0-9a-z]+)"', r"\1", ",\n".join(texts))
    return text, values, increments
