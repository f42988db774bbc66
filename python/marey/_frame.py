"""Conversion of a graph to a pandas frame, and of the user's changes back to the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._nodes import INCLUSIVE, Node, Tree

if TYPE_CHECKING:
    import pandas
    from pandas.api.extensions import ExtensionArray

    from . import _engine

NAME = "name"

# A float represents every integer up to this one.
_MAX_EXACT_INTEGER = 2**53


def make(graph: _engine.Graph, tree: Tree, is_kept: list[bool] | None) -> pandas.DataFrame:
    """Returns the frame of the kept nodes: ``name``, then the graph's columns in their order."""
    import pandas

    index = pandas.Index(tree.nodes, dtype=object, name="node")
    columns: dict[str, Any] = {NAME: graph.names()}
    for label in graph.labels():
        if label != NAME:
            columns[label] = _column(graph, label)
    frame = pandas.DataFrame(columns, index=index)
    return frame if is_kept is None else frame[is_kept]


def update(frame: pandas.DataFrame, graph: _engine.Graph, tree: Tree, labels: list[str]) -> None:
    """Copies columns of the graph into its frame."""
    positions = _positions(frame, tree)
    for label in labels:
        array = _decode_column(graph.names()) if label == NAME else _column(graph, label)
        frame[label] = array if positions is None else array.take(positions)


def apply_changes(frame: pandas.DataFrame, graph: _engine.Graph, tree: Tree) -> list[bool] | None:
    """Copies changes of the frame into its graph.

    Returns:
        Whether each node still has a row, or `None` if all nodes have.

    Raises:
        ValueError: The index is not of nodes of the graph, or a column label is invalid.
    """
    positions = _positions(frame, tree)
    if not frame.columns.is_unique:
        raise ValueError("two columns of the graph's frame have one label")
    labels = graph.labels()
    for label in labels:
        if label != NAME and label not in frame.columns:
            graph.remove_column(label)
    for label in frame.columns:
        if not isinstance(label, str):
            raise ValueError(f"the label of a column of the graph's frame is no str: {label!r}")
        if label == NAME:
            _set_names(frame, graph, positions)
        else:
            _set_column(frame[label], graph, positions, label in labels)
    if positions is None:
        return None
    is_kept = [False] * len(tree.nodes)
    for position in positions:
        is_kept[position] = True
    return None if all(is_kept) else is_kept


def _positions(frame: pandas.DataFrame, tree: Tree) -> list[int] | None:
    """Returns the node position of each row, or `None` if the rows are all nodes in order."""
    nodes = frame.index.tolist()
    if nodes == tree.nodes:
        return None
    positions = [node.position for node in nodes if isinstance(node, Node) and node._tree is tree]
    if len(set(positions)) < len(nodes):
        raise ValueError("the index of the graph's frame must hold nodes of it, each once")
    return positions


def _set_names(frame: pandas.DataFrame, graph: _engine.Graph, positions: list[int] | None) -> None:
    old_names = graph.names()
    names = frame[NAME].tolist()
    if names == old_names:
        return
    names = [str(name) for name in names]
    if positions is not None:
        all_names = old_names.copy()
        for position, name in zip(positions, names, strict=True):
            all_names[position] = name
        names = all_names
    if names != old_names:
        graph.set_names(names)


def _set_column(
    series: pandas.Series[Any],
    graph: _engine.Graph,
    positions: list[int] | None,
    has_column: bool,
) -> None:
    import pandas

    new = pandas.Series(series.array)
    if has_column:
        old = pandas.Series(_column(graph, series.name))
        if positions is None:
            if new.equals(old):
                return
        elif new.equals(old.take(positions).reset_index(drop=True)):
            return
    if positions is not None:
        new = new.set_axis(positions).reindex(range(len(graph)))
    values, are_integers = _encode_column(new)
    graph.set_column(series.name, values, are_integers)


def _column(graph: _engine.Graph, label: str) -> ExtensionArray:
    """Returns a column with its type in hatchet, where sums have the type of the summands."""
    array = _decode_column(graph.column(label))
    if array.dtype.kind == "i" and label.endswith(INCLUSIVE):
        summand = label.removesuffix(INCLUSIVE)
        if summand in graph.labels() and _decode_column(graph.column(summand)).dtype.kind == "f":
            return array.astype(float)
    return array


def _decode_column(column: tuple[bytes, bool] | list[Any]) -> ExtensionArray:
    """Returns a column of the engine with the type that pandas infers."""
    import numpy
    import pandas

    if isinstance(column, list):
        nan = float("nan")
        return pandas.Series([nan if value is None else value for value in column]).array
    content, are_integers = column
    numbers = numpy.frombuffer(content)
    if are_integers and not numpy.isnan(numbers).any():
        return pandas.Series(numbers.astype(numpy.int64)).array
    return pandas.Series(numbers).array


def _encode_column(series: pandas.Series[Any]) -> tuple[bytes | list[Any], bool]:
    """Converts a column to the representation of the engine."""
    import numpy
    from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

    if is_numeric_dtype(series.dtype):
        are_integers = is_bool_dtype(series.dtype) or is_integer_dtype(series.dtype)
        numbers = series.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
        if not (are_integers and (numpy.abs(numbers) > _MAX_EXACT_INTEGER).any()):
            return numbers.tobytes(), are_integers
    return [_encode_value(value) for value in series.tolist()], False


def _encode_value(value: Any) -> Any:
    """Converts a value to a type that the engine accepts; other types become strings."""
    import pandas

    if isinstance(value, str | int | float):
        return value
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return _encode_value(value.tolist())
    if isinstance(value, list | tuple):
        are_numbers = all(isinstance(item, int | float) for item in value)
        return list(value) if are_numbers else str(value)
    return None if pandas.isna(value) is True else str(value)
