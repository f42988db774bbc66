"""Collection of times and values: `MetricsCollector`.

Start reading at `MetricsCollector.measure_time` and `record`, which programs call in each step.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marey import _checks, _native
from marey._forks import follow, followers
from marey._warning import warn

from .figures import NANOS_PER_MILLI, Statistics, summarise
from .nesting import self_times
from .series import ITERATION, MAX_ITEMS, Series, TimeSeries, ValueSeries, checked_name

if TYPE_CHECKING:
    from .report import Report

_numbers = itertools.count(1)


class MetricsCollector(_native.Timings):
    """Collects measured times and recorded values. All threads may use it at the same time.

    `measure_time` is native, because programs call it in each step.

    Args:
        name: Label in `marey.metrics.prometheus`; numbered if not given.
        iteration: The measured time that is one iteration; throughput is computed from it.
    """

    def __init__(self, name: str | None = None, *, iteration: str = ITERATION) -> None:
        number = next(_numbers)
        self.name = f"collector-{number}" if name is None else checked_name(name)
        self.iteration = checked_name(iteration)
        self._times: dict[str, TimeSeries] = {}
        self._values: dict[str, ValueSeries] = {}
        self._not_finite: dict[str, int] = {}
        self._lock = threading.Lock()
        follow(self, MetricsCollector.after_fork_in_child)

    def record(self, name: str, value: float) -> None:
        """Records a value, also as a metric of the innermost scope.

        The session gets a floating-point number: in a trace one for each call, in a tree their sum,
        or the last one if the name ends with ``(pty)``. Infinities and NaN are counted, with a
        warning for the first of a name, and left out of the statistics. If the innermost scope has
        a metric of this name with another type, the collector keeps the value and the session does
        not, with a warning for the first of a name.

        Args:
            name: Name of the value.
            value: A number, or an object that `float` converts. A tensor of a device makes `float`
                wait for the device.

        Raises:
            TypeError: The value is not a number, or the name is not a `str`.
            ValueError: The name is empty.
        """
        number = value if type(value) is float else _as_number(name, value)
        series = self._values.get(name)
        if series is None:
            series = self._new_values(name)
        if number - number == 0.0:
            items = series.items
            items.append(number)
            if len(items) >= MAX_ITEMS:
                series.make_room()
        else:
            self._count_not_finite(name, number)
        try:
            series.add_to_scope(number)
        except ValueError as error:
            self._refuse(series, error)

    def add(self, values: Mapping[str, float]) -> None:
        """Records several values, see `record`. None of them is recorded if one is not a number."""
        numbers = {checked_name(name): _as_number(name, value) for name, value in values.items()}
        for name, number in numbers.items():
            self.record(name, number)

    def aggregate(self, *, warmup: int = 0) -> dict[str, dict[str, Statistics]]:
        """Returns the statistics of ``timing`` (milliseconds) and ``values``, by name.

        Args:
            warmup: Number of the first times and values of each name to leave out.

        Raises:
            TypeError: `warmup` is not a whole number.
            ValueError: It is negative.
        """
        _checks.count("warmup", warmup)
        timing = {name: series.millis()[warmup:] for name, series in self.times().items()}
        values = {name: list(series.items)[warmup:] for name, series in self.values().items()}
        return {
            "timing": {name: summarise(millis) for name, millis in timing.items() if millis},
            "values": {name: summarise(numbers) for name, numbers in values.items() if numbers},
        }

    def analyze_bottlenecks(self) -> dict[str, Any]:
        """Returns where the measured time went, by self time: that of a block without inner blocks.

        Returns:
            ``bottleneck``: the name with the most self time, or `None` if nothing was measured.
            ``percent``: its share of all self time. ``components``: for each name ``name``,
            ``self_ms``, ``total_ms``, ``count``, ``mean_ms`` and ``percent``, the largest first.
            The percentages add up to 100.
        """
        spans = {name: series.spans() for name, series in self.times().items()}
        self_nanos = self_times(spans)
        whole = sum(self_nanos.values()) or 1
        components = []
        for name, nanos in sorted(self_nanos.items(), key=lambda item: -item[1]):
            total = sum(span.end - span.start for span in spans[name]) / NANOS_PER_MILLI
            components.append(
                {
                    "name": name,
                    "self_ms": nanos / NANOS_PER_MILLI,
                    "total_ms": total,
                    "count": len(spans[name]),
                    "mean_ms": total / len(spans[name]),
                    "percent": 100 * nanos / whole,
                }
            )
        first: dict[str, Any] = components[0] if components else {"name": None, "percent": 0.0}
        return {
            "bottleneck": first["name"],
            "percent": first["percent"],
            "components": components,
        }

    def generate_report(self) -> Report:
        """Returns all figures so far: a `dict` that prints as a table."""
        from .report import report_of_collector

        return report_of_collector(self)

    def times(self) -> dict[str, TimeSeries]:
        """Returns the measured times by name, in the order of their first measurement."""
        read = {name: series.read() for name, series in list(self._times.items())}
        return {name: series for name, series in read.items() if series.items}

    def values(self) -> dict[str, Series]:
        """Returns the recorded finite values by name, in the order of their first value."""
        return {name: series for name, series in list(self._values.items()) if series.items}

    def not_finite(self) -> dict[str, int]:
        """Returns how many values of a name were infinite or NaN."""
        return dict(self._not_finite)

    def after_fork_in_child(self) -> None:
        """Replaces the locks, which other threads of the parent may hold."""
        self._lock = threading.Lock()
        for series in (*self._times.values(), *self._values.values()):
            series.replace_lock()

    def _new_times(self, name: str) -> TimeSeries:
        """Returns the times of a name; `measure_time` calls it for a name that is new to it."""
        with self._lock:
            return self._times.setdefault(checked_name(name), TimeSeries(name))

    def _new_values(self, name: str) -> ValueSeries:
        with self._lock:
            return self._values.setdefault(checked_name(name), ValueSeries(name))

    def _refuse(self, series: ValueSeries, error: ValueError) -> None:
        """Warns of a value that the session cannot have, once for each name."""
        with self._lock:
            is_first, series.is_refused = not series.is_refused, True
        if is_first:
            warn(
                f"{series.name!r} is recorded with two types, so the session has only values of "
                f"the first, and this collector has all of its own ({error}). Use another name for "
                "one of them"
            )

    def _count_not_finite(self, name: str, number: float) -> None:
        with self._lock:
            self._not_finite[name] = self._not_finite.get(name, 0) + 1
            is_first = self._not_finite[name] == 1
        if is_first:
            warn(f"{name!r} is {number}: such values are counted, not used for statistics")

    def __repr__(self) -> str:
        times, values = len(self.times()), len(self.values())
        return f"<marey.metrics.MetricsCollector {self.name}: {times} times, {values} values>"

    def _repr_html_(self) -> str:
        return self.generate_report()._repr_html_()


def living_collectors() -> list[MetricsCollector]:
    """Returns the collectors of this process, by name."""
    return sorted(followers(MetricsCollector), key=lambda collector: collector.name)


def _as_number(name: object, value: object) -> float:
    if isinstance(value, (str, bytes, bytearray)) or not hasattr(type(value), "__float__"):
        if hasattr(type(value), "__index__"):
            return float(value.__index__())  # type: ignore[attr-defined]
        raise TypeError(f"the value of {name!r} must be a number, not {type(value).__name__}")
    return float(value)  # type: ignore[arg-type]
