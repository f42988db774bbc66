"""Helpers of the rule tests: the findings of a rule in a run."""

from __future__ import annotations

import json
import re

import marey
from analyses import (
    Event,
    Row,
    by_column,
    host_span,
    kernel,
    launch,
    make_run,
    open_run,
    recorded_trace,
    step,
)

# The columns that every rule has, before those of evidence.
COMMON = [
    "subject",
    "severity",
    "impact_nanos",
    "impact_percent",
    "gain_nanos",
    "confidence",
    "rank",
    "process_id",
]


def findings_of(run: marey.run.Run, rule: str, **thresholds: float) -> list[Row]:
    """Returns the findings of a rule with their evidence, after checking their invariants."""
    findings = run.findings({f"{rule}.{name}": value for name, value in thresholds.items()})
    return [evidence(row) for row in by_column(findings) if row["rule"] == rule]


def evidence(finding: Row) -> Row:
    """Returns the evidence row of a finding, with its description."""
    row: Row = json.loads(finding["evidence"])
    assert list(row)[: len(COMMON)] == COMMON
    assert {name: row[name] for name in COMMON} == {name: finding[name] for name in COMMON}
    assert row["severity"] in ("high", "medium", "low")
    assert row["confidence"] in ("measured", "likely", "possible")
    assert row["impact_nanos"] >= 0
    assert row["gain_nanos"] is None or 0 <= row["gain_nanos"] <= row["impact_nanos"]
    assert re.search(r"\{\w+\}", finding["description"]) is None
    return {**row, "description": finding["description"]}


def severities(run: marey.run.Run, rule: str, **thresholds: float) -> list[str]:
    """Returns the severities of the findings of a rule."""
    return [row["severity"] for row in findings_of(run, rule, **thresholds)]


def check_no_findings_without_data(rule: str) -> None:
    """Checks that a rule finds nothing without a device, host, steps or durations."""
    bare: dict[str, list[Event]] = {
        "host": [step(0, 0, 100), host_span("aten::add", 10, 50), launch(1, 20)],
        "device": [kernel(1, 0, 40), kernel(2, 40, 40), kernel(3, 60, 0)],
        "no_duration": [step(0, 0, 0), launch(1, 0, 0), kernel(1, 0, 0)],
        "instant": [{"ph": "i", "name": "x", "pid": 1, "tid": 1, "ts": 5, "s": "t"}],
    }
    for kind, events in bare.items():
        assert findings_of(make_run(events), rule) == [], kind
    assert findings_of(open_run(recorded_trace("cpu-only-gloo")), rule) == []
