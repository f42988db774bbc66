"""The metrics of a window that are read from its profile.

The engine reads the file and finds the nodes without the GIL: a loop of Python over many nodes
would keep requests waiting for up to the switch interval, 5 ms.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from marey import _engine
from marey.errors import UnknownMetric

from .metric_names import SCOPE

__all__ = ["summarize"]

STATISTICS = {"p50": "wall_p50 (ns)", "p90": "wall_p90 (ns)", "p99": "wall_p99 (ns)"}
"""Columns of the statistics of a scope; ``mean`` and ``max`` are there too."""


def summarize(path: str, metrics: Iterable[str] = ()) -> dict[str, float]:
    """Returns the metrics of a profile; those that it lacks are left out.

    Times of steps and scopes are those of the node that was entered most often, because
    percentiles of several nodes cannot be added.

    Args:
        path: A ``.hatchet`` or ``.hatchet_msgpack`` file.
        metrics: Metrics of scopes, such as ``scope(decode).p99``, beside `metric_names.NAMES`.

    Raises:
        OSError: The file cannot be read.
        UnreadableProfile: The file is not a valid profile.
    """
    profile = _Profile(path)
    found = profile.kernels()
    steps = profile.wall_times(profile.graph.nodes_of_kind("step"))
    if steps:
        found["steps"] = steps.pop("count")
        found |= {f"step_time.{name}": value for name, value in steps.items()}
    for metric in metrics:
        if match := SCOPE.fullmatch(metric):
            times = profile.wall_times(profile.graph.nodes_with_name(match[1]))
            if match[2] in times:
                found[metric] = times[match[2]]
    return found


class _Profile:
    """The columns of a profile."""

    def __init__(self, path: str) -> None:
        self.graph = _engine.Graph.read(path)
        self._columns: dict[str, array[float] | None] = {}

    def kernels(self) -> dict[str, float]:
        """Returns the metrics of the device. The root has the sums of its tree."""
        total, count = self._column("time (ns) (inc)"), self._column("count (inc)")
        if not total or not count or not count[0] > 0:
            return {}
        longest = self._column("gpu_max (ns)") or ()
        found = {
            "total_kernel_time_ms": total[0] / 1e6,
            "avg_kernel_time_ms": total[0] / count[0] / 1e6,
            "max_kernel_time_ms": max((v for v in longest if v == v), default=0.0) / 1e6,
            "kernels": count[0],
        }
        utilization = self._utilization()
        return found if utilization is None else {**found, "avg_utilization": utilization}

    def wall_times(self, nodes: list[int]) -> dict[str, float]:
        """Returns the wall times in ms of the node with most entries, which are ``count``."""
        counts = self._column("wall_count")
        entered = [node for node in nodes if counts and counts[node] > 0]
        if not counts or not entered:
            return {}
        node = max(entered, key=counts.__getitem__)
        found = {"count": counts[node]}
        columns = {"total": "wall_total (ns)", "max": "wall_max (ns)", **STATISTICS}
        for name, label in columns.items():
            column = self._column(label)
            if column and column[node] == column[node]:  # not NaN
                found[name] = column[node] / 1e6
        if "total" in found:
            found["mean"] = found.pop("total") / counts[node]
        return found

    def _utilization(self) -> float | None:
        """Returns the share of the device's peak rate of the kernels with FLOP or bytes.

        Weighted by their times; `None` if there are none.
        """
        try:
            self.graph.derive(["util"])
        except UnknownMetric:
            return None
        shares, times = self._column("util"), self._column("time (ns) (inc)")
        if not shares or not times:
            return None
        kernels = [node for node, share in enumerate(shares) if share > 0]  # not NaN
        total = sum(times[node] for node in kernels)
        return sum(shares[node] * times[node] for node in kernels) / total if total else None

    def _column(self, label: str) -> array[float] | None:
        """Returns a column of numbers, NaN where a node has none; `None` if there is none."""
        if label not in self._columns:
            self._columns[label] = self._read_column(label)
        return self._columns[label]

    def _read_column(self, label: str) -> array[float] | None:
        try:
            values = self.graph.column(label)
        except (KeyError, UnknownMetric):
            return None
        return array("d", values[0]) if isinstance(values, tuple) else None
