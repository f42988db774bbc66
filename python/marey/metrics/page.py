"""The HTML page of a `Reporter`: one file without network, tables that sort by a click."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .charts import MAX_SPANS, bar_chart, change_chart, line_chart, text, timeline
from .comparison import RunComparison
from .report import Report, shown

if TYPE_CHECKING:
    from .collector import MetricsCollector

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --soft: #8888; --bar: #d9822b;
  --less: #2b8a3e; --more: #c92a2a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .8rem .15rem 0; text-align: right; border-bottom: 1px solid var(--soft); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--bar); }
.wide { overflow-x: auto; }
svg { width: 100%; height: auto; font-size: 12px; fill: var(--ink); }
svg .label { text-anchor: end; } svg rect { fill: var(--bar); fill-opacity: .75; }
svg rect.less { fill: var(--less); } svg rect.more { fill: var(--more); }
svg line { stroke: var(--ink); stroke-width: 2; }
.line polyline { fill: none; stroke: var(--bar); stroke-width: 1.5; }
.line polygon { fill: var(--bar); fill-opacity: .25; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { overflow-wrap: anywhere; }
"""

# Numbers are in the attribute, because the shown text is rounded.
_SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.onclick = () => {
  const table = button.closest("table"), index = button.parentElement.cellIndex;
  const key = (row) => row.cells[index].dataset.number ?? row.cells[index].textContent;
  const isUp = button.parentElement.ariaSort === "descending";
  for (const head of table.tHead.rows[0].cells) head.ariaSort = "none";
  button.parentElement.ariaSort = isUp ? "ascending" : "descending";
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const order = key(a).localeCompare(key(b), undefined, { numeric: true });
    const number = Number(key(a)) - Number(key(b));
    return (isUp ? 1 : -1) * (Number.isNaN(number) ? order : number);
  });
  table.tBodies[0].append(...rows);
};
"""

_COLUMNS = ("count", "mean", "std", "min", "max", "p50", "p99")


def page_html(collector: MetricsCollector, report: Report, comparison: RunComparison | None) -> str:
    """Returns the page of a collector's figures."""
    spans = {name: series.spans() for name, series in collector.times().items()}
    times = {name: series.millis() for name, series in collector.times().items()}
    values = {name: list(series.items) for name, series in collector.values().items()}
    bars = [
        (part["name"], part["self_ms"], f"{part['percent']:.1f} %")
        for part in collector.analyze_bottlenecks()["components"]
    ]
    parts = [
        _section("Summary", _facts(report)),
        _section("Self time", bar_chart(bars) if bars else ""),
        _section("Times in milliseconds", _figures_table(report["timing"], "total")),
        _section("Values", _figures_table(report["values"], "last")),
        _section(
            "Charts",
            _charts([*_lines(times, "ms"), *_lines(values, "")]),
        ),
        _section(f"Timeline of the latest {MAX_SPANS:,} times", timeline(spans)),
        _section("Comparison", "" if comparison is None else _comparison(comparison)),
    ]
    title = f"{text(collector.name)}: times and values"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<script>{_SCRIPT}</script></body></html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _facts(report: Report) -> str:
    facts = report.facts()
    return f"<ul>{''.join(f'<li>{text(fact, 200)}</li>' for fact in facts)}</ul>" if facts else ""


def _figures_table(figures: dict[str, dict[str, Any]], last: str) -> str:
    if not figures:
        return ""
    columns = (*_COLUMNS, last)
    return _table(
        ("name", *columns),
        [(name, *(row[column] for column in columns)) for name, row in figures.items()],
    )


def _comparison(comparison: RunComparison) -> str:
    changes = comparison["metrics"].values()
    charted = [
        (change.metric, change.change_percent, change.low_percent, change.high_percent)
        for change in changes
        if change.change_percent is not None
    ]
    speedup = f"<p>Speedup of {text(comparison['metric'])}: {comparison['speedup']:.2f}x</p>"
    columns = ("metric", "unit", "before", "after", "change %", "low %", "high %", "significant")
    rows = [
        (*change[:-1], {True: "yes", False: "no", None: "unknown"}[change.significant])
        for change in changes
    ]
    about = "<p>Bars: change in percent, green for less. Lines: 95 % intervals.</p>"
    return speedup + about + change_chart(charted) + _table(columns, rows)


def _lines(series: dict[str, list[float]], unit: str) -> Iterable[str]:
    return (line_chart(name, numbers, unit) for name, numbers in series.items())


def _charts(figures: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(figures)}</div>' if figures else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col"><button>{column}</button></th>' for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    if value is None or isinstance(value, (int, float)):
        number = "" if value is None else f' data-number="{value!r}"'
        return f"<td{number}>{shown(value)}</td>"
    return f"<td>{text(value, 200)}</td>"
