"""Reading and printing profiles, with the names of Triton's `triton.profiler.viewer`.

    graph, labels = marey.parse(["time/ms", "util"], "train.hatchet", include=".*kernel.*")
    print(graph.dataframe[labels])

Graphs are instances of `marey.graph.Graph`. `docs/viewer.md` defines each metric.

Attributes:
    time_factor_dict: Seconds in each unit of ``time/…``. The other tables of times are alike.
    derivable_metrics: For each rate, such as ``tflop16/s``, the metric that is divided by time,
        and the amount of that metric in one unit of the rate.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import specs
from ._nodes import INCLUSIVE
from .errors import UnknownMetric
from .graph import Graph

if TYPE_CHECKING:
    import pandas

__all__ = [
    "FactorDict",
    "apply_diff_profile",
    "avg_cpu_time_factor_dict",
    "avg_time_factor_dict",
    "bytes_factor_dict",
    "cpu_time_factor_dict",
    "default_flop_factor_dict",
    "derivable_metrics",
    "derive_metrics",
    "emit_warnings",
    "filter_frames",
    "format_frames",
    "get_min_time_bytes",
    "get_min_time_flops",
    "get_raw_metrics",
    "main",
    "match_available_metrics",
    "parse",
    "print_tree",
    "read",
    "remove_frames",
    "show_metrics",
    "time_factor_dict",
]

Devices = dict[str, dict[str, dict[str, Any]]]

_METADATA = "__proton_launch_metadata"
_WIDTHS_BITS = (8, 16, 32, 64)
_MAX_SORTED_NAME_CHARS = 100


class FactorDict(NamedTuple):
    """A metric, and the factor of each unit that it can be derived in."""

    name: str
    factor: dict[str, float]


def _time_factors(name: str) -> FactorDict:
    units = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    return FactorDict(name, {f"{name}/{unit}": secs for unit, secs in units.items()})


def _rate_factors(amount: str) -> dict[str, float]:
    return {f"{amount}/s": 1, f"g{amount}/s": 1e9, f"t{amount}/s": 1e12}


time_factor_dict = _time_factors("time")
avg_time_factor_dict = _time_factors("avg_time")
cpu_time_factor_dict = _time_factors("cpu_time")
avg_cpu_time_factor_dict = _time_factors("avg_cpu_time")
bytes_factor_dict = FactorDict("bytes", _rate_factors("byte"))
default_flop_factor_dict = _rate_factors("flop")
derivable_metrics: dict[str, FactorDict] = {
    rate: amounts
    for amounts in (
        bytes_factor_dict,
        FactorDict("flops", default_flop_factor_dict),
        *(FactorDict(f"flops{width}", _rate_factors(f"flop{width}")) for width in _WIDTHS_BITS),
    )
    for rate in amounts.factor
}


def read(
    filename: str | os.PathLike[str],
) -> tuple[Graph, list[str], list[str], Devices]:
    """Reads a profile.

    Args:
        filename: A ``.hatchet`` or ``.hatchet_msgpack`` file, of marey or of Proton.

    Returns:
        The graph; the names of the inclusive metrics; ``name`` and the names of the exclusive
        metrics; the devices by family and number (`Graph.device_info`).

    Raises:
        FileNotFoundError: The file does not exist; another `OSError` if it cannot be read.
        UnreadableProfile: The file is not a valid profile; a `ValueError`.
    """
    return _graph_with_names(Graph.read(filename))


def parse(
    metrics: str | Sequence[str],
    filename: str | os.PathLike[str],
    include: str | None = None,
    exclude: str | None = None,
    threshold: float | None = None,
) -> tuple[Graph, list[str]]:
    """Reads a profile, derives metrics and applies filters.

    Args:
        metrics: Metrics such as ``["time/ms", "tflop16/s", "util", "time/%"]``; see `Graph.derive`.
        filename: A file as for `read`.
        include: Regular expression, matched at the start of names. Ancestors and descendants of a
            matching node are kept too.
        exclude: Regular expression, matched at the start of names. Descendants of a matching node
            are dropped too.
        threshold: Least value of the first metric at a node or a descendant; 0 keeps all nodes.

    Returns:
        The graph, and the labels of the columns of `metrics`.

    Raises:
        OSError: The file cannot be read.
        UnreadableProfile: The file is not a valid profile; a `ValueError`.
        UnknownMetric: The profile lacks the metric from which one is derived; a `RuntimeError`.
        EmptyFilter: No node is left; a `ValueError`.
        ValueError: A metric has an unknown unit, or a pattern is not a valid regular expression.

    Warns:
        UserWarning: The numbers need an explanation, for example because the peak rate of a device
            is unknown.
    """
    graph = Graph.read(filename)
    labels = graph.derive(metrics)
    return filter_frames(graph, include, exclude, threshold, next(iter(labels), None)), labels


def get_raw_metrics(
    database: list[dict[str, Any]],
) -> tuple[Graph, list[str], list[str], Devices]:
    """Returns the same as `read` for the parsed JSON of a ``.hatchet`` file.

    Raises:
        UnreadableProfile: `database` is not a valid profile; a `ValueError`.
    """
    return _graph_with_names(Graph.parse(json.dumps(database).encode()))


def _graph_with_names(graph: Graph) -> tuple[Graph, list[str], list[str], Devices]:
    return graph, graph.inclusive(), graph.exclusive(), graph.device_info


def remove_frames(database: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the parsed JSON of a ``.hatchet`` file without the nodes that viewers omit.

    Omitted are the frames in which launch metadata was computed, with their descendants, and nodes
    that have neither metrics nor remaining children. `database` is not changed.
    """
    return [root for root in map(_without_frames, database) if root is not None]


def _without_frames(root: dict[str, Any]) -> dict[str, Any] | None:
    if "frame" not in root:
        return root  # the table of devices
    super_root = {"children": [root]}
    # Pairs of parent and node; parents before their children.
    remaining: list[tuple[dict[str, Any], dict[str, Any]]] = []
    pending = [(super_root, root)]
    while pending:
        parent, node = pending.pop()
        name = node["frame"]["name"]
        if name != _METADATA and not name.startswith(f"{_METADATA}:"):
            remaining.append((parent, node))
            pending += [(node, child) for child in node.get("children", ())]
    kept_children: dict[int, list[dict[str, Any]]] = {}
    for parent, node in reversed(remaining):
        children = kept_children.get(id(node), [])
        if children or node.get("metrics"):
            kept_children.setdefault(id(parent), []).append({**node, "children": children})
    return next(iter(kept_children.get(id(super_root), ())), None)


def match_available_metrics(
    metrics: str | list[str], inclusive_metrics: list[str], exclusive_metrics: list[str]
) -> list[str]:
    """Returns the column labels of metrics.

    Case is ignored, and a unit in parentheses may be omitted.

    Raises:
        UnknownMetric: A metric is in neither list; a `RuntimeError`.
    """
    requested = [metrics] if isinstance(metrics, str) else metrics
    return [_match_metric(metric, inclusive_metrics, exclusive_metrics) for metric in requested]


def _match_metric(metric: str, inclusive: list[str], exclusive: list[str]) -> str:
    for keys, suffix in ((inclusive, INCLUSIVE), (exclusive, "")):
        for key in keys:
            if metric.lower() in (key.lower(), _without_unit(key)):
                return key + suffix
    available = ", ".join(f"`{_without_unit(key)}`" for key in [*inclusive, *exclusive])
    raise UnknownMetric(
        f"Metric {metric} is not found. Use the --list flag to list available metrics"
        f" (there are {available or 'none'})"
    )


def _without_unit(key: str) -> str:
    return key.partition("(")[0].strip().lower()


def derive_metrics(
    gf: Graph,
    metrics: str | Sequence[str],
    inclusive_metrics: list[str],
    exclusive_metrics: list[str],
    device_info: Devices,
) -> list[str]:
    """Adds a column for each metric; see `Graph.derive`.

    Args:
        gf: The graph to add the columns to.
        metrics: Metrics to derive.
        inclusive_metrics: Ignored, because the graph has the list; Proton's signature.
        exclusive_metrics: Ignored, because the graph has the list; Proton's signature.
        device_info: The devices whose peak rates ``util`` is relative to.

    Returns:
        The labels of the columns.
    """
    gf.device_info = device_info
    return gf.derive(metrics)


def get_min_time_flops(df: pandas.DataFrame, device_info: Devices) -> pandas.DataFrame:
    """Returns the least time in seconds that the floating-point operations of each node can take.

    Args:
        df: A row for each node, with the columns ``device_id`` and any of ``flops8`` to
            ``flops64``.
        device_info: The devices, as returned by `read`.

    Returns:
        A frame with the index of `df` and the column ``min_time`` in seconds: 0 for nodes that ran
        on no device, NaN with a warning if the peak rate of the device is not known.
    """
    min_time = _zero_times(df)
    for family, device, mask in _device_masks(df, device_info):
        for width in _WIDTHS_BITS:
            if f"flops{width}" in df.columns:
                peak = specs.max_flops(
                    family,
                    device.get("arch", ""),
                    width,
                    device.get("num_sms", math.nan),
                    device.get("clock_rate", math.nan),
                )
                flops = df.loc[mask, f"flops{width}"].fillna(0)
                secs = (flops / peak).where(flops != 0, 0.0)
                min_time.loc[mask, "min_time"] += secs
    return min_time


def get_min_time_bytes(df: pandas.DataFrame, device_info: Devices) -> pandas.DataFrame:
    """Returns the least time in seconds that the memory traffic of each node can take.

    Arguments and result are those of `get_min_time_flops`, for the column ``bytes``. The result is
    NaN for nodes without a count of bytes.
    """
    min_time = _zero_times(df)
    for family, device, mask in _device_masks(df, device_info):
        peak = specs.max_bps(
            family,
            device.get("arch", ""),
            device.get("bus_width", math.nan),
            device.get("memory_clock_rate", math.nan),
        )
        secs = df.loc[mask, "bytes"] / peak if "bytes" in df.columns else math.nan
        min_time.loc[mask, "min_time"] += secs
    return min_time


def _zero_times(df: pandas.DataFrame) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(0.0, index=df.index, columns=["min_time"])


def _device_masks(
    df: pandas.DataFrame, device_info: Devices
) -> Iterator[tuple[str, dict[str, Any], pandas.Series[bool]]]:
    """Yields each device with its family, and a mask of the nodes that ran on it."""
    if "device_id" not in df.columns:
        return
    for family, devices in device_info.items():
        for number, device in devices.items():
            yield family, device, df["device_id"] == number


def format_frames(gf: Graph, format: str | None) -> Graph:
    """Shortens names in place, as `Graph.style_names` does; `None` does not change them."""
    if format is not None:
        gf.style_names(format)
    return gf


def filter_frames(
    gf: Graph,
    include: str | None = None,
    exclude: str | None = None,
    threshold: float | None = None,
    metric: str | None = None,
) -> Graph:
    """Returns the graph after the filters of `parse`; `metric` is the label of a column."""
    return gf.filter(include=include, exclude=exclude, threshold=threshold or None, metric=metric)


def apply_diff_profile(
    gf: Graph,
    derived_metrics: list[str],
    diff_file: str | os.PathLike[str],
    metrics: str | Sequence[str],
    include: str | None,
    exclude: str | None,
    threshold: float | None,
) -> Graph:
    """Returns a graph minus that of another file. Positive values mean that `gf` has more.

    Args:
        gf: The graph, as returned by `parse`.
        derived_metrics: The labels returned with `gf`; the result has these columns.
        diff_file: The file to subtract, which `parse` reads with the arguments below.
        metrics: Metrics to derive.
        include: As for `parse`.
        exclude: As for `parse`.
        threshold: As for `parse`.

    Raises:
        OSError: As `parse`, which also raises `UnreadableProfile`, `UnknownMetric`, `EmptyFilter`
            and `ValueError`.
    """
    subtracted, _ = parse(metrics, diff_file, include, exclude, threshold)
    return gf.sub(subtracted, derived_metrics)


def emit_warnings(gf: Graph, metrics: Sequence[str]) -> None:
    """Prints warnings about the columns to stdout, such as an overflow of ``bytes``."""
    label = f"bytes{INCLUSIVE}"
    if label in metrics and any(_as_float(value) < 0 for value in gf.column(label)):
        print(
            "Warning: Negative byte values detected,"
            " this is usually the result of a datatype overflow\n"
        )


def print_tree(
    gf: Graph,
    metrics: Sequence[str],
    depth: int = 100,
    format: str | None = None,
    print_sorted: bool = False,
) -> None:
    """Prints the columns as a tree, as Proton's viewer does.

    Args:
        gf: The graph, whose names are shortened in place.
        metrics: Labels of columns. If empty, only names are printed.
        depth: Number of levels to print.
        format: Style as for `Graph.style_names`.
        print_sorted: Also print all nodes except the roots by the first column, in descending
            order. Strings and nodes without a value come last, in the order of the tree.

    Raises:
        KeyError: A column does not exist.
        ValueError: `print_sorted` is true and `metrics` is empty.
    """
    if print_sorted and not metrics:
        raise ValueError("print_sorted needs a metric to sort by")
    gf = format_frames(gf, format)
    print(gf.tree(list(metrics), expand_name=True, depth=depth))
    if print_sorted:
        _print_sorted(gf, metrics[0])
    emit_warnings(gf, metrics)


def _print_sorted(gf: Graph, label: str) -> None:
    print(f"Sorted kernels by metric {label}")
    values = gf.column(label)
    rows = [(row["name"], value) for row, value in zip(gf, values, strict=True) if row["depth"] > 0]
    for name, value in sorted(rows, key=lambda row: _descending_key(_as_float(row[1]))):
        name = f"{name[:_MAX_SORTED_NAME_CHARS]}..." if len(name) > _MAX_SORTED_NAME_CHARS else name
        shown = value if isinstance(value, str | list) else f"{_as_float(value):.4}"
        print(f"{name:105} {shown}")


def _as_float(value: Any) -> float:
    """Returns the value as a float; NaN if it is not a number."""
    return float(value) if isinstance(value, int | float) else math.nan


def _descending_key(number: float) -> tuple[bool, float]:
    return (math.isnan(number), -number)


def show_metrics(file_name: str | os.PathLike[str]) -> None:
    """Prints the names of a profile's metrics, without their units."""
    _, inclusive, exclusive, _ = read(file_name)
    for heading, keys in (("inclusive", inclusive), ("exclusive", exclusive)):
        print(f"Available {heading} metrics:")
        for key in keys:
            print(f"- {_without_unit(key)}")


def main() -> None:
    """Runs the command ``marey-viewer``: ``marey view`` with the arguments of the process."""
    from ._cli import viewer

    viewer()
