"""A graph as HTML for notebooks: nested rows that open and close, without a script."""

from __future__ import annotations

import heapq
import html as escaping
import math
from collections.abc import Iterator
from typing import Any

from . import _engine
from ._nodes import Table, Tree

# More rows make a notebook slow, and deeper nesting is more than browsers take.
MAX_ROWS = 1000
MAX_DEPTH = 100
MAX_TEXT = 200

# Rows above this depth are open at first.
_OPEN_DEPTH = 3

_STYLE = """\
<style>
.marey-graph{font:13px/1.6 ui-monospace,monospace;overflow-x:auto}
.marey-graph summary,.marey-graph .leaf,.marey-graph .head{display:flex;gap:1em;list-style:none}
.marey-graph summary{cursor:pointer}
.marey-graph summary::-webkit-details-marker{display:none}
.marey-graph .value{flex:0 0 8em;text-align:right;overflow:hidden;text-overflow:ellipsis}
.marey-graph .head .value{opacity:.7}
.marey-graph .bar{flex:0 0 6em;align-self:center;height:.7em;background:rgba(128,128,128,.15)}
.marey-graph .bar i{display:block;height:100%;background:#d9822b}
.marey-graph .bar i.less{background:#2b8a3e}
.marey-graph .value,.marey-graph .name{white-space:pre}
.marey-graph summary .name::before{content:"\\25b8  "}
.marey-graph details[open]>summary .name::before{content:"\\25be  "}
.marey-graph .leaf .name::before{content:"   "}
.marey-graph .more{opacity:.7}
</style>"""


def html(graph: _engine.Graph, labels: list[str]) -> str:
    """The graph as HTML, with the columns `labels`; the bars show the first of them.

    Where there are more than `MAX_ROWS` nodes, those with the largest first column are shown, and
    how many are not.
    """
    return "\n".join([_STYLE, '<div class="marey-graph">', *_Page(graph, labels).lines(), "</div>"])


class _Page:
    def __init__(self, graph: _engine.Graph, labels: list[str]) -> None:
        self.tree = Tree(graph)
        self.labels = labels
        table = Table(graph)
        self.names = table.column("name")
        self.columns = [table.column(label) for label in labels]
        self.weights = [_weight(value) for value in self.columns[0]] if labels else []
        self.largest = max((abs(weight) for weight in self.weights), default=0.0)

    def lines(self) -> Iterator[str]:
        heads = "".join(_cell(label, label) for label in self.labels)
        yield f'<div class="head">{heads}</div>'
        shown = self._shown()
        open_ends: list[int] = []  # of the rows that are being nested in
        for at in sorted(shown):
            yield from self._closed(open_ends, at, shown)
            children = self.tree.children(at)
            if any(child in shown for child in children):
                is_open = " open" if self.tree.depths[at] < _OPEN_DEPTH else ""
                yield f"<details{is_open}><summary>{self._row(at)}</summary>"
                open_ends.append(at)
            else:
                yield f'<div class="leaf">{self._row(at)}</div>'
                yield from self._more(at, children, shown)
        yield from self._closed(open_ends, len(self.names), shown)
        hidden = len(self.names) - len(shown)
        if hidden:
            yield f'<div class="more">{hidden:,} of {len(self.names):,} nodes are not shown</div>'

    def _shown(self) -> set[int]:
        """The nodes to show: each after its parent, the largest first."""
        waiting = [self._rank(root) for root in self.tree.roots()]
        heapq.heapify(waiting)
        shown: set[int] = set()
        while waiting and len(shown) < MAX_ROWS:
            _, at = heapq.heappop(waiting)
            shown.add(at)
            if self.tree.depths[at] + 1 < MAX_DEPTH:
                for child in self.tree.children(at):
                    heapq.heappush(waiting, self._rank(child))
        return shown

    def _rank(self, at: int) -> tuple[float, int]:
        return (-abs(self.weights[at]) if self.weights else 0.0, at)

    def _closed(self, opened: list[int], at: int, shown: set[int]) -> Iterator[str]:
        """The ends of the rows that `at` is not below."""
        while opened and self.tree.ends[opened[-1]] <= at:
            last = opened.pop()
            yield from self._more(last, self.tree.children(last), shown)
            yield "</details>"

    def _more(self, at: int, children: list[int], shown: set[int]) -> Iterator[str]:
        hidden = sum(self.tree.ends[child] - child for child in children if child not in shown)
        if hidden:
            name = _name(f"… {hidden:,} more", self.tree.depths[at] + 1)
            blanks = _cell("", "") * len(self.labels)
            bar = '<span class="bar"></span>' if self.labels else ""
            yield f'<div class="leaf more">{blanks}{bar}{name}</div>'

    def _row(self, at: int) -> str:
        cells = "".join(_cell(_shown_value(column[at]), "") for column in self.columns)
        bar = ""
        if self.labels:
            weight = self.weights[at]
            percent = 100.0 * abs(weight) / self.largest if self.largest else 0.0
            mark = ' class="less"' if weight < 0 else ""
            bar = f'<span class="bar"><i{mark} style="width:{percent:.1f}%"></i></span>'
        return f"{cells}{bar}{_name(self.names[at], self.tree.depths[at])}"


def _weight(value: Any) -> float:
    """The value as a finite number; 0 if it is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _cell(text: str, title: str) -> str:
    title = f' title="{_escaped(title)}"' if title else ""
    return f'<span class="value"{title}>{_escaped(text)}</span>'


def _name(name: str, depth: int) -> str:
    return f'<span class="name" style="padding-left:{2 * depth}ch">{_escaped(name)}</span>'


def _shown_value(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    """Text that cannot be taken for markup, nor turn the direction of what follows it."""
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    plain = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return escaping.escape(plain)
