"""Interactive plots of a profile by plotly."""

from __future__ import annotations

from typing import Any

from .analyzer import ProfileAnalyzer
from .call_graph import CallGraphBuilder
from .visualization import call_graph_title, exclusive_time_label, import_extra, leak_lines


class InteractivePlotter:
    """Draws a profile. Each method returns a `plotly.graph_objects.Figure`.

    Raises:
        ModuleNotFoundError: plotly is not installed; the message names the extra.
    """

    def __init__(self, analyzer: ProfileAnalyzer) -> None:
        self._analyzer = analyzer
        self._plotly = import_extra("plotly.graph_objects", "plotly")

    def plot_timing_breakdown(self) -> Any:
        """Draws a bar for each of the operations with the longest exclusive time."""
        operations = self._analyzer.get_top_operations(10)[::-1]
        bars = self._plotly.Bar(
            x=[operation["total_ms"] for operation in operations],
            y=[operation["name"] for operation in operations],
            orientation="h",
        )
        return self._figure(bars, f"Operations: {exclusive_time_label(self._analyzer)}")

    def plot_memory_timeline(self) -> Any:
        """Draws the memory at the end of each recorded epoch, and the trend of a leak."""
        lines = [
            self._plotly.Scatter(
                x=[point.number for point in points],
                y=[point.allocated_mb for point in points],
                mode="lines+markers",
                name=memory,
            )
            for memory, points in self._analyzer.memory().items()
        ]
        lines += [
            self._plotly.Scatter(
                x=[number for number, _ in line.ends],
                y=[allocated_mb for _, allocated_mb in line.ends],
                mode="lines",
                line={"color": "red", "dash": "dash"},
                name=line.label,
            )
            for line in leak_lines(self._analyzer)
        ]
        return self._figure(lines, "Memory: allocated (MB)")

    def plot_flame_graph(self) -> Any:
        """Draws the call graph as stacked bars, which a click enlarges."""
        return self._figure(
            self._plotly.Icicle(**self._call_graph()), call_graph_title(self._analyzer)
        )

    def plot_sunburst(self) -> Any:
        """Draws the call graph as rings, which a click enlarges."""
        chart = self._plotly.Sunburst(**self._call_graph())
        return self._figure(chart, call_graph_title(self._analyzer))

    def _figure(self, data: Any, title: str) -> Any:
        return self._plotly.Figure(data=data, layout={"title": {"text": title}})

    def _call_graph(self) -> dict[str, Any]:
        graph = CallGraphBuilder().build_from_regions(self._analyzer.data.region_times)
        # Values of inner regions are part of those around them.
        return {**graph.to_sunburst(), "branchvalues": "total"}
