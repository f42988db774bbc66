"""The table of docs/benchmarks.md has the rows of bench/rows.py."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from paths import ROOT


@pytest.fixture
def import_from_bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of `bench`, whose imports are of that folder too."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    for name in ("rows", "table"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


def test_the_table_has_each_row_in_order(import_from_bench: Callable[[str], Any]) -> None:
    rows = import_from_bench("rows").ROWS
    assert len({row.name for row in rows}) == len(rows)
    page = (ROOT / "docs/benchmarks.md").read_text()
    written = page.partition("written by `bench/run.py --update`")[2]
    _, _, *lines = written.partition("| what |")[2].partition("\n\n")[0].splitlines()
    described = [line.removeprefix("| ").partition(" | ")[0] for line in lines]
    assert described == [row.description for row in rows]


def test_a_profiler_of_operators_is_compared_with_its_peer_in_the_same_rounds(
    import_from_bench: Callable[[str], Any],
) -> None:
    operators = import_from_bench("operators")
    # The machine is slower in each round: what is added doubles, and its ratio stays.
    during = [
        [[slow * 150, slow * 1100], [slow * 300, slow * 1400], [slow * 100, slow * 1000]]
        for slow in (1, 2, 4)
    ]
    cost = operators.evaluate({"during": during, "after": [during[0]]})
    assert cost.operator_ratio.median == pytest.approx(0.25)
    assert cost.step_ratio.median == pytest.approx(0.25)
    assert cost.ours.operator_nanos == (100, 50, 200)
    assert cost.ours.step_percent.median == pytest.approx(10)
    assert cost.peer.step_percent.median == pytest.approx(40)
    alone = operators.evaluate({"during": [during[0][::2]], "after": [during[0][::2]]})
    assert alone.peer is None
    assert alone.ours.operator_nanos.median == 50
    costs = {name: cost if name in operators.PEERS else alone for name in operators.PROFILERS}
    heading, _, *lines = operators.operators_table(costs).splitlines()
    assert [line.split(" | ")[0] for line in lines] == [
        f"| {label}" for label in operators.PROFILERS.values()
    ]
    assert {line.count("|") for line in lines} == {heading.count("|")}


def test_a_window_is_compared_with_torch_profiler_in_the_same_round(
    import_from_bench: Callable[[str], Any],
) -> None:
    windows = import_from_bench("windows")
    rounds = []
    for slow in (1.0, 2.0, 4.0):
        ours = {"before": 100 * slow, "during": 150 * slow, "end": 30 * slow, "after": 101 * slow}
        peer = {"before": 100 * slow, "during": 200 * slow, "end": 20 * slow, "after": 100 * slow}
        rounds.append({name: peer if name == "torch" else ours for name in windows.PROFILERS})
    lines = windows.windows_table(rounds).splitlines()
    assert lines[2] == "| marey, window | 200 ns | +50 % | 0.50 | +60 ns | 1.50 | +1.0 % |"
    assert lines[-1] == "| torch.profiler | 200 ns | +100 % |  | +40 ns |  | +0.0 % |"


def test_an_export_of_another_size_costs_about_as_much_a_span(
    import_from_bench: Callable[[str], Any],
) -> None:
    scale = import_from_bench("scale")
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
