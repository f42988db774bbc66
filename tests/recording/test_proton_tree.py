"""The same random program recorded by Proton and by marey gives the same tree.

Proton's library records scopes, states and metrics without a GPU if it is called directly.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import marey
import pytest
from profiles import Node, metrics, profile_names

libproton = pytest.importorskip("triton._C.libproton").proton

SCOPES = ["a", "b", "c", "d"]
STATES = ["state 1", "state 2"]
METRICS: dict[str, Any] = {
    "int": 3,
    "float": 0.5,
    "negative (exc)": -7,
    "exclusive (ns)(exc)": 1.25,
    "property (pty)": 11,
    "ints": [1, -2, 3],
    "floats (pty)": [0.5, 1.5],
    "one": [4],
}
OURS, THEIRS = Path("ours"), Path("theirs")


class Both:
    """Applies every operation to Proton's recorder and to ours."""

    def __init__(self, sessions: int) -> None:
        OURS.mkdir()
        THEIRS.mkdir()
        names = [f"session {number}" for number in range(sessions)]
        self.ours = [marey.start(OURS / name) for name in names]
        self.theirs = [
            libproton.start(str(THEIRS / name), "shadow", "tree", "instrumentation", "cuda")
            for name in names
        ]
        self.active = [True] * sessions
        self.scopes: list[tuple[int, str]] = []

    def enter(self, name: str) -> None:
        marey.enter_scope(name)
        number = libproton.record_scope()
        libproton.enter_scope(number, name)
        self.scopes.append((number, name))

    def exit(self) -> None:
        number, name = self.scopes.pop()
        libproton.exit_scope(number, name)
        marey.exit_scope(name)

    def measure(self, values: dict[str, Any]) -> None:
        libproton.add_metrics(self.scopes[-1][0], values)
        marey._native.add_metrics(values)

    def enter_state(self, name: str) -> None:
        libproton.enter_state(name)
        marey.enter_state(name)

    def exit_state(self) -> None:
        libproton.exit_state()
        marey.exit_state()

    def set_active(self, at: int, active: bool) -> None:
        self.active[at] = active
        if active:
            libproton.activate(self.theirs[at])
            marey.activate(self.ours[at])
        else:
            libproton.deactivate(self.theirs[at], False)
            marey.deactivate(self.ours[at])

    def check_depths(self) -> None:
        for ours, theirs, active in zip(self.ours, self.theirs, self.active, strict=True):
            if active:
                assert marey.depth(ours) == libproton.get_context_depth(theirs)

    def finalize(self) -> None:
        for ours, theirs in zip(self.ours, self.theirs, strict=True):
            marey.finalize(ours)
            libproton.finalize(theirs, "hatchet")


def run_block(both: Both, rng: random.Random, depth: int, in_state: bool) -> None:
    """Runs a random program that closes every scope it opens, as Proton requires."""
    for _ in range(rng.randrange(1, 5)):
        both.check_depths()
        act = rng.random()
        if act < 0.5 and depth < 6:
            both.enter(rng.choice(SCOPES))
            if rng.random() < 0.6:
                names = rng.sample(list(METRICS), rng.randrange(1, 4))
                both.measure({name: METRICS[name] for name in names})
            run_block(both, rng, depth + 1, in_state)
            if rng.random() < 0.3:
                both.measure({"at exit": rng.randrange(100)})
            both.exit()
        elif act < 0.7 and not in_state:  # Proton forgets a state when one inside it ends
            both.enter_state(rng.choice(STATES))
            run_block(both, rng, depth, True)
            both.exit_state()
        elif act < 0.85:
            at = rng.randrange(len(both.ours))
            if both.active[at]:
                both.set_active(at, False)
                run_block(both, rng, depth, in_state)
                both.set_active(at, True)
        elif both.scopes:
            name = rng.choice(list(METRICS))
            both.measure({name: METRICS[name]})


def measured(node: Node) -> dict[str, Any]:
    """Returns the part of a tree with the program's metrics: name to metrics and children."""
    children = {}
    for child in node["children"]:
        below = measured(child)
        if below["metrics"] or below["children"]:
            assert child["frame"]["name"] not in children
            children[child["frame"]["name"]] = below
    return {"metrics": metrics(node), "children": children}


def measured_in(path: Path) -> dict[str, Any]:
    root, devices = json.loads(path.read_text())
    assert devices == {}
    return {**measured(root), "metrics": {}}  # the zeros that ours has on ROOT


@pytest.mark.parametrize("seed", range(40))
def test_marey_and_proton_write_the_same_tree(seed: int) -> None:
    rng = random.Random(seed)
    both = Both(sessions=1 + seed % 3)
    for _ in range(15):
        run_block(both, rng, 0, False)
    both.finalize()
    assert len(profile_names(directory=OURS)) == 1 + seed % 3
    trees = [measured_in(THEIRS / name) for name in profile_names(directory=THEIRS)]
    assert [measured_in(OURS / name) for name in profile_names(directory=OURS)] == trees
    assert trees[0]["children"]


def test_without_mareys_additions_the_file_is_identical() -> None:
    both = Both(sessions=1)
    both.enter('outer "quoted" \\ \t é')
    both.measure({"int": -3, "a (exc)": 0.5, "z": [1, 2], "empty": [], "large": 2**53})
    for name in ("inner", "empty", "inner"):
        both.enter(name)
        if name == "inner":
            both.measure({"int": 4})
        both.exit()
    both.exit()
    both.finalize()
    name = "session 0.hatchet"
    assert without_extras((OURS / name).read_text()) == (THEIRS / name).read_text()


def without_extras(text: str) -> str:
    """Removes the lines that only marey writes: its node key, wall metrics, ROOT's zeros."""
    kept = re.sub(r'\n +"marey": \{.*\},', "", text)
    kept = re.sub(r'\n +"wall_[^\n]*', "", kept)
    # A last metric is without a comma, and no metrics are on one line.
    kept = re.sub(r",(\n +\})", r"\1", kept)
    kept = re.sub(r'"metrics": \{\n +\}', '"metrics": {}', kept)
    root = kept.index('"name": "ROOT"')
    return kept[:root] + re.sub(r'"metrics": \{[^}]*\}', '"metrics": {}', kept[root:])
