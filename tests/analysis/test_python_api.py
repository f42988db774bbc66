"""Analyses from Python: `Run.findings`, and sections."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pytest
from analyses import (
    by_column,
    host_span,
    kernel,
    launch,
    make_run,
    recorded_run,
    rows,
    step,
    types,
    write,
)
from marey.run import SECTIONS, Run
from programs import run_well

FINDINGS = {
    "severity": "string",
    "rule": "string",
    "title": "string",
    "subject": "string",
    "description": "string",
    "impact_nanos": "double",
    "impact_percent": "double",
    "gain_nanos": "double",
    "speedup": "double",
    "confidence": "string",
    "hint": "string",
    "rank": "int64",
    "process_id": "int64",
    "evidence": "string",
    "evidence_sql": "string",
}

HOT = "hot_operation.medium_percent"


@pytest.fixture
def empty() -> Run:
    """A run without events."""
    return make_run([])


# Findings


def test_findings_match_hand_computed_values() -> None:
    events = [
        step(0, 0, 1000),
        step(1, 1000, 1000),
        host_span("often", 100, 300),
        host_span("often", 1100, 100),
        host_span("seldom", 500, 300),
    ]
    findings = make_run(events).findings()
    assert list(findings.columns) == list(FINDINGS)
    found = by_column(findings)
    # Of 2000 us "often" takes 400, "seldom" 300.
    assert [(row["severity"], row["rule"], row["subject"]) for row in found] == [
        ("medium", "hot_operation", "often"),
        ("medium", "hot_operation", "seldom"),
    ]
    for row, nanos, percent in zip(found, (200_000, 150_000), (20, 15), strict=True):
        assert row["impact_nanos"] == row["gain_nanos"] == nanos
        assert row["impact_percent"] == pytest.approx(percent)
        # Without it a step of 1000 us would take 800, or 850.
        assert row["speedup"] == pytest.approx(1e6 / (1e6 - nanos))
        assert (row["confidence"], row["rank"], row["process_id"]) == ("measured", None, 0)
        assert row["subject"] in row["description"]
        assert row["hint"]
        assert row["title"] == "Hot operation"


def test_findings_are_sorted_by_severity_and_impact() -> None:
    run = recorded_run("a100-nccl")
    # With its own thresholds, and so that what takes less is more severe.
    for thresholds in ({}, {"gpu_idle.high_percent": 99, "hot_operation.high_percent": 5}):
        found = by_column(run.findings(thresholds))
        severities = [("high", "medium", "low").index(row["severity"]) for row in found]
        impacts = [-row["impact_nanos"] for row in found]
        order = list(zip(severities, impacts, strict=True))
        assert order == sorted(order)
        assert set(severities) == {0, 1, 2}
    assert impacts != sorted(impacts)


def test_evidence_sql_returns_the_evidence() -> None:
    run = recorded_run("a100-nccl")
    for row in by_column(run.findings()):
        evidence = json.loads(row["evidence"])
        answer = by_column(run.sql(row["evidence_sql"]))
        alike = [other for other in answer if other["subject"] == row["subject"]]
        assert [pytest.approx(evidence)] == alike if len(alike) == 1 else evidence in alike
        assert {row[name] for name in ("severity", "subject")} <= {*evidence.values()}


def test_thresholds_can_be_set() -> None:
    run = make_run([step(0, 0, 1000), host_span("op", 100, 200)])
    assert [row["severity"] for row in by_column(run.findings())] == ["medium"]
    assert len(run.findings({HOT: 20})) == 0
    assert len(run.findings({HOT: 19.9})) == 1
    high = run.findings({HOT: 5, "hot_operation.high_percent": 19})
    assert high.column("severity") == ["high"]
    # They are of that call alone.
    assert run.findings({}).column("severity") == ["medium"]


def test_unknown_thresholds_are_rejected(empty: Run) -> None:
    near = r"no rule has a threshold `hot_operation.medium_percen`.*`hot_operation.medium_percent`"
    with pytest.raises(ValueError, match=near):
        empty.findings({"hot_operation.medium_percen": 1})
    with pytest.raises(ValueError, match="not a finite number"):
        empty.findings({HOT: float("nan")})
    with pytest.raises(TypeError):
        empty.findings({HOT: "much"})  # type: ignore[dict-item]


def test_a_result_without_findings_has_columns(empty: Run) -> None:
    assert len(empty.findings()) == 0
    found = recorded_run("a100-nccl").findings()
    assert len(found) > 0
    assert types(found) == types(empty.findings()) == FINDINGS
    assert pyarrow.table(found).to_pylist() == by_column(found)


def test_ctrl_c_stops_findings() -> None:
    # So many that asking takes longer than making plans for it, which is not stopped.
    count = 100_000
    events = [step(number, number * count, count - 1) for number in range(10)]
    for number in range(count):
        start = 10 * number
        events += [
            host_span(f"op{number % 50}", start, 8),
            launch(number + 1, start + 2, 3),
            kernel(number + 1, start + 9, 3, name=f"k{number % 50}"),
        ]
    path = write(Path("trace.json"), events)
    # The timer counts the time that the process computes: so the rules are asked by then.
    source = f"""
        import marey, signal
        run = marey.open({str(path)!r})
        run.findings()
        signal.signal(signal.SIGPROF, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_PROF, 0.05)
        try:
            while True:
                run.findings()
        except KeyboardInterrupt:
            print("stopped")
        print(len(run.findings()))
        """
    assert run_well(source, "-W", "ignore").splitlines()[0] == "stopped"


# Sections


def test_breakdown_matches_the_view() -> None:
    run = recorded_run("a100-nccl")
    for view, by_step in (("gpu_time", False), ("gpu_time_by_step", True)):
        found = by_column(run.breakdown(by_step=by_step))
        assert sorted(found, key=str) == sorted(rows(run, view), key=str)
    assert len(run.breakdown()) == 1
    assert sorted(run.breakdown(by_step=True).column("number")) == [4, 5, 6]


def test_breakdown_matches_hand_computed_values() -> None:
    events = [
        step(0, 0, 100),
        launch(1, 5),
        kernel(1, 10, 30),
        kernel(2, 50, 20, name="ncclKernel"),
    ]
    run = make_run(events)
    columns = ("busy_nanos", "idle_nanos", "compute_nanos", "communication_nanos")
    for by_step, idle in ((False, 10_000), (True, 50_000)):
        [row] = by_column(run.breakdown(by_step=by_step))
        assert tuple(row[column] for column in columns) == (50_000, idle, 30_000, 20_000)


@pytest.fixture(scope="module")
def trained() -> Run:
    return recorded_run("a100-nccl")


# Memory, shapes, modules, other ranks, and what marey's own recording costs.
NOT_IN_THE_TRACE = {"roofline", "mfu", "stragglers", "operator_modules", "overhead"}


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_can_be_queried(name: str, trained: Run, empty: Run) -> None:
    found, nothing = trained.section(name), empty.section(name)
    assert (len(found) > 0) == (name not in NOT_IN_THE_TRACE)
    assert len(nothing) == 0
    assert types(nothing) == types(found)
    cut = trained.section(name, max_rows=1)
    assert len(cut) == min(1, len(found))
    assert cut.was_cut == (len(found) > 1)


def test_section_names_are_unique() -> None:
    assert len(set(SECTIONS)) == len(SECTIONS)
    assert {"steps", "devices", "critical_path", "operations", "kernels"} <= set(SECTIONS)


def test_unknown_sections_are_rejected(empty: Run) -> None:
    with pytest.raises(
        ValueError, match=r"no section 'kernel'; the sections are steps, .*, stragglers"
    ):
        empty.section("kernel")
