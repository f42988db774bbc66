"""What a profile says, with the names of Triton's `triton.profiler.viewer`.

    graph, labels = marey.parse(["time/ms", "util"], "train.hatchet", include=".*kernel.*")
    print(graph.dataframe[labels])

A graph here is a `marey.graph.Graph`. `docs/viewer.md` defines each metric.

Attributes:
    time_factor_dict: Seconds in each unit of ``time/…``; likewise the other tables.
    derivable_metrics: For each rate, such as ``tflop16/s``, the metric that it divides by time,
        and how much of that one unit of the rate is.
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
_LONGEST_SORTED = 100


class FactorDict(NamedTuple):
    """A metric, and the size of each unit that it can be derived in."""

    name: str
    factor: dict[str, float]


def _times(name: str) -> FactorDict:
    units = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    return FactorDict(name, {f"{name}/{unit}": secs for unit, secs in units.items()})


def _rates(amount: str) -> dict[str, float]:
    return {f"{amount}/s": 1, f"g{amount}/s": 1e9, f"t{amount}/s": 1e12}


time_factor_dict = _times("time")
avg_time_factor_dict = _times("avg_time")
cpu_time_factor_dict = _times("cpu_time")
avg_cpu_time_factor_dict = _times("avg_cpu_time")
bytes_factor_dict = FactorDict("bytes", _rates("byte"))
default_flop_factor_dict = _rates("flop")
derivable_metrics: dict[str, FactorDict] = {
    rate: amounts
    for amounts in (
        bytes_factor_dict,
        FactorDict("flops", default_flop_factor_dict),
        *(FactorDict(f"flops{width}", _rates(f"flop{width}")) for width in _WIDTHS_BITS),
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
        The graph; the names of the metrics that are added up into parents; ``name`` and those of
        the other metrics; the devices by family and number (`Graph.device_info`).

    Raises:
        FileNotFoundError: There is no such file; another `OSError` if it cannot be read.
        UnreadableProfile: It holds no profile; a `ValueError`.
    """
    return _taken_apart(Graph.read(filename))


def parse(
    metrics: str | Sequence[str],
    filename: str | os.PathLike[str],
    include: str | None = None,
    exclude: str | None = None,
    threshold: float | None = None,
) -> tuple[Graph, list[str]]:
    """Reads a profile, derives metrics and leaves out what the filters do not want.

    Args:
        metrics: Such as ``["time/ms", "tflop16/s", "util", "time/%"]``; see `Graph.derive`.
        filename: As for `read`.
        include: Pattern that names match from their start. What is above and below is kept too.
        exclude: Pattern likewise; what is below such a node goes too.
        threshold: What a node, or one below it, must have of the first metric; 0 keeps all.

    Returns:
        The graph, and the labels of the metrics' columns.

    Raises:
        OSError: As `read`; and so `UnreadableProfile`.
        UnknownMetric: There is nothing to derive a metric from; a `RuntimeError`.
        EmptyFilter: Nothing is left; a `ValueError`.
        ValueError: A metric has an unknown unit, or a pattern is no regular expression.

    Warns:
        UserWarning: Something should be known about the numbers, such as a device whose peak rate
            nobody has told marey.
    """
    graph = Graph.read(filename)
    labels = graph.derive(metrics)
    return filter_frames(graph, include, exclude, threshold, next(iter(labels), None)), labels


def get_raw_metrics(
    database: list[dict[str, Any]],
) -> tuple[Graph, list[str], list[str], Devices]:
    """The same as `read`, of what ``json.load`` makes of a ``.hatchet`` file; raises likewise."""
    return _taken_apart(Graph.parse(json.dumps(database).encode()))


def _taken_apart(graph: Graph) -> tuple[Graph, list[str], list[str], Devices]:
    return graph, graph.inclusive(), graph.exclusive(), graph.device_info


def remove_frames(database: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What ``json.load`` makes of a file, without the nodes that viewers leave out.

    These are the frames in which launch metadata was computed, with what is below them, and nodes
    that have neither metrics nor a child that is left. `database` stays as it is.
    """
    return [root for root in map(_without_frames, database) if root is not None]


def _without_frames(root: dict[str, Any]) -> dict[str, Any] | None:
    if "frame" not in root:
        return root  # the table of devices
    above = {"children": [root]}
    # Every node after the one it hangs from.
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    waiting = [(above, root)]
    while waiting:
        parent, node = waiting.pop()
        name = node["frame"]["name"]
        if name != _METADATA and not name.startswith(f"{_METADATA}:"):
            found.append((parent, node))
            waiting += [(node, child) for child in node.get("children", ())]
    kept: dict[int, list[dict[str, Any]]] = {}
    for parent, node in reversed(found):
        children = kept.get(id(node), [])
        if children or node.get("metrics"):
            kept.setdefault(id(parent), []).append({**node, "children": children})
    return next(iter(kept.get(id(above), ())), None)


def match_available_metrics(
    metrics: str | list[str], inclusive_metrics: list[str], exclusive_metrics: list[str]
) -> list[str]:
    """The labels of the columns of metrics.

    Case does not matter and a unit in parentheses may be left out.

    Raises:
        UnknownMetric: One of them is not among those given; a `RuntimeError`.
    """
    asked = [metrics] if isinstance(metrics, str) else metrics
    return [_matched(metric, inclusive_metrics, exclusive_metrics) for metric in asked]


def _matched(metric: str, inclusive: list[str], exclusive: list[str]) -> str:
    for keys, suffix in ((inclusive, INCLUSIVE), (exclusive, "")):
        for key in keys:
            if metric.lower() in (key.lower(), _without_unit(key)):
                return key + suffix
    there_are = ", ".join(f"`{_without_unit(key)}`" for key in [*inclusive, *exclusive])
    raise UnknownMetric(
        f"Metric {metric} is not found. Use the --list flag to list available metrics"
        f" (there are {there_are or 'none'})"
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
    """Makes a column for each metric; see `Graph.derive`.

    Args:
        gf: The graph, which gets the columns.
        metrics: What to derive.
        inclusive_metrics: As `read` gives them; the graph knows its own.
        exclusive_metrics: Likewise.
        device_info: The devices whose peak rates ``util`` refers to.

    Returns:
        The labels of the columns.
    """
    gf.device_info = device_info
    return gf.derive(metrics)


def get_min_time_flops(df: pandas.DataFrame, device_info: Devices) -> pandas.DataFrame:
    """The least time that the floating-point operations of each node can take, in seconds.

    Args:
        df: Nodes with ``device_id`` and ``flops8`` to ``flops64``, as far as there are such.
        device_info: The devices, as `read` gives them.

    Returns:
        A frame with the index of `df` and the column ``min_time``: 0 for nodes that ran on no
        device, NaN with a warning where the peak rate of the device is not known.
    """
    min_time = _zeros(df)
    for family, device, ran_here in _ran_on(df, device_info):
        for width in _WIDTHS_BITS:
            if f"flops{width}" in df.columns:
                peak = specs.max_flops(
                    family,
                    device.get("arch", ""),
                    width,
                    device.get("num_sms", math.nan),
                    device.get("clock_rate", math.nan),
                )
                flops = df.loc[ran_here, f"flops{width}"].fillna(0)
                secs = (flops / peak).where(flops != 0, 0.0)
                min_time.loc[ran_here, "min_time"] += secs
    return min_time


def get_min_time_bytes(df: pandas.DataFrame, device_info: Devices) -> pandas.DataFrame:
    """The least time that the memory traffic of each node can take, in seconds.

    The same as `get_min_time_flops`, of the column ``bytes``; NaN where nobody counted them.
    """
    min_time = _zeros(df)
    for family, device, ran_here in _ran_on(df, device_info):
        peak = specs.max_bps(
            family,
            device.get("arch", ""),
            device.get("bus_width", math.nan),
            device.get("memory_clock_rate", math.nan),
        )
        secs = df.loc[ran_here, "bytes"] / peak if "bytes" in df.columns else math.nan
        min_time.loc[ran_here, "min_time"] += secs
    return min_time


def _zeros(df: pandas.DataFrame) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(0.0, index=df.index, columns=["min_time"])


def _ran_on(
    df: pandas.DataFrame, device_info: Devices
) -> Iterator[tuple[str, dict[str, Any], pandas.Series[bool]]]:
    """Each device, and whether each node ran on it."""
    if "device_id" not in df.columns:
        return
    for family, devices in device_info.items():
        for number, device in devices.items():
            yield family, device, df["device_id"] == number


def format_frames(gf: Graph, format: str | None) -> Graph:
    """Shortens names for good, as `Graph.style_names` does; `None` leaves them as they are."""
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
    """The graph that is left by the filters of `parse`; `metric` is the label of a column."""
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
    """The graph minus that of another file: above 0 is what `gf` has more of.

    Args:
        gf: The graph, as `parse` gives it.
        derived_metrics: The labels that came with it; the result has these columns.
        diff_file: The file to subtract. It is read as by `parse` with the rest of the arguments,
            and raises as that does.
        metrics: What to derive.
        include: As for `parse`.
        exclude: As for `parse`.
        threshold: As for `parse`.
    """
    other, _ = parse(metrics, diff_file, include, exclude, threshold)
    return gf.sub(other, derived_metrics)


def emit_warnings(gf: Graph, metrics: Sequence[str]) -> None:
    """Says on stdout what should be known of the columns, such as an overflow of bytes."""
    label = f"bytes{INCLUSIVE}"
    if label in metrics and any(_number(value) < 0 for value in gf.column(label)):
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
        gf: The graph; its names are shortened for good.
        metrics: Labels of columns; without any, names alone are shown.
        depth: Levels to show.
        format: As for `Graph.style_names`.
        print_sorted: Whether to print all but the roots once more, the largest first column first;
            texts and nodes without a value come last, in the order of the tree.

    Raises:
        KeyError: There is no such column.
        ValueError: `print_sorted` without a metric to sort by.
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
    for name, value in sorted(rows, key=lambda row: _descending(_number(row[1]))):
        name = f"{name[:_LONGEST_SORTED]}..." if len(name) > _LONGEST_SORTED else name
        shown = value if isinstance(value, str | list) else f"{_number(value):.4}"
        print(f"{name:105} {shown}")


def _number(value: Any) -> float:
    """The value as a real number; NaN if it is none."""
    return float(value) if isinstance(value, int | float) else math.nan


def _descending(number: float) -> tuple[bool, float]:
    return (math.isnan(number), -number)


def show_metrics(file_name: str | os.PathLike[str]) -> None:
    """Prints the names of a profile's metrics, without their units."""
    _, inclusive, exclusive, _ = read(file_name)
    for heading, keys in (("inclusive", inclusive), ("exclusive", exclusive)):
        print(f"Available {heading} metrics:")
        for key in keys:
            print(f"- {_without_unit(key)}")


def main() -> None:
    """The command ``marey-viewer``: ``marey view`` with the arguments of the process."""
    from ._cli import viewer

    viewer()
