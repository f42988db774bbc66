"""`marey.graph.Graph`: comparison with hatchet on the same files, and marey's additions."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import marey
import pytest
from marey import _frame
from marey.graph import Graph
from viewer_graphs import PAIRS, TIME, assert_same_columns, graph_of, node, path, read

pytest.importorskip("pandas")


@pytest.fixture
def triton() -> Any:
    """Triton's viewer."""
    return pytest.importorskip("triton.profiler.viewer")


@pytest.fixture
def graph() -> Graph:
    return read("kernels")


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("operator", ["add", "sub", "mul", "div"])
def test_arithmetic_matches_hatchet(operator: str, left: str, right: str, triton: Any) -> None:
    ours = getattr(read(left), operator)(read(right))
    theirs = getattr(triton.read(path(left))[0], operator)(triton.read(path(right))[0])
    assert_same_columns(ours, theirs, theirs.show_metric_columns())
    assert ours.tree(TIME) == theirs.tree(TIME, render_header=False)
    # The sums of the filtered result are computed again.
    kept = ours.filter(lambda row: "gemm" not in row["name"])
    wanted = theirs.filter(lambda row: "gemm" not in row["name"], num_procs=1)
    assert_same_columns(kept, wanted, [TIME, "time (ns)", "count (inc)"])


def test_operators_equal_the_methods() -> None:
    a, b = read("kernels"), read("optimized")
    for ours, wanted in [
        (a + b, a.add(b)),
        (a - b, a.sub(b)),
        (a * b, a.mul(b)),
        (a / b, a.div(b)),
    ]:
        assert ours.tree(TIME) == wanted.tree(TIME)
    with pytest.raises(TypeError, match="unsupported operand"):
        a + 1  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"takes another marey\.graph\.Graph, not NoneType"):
        a.sub(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"'diff' takes another marey\.graph\.Graph, not str"):
        a.diff("b")  # type: ignore[arg-type]


def test_a_column_that_one_side_was_not_derived_for_is_named() -> None:
    a, b = read("kernels"), read("optimized")
    a.derive("time/ms")
    for combine in (a.__sub__, a.__truediv__, a.diff):
        with pytest.raises(
            KeyError, match=r"other graph .* 'time/ms \(inc\)': derive it there too"
        ):
            combine(b)
    with pytest.raises(KeyError, match=r"'time/ms \(inc\)': derive it there too"):
        a.sub(b, ["time/ms (inc)"])
    with pytest.raises(KeyError, match=r"this graph has no column 'time/ms \(inc\)'"):
        b.sub(a, ["time/ms"])
    with pytest.raises(KeyError, match="neither graph has a column 'bogus'"):
        a.sub(b, ["count", "bogus"])
    b.derive("time/ms")
    apart_ns = a.column(TIME)[0] - b.column(TIME)[0]
    assert (a - b).column("time/ms (inc)")[0] == pytest.approx(apart_ns / 1e6)
    a.dataframe["mine"] = 1.0
    with pytest.raises(KeyError, match="'mine'"):
        a - b
    # Nothing is computed with texts.
    a.dataframe = a.dataframe.drop(columns="mine").assign(note="x")
    assert (a - b).column("note")[0] == "x"


def test_a_metric_that_one_file_lacks_is_no_mistake() -> None:
    a = graph_of(node("ROOT", {"t (ns)": 0, "mine": 0}, node("k", {"t (ns)": 5, "mine": 7})))
    b = graph_of(node("ROOT", {"t (ns)": 0}, node("k", {"t (ns)": 3})))
    assert (a - b).column("mine (inc)") == [7, 7]
    assert a.sub(b, ["mine (inc)"]).column("mine (inc)") == [7, 7]
    by_name = a.sub(b, ["t"])
    assert by_name.show_metric_columns() == ["t (ns) (inc)"]
    assert by_name.column("t (ns) (inc)") == [2, 2]
    assert a.diff(b).column("mine (inc) difference") == [7, 7]


PREDICATES: list[Callable[[Any], Any]] = [
    lambda row: row["name"] != "forward",
    lambda row: row[TIME] > 100_000,
    lambda row: row["name"].startswith("gemm"),
    lambda row: row["device_id"] == "0",
]


@pytest.mark.parametrize("at", range(len(PREDICATES)))
def test_filter_and_squash_match_hatchet(at: int, triton: Any) -> None:
    theirs = triton.read(path("kernels"))[0].filter(PREDICATES[at], num_procs=1)
    ours = read("kernels").filter(PREDICATES[at])
    labels = [TIME, "time (ns)", "count (inc)", "bytes (inc)"]
    assert_same_columns(ours, theirs, labels)
    rows_only = read("kernels").filter(PREDICATES[at], squash=False)
    assert len(rows_only.dataframe) == len(
        triton.read(path("kernels"))[0].filter(PREDICATES[at], squash=False, num_procs=1).dataframe
    )
    assert_same_columns(rows_only.squash(), theirs, labels)
    # Dropping rows has the same effect.
    whole = read("kernels")
    whole.dataframe = whole.dataframe[[bool(PREDICATES[at](row)) for row in whole]]
    assert_same_columns(whole.squash(), theirs, labels)


def test_a_predicate_sees_name_depth_and_every_column(graph: Graph) -> None:
    rows = [*graph]
    assert [*rows[0]] == ["name", "depth", *graph.dataframe.columns[1:]]
    assert (rows[0]["name"], rows[0]["depth"], rows[0]["device_id"]) == ("ROOT", 0, None)
    assert rows[3]["depth"] == 3
    assert math.isnan(rows[0]["time (ns)"]) == graph.dataframe["time (ns)"].isna().iloc[0]
    with pytest.raises(KeyError):
        rows[0]["nothing"]
    with pytest.raises(TypeError, match="include="):
        graph.filter("gemm")  # type: ignore[arg-type]
    with pytest.raises(marey.EmptyFilter):
        graph.filter(lambda row: False)


def test_filters_without_squashing_only_drop_rows(graph: Graph) -> None:
    rows_only = graph.filter(include="layer", threshold=100_000, metric=TIME, squash=False)
    kept = rows_only.dataframe
    assert kept["name"].tolist() == [
        "ROOT", "step 1", "forward", 'layer "q" é', "gemm_128x64_f16", "layer k", "gemm_128x64_f16",
    ]  # fmt: skip
    assert kept[TIME].equals(
        graph.dataframe.loc[:, TIME].iloc[[0, 1, 6, 7, 9, 10, 11]].set_axis(kept.index)
    )
    assert len(rows_only) == len(kept)
    assert rows_only.squash().column(TIME)[0] < graph.column(TIME)[0]


def test_changes_of_the_frame_take_effect(graph: Graph) -> None:
    frame = graph.dataframe
    frame["share"] = frame["bytes (inc)"] / frame["bytes (inc)"].iloc[0]
    frame["note"] = ["first"] + [None] * (len(frame) - 1)
    frame.loc[frame["name"] == "forward", "name"] = "ahead"
    frame.loc[frame["name"] == "adamw", "time (ns)"] = 1_000_000
    assert "ahead" in graph.tree("share")
    assert graph.tree(["share", "note"]).startswith("1.000 first ROOT\n")
    assert graph.filter(include="ahead").dataframe["name"].tolist()[2] == "ahead"
    assert graph.filter(lambda row: row["note"] == "first").tree("share") == "1.000 ROOT\n"
    # Sums keep their values until they are computed again.
    before = graph.column(TIME)[0]
    assert graph.filter(exclude="warm").column(TIME)[0] == before - 45_678 + 1_000_000 - 12_019
    assert frame[TIME].iloc[0] == before
    graph.update_inclusive_columns()
    assert graph.dataframe is frame
    assert frame[TIME].iloc[0] == graph.column(TIME)[0] == before - 45_678 + 1_000_000
    assert (graph - graph).tree("share").startswith("0.000 ROOT\n")
    again = Graph.parse(str(graph.to_hatchet()).encode())
    assert again.tree(TIME).count(" ahead\n") == 1
    for label in (TIME, "share"):
        wanted = {row["name"]: row[label] for row in graph if row["depth"] and row[label] > 0}
        assert {
            row["name"]: row[label] for row in again if row[label] > 0
        }.items() >= wanted.items()
    assert math.isnan(again.column("share")[0])


def test_derived_columns_appear_in_the_frame(graph: Graph) -> None:
    frame = graph.dataframe
    assert graph.derive("time/ms") == ["time/ms (inc)"]
    assert graph.dataframe is frame
    assert frame["time/ms (inc)"].tolist() == [time * 1e-9 / 1e-3 for time in frame[TIME]]
    graph.style_names("function_line")
    assert frame["name"].tolist() == graph.column("name")


def test_columns_and_rows_can_be_dropped(graph: Graph) -> None:
    graph.dataframe = graph.dataframe[["name", TIME, "count"]].sort_values("count")
    assert graph.show_metric_columns() == ["count", TIME]
    by_name = read("kernels")
    assert graph.tree(TIME) == by_name.tree(TIME)
    graph.dataframe = graph.dataframe.iloc[:3]
    assert len(graph) == 3
    assert len(by_name) == 20


def test_after_dropping_rows_methods_use_the_squashed_graph(graph: Graph) -> None:
    whole = graph.column(TIME)[0]
    graph.dataframe = graph.dataframe[graph.dataframe["name"] != "adamw"]
    assert graph.dataframe[TIME].iloc[0] == whole
    squashed = graph.squash()
    assert squashed.dataframe[TIME].iloc[0] == squashed.column(TIME)[0] == whole - 45_678
    assert str(graph.column(TIME)) == str(squashed.column(TIME))
    assert str([row[TIME] for row in graph]) == str(squashed.column(TIME))
    assert graph.tree() == squashed.tree()
    assert graph._repr_html_() == squashed._repr_html_()
    assert graph.to_hatchet() == squashed.to_hatchet()
    assert (graph - graph).tree() == (squashed - squashed).tree()
    assert len(graph) == len(squashed) == len(graph.dataframe)


CALLS: dict[str, Callable[[Graph], Any]] = {
    "inc_metrics": lambda graph: graph.inc_metrics,
    "exc_metrics": lambda graph: graph.exc_metrics,
    "show_metric_columns": Graph.show_metric_columns,
    "default_metric": lambda graph: graph.default_metric,
    "inclusive": Graph.inclusive,
    "exclusive": Graph.exclusive,
    "column": lambda graph: graph.column(TIME),
    "len": len,
    "iter": lambda graph: next(iter(graph)),
    "repr": repr,
    "derive": lambda graph: graph.derive("time/ms"),
    "update_inclusive_columns": Graph.update_inclusive_columns,
    "style_names": lambda graph: graph.style_names("function_line"),
    "filter": lambda graph: graph.filter(include="step", threshold=1.0),
    "filter without squash": lambda graph: graph.filter(include="step", squash=False),
    "squash": Graph.squash,
    "copy": Graph.copy,
    "diff": lambda graph: graph.diff(read("optimized"), ["time/ms"]),
    "sub": lambda graph: graph.sub(read("optimized"), [TIME]),
    "tree": Graph.tree,
    "tree of columns": lambda graph: graph.tree([TIME, "count"], name_column="device_id"),
    "to_hatchet": Graph.to_hatchet,
    "html": Graph._repr_html_,
}


@pytest.mark.parametrize("call", CALLS)
def test_each_call_compares_the_frame_once(
    call: str, monkeypatch: pytest.MonkeyPatch, graph: Graph
) -> None:
    graph.dataframe["x"] = 1
    graph.derive("count")
    take_changes, taken = _frame.apply_changes, []

    def counted(*arguments: Any) -> list[bool] | None:
        taken.append(arguments)
        return take_changes(*arguments)

    monkeypatch.setattr(_frame, "apply_changes", counted)
    CALLS[call](graph)
    assert len(taken) == 1


def test_threads_may_share_a_graph() -> None:
    graph = graph_of(
        node("ROOT", {"time (ns)": 0}, *[node(f"{at}", {"time (ns)": at}) for at in range(20_000)])
    )

    def derive(metric: str) -> float:
        (label,) = graph.derive(metric)
        graph.tree(label)
        graph.diff(graph, [metric])
        return float(graph.column(label)[0])

    metrics = [f"time/{unit}" for unit in ("s", "ms", "us", "ns")]
    with ThreadPoolExecutor(8) as threads:
        roots = [*threads.map(derive, metrics * 8)]
    total_ns = 20_000 * 19_999 / 2
    wanted = [total_ns * 1e-9, total_ns * 1e-6, total_ns * 1e-3, total_ns] * 8
    assert roots == pytest.approx(wanted)
    assert {*graph.inc_metrics} == {TIME, *[f"{metric} (inc)" for metric in metrics]}


def test_frames_of_other_graphs_are_rejected() -> None:
    graph, other = read("kernels"), read("kernels")
    larger = graph_of(node("ROOT", {}, *[node(f"{at}", {"count": at}) for at in range(100)]))
    frame = graph.dataframe
    for broken in (
        frame.reset_index(),
        other.dataframe,
        larger.dataframe,
        frame.iloc[[0, 0, 1]],
        frame.rename(columns={"bytes": "count"}),
        frame.assign(x=1).rename(columns={"x": 5}),
    ):
        graph.dataframe = broken
        with pytest.raises(ValueError, match="frame"):
            graph.tree(TIME)


def test_any_column_type_is_accepted() -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    graph = graph_of(node("ROOT", {"n": 0}, node("a", {"n": 2**60 + 1})))
    frame = graph.dataframe
    assert frame["n"].tolist() == [0, 2**60 + 1]
    assert graph.column("n") == [0, 2**60 + 1]
    frame["flag"] = [True, False]
    frame["big"] = [2**60 + 1, 1]
    frame["nullable"] = pandas.array([None, 3], dtype="Int64")
    frame["mixed"] = [numpy.float32(0.5), "text"]
    frame["lists"] = [[1, 2], numpy.array([0.5])]
    frame["when"] = pandas.to_datetime(["2026-01-01", None])
    assert graph.column("flag") == [1, 0]
    assert graph.column("big") == [2**60 + 1, 1]
    assert graph.column("nullable")[1] == 3
    assert math.isnan(graph.column("nullable")[0])
    assert graph.column("mixed") == [0.5, "text"]
    assert graph.column("lists") == [[1, 2], [0.5]]
    assert graph.column("when") == ["2026-01-01 00:00:00", None]
    assert graph.column("n") == [0, 2**60 + 1]


def test_the_index_holds_nodes() -> None:
    index = read("kernels").dataframe.index
    root, step = index[0], index[1]
    assert root.parent is None
    assert step.parent == root
    assert root.children[0] == step
    assert [str(each) for each in index[3].path()] == [str(index[at]) for at in range(4)]
    assert (index[3].depth, index[3].position, index[3].kind) == (3, 3, None)
    assert [*index] == sorted({*index})
    assert step != read("kernels").dataframe.index[1]
    assert step == root.children[0]
    assert repr(root) == str(root) == "{'name': 'ROOT', 'type': 'function'}"


def test_a_copy_is_independent(graph: Graph) -> None:
    frame = graph.dataframe
    copy = graph.copy()
    copy.dataframe["x"] = 1
    copy.derive("util")
    assert "x" in copy.show_metric_columns()
    assert {"x", "util"}.isdisjoint(graph.show_metric_columns())
    assert copy.dataframe.index.equals(frame.index)


def test_a_difference_has_both_values() -> None:
    after = graph_of(
        node("ROOT", {"t (ns)": 0}, node("a", {"t (ns)": 6}), node("new", {"t (ns)": 1}))
    )
    before = graph_of(
        node("ROOT", {"t (ns)": 0}, node("a", {"t (ns)": 4}), node("old", {"t (ns)": 3}))
    )
    diff = after.diff(before, "t")
    assert diff.dataframe.columns.tolist() == [
        "name", "t (ns) (inc) before", "t (ns) (inc) after", "t (ns) (inc) difference",
        "t (ns) (inc) ratio", "change",
    ]  # fmt: skip
    assert [[*row.values()] for row in diff][:2] == [
        ["ROOT", 0, 7.0, 7.0, 0.0, 1.0, ""],
        ["a", 1, 4.0, 6.0, 2.0, 1.5, ""],
    ]
    assert diff.column("change") == ["", "", "added", "removed"]
    assert diff.column("t (ns) (inc) difference") == [0.0, 2.0, 1.0, -3.0]
    assert diff.tree() == ("0.000 ROOT\n├─ 2.000 a\n├─ 1.000 new ◀ \n└─ -3.000 old ▶ \n")
    every = after.diff(before)
    assert "t (ns) difference" in every.show_metric_columns()
    in_us = graph_of(node("ROOT", {"t (us)": 0}, node("a", {"t (us)": 4})))
    with pytest.raises(ValueError, match="cannot be compared"):
        after.diff(in_us, "t")
    with pytest.raises(marey.UnknownMetric):
        after.diff(before, ["util"])


def test_tree_accepts_hatchets_arguments() -> None:
    graph, labels = marey.parse(["time/ms", "count"], path("kernels"))
    assert graph.tree().splitlines()[0] == "1.594 ROOT"
    assert graph.default_metric == "time/ms (inc)"
    assert graph.tree("time/ms (inc)", precision=1).splitlines()[0] == "1.6 ROOT"
    assert graph.tree(labels, render_header=True).splitlines()[0] == (
        "time/ms (inc) count (inc) name"
    )
    by_device = graph.tree("count (inc)", name_column="device_id").splitlines()
    assert by_device[0].endswith(" None")
    assert by_device[3].endswith(" 1")
    assert graph.tree("count (inc)", depth=0) == graph.tree("count (inc)", depth=-1) == ""
    with pytest.raises(KeyError, match="no column 'nothing'"):
        graph.tree("nothing")
    with pytest.raises(TypeError, match="rank"):
        graph.tree("count (inc)", rank=0)  # type: ignore[call-arg]


def test_tree_accepts_any_depth_and_precision(graph: Graph) -> None:
    assert graph.tree(TIME, depth=10**30) == graph.tree(TIME)
    assert graph.tree(TIME, depth=-(10**30)) == ""
    assert graph.tree(TIME, precision=0).startswith("1593580 ROOT\n")
    assert graph.tree(TIME, precision=300).startswith(f"1593580.{'0' * 300} ROOT\n")
    for precision in (-1, 301, 65536, 10**30):
        with pytest.raises(ValueError, match="precision is 0 to 300 digits"):
            graph.tree(TIME, precision=precision)
    assert graph.tree([]).splitlines()[:2] == ["ROOT", "├─ step 1"]


def test_metric_names_select_columns(graph: Graph) -> None:
    for name in ("time", "Time", "total"):
        assert graph.column(name) == graph.column(TIME)
        assert graph.tree(name) == graph.tree(TIME)
    assert str(graph.column("self")) == str(graph.column("time (ns)")) != str(graph.column(TIME))
    kept = graph.filter(threshold=100_000, metric="time").column("name")
    assert kept == graph.filter(threshold=100_000, metric=TIME).column("name")
    with pytest.raises(KeyError, match=r"no column 'time/ms'.*`derive` makes others"):
        graph.column("time/ms")
    with pytest.raises(marey.UnknownMetric, match=r"time/ms .* \(it has no column until it is"):
        graph.filter(threshold=0.1, metric="time/ms")
    graph.derive("time/ms")
    assert graph.column("time/ms") == graph.column("time/ms (inc)")
    assert len(graph.filter(threshold=0.1, metric="time/ms")) == len(kept)
    # What has the label comes first.
    graph.dataframe["time"] = 1.0
    assert {*graph.column("time")} == {1.0}


def test_the_default_metric_is_gpu_time_or_the_first_inclusive() -> None:
    assert read("kernels").default_metric == TIME
    assert read("frames").default_metric == TIME
    assert graph_of(node("ROOT", {}, node("a", {"x": 1, "time (ns)": 2}))).default_metric == (
        "time (ns)"
    )
    assert graph_of(node("ROOT", {"b": 0}, node("a", {"b": 1, "x": 2}))).default_metric == "b (inc)"
    assert graph_of(node("ROOT", {}, node("a", {"note": "t", "x": 2}))).default_metric == "x"
    assert graph_of(node("ROOT", {}, node("a", {"note": "t"}))).default_metric is None


def test_the_default_metric_of_marey_files_is_wall_total() -> None:
    step = marey.scope("step", metrics={"tokens": 512})
    with marey.profile("mine"), step, marey.scope("inner"):
        pass
    graph = Graph.read("mine.hatchet")
    assert "tokens (inc)" in graph.inc_metrics
    assert graph.default_metric == "wall_total (ns)"
    assert graph.tree() == graph.tree("wall_total (ns)")
    assert graph.filter(threshold=1).column("name") == ["ROOT", "step", "inner"]
    page = graph._repr_html_()
    heads = ["wall_total (ns)", "wall_self (ns)", "wall_count", "wall_p50 (ns)", "wall_p99 (ns)"]
    places = [page.index(f">{head}</span>") for head in [*heads, "tokens (inc)", "name"]]
    assert places == sorted(places)


def test_warnings_point_at_the_caller(graph: Graph) -> None:
    devices = graph.device_info
    devices["CUDA"]["0"]["arch"] = "13"
    graph.device_info = devices
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph.derive("util")
    assert [each.filename for each in caught] == [__file__]


def test_written_profiles_are_read_by_marey_and_proton(tmp_path: Path, triton: Any) -> None:
    smaller = read("kernels").filter(exclude="warm")
    smaller.derive("time/ms")
    assert smaller.to_hatchet(tmp_path / "out.hatchet") is None
    theirs, inclusive, exclusive, devices = triton.read(tmp_path / "out.hatchet")
    assert_same_columns(smaller, theirs, [f"{key} (inc)" for key in inclusive])
    assert devices == smaller.device_info
    assert {*exclusive} == {*smaller.exclusive(), "time/ms (inc)"}
    packed = smaller.to_hatchet(format="hatchet_msgpack")
    assert isinstance(packed, bytes)
    smaller.to_hatchet(os.fsencode(tmp_path / "out.hatchet_msgpack"))
    assert (tmp_path / "out.hatchet_msgpack").read_bytes() == packed
    assert str(smaller.to_hatchet()) == (tmp_path / "out.hatchet").read_text()
    for written in (tmp_path / "out.hatchet", tmp_path / "out.hatchet_msgpack"):
        assert marey.read(written)[0].tree(TIME) == smaller.tree(TIME)
        assert Graph.read(os.fsencode(written)).tree(TIME) == smaller.tree(TIME)
    assert sorted(os.listdir(tmp_path)) == ["out.hatchet", "out.hatchet_msgpack"]


def test_a_profile_is_written_to_a_pipe_and_does_not_replace_it(tmp_path: Path) -> None:
    graph, pipe = read("kernels"), tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        received = pool.submit(pipe.read_text)
        graph.to_hatchet(pipe)
        assert pipe.is_fifo()
        assert received.result() == graph.to_hatchet()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_failed_write_leaves_no_file(tmp_path: Path, graph: Graph) -> None:
    with pytest.raises(FileNotFoundError):
        graph.to_hatchet(tmp_path / "absent" / "out.hatchet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        graph.to_hatchet(tmp_path / "folder")
    with pytest.raises(ValueError, match="nor"):
        graph.to_hatchet(tmp_path / "out", format="json")
    assert os.listdir(tmp_path) == ["folder"]
