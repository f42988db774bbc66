"""Helpers of the tests of `marey.viewer` and its graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marey
import pytest
from marey.graph import Graph
from paths import DATA

VIEWER = DATA / "viewer"
NAMES = sorted(path.stem for path in VIEWER.glob("*.hatchet"))
PAIRS = [("kernels", "optimized"), ("optimized", "kernels")]
TIME = "time (ns) (inc)"


def path(name: str) -> Path:
    return VIEWER / f"{name}.hatchet"


def read(name: str) -> Graph:
    return marey.read(path(name))[0]


def node(name: str, metrics: dict[str, Any], *children: Any) -> dict[str, Any]:
    """Returns a node in the structure of a file."""
    return {"frame": {"name": name}, "metrics": metrics, "children": [*children]}


def graph_of(*roots: Any) -> Graph:
    return Graph.parse(json.dumps(roots).encode())


def assert_same_columns(ours: Graph, theirs: Any, labels: list[str]) -> None:
    """Checks for the same nodes in the same order, with numbers equal to the last bit."""
    numpy = pytest.importorskip("numpy")
    frame = theirs.dataframe.sort_index()
    assert list(ours.dataframe["name"]) == list(frame["name"])
    for label in labels:
        our, their = (column[label].to_numpy(float) for column in (ours.dataframe, frame))
        numpy.testing.assert_array_equal(our, their, label)
