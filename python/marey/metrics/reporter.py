"""Files and text of a collector's figures: `Reporter`."""

from __future__ import annotations

import csv
import io
import os
from typing import Any

from marey._saving import save_text

from .collector import MetricsCollector
from .comparison import Source, compare_runs
from .figures import FIGURES
from .page import page_html
from .report import Report

_Path = str | os.PathLike[str]

_CSV_COLUMNS = ("kind", "name", "unit", *FIGURES, "last", "not_finite")


class Reporter:
    """Writes the figures of a collector, as they are at each call.

    Args:
        collector: The collector.
        baseline: The training that the HTML report compares the figures with: anything that
            `compare_runs` accepts.
    """

    def __init__(self, collector: MetricsCollector, baseline: Source | None = None) -> None:
        if not isinstance(collector, MetricsCollector):
            raise TypeError(f"a Reporter needs a MetricsCollector, not {type(collector).__name__}")
        self.collector = collector
        self.baseline = baseline

    def report(self) -> Report:
        """Returns the figures so far."""
        return self.collector.generate_report()

    def save_json(self, path: _Path) -> str:
        """Writes the report as JSON, see `Report`. Returns the absolute path.

        Raises:
            OSError: The file cannot be written. An existing file is unchanged, and the collector
                keeps its figures.
        """
        return save_text(path, self.report().to_json())

    def save_csv(self, path: _Path) -> str:
        """Writes a row for each time and value, and for memory and throughput.

        Returns the absolute path. Raises the same errors as `save_json`.
        """
        text = io.StringIO()
        writer = csv.DictWriter(text, _CSV_COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(_csv_rows(self.report()))
        return save_text(path, text.getvalue())

    def save_html(self, path: _Path) -> str:
        """Writes a page with charts, tables, the timeline and, with a baseline, the comparison.

        The page needs no network. Returns the absolute path. Raises the same errors as `save_json`,
        and those of `compare_runs`.
        """
        comparison = None
        if self.baseline is not None:
            comparison = compare_runs(self.baseline, self.collector)
        return save_text(path, page_html(self.collector, self.report(), comparison))

    def print_summary(self) -> None:
        """Prints the report as tables."""
        print(self.report())

    def __repr__(self) -> str:
        return f"<marey.metrics.Reporter of {self.collector.name}>"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def _csv_rows(report: Report) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for kind, unit in (("timing", "ms"), ("values", "")):
        for name, figures in report[kind].items():
            rows.append({"kind": kind, "name": name, "unit": unit} | figures)
    for kind, unit in (("memory", "bytes"), ("throughput", "1/s")):
        for name, number in report[kind].items():
            if isinstance(number, (int, float)):
                rows.append({"kind": kind, "name": name, "unit": unit, "last": number})
    return rows
