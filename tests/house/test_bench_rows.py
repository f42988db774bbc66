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


def test_the_bar_of_an_export_grows_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    scale = __import__("scale")
    rows = scale.rows(None, (1, 8))
    assert [next(rows).bar_seconds for _ in range(2)] == [0.75, 6.0]
