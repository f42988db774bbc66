"""A profile as a graph: a tree of nodes with columns of metrics.

    graph = marey.graph.Graph.read("train.hatchet")
    print(graph.tree())
    slower = graph.diff(marey.graph.Graph.read("yesterday.hatchet"), ["time/ms"])

The methods have the names of LLNL hatchet's `GraphFrame`, which Proton's viewer returns. Hatchet,
numpy and pandas are not required; only `Graph.dataframe` imports pandas.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _engine
from ._nodes import INCLUSIVE, Node, Row, Table, Tree, decode_column
from ._warning import warn
from .errors import EmptyFilter, UnknownMetric

if TYPE_CHECKING:
    import pandas

__all__ = ["Graph", "Node", "Row"]

# The columns that are shown by default: at most this many, these names first.
_MAX_DEFAULT_COLUMNS = 6
_FIRST_METRICS = ("wall_total", "wall_self", "wall_count", "wall_p50", "wall_p99", "time", "count")

# Largest number of decimal places.
_MAX_PRECISION = 300


class Graph:
    """The tree of a profile, with columns of metrics over its nodes.

    An inclusive metric, which is summed into parents, has two columns: the nodes' own values under
    its name, such as ``time (ns)``, and the sums over subtrees under ``time (ns) (inc)``. Siblings
    are sorted by name.

    Changes of `dataframe` take effect in all later operations on the graph.

    A parameter that is a column label also accepts the name of a metric, as in `derive`: ``time``
    means ``time (ns) (inc)`` unless a column is called ``time``.

    Several threads may use a graph at the same time until `dataframe` is first read. After that,
    only one may.
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
            graph: The graph of the engine.
            is_kept: Whether each node has a row in `dataframe`; `None` if all nodes have.
            shown: Labels of the columns to show by default.
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
            FileNotFoundError: The file does not exist; another `OSError` if it cannot be read.
            UnreadableProfile: The file is not a valid profile; a `ValueError`.
        """
        return Graph(_engine.Graph.read(os.fsdecode(path)))

    @staticmethod
    def parse(content: bytes) -> Graph:
        """Parses the content of a ``.hatchet`` or ``.hatchet_msgpack`` file.

        Raises:
            UnreadableProfile: The content is not a valid profile; a `ValueError`.
        """
        return Graph(_engine.Graph.parse(content))

    # Properties.

    @property
    def dataframe(self) -> pandas.DataFrame:
        """The columns as a `pandas.DataFrame`: one row for each node, ``name`` first.

        The index ``node`` has a `Node` for each row, in the order of the tree. A metric that is
        itself called ``name`` is omitted.

        Rows may be dropped. The frame keeps its values, but all methods of the graph, `column` and
        `tree` included, then work on the result of `squash`: without these nodes, and with sums
        computed again. Sums there may be smaller than in the frame.
        """
        if self._frame is None:
            from . import _frame

            self._frame = _frame.make(self._graph, self._get_tree(), self._is_kept)
        return self._frame

    @dataframe.setter
    def dataframe(self, frame: pandas.DataFrame) -> None:
        self._get_tree()
        self._frame = frame

    @property
    def inc_metrics(self) -> list[str]:
        """Labels of the columns of sums over subtrees, and of columns derived from them."""
        return _inclusive_labels(self._updated_graph())

    @property
    def exc_metrics(self) -> list[str]:
        """Labels of all other numeric columns."""
        return _exclusive_labels(self._updated_graph())

    def show_metric_columns(self) -> list[str]:
        """Labels of all numeric columns."""
        graph = self._updated_graph()
        return _exclusive_labels(graph) + _inclusive_labels(graph)

    @property
    def default_metric(self) -> str | None:
        """Label of the column that is shown by default; `None` if no column is numeric.

        The first that exists of: the metric derived last, ``wall_total (ns)`` of marey's files, GPU
        time, the first inclusive metric, any numeric column.
        """
        return self._first_label(self._updated_graph())

    @property
    def device_info(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The devices of the file, by family (``"CUDA"``, ``"HIP"``), then by number.

        A device has those of the keys ``arch``, ``bus_width`` (bits), ``clock_rate`` and
        ``memory_clock_rate`` (kHz) and ``num_sms`` that the file has.
        """
        return self._graph.device_info()

    @device_info.setter
    def device_info(self, device_info: dict[str, dict[str, dict[str, Any]]]) -> None:
        self._graph.set_device_info(device_info)

    def inclusive(self) -> list[str]:
        """Names, with units, of the metrics that are summed into parents."""
        return self._updated_graph().inclusive()

    def exclusive(self) -> list[str]:
        """``name``, and the names, with units, of the metrics that are not summed."""
        return self._updated_graph().exclusive()

    def column(self, label: str) -> list[Any]:
        """A column as a list, without pandas: one value per node, NaN for a missing number.

        If rows were dropped from `dataframe`, the column is that of the graph `squash` returns.

        Raises:
            KeyError: The column does not exist.
        """
        graph = self._kept_graph()
        return graph.names() if label == "name" else _column_values(graph, label)

    def __len__(self) -> int:
        return len(self._kept_graph())

    def __iter__(self) -> Iterator[Row]:
        """The nodes as mappings with ``name``, ``depth`` and every column."""
        return Table(self._kept_graph()).rows()

    def __repr__(self) -> str:
        graph = self._kept_graph()
        return f"<marey.graph.Graph: {len(graph)} nodes, {len(graph.labels())} columns>"

    # Operations.

    def derive(self, metrics: str | Sequence[str]) -> list[str]:
        """Adds a column for each metric, such as ``time/ms``, ``util`` or ``time/%``.

        Returns:
            The labels of the columns.

        Raises:
            UnknownMetric: The profile lacks the metric from which one is derived; a `RuntimeError`.
            ValueError: A metric has an unknown unit.
            TypeError: A metric refers to a column of strings or lists.

        Warns:
            UserWarning: The numbers need an explanation, for example because the peak rate of a
                device is unknown.
        """
        requested = [metrics] if isinstance(metrics, str) else list(metrics)
        labels, notes = self._updated_graph().derive(requested)
        for note in notes:
            warn(note)
        self._update_frame(labels)
        self._shown = labels
        return labels

    def update_inclusive_columns(self) -> None:
        """Computes the sums over subtrees again, after values of nodes have been changed."""
        graph = self._updated_graph()
        graph.update_sums()
        self._update_frame([f"{key}{INCLUSIVE}" for key in graph.inclusive()])

    def style_names(self, style: str) -> None:
        """Shortens names such as ``/home/me/train.py:12@forward`` in place.

        Args:
            style: ``"full"`` (no change; it does not restore shortened names),
                ``"file_function_line"`` (``train.py:12@forward``), ``"function_line"``
                (``12@forward``) or ``"file_function"`` (``train.py@forward``).

        Raises:
            ValueError: The style is none of these.
        """
        self._updated_graph().style_names(style)
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
        """Returns the graph of the nodes that meet every condition.

        With `squash`, each condition applies to the result of the one before it. Sums are computed
        again, and derived columns keep their values.

        Args:
            predicate: Function of a node, given as a mapping with ``name``, ``depth`` and every
                column; the node is kept if the result is true.
            include: Regular expression, matched at the start of names. Ancestors and descendants of
                a matching node are kept too.
            exclude: Regular expression, matched at the start of names. Descendants of a matching
                node are dropped too.
            threshold: Least value of `metric`, at the node or at a descendant.
            metric: Label of a column or name of a metric; `default_metric` if not given.
            squash: Whether remaining nodes are attached to their nearest remaining ancestor.
                Otherwise only the rows of the other nodes are dropped, as if from `dataframe`.

        Raises:
            EmptyFilter: No node is left; a `ValueError`.
            ValueError: A pattern is not a valid regular expression.
            UnknownMetric: The metric does not exist or is not derived yet; a `RuntimeError`.
            TypeError: The metric is not numeric, or the predicate is not callable.
        """
        if predicate is not None and not callable(predicate):
            raise TypeError(
                f"a predicate is a function of a row, not {type(predicate).__name__};"
                " patterns go to include= and exclude="
            )
        graph = self._kept_graph()
        label = self._first_label(graph) or "" if metric is None else graph.label(metric)
        conditions = (include or None, exclude or None, threshold, label)
        if squash:
            graph = graph.filter(*conditions)
            if predicate is not None:
                graph = graph.squash(_match_predicate(graph, predicate))
            return Graph(graph, shown=self._shown)
        is_kept = graph.passing(*conditions)
        if predicate is not None:
            is_kept = _match_predicate(graph, predicate, is_kept)
        return Graph(graph.copy(), is_kept=is_kept, shown=self._shown)

    def squash(self) -> Graph:
        """Returns the graph without the nodes whose rows were dropped.

        Children of a dropped node are attached to its nearest remaining ancestor. Siblings that
        then have the same name are merged. Sums are computed again.
        """
        graph = self._kept_graph()
        return Graph(graph.copy() if graph is self._graph else graph, shown=self._shown)

    def copy(self) -> Graph:
        """Returns an independent copy of the graph."""
        copy = Graph(self._updated_graph().copy(), is_kept=self._is_kept, shown=self._shown)
        copy._tree = self._tree
        return copy

    def diff(self, before: Graph, metrics: str | Sequence[str] | None = None) -> Graph:
        """Returns the changes of this graph relative to `before`.

        Each metric becomes four columns: ``… before``, ``… after``, ``… difference`` (after minus
        before; a missing node counts as 0) and ``… ratio`` (after divided by before). The column
        ``change`` is ``added`` or ``removed`` for nodes that only one of the graphs has.

        Args:
            before: The graph to compare with.
            metrics: Metrics as for `derive`; all numeric columns if not given.

        Raises:
            UnknownMetric: One of the graphs lacks a metric; a `RuntimeError`.
            ValueError: The graphs have a metric in different units.
            KeyError: Without `metrics`: only one graph has a column that was derived or set.
        """
        _check_is_graph("diff", before)
        after, earlier = self.copy(), before.copy()
        if metrics is None:
            numeric = after.show_metric_columns() + earlier.show_metric_columns()
            labels = list(dict.fromkeys(numeric))
        else:
            labels = after.derive(metrics)
            if (earlier_labels := earlier.derive(metrics)) != labels:
                raise ValueError(
                    f"{', '.join(labels)} cannot be compared to {', '.join(earlier_labels)}"
                )
        graph = after._kept_graph().difference(earlier._kept_graph(), labels)
        changes = {"both": "", "left": "added", "right": "removed"}
        graph.set_column("change", [changes[side] for side in graph.sides()])
        return Graph(graph, shown=[f"{label} difference" for label in labels])

    def __add__(self, other: Graph) -> Graph:
        """Returns the nodes of both graphs with the sums of their columns.

        As in hatchet, the left value is used where one side has no number, a node that only the
        right graph has gets no numbers, and strings are those of the left graph.

        Raises:
            KeyError: The right graph lacks a column that was derived or set in the left graph. A
                metric that only one file has is no error.
        """
        return self.add(other) if isinstance(other, Graph) else NotImplemented

    def __sub__(self, other: Graph) -> Graph:
        """Left minus right; nodes and missing values as for ``+``."""
        return self.sub(other) if isinstance(other, Graph) else NotImplemented

    def __mul__(self, other: Graph) -> Graph:
        """Left times right; nodes and missing values as for ``+``."""
        return self.mul(other) if isinstance(other, Graph) else NotImplemented

    def __truediv__(self, other: Graph) -> Graph:
        """Left divided by right; nodes and missing values as for ``+``."""
        return self.div(other) if isinstance(other, Graph) else NotImplemented

    def add(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self + other``, restricted to the columns `labels` if given.

        Raises:
            KeyError: Neither graph has a column of `labels`, or only one has it and it was derived
                or set there. Without labels, as ``self + other``.
            TypeError: `other` is not a `Graph`.
        """
        return self._combine(other, "+", labels)

    def sub(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self - other``, restricted as by `add`."""
        return self._combine(other, "-", labels)

    def mul(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self * other``, restricted as by `add`."""
        return self._combine(other, "*", labels)

    def div(self, other: Graph, labels: Sequence[str] | None = None) -> Graph:
        """``self / other``, restricted as by `add`."""
        return self._combine(other, "/", labels)

    # Output.

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
        """Returns the tree as text: a line for each node, its columns before its name.

        After arithmetic, ``◀`` marks nodes that only the left graph has and ``▶`` nodes that only
        the right graph has.

        Args:
            metric_column: Label of a column or name of a metric, or several; `default_metric` if
                not given.
            precision: Number of decimal places, 0 to 300.
            name_column: Label of the column to show as the name.
            expand_name: Show names of more than 39 characters in full.
            depth: Number of levels to show; none if less than 1.
            render_header: Print a first line with the labels.

        Raises:
            KeyError: A column does not exist.
            ValueError: The precision is below 0 or above 300.
        """
        if not 0 <= precision <= _MAX_PRECISION:
            raise ValueError(f"precision is 0 to {_MAX_PRECISION} digits, not {precision}")
        graph = self._kept_graph()
        if metric_column is None:
            labels = self._default_labels(graph)[:1]
        else:
            requested = [metric_column] if isinstance(metric_column, str) else metric_column
            labels = [_column_label(graph, name) for name in requested]
        names = None
        if name_column != "name":
            names = [str(value) for value in _column_values(graph, name_column)]
        levels = max(0, min(depth, sys.maxsize))
        text = graph.tree(labels, levels, precision, not expand_name, names)
        return f"{' '.join([*labels, name_column])}\n{text}" if render_header else text

    def to_hatchet(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
        format: str | None = None,
    ) -> str | bytes | None:
        """Writes the graph as a profile that `read`, `marey view` and Proton's viewer accept.

        The file has the nodes' own values; readers compute the sums. Derived and set columns are
        written without a value on the root, because readers sum every metric that the root has.

        Args:
            path: The file. It is written completely or not at all, unless it is a device or a pipe.
            format: ``"hatchet"`` (JSON) or ``"hatchet_msgpack"``. If not given, the format of the
                suffix of `path`, else ``"hatchet"``.

        Returns:
            `None`, or without `path` the content: `str` for JSON, `bytes` for MessagePack.

        Raises:
            OSError: The file cannot be written.
            ValueError: The format is unknown.
        """
        file = None if path is None else os.fsdecode(path)
        if format is None:
            is_msgpack = file is not None and file.endswith(".hatchet_msgpack")
            format = "hatchet_msgpack" if is_msgpack else "hatchet"
        graph = self._kept_graph()
        if file is not None:
            graph.write(file, format)
            return None
        content = graph.to_bytes(format)
        return content.decode() if format == "hatchet" else content

    def _repr_html_(self) -> str:
        """The tree as HTML for notebooks."""
        from . import _notebook

        graph = self._kept_graph()
        return _notebook.graph_html(graph, self._default_labels(graph))

    # Implementation.

    def _get_tree(self) -> Tree:
        if self._tree is None:
            self._tree = Tree(self._graph)
        return self._tree

    def _updated_graph(self) -> _engine.Graph:
        """Returns the engine's graph with the user's changes of the frame; dropped rows included.

        Comparing the frame with the graph is slow, so each public method calls this only once.
        """
        if self._frame is not None:
            from . import _frame

            self._is_kept = _frame.apply_changes(self._frame, self._graph, self._get_tree())
        return self._graph

    def _update_frame(self, labels: list[str]) -> None:
        if self._frame is not None:
            from . import _frame

            _frame.update(self._frame, self._graph, self._get_tree(), labels)

    def _kept_graph(self) -> _engine.Graph:
        """Returns the engine's graph with the user's changes, without the dropped rows."""
        graph = self._updated_graph()
        return graph if self._is_kept is None else graph.squash(self._is_kept)

    def _default_labels(self, graph: _engine.Graph) -> list[str]:
        existing = graph.labels()
        return [label for label in self._shown if label in existing] or _overview(graph)

    def _first_label(self, graph: _engine.Graph) -> str | None:
        return next(iter(self._default_labels(graph)), None)

    def _combine(self, other: Graph, operator: str, labels: Sequence[str] | None) -> Graph:
        _check_is_graph(operator, other)
        selected = None if labels is None else list(labels)
        graph = self._kept_graph().combine(other._kept_graph(), operator, selected)
        return Graph(graph, shown=self._shown)


def _check_is_graph(operation: str, other: object) -> None:
    if not isinstance(other, Graph):
        found = type(other).__name__
        raise TypeError(f"{operation!r} takes another marey.graph.Graph, not {found}")


def _inclusive_labels(graph: _engine.Graph) -> list[str]:
    return [label for label in graph.labels() if label.endswith(INCLUSIVE)]


def _exclusive_labels(graph: _engine.Graph) -> list[str]:
    others = [label for label in graph.labels() if not label.endswith(INCLUSIVE)]
    return [label for label in others if _is_numeric(graph, label)]


def _is_numeric(graph: _engine.Graph, label: str) -> bool:
    return not isinstance(graph.column(label), list)


def _overview(graph: _engine.Graph) -> list[str]:
    """Returns the default columns: the most requested metrics, then sums, else any numbers."""
    sums = _inclusive_labels(graph)
    # Of two columns of one metric, the sums replace the own values.
    labels = {label.partition("(")[0].strip(): label for label in [*graph.labels(), *sums]}
    first = [labels[name] for name in _FIRST_METRICS if name in labels]
    first = [label for label in first if label in sums or _is_numeric(graph, label)]
    others = [label for label in sums if label not in first]
    return (first + others or _exclusive_labels(graph))[:_MAX_DEFAULT_COLUMNS]


def _column_label(graph: _engine.Graph, name: str) -> str:
    """Returns the label of the column that a label or the name of a metric refers to."""
    try:
        return graph.label(name)
    except UnknownMetric:
        labels = ", ".join(map(repr, graph.labels()))
        raise KeyError(f"no column {name!r}; there are {labels}; `derive` makes others") from None


def _column_values(graph: _engine.Graph, name: str) -> list[Any]:
    return decode_column(graph.column(_column_label(graph, name)))


def _match_predicate(
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
