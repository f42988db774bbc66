"""Helpers to record scopes, and to read profiles from files or live sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey

Node = dict[str, Any]


def record_scope(name: str, metrics: dict[str, Any] | None = None) -> None:
    """Enters and leaves a scope."""
    with marey.scope(name, metrics):
        pass


def tree(path: str | Path) -> Node:
    """Returns the root of a profile on disk."""
    root: Node = json.loads(Path(path).read_text())[0]
    assert root["frame"]["name"] == "ROOT"
    return root


def live_root(session: int | None, phase: int = 0) -> Node:
    """Returns the root of a live session."""
    document = marey.data.get(session, phase)
    assert document is not None
    root: Node = document[0]
    return root


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yields every node below, with its path: names joined by slashes."""
    for child in node["children"]:
        below = f"{path}/{child['frame']['name']}" if path else child["frame"]["name"]
        yield below, child
        yield from walk(child, below)


def find(node: Node, path: str) -> Node:
    """Returns the node with this path, which must be unique."""
    found = [candidate for name, candidate in walk(node) if name == path]
    assert len(found) == 1, (
        f"{len(found)} nodes are called {path}: {[name for name, _ in walk(node)]}"
    )
    return found[0]


def counts(root: Node) -> dict[str, int]:
    """Returns how often each path was entered and left."""
    found: dict[str, int] = {}
    for path, node in walk(root):
        assert path not in found, f"{path} is there twice"
        found[path] = node["metrics"].get("wall_count", 0)
    return found


def states(node: Node) -> dict[str, int]:
    """Returns how often each state without other data was entered and left at a node."""
    listed = node["marey"].get("states", [])
    return {state["name"]: state["metrics"]["wall_count"] for state in listed}


def metrics(node: Node) -> dict[str, Any]:
    """Returns the user metrics of a node."""
    return {key: value for key, value in node["metrics"].items() if not key.startswith("wall_")}


def losses(root: Node) -> dict[str, int]:
    """Returns the losses of a profile, by cause."""
    return {cause: count for cause, count in root["marey"]["losses"].items() if count}


def profile_names(suffix: str = ".hatchet", directory: str | Path = ".") -> list[str]:
    """Returns the sorted names of the profiles in a directory."""
    return sorted(path.name for path in Path(directory).glob(f"*{suffix}"))
