"""The tests that the documentation names exist, and public names are on their pages."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import marey.metrics
import marey.training
import marey.windows
import pytest
from paths import ROOT, TESTS

# `test_file.py`, `test_name`, `test_file.py::test_name`, `::test_name` of the file before it.
REFERENCE = re.compile(r"`([\w/]*test_\w+\.py)?(?:::)?(test_\w+)?`")
OTHER_FILES = {"test_api.py", "test_viewer.py"}  # of Proton

PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if "test_" in path.read_text()]


@pytest.fixture(scope="module")
def tests() -> dict[str, set[str]]:
    """Returns the names of the tests of each file."""
    return {
        path.name: set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
        for path in TESTS.rglob("test_*.py")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_each_test_that_a_page_names_exists(page: Path, tests: dict[str, set[str]]) -> None:
    missing = []
    everywhere = set().union(*tests.values())
    for path, name in REFERENCE.findall(page.read_text()):
        file = path.rpartition("/")[2]
        if file in OTHER_FILES:
            continue
        known = tests.get(file, set()) if file else everywhere
        has_path = "/" not in path or (ROOT / path).exists()
        if not has_path or (file and file not in tests) or (name and name not in known):
            missing.append(f"{path}::{name}")
    assert missing == []


# Objects without figures of their own.
WITHOUT_FIGURES = {
    "BottleneckType",
    "CallGraphBuilder",
    "InteractivePlotter",
    "ProfilePlotter",
    "MLflowLogger",
    "TensorBoardLogger",
    "WandbLogger",
}


@pytest.mark.parametrize("module", [marey.training, marey.metrics, marey.windows])
def test_each_object_with_figures_has_a_table_for_notebooks(module: ModuleType) -> None:
    classes = {name for name in module.__all__ if isinstance(getattr(module, name), type)}
    tables = {name for name in classes if hasattr(getattr(module, name), "_repr_html_")}
    assert classes - tables == classes & WITHOUT_FIGURES


# Names in the documentation of Kitsune, PRISM and Proton.
FOREIGN_NAMES = {
    "metrics": """
        CUDATimer measure start stop get_elapsed results summary synchronize warmup repeat
        time_iterations MemoryTracker track_allocations track_timeline interval print_summary
        get_stats get_allocation_timeline peak_allocated peak_reserved snapshot compare
        MetricsCollector record measure_time generate_report add aggregate analyze_bottlenecks
        Reporter save_json save_html save_csv StreamProfiler num_streams
        print_stream_efficiency compare_runs speedup""",
    "training": """
        TrainingProfiler ProfilerConfig callback save profile_region cuda_sync_per_epoch
        ProfileAnalyzer get_summary get_top_operations identify_bottlenecks
        get_efficiency_report region_times severity type description recommendation
        ProfilePlotter plot_timing_breakdown plot_memory_timeline create_report savefig
        CallGraphBuilder build_from_regions total_time_ms analyze view compare export""",
    "windows": """
        TimeWindowProfiler window_duration_seconds output_dir start_window rotate_profile
        end_window window_duration current_session window_count profiling LLMInferenceProfiler
        window_minutes profile_dir detailed_sampling_interval start_profiling_window
        periodic_rotation record_request end_profiling_window window_metrics window_start_time
        detailed_interval window_number RollingWindowProfiler window_size_minutes
        max_windows_kept start_new_window get_recent_profiles profile_queue analyze_trends
        window_size max_windows ServiceWindowProfiler window_seconds RequestMetrics latency_ms
        tokens_generated success current_requests window_start ContinuousProfiler
        alert_callback profile_with_monitoring performance_history baseline_metrics
        MultiGPUProfiler base_name create_session phase_name backend profile_phase sessions
        rank local_rank PhaseProfiler profiler phase session_id""",
}


@pytest.mark.parametrize("page", FOREIGN_NAMES)
def test_each_documented_name_is_in_the_table_of_tests(page: str) -> None:
    rows = re.findall(r"^\|(.+)\|(.+test_\w+.+)\|$", (ROOT / f"docs/{page}.md").read_text(), re.M)
    words = {word for name, _ in rows for word in re.findall(r"\w+", name)}
    assert set(FOREIGN_NAMES[page].split()) - words == set()


@pytest.mark.parametrize("module", [marey.training, marey.metrics, marey.windows])
def test_each_public_name_is_on_its_page(module: ModuleType) -> None:
    page = (ROOT / "docs" / f"{module.__name__.rpartition('.')[2]}.md").read_text()
    words = set(re.findall(r"\w+", page))
    assert set(module.__all__) - words == set()
