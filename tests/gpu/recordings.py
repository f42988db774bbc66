"""Recordings of marey, read through the public interface."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marey

Node = dict[str, Any]


@dataclass(frozen=True)
class Sum:
    """The kernels of a profile at a node and below."""

    count: int
    nanos: int


class Profile:
    """A `.hatchet` file of marey or Proton."""

    def __init__(self, path: str | Path) -> None:
        root, *devices = json.loads(Path(path).read_text())
        self.root: Node = root
        self.devices: dict[str, Any] = devices[0] if devices else {}

    @property
    def losses(self) -> dict[str, int]:
        """Returns the losses by cause."""
        losses: dict[str, int] = self.root["marey"]["losses"]
        return {cause: count for cause, count in losses.items() if count}

    @property
    def level(self) -> str:
        """The note on how devices were recorded."""
        return str(self.root["marey"]["notes"].get("gpu", ""))

    def kernels(self, *path: str, like: str = "") -> Sum:
        """Kernels whose name contains a text, at or below the nodes with this path."""
        return self._sum(lambda below: below[: len(path)] == path and like in below[-1])

    def kernels_within(self, frame: str) -> Sum:
        """Kernels below nodes whose name contains a text, such as frames of a function."""
        return self._sum(lambda below: any(frame in name for name in below[:-1]))

    def _sum(self, is_wanted: Callable[[tuple[str, ...]], bool]) -> Sum:
        found = [
            node["metrics"]
            for below, node in _walk(self.root)
            if is_kernel(node) and is_wanted(below)
        ]
        times = (metrics["time (ns)"] for metrics in found)
        return Sum(sum(metrics["count"] for metrics in found), sum(times))

    def has(self, *path: str) -> bool:
        """Whether a node has this path."""
        return any(below == path for below, _ in _walk(self.root))


def is_kernel(node: Node) -> bool:
    return "device_type" in node["metrics"]


def _walk(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    for child in node["children"]:
        below = (*path, child["frame"]["name"])
        yield below, child
        yield from _walk(child, below)


@contextlib.contextmanager
def tree(name: str, **options: Any) -> Iterator[list[Profile]]:
    """Records a tree; the list has the profile after the block."""
    profiles: list[Profile] = []
    session = marey.start(name, **options)
    yield profiles
    marey.finalize(session)
    profiles.append(Profile(f"{name}.hatchet"))


@contextlib.contextmanager
def trace(name: str, **options: Any) -> Iterator[list[marey.run.Run]]:
    """Records a trace; the list has the run after the block."""
    runs: list[marey.run.Run] = []
    session = marey.start(name, data="trace", **options)
    yield runs
    marey.finalize(session, "marey")
    runs.append(marey.open(f"{name}.marey"))


def rows(run: marey.run.Run, query: str) -> list[dict[str, Any]]:
    """Returns the rows of a query as dicts."""
    answer = run.sql(query)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer]


def losses(run: marey.run.Run) -> dict[str, int]:
    """Returns the losses by cause."""
    found = run.sql("SELECT cause, sum(count) FROM raw.losses GROUP BY cause HAVING sum(count) > 0")
    return dict(found.rows())
