"""Writes a torch.profiler trace of any length by repeating a recorded one."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import IO, Any

RECORDED = (
    Path(__file__).parent.parent
    / "crates/marey-formats/tests/data/trace_event/critical-path-alexnet.json.gz"
)

# Ids by which events refer to each other; each repetition has other ids.
RENUMBERED = ("id", "External id", "Ev Idx", "correlation", "Record function id", "Sequence number")
GAP = "gap:"


def write(path: Path, events: int) -> int:
    """Writes at least this many events, compressed for a name in `.gz`; returns the number."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as recorded:
        trace = json.load(recorded)
    repeated = trace["traceEvents"]
    template, values, steps = templated(repeated)
    times = -(-events // len(repeated))
    with opened(path) as out:
        head = {key: value for key, value in trace.items() if key != "traceEvents"}
        out.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        for number in range(times):
            shifted = tuple(v + number * step for v, step in zip(values, steps, strict=True))
            out.write((",\n" if number else "") + template % shifted)
        out.write("\n]}\n")
    return times * len(repeated)


def opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "wt", compresslevel=6, encoding="utf-8")
    return path.open("w", encoding="utf-8")


def templated(events: list[dict[str, Any]]) -> tuple[str, list[float], list[float]]:
    """Returns the events as a template, its values, and their increments per repetition."""
    timed = [event["ts"] for event in events if event.get("dur")]
    length = max(timed) - min(timed) + 1000.0
    values: list[float] = []
    steps: list[float] = []

    def gap(place: str, value: float, step: float) -> str:
        values.append(value)
        steps.append(step)
        return GAP + place

    def with_gaps(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: with_gaps(key, value) for key, value in value.items()}
        if key == "ts":
            return gap("%.3f", value, length)
        if key in RENUMBERED and isinstance(value, int) and value > 0:
            return gap("%d", value, len(events))
        return value

    texts = [json.dumps(with_gaps("", event)).replace("%", "%%") for event in events]
    text = re.sub(f'"{GAP}%(%[.0-9a-z]+)"', r"\1", ",\n".join(texts))
    return text, values, steps
