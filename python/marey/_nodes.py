"""The nodes of a graph as Python objects, and its columns as Python values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from . import _engine

# Suffix that Proton appends to the name of a metric that is summed into parents.
INCLUSIVE = " (inc)"


class Tree:
    """Structure of a graph. Nodes are numbered from 0 in pre-order, siblings by name."""

    def __init__(self, graph: _engine.Graph) -> None:
        self.frames = graph.frames()
        self.kinds = graph.kinds()
        self.parents = graph.parents()
        self.depths = graph.depths()
        self.ends = graph.ends()

    @functools.cached_property
    def nodes(self) -> list[Node]:
        return [Node(self, position) for position in range(len(self.frames))]

    def roots(self) -> list[int]:
        return self._siblings(0, len(self.ends))

    def children(self, position: int) -> list[int]:
        return self._siblings(position + 1, self.ends[position])

    def _siblings(self, first: int, end: int) -> list[int]:
        siblings = []
        while first < end:
            siblings.append(first)
            first = self.ends[first]
        return siblings


@functools.total_ordering
class Node:
    """A node of a graph, as it appears in the index of its frame. Nodes compare in tree order.

    Attributes:
        position: Position in the order of the tree, from 0.
    """

    __slots__ = ("_tree", "position")

    def __init__(self, tree: Tree, position: int) -> None:
        self._tree = tree
        self.position = position

    @property
    def frame(self) -> dict[str, str]:
        """The frame of the node in the file, with the keys ``name`` and ``type``."""
        return {"name": self._tree.frames[self.position], "type": "function"}

    @property
    def kind(self) -> str | None:
        """Kind of the node, such as ``"module"``; `None` if the file has no kind."""
        return self._tree.kinds[self.position]

    @property
    def depth(self) -> int:
        """Number of ancestors."""
        return self._tree.depths[self.position]

    @property
    def parent(self) -> Node | None:
        """The parent; `None` for a root."""
        parent = self._tree.parents[self.position]
        return None if parent is None else self._tree.nodes[parent]

    @property
    def children(self) -> list[Node]:
        """The children, sorted by name."""
        return [self._tree.nodes[child] for child in self._tree.children(self.position)]

    def path(self) -> tuple[Node, ...]:
        """The nodes from the root to this one."""
        path: list[Node] = [self]
        while (parent := path[-1].parent) is not None:
            path.append(parent)
        return tuple(reversed(path))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self._tree is other._tree and self.position == other.position

    def __lt__(self, other: Node) -> bool:
        return self.position < other.position

    def __hash__(self) -> int:
        return hash(self.position)

    def __repr__(self) -> str:
        attributes = ", ".join(f"'{key}': '{value}'" for key, value in self.frame.items())
        return f"{{{attributes}}}"


class Table:
    """The columns of a graph, each read on first use."""

    def __init__(self, graph: _engine.Graph) -> None:
        self._graph = graph
        self._columns: dict[str, list[Any]] = {"name": graph.names(), "depth": graph.depths()}
        self.labels = list(dict.fromkeys([*self._columns, *graph.labels()]))

    def column(self, label: str) -> list[Any]:
        """One value per node: NaN for a missing number, `None` for any other missing value.

        Raises:
            KeyError: The column does not exist.
        """
        if label not in self._columns:
            self._columns[label] = decode_column(self._graph.column(label))
        return self._columns[label]

    def rows(self) -> Iterator[Row]:
        return (Row(self, position) for position in range(len(self._graph)))


class Row(Mapping[str, Any]):
    """The ``name``, ``depth`` and columns of a node."""

    __slots__ = ("_position", "_table")

    def __init__(self, table: Table, position: int) -> None:
        self._table = table
        self._position = position

    def __getitem__(self, label: str) -> Any:
        return self._table.column(label)[self._position]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.labels)

    def __len__(self) -> int:
        return len(self._table.labels)

    def __repr__(self) -> str:
        return f"Row({dict(self)})"


def decode_column(column: tuple[bytes, bool] | list[Any]) -> list[Any]:
    """Converts a column of the engine to a list. Integer columns have `int` or NaN."""
    if isinstance(column, list):
        return column
    content, are_integers = column
    numbers = memoryview(content).cast("d").tolist()
    if are_integers:
        return [number if math.isnan(number) else int(number) for number in numbers]
    return numbers
