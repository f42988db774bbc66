"""`marey.graph.Graph`: what hatchet makes of the same files, and what is ours."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import marey
import pytest
from marey.graph import Graph
from viewer_graphs import PAIRS, TIME, assert_same_columns, node, path, read

pytest.importorskip("pandas")


@pytest.fixture
def triton() -> Any:
    """Triton's viewer."""
    return pytest.importorskip("triton.profiler.viewer")


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("operator", ["add", "sub", "mul", "div"])
def test_arithmetic_is_hatchets(operator: str, left: str, right: str, triton: Any) -> None:
    ours = getattr(read(left), operator)(read(right))
    theirs = getattr(triton.read(path(left))[0], operator)(triton.read(path(right))[0])
    assert_same_columns(ours, theirs, theirs.show_metric_columns())
    assert ours.tree(TIME) == theirs.tree(TIME, render_header=False)
    # What a filter leaves of the result is added up anew.
    kept = ours.filter(lambda row: "gemm" not in row["name"])
    wanted = theirs.filter(lambda row: "gemm" not in row["name"], num_procs=1)
    assert_same_columns(kept, wanted, [TIME, "time (ns)", "count (inc)"])


def test_operators_are_the_methods() -> None:
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


PREDICATES: list[Callable[[Any], Any]] = [
    lambda row: row["name"] != "forward",
    lambda row: row[TIME] > 100_000,
    lambda row: row["name"].startswith("gemm"),
    lambda row: row["device_id"] == "0",
]


@pytest.mark.parametrize("at", range(len(PREDICATES)))
def test_predicates_and_squashing_are_hatchets(at: int, triton: Any) -> None:
    theirs = triton.read(path("kernels"))[0].filter(PREDICATES[at], num_procs=1)
    ours = read("kernels").filter(PREDICATES[at])
    labels = [TIME, "time (ns)", "count (inc)", "bytes (inc)"]
    assert_same_columns(ours, theirs, labels)
    rows_only = read("kernels").filter(PREDICATES[at], squash=False)
    assert len(rows_only.dataframe) == len(
        triton.read(path("kernels"))[0].filter(PREDICATES[at], squash=False, num_procs=1).dataframe
    )
    assert_same_columns(rows_only.squash(), theirs, labels)
    # As does who drops rows.
    whole = read("kernels")
    whole.dataframe = whole.dataframe[[bool(PREDICATES[at](row)) for row in whole]]
    assert_same_columns(whole.squash(), theirs, labels)


def test_a_predicate_sees_name_depth_and_every_column() -> None:
    graph = read("kernels")
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


def test_filters_without_squashing_only_drop_rows() -> None:
    graph = read("kernels")
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


def test_what_is_written_into_the_frame_counts() -> None:
    graph = read("kernels")
    frame = graph.dataframe
    frame["share"] = frame["bytes (inc)"] / frame["bytes (inc)"].iloc[0]
    frame["note"] = ["first"] + [None] * (len(frame) - 1)
    frame.loc[frame["name"] == "forward", "name"] = "ahead"
    frame.loc[frame["name"] == "adamw", "time (ns)"] = 1_000_000
    assert "ahead" in graph.tree("share")
    assert graph.tree(["share", "note"]).startswith("1.000 first ROOT\n")
    assert graph.filter(include="ahead").dataframe["name"].tolist()[2] == "ahead"
    assert graph.filter(lambda row: row["note"] == "first").tree("share") == "1.000 ROOT\n"
    # Sums stand until they are made anew.
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


def test_a_derived_column_comes_into_the_frame() -> None:
    graph = read("kernels")
    frame = graph.dataframe
    assert graph.derive("time/ms") == ["time/ms (inc)"]
    assert graph.dataframe is frame
    assert frame["time/ms (inc)"].tolist() == [time * 1e-9 / 1e-3 for time in frame[TIME]]
    graph.style_names("function_line")
    assert frame["name"].tolist() == graph.column("name")


def test_columns_and_rows_may_go() -> None:
    graph = read("kernels")
    graph.dataframe = graph.dataframe[["name", TIME, "count"]].sort_values("count")
    assert graph.show_metric_columns() == ["count", TIME]
    by_name = read("kernels")
    assert graph.tree(TIME) == by_name.tree(TIME)
    graph.dataframe = graph.dataframe.iloc[:3]
    assert len(graph) == 3
    assert len(by_name) == 20


def test_frames_that_are_none_of_the_graph_are_refused() -> None:
    graph, other = read("kernels"), read("kernels")
    frame = graph.dataframe
    for broken in (
        frame.reset_index(),
        other.dataframe,
        frame.iloc[[0, 0, 1]],
        frame.rename(columns={"bytes": "count"}),
        frame.assign(x=1).rename(columns={"x": 5}),
    ):
        graph.dataframe = broken
        with pytest.raises(ValueError, match="frame"):
            graph.tree(TIME)


def test_any_type_of_column_is_taken() -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    graph = Graph.parse(json.dumps([node("ROOT", {"n": 0}, node("a", {"n": 2**60 + 1}))]).encode())
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


def test_a_copy_changes_alone() -> None:
    graph = read("kernels")
    frame = graph.dataframe
    copy = graph.copy()
    copy.dataframe["x"] = 1
    copy.derive("util")
    assert "x" in copy.show_metric_columns()
    assert {"x", "util"}.isdisjoint(graph.show_metric_columns())
    assert copy.dataframe.index.equals(frame.index)


def test_a_difference_has_both_values() -> None:
    after = Graph.parse(
        json.dumps(
            [node("ROOT", {"t (ns)": 0}, node("a", {"t (ns)": 6}), node("new", {"t (ns)": 1}))]
        ).encode()
    )
    before = Graph.parse(
        json.dumps(
            [node("ROOT", {"t (ns)": 0}, node("a", {"t (ns)": 4}), node("old", {"t (ns)": 3}))]
        ).encode()
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
    in_us = Graph.parse(
        json.dumps([node("ROOT", {"t (us)": 0}, node("a", {"t (us)": 4}))]).encode()
    )
    with pytest.raises(ValueError, match="cannot be compared"):
        after.diff(in_us, "t")
    with pytest.raises(marey.UnknownMetric):
        after.diff(before, ["util"])


def test_a_tree_takes_hatchets_words() -> None:
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
    assert read("kernels").default_metric == TIME


def test_what_is_written_is_read_by_both(tmp_path: Path, triton: Any) -> None:
    smaller = read("kernels").filter(exclude="warm")
    smaller.derive("time/ms")
    assert smaller.to_hatchet(tmp_path / "out.hatchet") is None
    theirs, inclusive, exclusive, devices = triton.read(tmp_path / "out.hatchet")
    assert_same_columns(smaller, theirs, [f"{key} (inc)" for key in inclusive])
    assert devices == smaller.device_info
    assert {*exclusive} == {*smaller.exclusive(), "time/ms (inc)"}
    packed = smaller.to_hatchet(format="hatchet_msgpack")
    assert isinstance(packed, bytes)
    smaller.to_hatchet(tmp_path / "out.hatchet_msgpack")
    assert (tmp_path / "out.hatchet_msgpack").read_bytes() == packed
    assert str(smaller.to_hatchet()) == (tmp_path / "out.hatchet").read_text()
    for written in (tmp_path / "out.hatchet", tmp_path / "out.hatchet_msgpack"):
        assert marey.read(written)[0].tree(TIME) == smaller.tree(TIME)
    assert sorted(os.listdir(tmp_path)) == ["out.hatchet", "out.hatchet_msgpack"]


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    graph = read("kernels")
    with pytest.raises(FileNotFoundError):
        graph.to_hatchet(tmp_path / "absent" / "out.hatchet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        graph.to_hatchet(tmp_path / "folder")
    with pytest.raises(ValueError, match="nor"):
        graph.to_hatchet(tmp_path / "out", format="json")
    assert os.listdir(tmp_path) == ["folder"]
