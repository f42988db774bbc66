"""The notebook view: self-contained, bounded HTML with escaped names."""

from __future__ import annotations

import os
from html.parser import HTMLParser

import pytest
from marey import _notebook
from marey.graph import Graph
from paths import DATA
from viewer_graphs import graph_of, node, read

GOLDEN = DATA / "viewer" / "notebook.html"


class Page(HTMLParser):
    """Collects the elements and texts of a page, and checks that every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.names: list[str] = []
        self.texts: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag != "style":
            self.texts.append(data)
            if attributes.get("class") == "name":
                self.names.append(data)


def shown(graph: Graph) -> Page:
    return Page(graph._repr_html_())


def test_the_html_matches_the_golden_file() -> None:
    graph = read("kernels").filter(include="layer")
    graph.derive(["time/ms", "count", "device_id"])
    before = graph_of(node("ROOT", {"time (ns)": 0}, node("old", {"time (ns)": 3_000_000})))
    page = f"{graph._repr_html_()}\n{graph.diff(before, 'time/ms')._repr_html_()}"
    if os.environ.get("MAREY_UPDATE_GOLDEN"):
        GOLDEN.write_text(page)
    assert page == GOLDEN.read_text()
    assert {*Page(page).elements} == {"style", "div", "details", "summary", "span", "i"}


def test_nodes_that_only_one_graph_has_are_marked() -> None:
    after = graph_of(node("ROOT", {"t": 0}, node("same", {"t": 1}), node("new", {"t": 2})))
    before = graph_of(node("ROOT", {"t": 0}, node("same", {"t": 1}), node("old", {"t": 3})))
    for combined in (after.diff(before), after - before):
        texts = shown(combined).texts
        assert texts[texts.index("new") + 1] == "◀"
        assert texts[texts.index("old") + 1] == "▶"
        assert (texts.count("◀"), texts.count("▶")) == (1, 1)
        assert any("added" in text and "removed" in text for text in texts)
    alone = after._repr_html_()
    assert "◀" not in alone
    assert "added" not in alone


def test_a_column_is_as_wide_as_its_label() -> None:
    label = "a metric of a long name"
    page = graph_of(node("ROOT", {label: 0, "t": 0}, node("a", {label: 1, "t": 2})))._repr_html_()
    assert ".marey-graph .value.w29{flex-basis:29ch}\n</style>" in page
    assert f'<span class="value w29">{label} (inc)</span><span class="value">t (inc)</span>' in page
    assert '<span class="value w29">1</span><span class="value">2</span>' in page
    heads = '<span class="scale">of largest</span><span class="heading">name</span></div>'
    assert heads in page


def test_every_node_is_shown_in_the_order_of_the_tree() -> None:
    graph = read("kernels")
    page = shown(graph)
    assert page.names == graph.column("name")
    assert "1,593,580" in page.texts  # the root's time
    assert "more" not in "".join(page.texts)


def test_html_in_names_is_escaped() -> None:
    hostile = [
        "<script>alert(1)</script>",
        "</span></summary></details><img src=x onerror=alert(1)>",
        "\"onmouseover='alert(1)'",
        "&lt;b&gt;",
    ]
    leaves = [node(name, {"time (ns)": 1, name: 2.5, "note": name}) for name in hostile]
    metrics = {"time (ns)": 0, **dict.fromkeys(hostile, 0)}
    graph = graph_of(node("ROOT", metrics, *leaves))
    graph.derive(["time", *hostile, "note"])
    page = shown(graph)
    assert sorted(page.names) == sorted(["ROOT", *hostile])
    assert {*page.elements} == {"style", "div", "details", "summary", "span", "i"}
    assert {name for name, _ in page.attributes} == {"class", "open", "style"}
    assert {f"{name} (inc)" for name in hostile} <= {*page.texts}
    assert {*hostile} <= {*page.texts}


def test_control_characters_are_escaped() -> None:
    graph = graph_of(node("ROOT", {"n": 0}, node("a\x1b[2J\n\u202eb", {"n": 1})))
    assert shown(graph).names[1] == "a\\x1b[2J\\n\\u202eb"


def test_long_names_are_truncated() -> None:
    graph = graph_of(node("ROOT", {"n": 0}, node("x" * 100_000, {"n": 1})))
    assert shown(graph).names[1] == "x" * 200 + "…"
    assert len(graph._repr_html_()) < 5_000


def test_a_page_shows_the_largest_nodes_and_counts_the_others() -> None:
    heavy = [node(f"h{at:04}", {"n": 10_000 + at}) for at in range(_notebook.MAX_ROWS)]
    light = node("light", {}, *[node(f"l{at}", {"n": 1}) for at in range(50)])
    page = shown(graph_of(node("ROOT", {"n": 0}, light, *heavy)))
    rows = [name for name in page.names if "more" not in name]
    assert len(rows) == _notebook.MAX_ROWS
    assert rows[:2] == ["ROOT", "h0001"]  # the smallest of the heavy ones has no place
    assert "light" not in rows
    assert page.names[-1] == "… 52 more"
    assert "52 of 1,052 nodes are not shown" in page.texts


def test_a_deep_tree_is_truncated() -> None:
    bottom = {"frame": {"name": "bottom"}, "metrics": {"n": 1}, "children": []}
    root = bottom
    for _level in range(300):
        root = node("level", {"n": 0}, root)
    page = shown(graph_of(root))
    assert page.elements.count("details") < _notebook.MAX_DEPTH
    assert "201 of 301 nodes are not shown" in page.texts


def test_bars_are_shares_of_the_largest() -> None:
    graph = graph_of(
        node("ROOT", {}, node("a", {"x": -4}), node("b", {"x": 1.0}), node("c", {"y": 1}))
    )
    graph.derive(["x", "y"])
    page = shown(graph)
    widths = [value for name, value in page.attributes if name == "style" and "width" in str(value)]
    assert widths == ["width:0.0%", "width:100.0%", "width:25.0%", "width:0.0%"]
    assert ("class", "less") in page.attributes
    assert page.texts.count("-") == 5  # cells without a value


def test_a_graph_without_metrics_shows_names() -> None:
    page = shown(graph_of(node("ROOT", {}, node("a", {"note": "x"}))))
    assert page.names == ["ROOT", "a"]
    assert "i" not in page.elements


@pytest.mark.parametrize("name", ["cpu", "hip", "metadata", "negative", "samples"])
def test_every_profile_gives_valid_html(name: str) -> None:
    graph = read(name)
    assert shown(graph).names == graph.column("name")
    assert shown(graph.diff(graph.filter(lambda row: row["depth"] < 2))).names[0] == "ROOT"
