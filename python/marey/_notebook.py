"""HTML of graphs and query results for notebooks, without scripts.

A graph becomes nested rows that open and close, a result becomes a table.
"""

from __future__ import annotations

import heapq
import html as escaping
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _engine
from ._nodes import Table, Tree

# More rows make a notebook slow, and browsers limit the depth of nesting.
MAX_ROWS = 1000
MAX_DEPTH = 100
MAX_TEXT_CHARS = 200

# Rows above this depth are open initially.
_OPEN_DEPTH = 3

_STYLE = """\
<style>
.marey-graph{font:13px/1.6 ui-monospace,monospace;overflow-x:auto}
.marey-graph summary,.marey-graph .leaf,.marey-graph .head{display:flex;gap:1em;list-style:none}
.marey-graph summary{cursor:pointer}
.marey-graph summary::-webkit-details-marker{display:none}
.marey-graph .value,.marey-graph .bar,.marey-graph .scale{flex:0 0 13ch}
.marey-graph .value{text-align:right;overflow:hidden;text-overflow:ellipsis}
.marey-graph .bar{align-self:center;height:.7em;background:rgba(128,128,128,.15)}
.marey-graph .bar i{display:block;height:100%;background:#d9822b}
.marey-graph .bar i.less{background:#2b8a3e}
.marey-graph .value,.marey-graph .name,.marey-graph .heading{white-space:pre}
.marey-graph summary .name::before{content:"\\25b8  "}
.marey-graph details[open]>summary .name::before{content:"\\25be  "}
.marey-graph .leaf .name::before,.marey-graph .heading::before{content:"  "}
.marey-graph .head,.marey-graph .more{opacity:.7}
"""

# Minimum width of a column.
_MIN_WIDTH_CHARS = 13

# Marks of nodes that only one of two graphs has, as in `Graph.tree`.
_MARKS = {"both": "", "left": "◀", "right": "▶"}
_LEGEND = "◀ only in the left graph: in a difference, added; ▶ only in the right one: removed"


_TABLE_STYLE = """\
<style>
.marey-table{font:13px/1.6 ui-monospace,monospace;border-collapse:collapse}
.marey-table th,.marey-table td{padding:0 1em 0 0;text-align:left;white-space:pre}
.marey-table .number{text-align:right}
.marey-table .null,.marey-table caption{opacity:.7}
.marey-table caption{caption-side:bottom;text-align:left}
</style>"""


def table_html(columns: Sequence[str], rows: Sequence[Sequence[Any]], count: int) -> str:
    """Returns the first rows of a result that has `count` rows, as HTML."""
    are_numbers = [all(_is_number(row[index]) for row in rows) for index in range(len(columns))]
    lines = [_TABLE_STYLE, '<table class="marey-table">']
    if len(rows) < count:
        lines.append(f"<caption>the first {len(rows):,} of {count:,} rows</caption>")
    lines.append(_table_row("th", columns, are_numbers))
    lines += [_table_row("td", row, are_numbers) for row in rows]
    return "\n".join([*lines, "</table>"])


def dicts_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns dicts as a table, with a column for each key; a key that a dict lacks is null."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[row.get(column) for column in columns] for row in rows[:MAX_ROWS]]
    return table_html(columns, cells, len(rows))


def _table_row(tag: str, values: Sequence[Any], are_numbers: Sequence[bool]) -> str:
    cells = []
    for value, is_number in zip(values, are_numbers, strict=True):
        kind = "null" if value is None else "number" if is_number else ""
        text = "null" if value is None else _escape(str(value))
        cells.append(f'<{tag} class="{kind}">{text}</{tag}>' if kind else f"<{tag}>{text}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def graph_html(graph: _engine.Graph, labels: list[str]) -> str:
    """Returns the graph as HTML with the columns `labels`. The bars show the first column.

    Nodes that only one of two graphs has are marked. Of more than `MAX_ROWS` nodes, those with the
    largest values in the first column are shown, with the number of hidden nodes.
    """
    page = _Page(graph, labels)
    style = f"{_STYLE}{page.widths()}</style>"
    return "\n".join([style, '<div class="marey-graph">', *page.lines(), "</div>"])


class _Page:
    def __init__(self, graph: _engine.Graph, labels: list[str]) -> None:
        self.tree = Tree(graph)
        self.labels = [_printable(label) for label in labels]
        self.sides = graph.sides()
        table = Table(graph)
        self.names = table.column("name")
        self.columns = [table.column(label) for label in labels]
        self.weights = [_weight(value) for value in self.columns[0]] if labels else []
        self.max_weight = max((abs(weight) for weight in self.weights), default=0.0)

    def widths(self) -> str:
        """Returns CSS rules for columns with long labels; a class has one width on every page."""
        widths = sorted({len(label) for label in self.labels})
        rules = [
            f".marey-graph .value.w{width}{{flex-basis:{width}ch}}\n"
            for width in widths
            if width > _MIN_WIDTH_CHARS
        ]
        return "".join(rules)

    def lines(self) -> Iterator[str]:
        scale = '<span class="scale">of largest</span>' if self.labels else ""
        heading = '<span class="heading">name</span>'
        yield f'<div class="head">{self._cells(self.labels)}{scale}{heading}</div>'
        shown = self._select_nodes()
        ancestors: list[int] = []  # rows whose element is open
        for node in sorted(shown):
            yield from self._close_rows(ancestors, node, shown)
            children = self.tree.children(node)
            if any(child in shown for child in children):
                is_open = " open" if self.tree.depths[node] < _OPEN_DEPTH else ""
                yield f"<details{is_open}><summary>{self._row(node)}</summary>"
                ancestors.append(node)
            else:
                yield f'<div class="leaf">{self._row(node)}</div>'
                yield from self._hidden_children(node, children, shown)
        yield from self._close_rows(ancestors, len(self.names), shown)
        hidden = len(self.names) - len(shown)
        if hidden:
            yield f'<div class="more">{hidden:,} of {len(self.names):,} nodes are not shown</div>'
        if any(_MARKS[self.sides[node]] for node in shown):
            yield f'<div class="more">{_LEGEND}</div>'

    def _select_nodes(self) -> set[int]:
        """Selects the nodes to show: the largest first, each after its parent."""
        queue = [self._sort_key(root) for root in self.tree.roots()]
        heapq.heapify(queue)
        shown: set[int] = set()
        while queue and len(shown) < MAX_ROWS:
            _, node = heapq.heappop(queue)
            shown.add(node)
            if self.tree.depths[node] + 1 < MAX_DEPTH:
                for child in self.tree.children(node):
                    heapq.heappush(queue, self._sort_key(child))
        return shown

    def _sort_key(self, node: int) -> tuple[float, int]:
        return (-abs(self.weights[node]) if self.weights else 0.0, node)

    def _close_rows(self, ancestors: list[int], node: int, shown: set[int]) -> Iterator[str]:
        """Closes the elements of rows that are not ancestors of `node`."""
        while ancestors and self.tree.ends[ancestors[-1]] <= node:
            last = ancestors.pop()
            yield from self._hidden_children(last, self.tree.children(last), shown)
            yield "</details>"

    def _hidden_children(self, node: int, children: list[int], shown: set[int]) -> Iterator[str]:
        hidden = sum(self.tree.ends[child] - child for child in children if child not in shown)
        if hidden:
            name = _name_cell(f"… {hidden:,} more", self.tree.depths[node] + 1)
            blanks = self._cells([""] * len(self.labels))
            bar = '<span class="bar"></span>' if self.labels else ""
            yield f'<div class="leaf more">{blanks}{bar}{name}</div>'

    def _row(self, node: int) -> str:
        cells = self._cells([_format_value(column[node]) for column in self.columns])
        bar = ""
        if self.labels:
            weight = self.weights[node]
            percent = 100.0 * abs(weight) / self.max_weight if self.max_weight else 0.0
            bar_class = ' class="less"' if weight < 0 else ""
            bar = f'<span class="bar"><i{bar_class} style="width:{percent:.1f}%"></i></span>'
        name = _name_cell(self.names[node], self.tree.depths[node])
        mark = _MARKS[self.sides[node]]
        return f"{cells}{bar}{name}<span>{mark}</span>" if mark else f"{cells}{bar}{name}"

    def _cells(self, texts: list[str]) -> str:
        return "".join(map(_value_cell, texts, self.labels))


def _weight(value: Any) -> float:
    """Returns the value as a finite float; 0 if it is not a finite number."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _value_cell(text: str, label: str) -> str:
    width = f" w{len(label)}" if len(label) > _MIN_WIDTH_CHARS else ""
    return f'<span class="value{width}">{_escape(text)}</span>'


def _name_cell(name: str, depth: int) -> str:
    return f'<span class="name" style="padding-left:{2 * depth}ch">{_escape(name)}</span>'


def _format_value(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)


def _escape(text: str) -> str:
    """Escapes markup and non-printable characters, including marks of text direction."""
    return escaping.escape(_printable(text))


def _printable(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        text = text[:MAX_TEXT_CHARS] + "…"
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
