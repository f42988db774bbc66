"""The call graph of a profile, from the times of its regions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ROOT = "root"


@dataclass
class CallNode:
    """A region with the regions inside. Its time is at least the sum of theirs."""

    name: str
    path: str
    """Names from the outermost region, separated as in the times; empty for the root."""
    total_time_ms: float = 0.0
    call_count: int = 0
    children: list[CallNode] = field(default_factory=list)
    """The longest first."""

    @property
    def self_time_ms(self) -> float:
        """The time without that of the children, never negative."""
        return max(0.0, self.total_time_ms - math.fsum(c.total_time_ms for c in self.children))

    def walk(self, depth: int = 0) -> Iterator[tuple[CallNode, int]]:
        """Yields this node and those below with their depths, each before those inside it."""
        yield self, depth
        for child in self.children:
            yield from child.walk(depth + 1)

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html(
            [
                {
                    "name": "  " * depth + node.name,
                    "total_time_ms": node.total_time_ms,
                    "self_time_ms": node.self_time_ms,
                    "call_count": node.call_count,
                }
                for node, depth in self.walk()
            ]
        )

    def to_flame(self, max_depth: int = 10) -> list[dict[str, Any]]:
        """Returns the rectangles of a flame graph.

        Each has ``name, depth, x, width, self_time, total_time, percentage``. ``x`` and ``width``
        are fractions of the root, times are in ms.
        """
        whole_ms = self.total_time_ms or 1.0
        rectangles: list[dict[str, Any]] = []

        def place(node: CallNode, depth: int, x: float) -> None:
            width = node.total_time_ms / whole_ms
            rectangles.append(
                {
                    "name": node.name,
                    "depth": depth,
                    "x": x,
                    "width": width,
                    "self_time": node.self_time_ms,
                    "total_time": node.total_time_ms,
                    "percentage": 100 * width,
                }
            )
            if depth < max_depth:
                for child in node.children:
                    place(child, depth + 1, x)
                    x += child.total_time_ms / whole_ms

        place(self, 0, 0.0)
        return rectangles

    def to_sunburst(self) -> dict[str, list[Any]]:
        """Returns ``ids, labels, parents, values`` of a sunburst; values are total times in ms."""
        chart: dict[str, list[Any]] = {"ids": [], "labels": [], "parents": [], "values": []}

        def add(node: CallNode, parent: str) -> None:
            identity = node.path or ROOT
            chart["ids"].append(identity)
            chart["labels"].append(node.name)
            chart["parents"].append(parent)
            chart["values"].append(node.total_time_ms)
            for child in node.children:
                add(child, identity)

        add(self, "")
        return chart


class CallGraphBuilder:
    """Builds a call graph.

    Args:
        separator: The text between the names of a path: ``/`` in `ProfileData.region_times`.
    """

    def __init__(self, separator: str = "/") -> None:
        self._separator = separator

    def build_from_regions(self, region_times: Mapping[str, float | Sequence[float]]) -> CallNode:
        """Returns the root of the graph.

        A region whose outer region has no time, or less than those inside, gets the sum of these.

        Args:
            region_times: The inclusive times in ms of each path: one for each call, or their sum.

        Raises:
            ValueError: A time is negative or not a number.
        """
        root = CallNode(ROOT, "")
        nodes = {"": root}
        for path, times in region_times.items():
            numbers = [times] if isinstance(times, int | float) else list(times)
            if not all(0 <= number < math.inf for number in numbers):
                raise ValueError(f"region {path!r} has a time that is negative or not a number")
            node = self._node(nodes, path)
            node.total_time_ms += math.fsum(numbers)
            node.call_count += len(numbers)
        _complete(root)
        return root

    def _node(self, nodes: dict[str, CallNode], path: str) -> CallNode:
        """Returns the node of a path, which is added with those around it if it is new."""
        known = nodes.get(path)
        if known is not None:
            return known
        outer, _, name = path.rpartition(self._separator)
        node = nodes[path] = CallNode(name, path)
        self._node(nodes, outer).children.append(node)
        return node


def _complete(node: CallNode) -> None:
    for child in node.children:
        _complete(child)
    node.children.sort(key=lambda child: (-child.total_time_ms, child.name))
    inner_ms = math.fsum(child.total_time_ms for child in node.children)
    node.total_time_ms = max(node.total_time_ms, inner_ms)
