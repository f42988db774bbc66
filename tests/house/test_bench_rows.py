"""The table of docs/benchmarks.md has the rows of bench/rows.py."""

from __future__ import annotations

import sys

import pytest
from paths import ROOT


def test_the_table_has_each_row_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    monkeypatch.delitem(sys.modules, "rows", raising=False)
    rows = __import__("rows").ROWS
    assert len({row.name for row in rows}) == len(rows)
    page = (ROOT / "docs/benchmarks.md").read_text()
    written = page.partition("written by `bench/run.py --update`")[2]
    _, _, *lines = written.partition("| what |")[2].partition("\n\n")[0].splitlines()
    described = [line.removeprefix("| ").partition(" | ")[0] for line in lines]
    assert described == [row.description for row in rows]


def test_an_export_of_another_size_costs_about_as_much_a_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    scale = __import__("scale")
    measured: dict[tuple[str, str], object] = {}
    bars, verdicts = [], []
    seconds = {"8 M spans": 4.0, "1 M spans": 0.6, "100 M spans": 70.0}
    for row in scale.csv_rows(None, (1, 8, 100), measured):
        cost = measured[row.what, row.size] = scale.Cost(seconds[row.size], 0.0)
        bars.append((row.size, row.bar_seconds))
        verdicts.append(scale.row_verdict(row, cost))
    expected = [("8 M spans", 6.0), ("1 M spans", 0.65), ("100 M spans", 65.0)]
    assert bars == [(size, pytest.approx(bar)) for size, bar in expected]
    assert verdicts == ["holds", "holds", "**missed**"]
    (alone,) = scale.csv_rows(None, (1,), {})
    assert alone.bar_seconds is None
