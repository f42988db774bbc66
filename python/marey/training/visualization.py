"""Plots of a profile by matplotlib, without its global state: no backend, no pyplot."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from .analyzer import ProfileAnalyzer
from .bottleneck import Bottleneck, trend
from .call_graph import CallGraphBuilder

MAX_BARS = 10
"""Operations in the breakdown of times."""

MIN_LABEL_PERCENT = 5.0
"""The least share of a rectangle with a label."""

ROW_LETTERS = 70
"""Letters that fit into the width of a flame graph."""

_SEVERITY_COLOURS = {"high": "tab:red", "medium": "goldenrod", "low": "tab:green"}


class ProfilePlotter:
    """Draws a profile. Each method returns a `matplotlib.figure.Figure`.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; the message names the extra.
    """

    def __init__(self, analyzer: ProfileAnalyzer) -> None:
        self._analyzer = analyzer
        self._figure: Callable[..., Any] = import_extra("matplotlib.figure", "matplotlib").Figure

    def plot_timing_breakdown(self) -> Any:
        """Draws a bar for each of the operations with the longest exclusive time."""
        return self._plot(self._draw_timing, 8, 4.5)

    def plot_memory_timeline(self) -> Any:
        """Draws the memory at the end of each recorded epoch, and the trend of a leak."""
        return self._plot(self._draw_memory, 8, 4.5)

    def plot_flame_graph(self) -> Any:
        """Draws the call graph as stacked bars: width is time, height is depth."""
        return self._plot(self._draw_flame, 10, 5)

    def plot_sunburst(self) -> Any:
        """Draws the call graph as rings: angle is time, radius is depth."""
        return self._plot(self._draw_sunburst, 7, 7, projection="polar")

    def plot_bottlenecks(self) -> Any:
        """Draws the bottlenecks as a table."""
        return self._plot(self._draw_bottlenecks, 10, 3)

    def create_report(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draws all plots on one page, and writes it if `path` is given.

        Raises:
            OSError: The file cannot be written.
            ValueError: The suffix of the file is no format of matplotlib.
        """
        figure = self._figure(figsize=(14, 12), layout="constrained")
        grid = figure.add_gridspec(3, 2, height_ratios=(4, 5, 2))
        self._draw_timing(figure.add_subplot(grid[0, 0]))
        self._draw_memory(figure.add_subplot(grid[0, 1]))
        self._draw_flame(figure.add_subplot(grid[1, 0]))
        self._draw_sunburst(figure.add_subplot(grid[1, 1], projection="polar"))
        self._draw_bottlenecks(figure.add_subplot(grid[2, :]))
        if path is not None:
            figure.savefig(path)
        return figure

    def _plot(self, draw: Callable[[Any], None], width: float, height: float, **axes: str) -> Any:
        """Returns a figure with one drawing; `axes` are options of its axes."""
        figure = self._figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot(**axes))
        return figure

    def _draw_timing(self, axes: Any) -> None:
        operations = self._analyzer.get_top_operations(MAX_BARS)[::-1]
        names = [_short(operation["name"]) for operation in operations]
        bars = axes.barh(range(len(names)), [operation["total_ms"] for operation in operations])
        axes.set_yticks(range(len(names)), names)
        labels = [
            f"{operation['total_ms']:.1f} ms, {operation['calls']:.0f} calls"
            for operation in operations
        ]
        axes.bar_label(bars, labels, padding=3)
        axes.margins(x=0.3)
        axes.set(title="Operations", xlabel=exclusive_time_label(self._analyzer))

    def _draw_memory(self, axes: Any) -> None:
        for memory, points in self._analyzer.memory().items():
            numbers = [point.number for point in points]
            sizes = [point.allocated_mb for point in points]
            axes.plot(numbers, sizes, marker=".", label=memory)
        for line in leak_lines(self._analyzer):
            axes.plot(*zip(*line.ends, strict=True), color="red", linestyle="--", label=line.label)
        if axes.lines:
            axes.legend()
        unit = unit_of_memory(self._analyzer)
        axes.set(title="Memory", xlabel=unit, ylabel="allocated (MB)")

    def _draw_flame(self, axes: Any) -> None:
        colours = _colours()
        graph = CallGraphBuilder().build_from_regions(self._analyzer.data.region_times)
        for box in graph.to_flame():
            axes.barh(
                box["depth"],
                box["width"],
                height=1,
                left=box["x"],
                color=colours(box["depth"] % 10),
                edgecolor="white",
            )
            if box["percentage"] > MIN_LABEL_PERCENT:
                middle = box["x"] + box["width"] / 2
                label = f"{box['name']} ({box['percentage']:.0f}%)"
                label = _short(label, round(box["width"] * ROW_LETTERS))
                axes.text(middle, box["depth"], label, ha="center", va="center", clip_on=True)
        axes.set(title=call_graph_title(self._analyzer), xlim=(0, 1), xticks=[], yticks=[])
        axes.invert_yaxis()

    def _draw_sunburst(self, axes: Any) -> None:
        colours = _colours()
        graph = CallGraphBuilder().build_from_regions(self._analyzer.data.region_times)
        full = 2 * math.pi
        for box in graph.to_flame(max_depth=6):
            axes.bar(
                box["x"] * full,
                1,
                width=box["width"] * full,
                bottom=box["depth"],
                align="edge",
                color=colours(box["depth"] % 10),
                edgecolor="white",
            )
            if box["depth"] and box["percentage"] > MIN_LABEL_PERCENT:
                angle = (box["x"] + box["width"] / 2) * full
                axes.text(
                    angle, box["depth"] + 0.5, _short(box["name"], 14), ha="center", va="center"
                )
        axes.set_title(call_graph_title(self._analyzer))
        axes.set_axis_off()

    def _draw_bottlenecks(self, axes: Any) -> None:
        found = self._analyzer.identify_bottlenecks()
        axes.set_title("Bottlenecks")
        axes.set_axis_off()
        if not found:
            axes.text(0.5, 0.5, "none detected", ha="center", va="center")
            return
        table = axes.table(
            cellText=[_cells(bottleneck) for bottleneck in found],
            colLabels=("Type", "Severity", "Description", "Recommendation"),
            colWidths=(0.12, 0.08, 0.35, 0.45),
            cellLoc="left",
            loc="upper center",
        )
        for row, bottleneck in enumerate(found, 1):
            table[row, 1].get_text().set_color(_SEVERITY_COLOURS[bottleneck.severity])


class LeakLine(NamedTuple):
    """The trend of a memory that leaks."""

    label: str
    ends: list[tuple[int, float]]
    """Number of the epoch or step, and MB, of both ends."""


def leak_lines(analyzer: ProfileAnalyzer) -> list[LeakLine]:
    """Returns the trends of the memories that leak."""
    unit = unit_of_memory(analyzer)
    lines = []
    for memory, points in analyzer.memory().items():
        line = trend(points)
        if line is not None and line.is_leak(analyzer.config.memory_leak_threshold_mb):
            numbers = (points[0].number, points[-1].number)
            ends = [(number, line.start_mb + line.slope_mb * number) for number in numbers]
            lines.append(LeakLine(f"{memory}: {line.slope_mb:+.1f} MB/{unit}", ends))
    return lines


def unit_of_memory(analyzer: ProfileAnalyzer) -> str:
    """Returns what the readings of memory are numbered by."""
    return "epoch" if analyzer.data.epochs else "step"


def exclusive_time_label(analyzer: ProfileAnalyzer) -> str:
    """Returns the label of exclusive times, which says whether they are extrapolated."""
    return f"exclusive time (ms{', extrapolated' if analyzer.data.is_extrapolated else ''})"


def call_graph_title(analyzer: ProfileAnalyzer) -> str:
    """Returns the title of a call graph, which has the times of recorded epochs alone."""
    data = analyzer.data
    if not data.is_extrapolated:
        return "Call graph"
    return f"Call graph of {len(data.epochs)} recorded of {data.total_epochs} epochs"


def import_extra(module: str, package: str) -> Any:
    """Imports a module of an optional package.

    Raises:
        ModuleNotFoundError: The package is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"plots need {package}, which is not installed: pip install 'marey[plots]'",
            name=error.name,
        ) from error


def _colours() -> Any:
    return importlib.import_module("matplotlib").colormaps["tab10"]


def _cells(bottleneck: Bottleneck) -> list[str]:
    texts = (bottleneck.description, bottleneck.recommendation)
    kind = bottleneck.type.value
    return [kind, bottleneck.severity.upper(), *(_short(text, 60) for text in texts)]


def _short(text: str, length: int = 32) -> str:
    # A dollar sign would begin a formula.
    text = text.replace("$", r"\$")
    return text if len(text) <= length else f"{text[: length - 1]}…"
