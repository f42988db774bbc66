"""Plots of profiles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from marey.training import InteractivePlotter, ProfileAnalyzer, ProfilePlotter, ProfilerConfig
from marey.training.bottleneck import MemoryPoint
from programs import run_well
from training_loops import saved


@pytest.fixture
def analyzer() -> ProfileAnalyzer:
    return saved(ProfilerConfig(sample_rate=1.0, export_chrome_trace=False), 14, millis=0.2)


def texts(axes: Any) -> set[str]:
    return {text.get_text() for text in axes.texts}


def test_each_plot_is_a_figure_of_matplotlib(analyzer: ProfileAnalyzer) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    plotter = ProfilePlotter(analyzer)
    for name in ("timing_breakdown", "memory_timeline", "flame_graph", "sunburst", "bottlenecks"):
        figure = getattr(plotter, f"plot_{name}")()
        assert isinstance(figure, figures.Figure)
        figure.savefig(f"{name}.png")
        assert Path(f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_plots_show_names_and_times(analyzer: ProfileAnalyzer) -> None:
    pytest.importorskip("matplotlib")
    plotter = ProfilePlotter(analyzer)
    (axes,) = plotter.plot_timing_breakdown().axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert {"backward_pass", "forward"} <= set(labels)
    assert any(text.endswith(" ms, 14 calls") for text in texts(axes))
    (axes,) = plotter.plot_memory_timeline().axes
    assert axes.get_legend().get_texts()[0].get_text() == "host"
    (axes,) = plotter.plot_flame_graph().axes
    assert "root (100%)" in texts(axes)
    assert any(text.startswith("forward (") for text in texts(axes))
    (axes,) = plotter.plot_sunburst().axes
    assert {"epoch", "forward"} <= texts(axes)


def test_the_report_is_one_page(analyzer: ProfileAnalyzer) -> None:
    pytest.importorskip("matplotlib")
    figure = ProfilePlotter(analyzer).create_report("report.pdf")
    assert Path("report.pdf").read_bytes().startswith(b"%PDF")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["Operations", "Memory", "Call graph", "Call graph", "Bottlenecks"]


def test_call_graphs_of_a_sample_say_so(analyzer: ProfileAnalyzer) -> None:
    pytest.importorskip("matplotlib")
    analyzer.data.total_epochs = 20
    recorded = len(analyzer.data.epochs)
    title = f"Call graph of {recorded} recorded of 20 epochs"
    plotter = ProfilePlotter(analyzer)
    for figure in (plotter.plot_flame_graph(), plotter.plot_sunburst()):
        assert figure.axes[0].get_title() == title
    assert "extrapolated" in plotter.plot_timing_breakdown().axes[0].get_xlabel()


def test_the_trend_of_a_leak_is_drawn_in_both_plots(analyzer: ProfileAnalyzer) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    analyzer.data.memory = [
        MemoryPoint(epoch, "cuda:0", 100.0 + 20 * epoch, None) for epoch in range(0, 60, 4)
    ]
    assert analyzer.get_summary()["memory_leak_detected"]
    label = "cuda:0: +20.0 MB/epoch"
    (axes,) = ProfilePlotter(analyzer).plot_memory_timeline().axes
    (line,) = [line for line in axes.lines if line.get_label() == label]
    assert (line.get_color(), list(line.get_xdata())) == ("red", [0, 56])
    assert list(line.get_ydata()) == pytest.approx([100, 1220])
    (trace,) = [
        trace
        for trace in InteractivePlotter(analyzer).plot_memory_timeline().data
        if trace.name == label
    ]
    assert list(trace.y) == pytest.approx([100, 1220])


def test_plots_change_nothing_of_the_program_s_matplotlib(analyzer: ProfileAnalyzer) -> None:
    pytest.importorskip("matplotlib")
    run_well("""
        import sys
        import matplotlib
        from marey.training import ProfileAnalyzer, ProfilePlotter
        ProfilePlotter(ProfileAnalyzer("profile.pt")).create_report("report.png")
        assert "matplotlib.pyplot" not in sys.modules
    """)


def test_interactive_plots_are_figures_of_plotly(analyzer: ProfileAnalyzer) -> None:
    plotly = pytest.importorskip("plotly.graph_objects")
    plotter = InteractivePlotter(analyzer)
    for name in ("timing_breakdown", "memory_timeline", "flame_graph", "sunburst"):
        assert isinstance(getattr(plotter, f"plot_{name}")(), plotly.Figure)
    (rings,) = plotter.plot_sunburst().data
    assert {"root", "epoch", "forward"} <= set(rings.labels)
    # Values of inner regions add up to no more than that of the region around them.
    total = dict(zip(rings.ids, rings.values, strict=True))
    inner = dict.fromkeys(rings.ids, 0.0)
    for identity, parent in zip(rings.ids, rings.parents, strict=True):
        if parent:
            inner[parent] += total[identity]
    assert all(inner[identity] <= total[identity] * (1 + 1e-9) for identity in rings.ids)


@pytest.mark.parametrize(
    ("plotter", "package"), [(ProfilePlotter, "matplotlib"), (InteractivePlotter, "plotly")]
)
def test_a_missing_package_is_named_with_its_extra(
    analyzer: ProfileAnalyzer, plotter: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"{package}.*pip install 'marey\[plots\]'"):
        plotter(analyzer)
