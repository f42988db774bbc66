"""A profile as a graph: a tree of nodes with columns of metrics.

    graph = marey.graph.Graph.read("train.hatchet")
    print(graph.tree())
    slower = graph.diff(marey.graph.Graph.read("yesterday.hatchet"), ["time/ms"])

The words are those of LLNL hatchet's `GraphFrame`, which Proton's viewer gives to its users.
Neither hatchet nor numpy nor pandas is needed; touching `Graph.dataframe` imports pandas.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _engine
from ._nodes import INCLUSIVE, Node, Row, Table, Tree, values
from ._warning import warn
from .errors import EmptyFilter, UnknownMetric

if TYPE_CHECKING:
    import pandas

__all__ = ["Graph", "Node", "Row"]

# How many columns are shown where none is asked for, and which of them come first.
_MAX_DEFAULT = 6
_FIRST = ("wall_total", "wall_self", "wall_count", "wall_p50", "wall_p99", "time", "count")

# Digits behind the point that a number can be shown with.
_MAX_PRECISION = 300


class Graph:
    """A profile's tree, with columns of metrics over its nodes.

    A metric that is added up into parents has two columns: the nodes' own values under its name,
    such as ``time (ns)``, and the sums over subtrees under ``time (ns) (inc)``. Siblings stand in
    the order of their names.

    What is written into `dataframe` counts in whatever is done with the graph later.

    Where the label of a column is asked for, the name of a metric will do, as in `derive`:
    ``time`` is ``time (ns) (inc)`` where there is no column ``time``.

    Several threads may use a graph at once until its `dataframe` is touched; from then on one.
    """

    def __init__(
        self,
        graph: _engine.Graph,
        *,
        is_kept: list[bool] | None = None,
        shown: Sequence[str] = (),
    ) -> None:
        """Use `read` or `parse`.

        Args:
            graph: The engine's graph.
            is_kept: Whether each node has a row in `dataframe`; `None` if all have.
            shown: Labels of the columns to show where none is asked for.
        """
        self._graph = graph
        self._is_kept = is_kept
        self._shown = list(shown)
        self._tree: Tree | None = None
        self._frame: pandas.DataFrame | None = None

    @staticmethod
    def read(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> Graph:
        """Reads a ``.hatchet`` or ``.hatchet_msgpack`` file, of marey or of Proton.

        Raises:
            FileNotFoundError: There is no such file; another `OSError` if it cannot be read.
            UnreadableProfile: It holds no profile; a `ValueError`.
        """
        return Graph(_engine.Graph.read(os.fsdecode(path)))

    @staticmethod
    def parse(content: bytes) -> Graph:
        """Reads the content of such a file; raises as `read` does."""
        return Graph(_engine.Graph.parse(content))

    # What there is.

    @property
    def dataframe(self) -> pandas.DataFrame:
        """The columns as a `pandas.DataFrame`: ``name`` first, one row a node.

        The index, ``node``, holds a `Node` each, in the order of the tree. A metric that is itself
        called ``name`` is left out.

        Rows may be dropped. The frame then keeps its values, while everything else that a graph
        says or does, `column` and `tree` included, is that of `squash`: without these nodes, and
        with metrics added up anew. So sums there may be less than in the frame.
        """
        if self._frame is None:
            from . import _frame

            self._frame = _frame.make(self._graph, self._nodes(), self._is_kept)
        return self._frame

    @dataframe.setter
    def dataframe(self, frame: pandas.DataFrame) -> None:
        self._nodes()
        self._frame = frame

    @property
    def inc_metrics(self) -> list[str]:
        """Labels of the columns of sums over subtrees, and of what is derived from such."""
        return _inclusive(self._changed())

    @property
    def exc_metrics(self) -> list[str]:
        """Labels of the other columns of numbers."""
        return _exclusive(self._changed())

    def show_metric_columns(self) -> list[str]:
        """Labels of all columns of numbers."""
        return _numbers(self._changed())

    @property
    def default_metric(self) -> str | None:
        """Label of the column that is shown if none is asked for; `None` if there is no number.

        That is what was derived last, else ``wall_total (ns)`` of marey's files, else GPU time,
        else the first metric that is added up, else any number.
        """
        return self._first_label(self._changed())

    @property
    def device_info(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The file's devices: by family (``"CUDA"``, ``"HIP"``), then by number.

        Each has ``arch``, ``bus_width`` (bits), ``clock_rate`` and ``memory_clock_rate`` (kHz) and
        ``num_sms``, as far as the file says them.
        """
        return self._graph.device_info()

    @device_info.setter
    def device_info(self, device_info: dict[str, dict[str, dict[str, Any]]]) -> None:
        self._graph.set_device_info(device_info)

    def inclusive(self) -> list[str]:
        """Names of the metrics that are added up into parents, unit included."""
        return self._changed().inclusive()

    def exclusive(self) -> list[str]:
        """``name``, and the names of the other metrics, unit included."""
        return self._changed().exclusive()

    def column(self, label: str) -> list[Any]:
        """A column without pandas: one value a node, NaN where a number is missing.

        After rows were dropped from `dataframe` it is a column of the graph that `squash` gives.

        Raises:
            KeyError: There is no such column.
        """
        graph = self._current()
        return graph.names() if label == "name" else _values(graph, label)

    def __len__(self) -> int:
        return len(self._current())

    def __iter__(self) -> Iterator[Row]:
        """The nodes as mappings with ``name``, ``depth`` and every column."""
        return Table(self._current()).rows()

    def __repr__(self) -> str:
        graph = self._current()
        return f"<marey.graph.Graph: {len(graph)} nodes, {len(graph.labels())} columns>"

    # What can be made of it.

    def derive(self, metrics: str | Sequence[str]) -> list[str]:
        """Makes a column for each metric, such as ``time/ms``, ``util`` or ``time/%``.

        Returns:
            The labels of the columns.

        Raises:
            UnknownMetric: There is nothing to derive one from; a `RuntimeError`.
            ValueError: One has an unknown unit.
            TypeError: One is of a column of texts or lists.

        Warns:
            UserWarning: Something should be known about the numbers, such as a device whose peak
                rate nobody has told marey.
        """
        asked = [metrics] if isinstance(metrics, str) else list(metrics)
        labels, notes = self._changed().derive(asked)
        for note in notes:
            warn(note)
        self._update_frame(labels)
        self._shown = labels
        return labels

    def update_inclusive_columns(self) -> None:
        """Adds metrics up into parents anew, after their own values have been changed."""
        graph = self._changed()
        graph.update_sums()
        self._update_frame([f"{key}{INCLUSIVE}" for key in graph.inclusive()])

    def style_names(self, style: str) -> None:
        """Shortens names such as ``/home/me/train.py:12@forward``, for good.

        Args:
            style: ``"full"`` (as they are: what was cut off does not come back),
                ``"file_function_line"`` (``train.py:12@forward``), ``"function_line"``
                (``12@forward``) or ``"file_function"`` (``train.py@forward``).

        Raises:
            ValueError: It is none of these.
        """
        self._changed().style_names(style)
        self._update_frame(["name"])

    def filter(
        self,
        predicate: Callable[[Mapping[str, Any]], object] | None = None,
        *,
        include: str | None = None,
        exclude: str | None = None,
        threshold: float | None = None,
        metric: str | None = None,
        squash: bool = True,
    ) -> Graph:
        """The nodes that meet every condition.

        With `squash`, each condition applies to what the one before it leaves: what is left of
        metrics is added up anew, and what was derived keeps its values.

        Args:
            predicate: Is given each node as a mapping with ``name``, ``depth`` and every column.
            include: Pattern that names match from their start. What is above and below is kept too.
            exclude: Pattern likewise; what is below such a node goes too.
            threshold: Value that `metric` must reach, at the node or below it.
            metric: Label of a column, or name of a metric; the first that is shown if not given.
            squash: Whether the nodes that are left hang from each other. Otherwise only the rows of
                the others are dropped, as if from `dataframe`.

        Raises:
            EmptyFilter: Nothing is left; a `ValueError`.
            ValueError: A pattern is no regular expression.
            UnknownMetric: There is no such metric, or it is still to be derived; a `RuntimeError`.
            TypeError: The metric is no number, or the predicate no function.
        """
        if predicate is not None and not callable(predicate):
            raise TypeError(
                f"a predicate is a function of a row, not {type(predicate).__name__};"
                " patterns go to include= and exclude="
            )
        graph = self._current()
        label = self._first_label(graph) or "" if metric is None else graph.label(metric)
        conditions = (include or None, exclude or None, threshold, label)
        if squash:
            graph = graph.filter(*conditions)
            if predicate is not None:
                graph = graph.squash(_matching(graph, predicate))
            return Graph(graph, shown=self._shown)
        is_kept = graph.passing(*conditions)
        if predicate is not None:
            is_kept = _matching(graph, predicate, is_kept)
        return Graph(graph.copy(), is_kept=is_kept, shown=self._shown)

    def squash(self) -> Graph:
        """The graph without the nodes whose rows were dropped.

        What was below such a node hangs from the nearest node above it; siblings that then have one
        name become one. Metrics are added up anew.
        """
        graph = self._current()
        return Graph(graph.copy() if graph is self._graph else graph, shown=self._shown)

    def copy(self) -> Graph:
        """An equal graph that changes alone."""
        copy = Graph(self._changed().copy(), is_kept=self._is_kept, shown=self._shown)
        copy._tree = self._tree
        return copy

    def diff(self, before: Graph, metrics: str | Sequence[str] | None = None) -> Graph:
        """What changed since `before`.

        Each metric becomes four columns: ``… before``, ``… after``, ``… difference`` (after minus
        before; a node that is missing counts as 0) and ``… ratio`` (after by before). The column
        ``change`` says ``added`` or ``removed`` of nodes that only one of the two has.

        Args:
            before: The graph to compare with.
            metrics: As for `derive`; every column of numbers if not given.

        Raises:
            UnknownMetric: One of the graphs lacks a metric; a `RuntimeError`.
            ValueError: The graphs have a metric in different units.
            KeyError: Without `metrics`: only one graph has a column that was derived or set.
        """
        _check_is_graph("diff", before)
        after, earlier = self.copy(), before.copy()
        if metrics is None:
            both = after.show_metric_columns() + earlier.show_metric_columns()
            labels = list(dict.fromkeys(both))
        else:
            labels = after.derive(metrics)
            if (others := earlier.derive(metrics)) != labels:
                raise ValueError(f"{', '.join(labels)} cannot be compared to {', '.join(others)}")
        graph = after._current().difference(earlier._current(), labels)
        words = {"both": "", "left": "added", "right": "removed"}
        graph.set_column("change", [words[side] for side in graph.sides()])
        return Graph(graph, shown=[f"{label} difference" for label in labels])

    def __add__(self, other: Graph) -> Graph:
        """Both graphs' nodes with the sums of their columns.

        As in hatchet: where one side has no number the left one's value stands, a node that only
        the right side has is there without numbers, and of texts the left one's stand.

        Raises:
            KeyError: The right graph lacks a column that was derived from the left one or set in
                it. A metric that only one file has is no error.
        """
        return self.add(other) if isinstance(other, Graph) else NotImplemented

    def __sub__(self, other: Graph) -> Graph:
        """Left minus right, likewise."""
        return self.sub(other) if isinstance(other, Graph) else NotImplemented

    def __mul__(self, other: Graph) -> Graph:
        """Left times right, likewise."""
        return self.mul(other) if isinstance(other, Graph) else NotImplemented

    def __truediv__(self, other: Graph) -> Graph:
        """Left by right, likewise."""
        return self.div(other) if isinstance(other, Graph) else NotImplemented

    def add(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self + other``, of these columns only if labels are given.

        Raises:
            KeyError: Neither graph has such a column, or only one and it was derived or set there;
                without labels, as ``self + other``.
            TypeError: `other` is no graph.
        """
        return self._combined(other, "+", labels)

    def sub(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self - other``, likewise."""
        return self._combined(other, "-", labels)

    def mul(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self * other``, likewise."""
        return self._combined(other, "*", labels)

    def div(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self / other``, likewise."""
        return self._combined(other, "/", labels)

    # How it is shown and kept.

    def tree(
        self,
        metric_column: str | Sequence[str] | None = None,
        *,
        precision: int = 3,
        name_column: str = "name",
        expand_name: bool = False,
        depth: int = 10000,
        render_header: bool = False,
    ) -> str:
        """The tree as text: a line for each node, its columns before its name.

        Of two graphs' nodes after arithmetic, ``◀`` marks what only the left one has and ``▶``
        what only the right one has.

        Args:
            metric_column: Label of a column or name of a metric, or several; `default_metric` if
                not given.
            precision: Digits behind the point, up to 300.
            name_column: Label of the column to show as the name.
            expand_name: Whether names of more than 39 characters are shown whole.
            depth: Levels to show; none below 1.
            render_header: Whether a line with the labels comes first.

        Raises:
            KeyError: There is no such column.
            ValueError: The precision is below 0 or above 300.
        """
        if not 0 <= precision <= _MAX_PRECISION:
            raise ValueError(f"precision is 0 to {_MAX_PRECISION} digits, not {precision}")
        graph = self._current()
        if metric_column is None:
            labels = self._default_labels(graph)[:1]
        else:
            asked = [metric_column] if isinstance(metric_column, str) else metric_column
            labels = [_label(graph, name) for name in asked]
        names = None
        if name_column != "name":
            names = [str(value) for value in _values(graph, name_column)]
        levels = max(0, min(depth, sys.maxsize))
        text = graph.tree(labels, levels, precision, not expand_name, names)
        return f"{' '.join([*labels, name_column])}\n{text}" if render_header else text

    def to_hatchet(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
        format: str | None = None,
    ) -> str | bytes | None:
        """Writes the graph as a profile that `read`, `marey view` and Proton's viewer read.

        The file holds the nodes' own values; sums are made anew by who reads it. Columns that are
        no metrics of the profile are written without their value on the root, where a value would
        mean that the metric is to be added up.

        Args:
            path: The file, whole or not written at all.
            format: ``"hatchet"`` (JSON) or ``"hatchet_msgpack"``. If not given the path's end says
                it, and the first is taken where it does not.

        Returns:
            Without a path the content: `str` as JSON, `bytes` as MessagePack.

        Raises:
            OSError: The file cannot be written.
            ValueError: There is no such format.
        """
        file = None if path is None else os.fsdecode(path)
        if format is None:
            is_msgpack = file is not None and file.endswith(".hatchet_msgpack")
            format = "hatchet_msgpack" if is_msgpack else "hatchet"
        graph = self._current()
        if file is not None:
            graph.write(file, format)
            return None
        content = graph.to_bytes(format)
        return content.decode() if format == "hatchet" else content

    def _repr_html_(self) -> str:
        """The tree for notebooks."""
        from . import _notebook

        graph = self._current()
        return _notebook.html(graph, self._default_labels(graph))

    # How it is done.

    def _nodes(self) -> Tree:
        if self._tree is None:
            self._tree = Tree(self._graph)
        return self._tree

    def _changed(self) -> _engine.Graph:
        """The engine's graph with what the user changed in the frame; dropped rows are still in it.

        Comparing the frame with the graph takes long: once for each call of the user's.
        """
        if self._frame is not None:
            from . import _frame

            self._is_kept = _frame.take_changes(self._frame, self._graph, self._nodes())
        return self._graph

    def _update_frame(self, labels: list[str]) -> None:
        if self._frame is not None:
            from . import _frame

            _frame.update(self._frame, self._graph, self._nodes(), labels)

    def _current(self) -> _engine.Graph:
        """The same without the dropped rows."""
        graph = self._changed()
        return graph if self._is_kept is None else graph.squash(self._is_kept)

    def _default_labels(self, graph: _engine.Graph) -> list[str]:
        known = graph.labels()
        return [label for label in self._shown if label in known] or _at_a_glance(graph)

    def _first_label(self, graph: _engine.Graph) -> str | None:
        return next(iter(self._default_labels(graph)), None)

    def _combined(self, other: Graph, operator: str, labels: Sequence[str] | None) -> Graph:
        _check_is_graph(operator, other)
        asked = None if labels is None else list(labels)
        graph = self._current().combine(other._current(), operator, asked)
        return Graph(graph, shown=self._shown)


def _check_is_graph(operation: str, other: object) -> None:
    if not isinstance(other, Graph):
        found = type(other).__name__
        raise TypeError(f"{operation!r} takes another marey.graph.Graph, not {found}")


def _inclusive(graph: _engine.Graph) -> list[str]:
    return [label for label in graph.labels() if label.endswith(INCLUSIVE)]


def _exclusive(graph: _engine.Graph) -> list[str]:
    others = [label for label in graph.labels() if not label.endswith(INCLUSIVE)]
    return [label for label in others if _is_number(graph, label)]


def _numbers(graph: _engine.Graph) -> list[str]:
    return _exclusive(graph) + _inclusive(graph)


def _is_number(graph: _engine.Graph, label: str) -> bool:
    return not isinstance(graph.column(label), list)


def _at_a_glance(graph: _engine.Graph) -> list[str]:
    """Labels that suit the file: of what everybody asks first, then the sums, else any number."""
    sums = _inclusive(graph)
    # Of one name the sums come first.
    labels = {label.partition("(")[0].strip(): label for label in [*graph.labels(), *sums]}
    first = [labels[name] for name in _FIRST if name in labels]
    first = [label for label in first if label in sums or _is_number(graph, label)]
    others = [label for label in sums if label not in first]
    return (first + others or _exclusive(graph))[:_MAX_DEFAULT]


def _label(graph: _engine.Graph, name: str) -> str:
    """The label of the column that is meant."""
    try:
        return graph.label(name)
    except UnknownMetric:
        known = ", ".join(repr(known) for known in graph.labels())
        raise KeyError(f"no column {name!r}; there are {known}; `derive` makes others") from None


def _values(graph: _engine.Graph, name: str) -> list[Any]:
    return values(graph.column(_label(graph, name)))


def _matching(
    graph: _engine.Graph,
    predicate: Callable[[Mapping[str, Any]], object],
    is_kept: list[bool] | None = None,
) -> list[bool]:
    matches = [bool(predicate(row)) for row in Table(graph).rows()]
    if is_kept is not None:
        matches = [*map(bool.__and__, matches, is_kept)]
    if not any(matches):
        raise EmptyFilter("nothing is left of the profile: the predicate is true of no node")
    return matches
