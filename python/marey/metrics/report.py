"""Reports: the figures of a collector or of a run, as a `dict` that prints as tables."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from marey import __version__

from .figures import summarise
from .memory import read_peaks
from .series import BATCH_SIZE

if TYPE_CHECKING:
    from marey.run import Run

    from .collector import MetricsCollector

FORMAT = 1
"""Version of the structure, under the key ``marey_metrics``."""

_TIMING_COLUMNS = ("count", "mean", "std", "min", "max", "p50", "p99", "total")
_VALUE_COLUMNS = ("count", "mean", "std", "min", "max", "p50", "p99", "last")


class Report(dict[str, Any]):
    """Figures of a training, in the structure of Kitsune's JSON report.

    ``timing`` and ``values`` have the `Statistics` of each name, times in milliseconds; values also
    ``last`` and ``not_finite``. ``memory`` has ``peak_allocated`` and ``peak_reserved`` in bytes,
    and ``throughput`` ``samples_per_sec`` and ``iterations_per_sec``; what is unknown is `None`.
    ``dropped`` counts the times and values that were no longer kept.
    """

    run: Run | None = None
    """The run that the figures come from, if any."""

    def __str__(self) -> str:
        parts = [
            text_table("Times (ms)", _TIMING_COLUMNS, self["timing"]),
            text_table("Values", _VALUE_COLUMNS, self["values"]),
            "\n".join(self.facts()),
        ]
        return "\n\n".join(part for part in parts if part)

    def facts(self) -> list[str]:
        """Returns a line each for memory, throughput, and what is left out."""
        facts = []
        memory = self["memory"]
        for key in ("peak_allocated", "peak_reserved"):
            if memory[key] is not None:
                facts.append(f"{key}: {memory[key] / 1e9:.3f} GB ({memory['memory']})")
        for key, number in self["throughput"].items():
            if number is not None:
                facts.append(f"{key}: {number:,.1f}")
        for name, count in self["dropped"].items():
            facts.append(f"{name}: the first {count:,} are not kept")
        for name, figures in self["values"].items():
            if figures["not_finite"]:
                facts.append(f"{name}: {figures['not_finite']:,} infinite or NaN, left out")
        return facts

    def _repr_html_(self) -> str:
        from marey._notebook import table_html

        rows: list[list[Any]] = []
        for kind, column in (("timing", "total"), ("values", "last")):
            for name, figures in self[kind].items():
                row = [name, "ms" if kind == "timing" else ""]
                rows.append(
                    [*row, *(figures[key] for key in _TIMING_COLUMNS[:-1]), figures[column]]
                )
        columns = ["name", "unit", *_TIMING_COLUMNS[:-1], "total / last"]
        return table_html(columns, rows, len(rows))

    def to_json(self) -> str:
        """Returns the report as JSON; numbers that JSON cannot represent are null."""
        return json.dumps(_without_nan(self), indent=2, allow_nan=False) + "\n"


def report_of_collector(collector: MetricsCollector) -> Report:
    """Returns the figures of a collector so far."""
    times, values = collector.times(), collector.values()
    not_finite = collector.not_finite()
    series = [*times.items(), *values.items()]
    return Report(
        timing={name: summarise(series.millis()).as_dict() for name, series in times.items()},
        memory=read_peaks(),
        throughput=_throughput(collector),
        values={
            name: _value_figures(list(series.items), not_finite.get(name, 0))
            for name, series in values.items()
        }
        | {
            name: _value_figures([], count)
            for name, count in not_finite.items()
            if name not in values
        },
        dropped={name: series.dropped for name, series in series if series.dropped},
        time_unit="ms",
        iteration=collector.iteration,
        source=collector.name,
        marey_metrics=FORMAT,
        marey_version=__version__,
    )


def read_report(path: str | os.PathLike[str]) -> Report:
    """Reads a report that `Reporter.save_json` has written.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not such a report.
    """
    with open(path, encoding="utf-8") as file:
        try:
            document = json.load(file)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: not a report of marey.metrics: {error}") from None
    if not isinstance(document, dict) or document.get("marey_metrics") != FORMAT:
        raise ValueError(
            f"{os.fspath(path)}: not a report of marey.metrics: marey_metrics is not {FORMAT}"
        )
    return Report(document)


def text_table(title: str, columns: tuple[str, ...], figures: dict[str, Any]) -> str:
    """Returns a table with a row for each name, aligned; empty without names."""
    if not figures:
        return ""
    rows = [[title, *columns]]
    rows += [[name, *(shown(row[column]) for column in columns)] for name, row in figures.items()]
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines of text, the first column to the left and the others to the right."""
    first, *widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)]) for row in rows
    )


def shown(number: float | None) -> str:
    """Returns a number with four significant digits; a dash for none."""
    if number is None:
        return "-"
    if isinstance(number, int):
        return f"{number:,}"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return f"{number:,.{max(0, 3 - math.floor(math.log10(abs(number) or 1)))}f}"
    return f"{number:.3e}"


def _throughput(collector: MetricsCollector) -> dict[str, float | None]:
    """Returns iterations and samples by the time from the first start to the last end."""
    found: dict[str, float | None] = {"samples_per_sec": None, "iterations_per_sec": None}
    series = collector.times().get(collector.iteration)
    if series is None:
        return found
    spans = series.spans()
    seconds = (max(span.end for span in spans) - min(span.start for span in spans)) / 1e9
    if seconds > 0:
        found["iterations_per_sec"] = len(spans) / seconds
        samples = collector.values().get(BATCH_SIZE)
        if samples is not None:
            # By iteration, because times and values of one name are dropped at different times.
            total = math.fsum(samples.items) + samples.dropped_total
            found["samples_per_sec"] = total / (len(spans) + series.dropped) * len(spans) / seconds
    return found


def _value_figures(numbers: list[float], not_finite: int) -> dict[str, Any]:
    if not numbers:
        figures: dict[str, Any] = dict.fromkeys((*_VALUE_COLUMNS, "total", "std_error"))
        return figures | {"count": 0, "not_finite": not_finite}
    return summarise(numbers).as_dict() | {"last": numbers[-1], "not_finite": not_finite}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
