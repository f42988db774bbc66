"""Short ways to read profiles: of a file, or of a live session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey

Node = dict[str, Any]


def tree(path: str | Path) -> Node:
    """The root of a profile on disk."""
    root: Node = json.loads(Path(path).read_text())[0]
    assert root["frame"]["name"] == "ROOT"
    return root


def recorded(session: int | None, phase: int = 0) -> Node:
    """The root of what a live session holds."""
    document = marey.data.get(session, phase)
    assert document is not None
    root: Node = document[0]
    return root


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every node below, with its path: names joined by slashes."""
    for child in node["children"]:
        below = f"{path}/{child['frame']['name']}" if path else child["frame"]["name"]
        yield below, child
        yield from walk(child, below)


def find(node: Node, path: str) -> Node:
    """The node with this path, which must be there once."""
    found = [candidate for name, candidate in walk(node) if name == path]
    assert len(found) == 1, (
        f"{len(found)} nodes are called {path}: {[name for name, _ in walk(node)]}"
    )
    return found[0]


def counts(root: Node) -> dict[str, int]:
    """How often each path was entered and left."""
    found: dict[str, int] = {}
    for path, node in walk(root):
        assert path not in found, f"{path} is there twice"
        found[path] = node["metrics"].get("wall_count", 0)
    return found


def states(node: Node) -> dict[str, int]:
    """How often each state was entered and left at a node, of those that recorded nothing else."""
    listed = node["marey"].get("states", [])
    return {state["name"]: state["metrics"]["wall_count"] for state in listed}


def metrics(node: Node) -> dict[str, Any]:
    """The metrics of a node that the program gave."""
    return {key: value for key, value in node["metrics"].items() if not key.startswith("wall_")}


def files(suffix: str = ".hatchet", directory: str | Path = ".") -> list[str]:
    """The names of the profiles in a directory, sorted."""
    return sorted(path.name for path in Path(directory).glob(f"*{suffix}"))
