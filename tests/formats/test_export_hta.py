"""Holistic Trace Analysis (HTA) reads an exported trace like the original."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from paths import FORMATS_DATA
from programs import marey_stdout, run_well

hta = pytest.importorskip("hta.trace_analysis")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

TRACES = FORMATS_DATA


def exported(source: str | Path, name: str) -> Any:
    """Returns HTA's analysis of an exported trace, of a run or of a foreign file."""
    folder = Path(name)
    folder.mkdir()
    marey_stdout("export", source, "--format", "kineto", "-o", folder / "trace.json.gz")
    return hta.TraceAnalysis(trace_dir=str(folder))


def original(path: Path) -> Any:
    folder = Path("original")
    folder.mkdir()
    shutil.copy(path, folder)
    return hta.TraceAnalysis(trace_dir=str(folder))


def links(analysis: Any) -> list[tuple[str, str]]:
    """Returns pairs of names: events, and the events that they launched or were launched by."""
    (rank,) = analysis.t.traces
    trace = analysis.t.get_trace(rank)
    names = analysis.t.symbol_table.sym_table
    linked = trace[trace.index_correlation > 0]
    other = trace.loc[linked.index_correlation]
    pairs = zip(linked["name"], other["name"], strict=True)
    return sorted((names[event], names[its]) for event, its in pairs)


def test_an_imported_trace_is_analysed_as_the_original() -> None:
    path = TRACES / "trace_event" / "mi250-rocm.json.gz"
    before = original(path)
    marey_stdout("import", path, "-o", "run.marey")
    after = exported("run.marey", "exported")
    assert list(after.t.traces) == list(before.t.traces) == [0]
    assert after.t.get_iterations(0) == before.t.get_iterations(0) != []
    assert links(after) == links(before) != []
    temporal = [each.get_temporal_breakdown(visualize=False) for each in (before, after)]
    assert temporal[0].equals(temporal[1])
    kernels = [each.get_gpu_kernel_breakdown(visualize=False) for each in (before, after)]
    assert all(a.equals(b) for a, b in zip(*kernels, strict=True))


def test_a_recorded_run_has_its_rank_and_scopes() -> None:
    run_well(
        """
        import marey

        marey.start("train", data="trace")
        for _ in range(3):
            with marey.scope("forward"):
                pass
        marey.finalize()
        """,
        RANK="5",
    )
    analysis = exported("train.marey", "exported")
    assert list(analysis.t.traces) == [5]
    names = analysis.t.symbol_table.sym_table
    trace = analysis.t.get_trace(5)
    assert [names[name] for name in trace["name"]] == ["forward"] * 3
    assert {names[category] for category in trace["cat"]} == {"user_annotation"}
