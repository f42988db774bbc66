"""Golden tables: the views of the analyses over recorded traces.

A file of `golden/` has the name of the trace, the query, and the table. `MAREY_UPDATE_GOLDEN=1`
writes the tables, also of a new file that has only the trace and the query. Other tests check that
the values are correct. No recorded trace has the totals of an allocator, so the views of memory
read the made trace `golden/memory.json`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import marey
import pytest
from analyses import open_run, recorded_trace
from paths import TESTS

FOLDER = TESTS / "golden"
FILES = sorted(FOLDER.glob("*.golden"))
# The first view of the analyses; earlier ones only show recorded data.
FIRST = "step_summary"


@functools.cache
def run_of(trace: str) -> marey.run.Run:
    made_trace = FOLDER / f"{trace}.json"
    return open_run(made_trace if made_trace.exists() else recorded_trace(trace))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_views_of_recorded_traces_match_golden_files(path: Path) -> None:
    head, _, expected = path.read_text().partition("\n----\n")
    trace, _, query = head.partition("\n")
    table = run_of(trace.removeprefix("trace: ")).sql(query)._answer.text(1_000)
    if os.environ.get("MAREY_UPDATE_GOLDEN"):
        path.write_text(f"{head.rstrip()}\n----\n{table}")
        return
    assert table == expected


def test_every_analysis_view_has_a_golden_file() -> None:
    views = run_of("a100-nccl").tables
    analyses = views[views.index(FIRST) :]
    asked = {path.stem for path in FILES}
    stored = {"strings", "contexts", "args", "processes", "threads", "sessions", "phases"}
    stored |= {"metrics", "rollups", "losses", "variables"}
    assert asked == set(analyses) - stored
