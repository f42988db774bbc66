"""Each window has its requests, tokens, percentiles and errors."""

from __future__ import annotations

import asyncio
import json
import math
import os
from pathlib import Path

import marey
import pytest
from marey.windows import LLMInferenceProfiler, RequestMetrics, ServiceWindowProfiler
from marey.windows.sketch import Sketch
from profiles import tree, walk
from programs import run_well, until
from window_files import call_on_threads, node, paths, total


@pytest.fixture
def service() -> ServiceWindowProfiler:
    """A profiler whose first window is open and does not end by itself."""
    service = ServiceWindowProfiler(300)
    service.start_window()
    return service


def test_a_window_has_the_metrics_of_its_requests(service: ServiceWindowProfiler) -> None:
    numpy = pytest.importorskip("numpy")
    latencies = [3.0 * 1.05**number for number in range(100)]
    for number, latency_ms in enumerate(latencies):
        service.record_request(RequestMetrics(latency_ms, number, number % 4 != 0))
    assert [request.tokens_generated for request in service.current_requests] == [*range(100)]
    service.end_window()
    (window,) = service.windows
    metrics = node(window.path, "service_window")
    assert metrics["total_requests"] == 100
    assert metrics["total_tokens_generated"] == sum(range(100))
    assert metrics["failed_requests"] == 25
    assert metrics["success_rate"] == 0.75
    assert metrics["requests_per_second"] == pytest.approx(100 / window.duration_seconds)
    assert metrics["tokens_per_second"] == pytest.approx(4950 / window.duration_seconds)
    for percent in (50, 90, 95, 99):
        expected = numpy.percentile(latencies, percent)
        assert metrics[f"p{percent}_latency_ms"] == pytest.approx(expected, rel=1 / 64)
    assert metrics["max_latency_ms"] == max(latencies)
    assert metrics["min_latency_ms"] == min(latencies)
    assert metrics["avg_latency_ms"] == pytest.approx(sum(latencies) / 100)
    assert metrics["window_duration_seconds"] == 300
    assert metrics["window_start_timestamp"] == window.start.timestamp()
    assert window.metrics["p99_latency_ms"] == metrics["p99_latency_ms"]


def test_a_window_without_requests_says_so(service: ServiceWindowProfiler) -> None:
    service.end_window()
    metrics = node(service.windows[0].path, "service_window")
    assert metrics["requests_count"] == metrics["total_requests"] == 0
    assert "p50_latency_ms" not in metrics


def test_each_request_is_in_exactly_one_window() -> None:
    profiler = ServiceWindowProfiler(0.02)
    profiler.start_window()
    recorded = call_on_threads(
        lambda: profiler.record_request(RequestMetrics(1.5, 2, True)),
        lambda: len(profiler.windows) >= 6,
    )
    profiler.end_window()
    files = paths(profiler.windows)
    assert total(files, "service_window", "total_requests") == recorded
    assert total(files, "service_window", "total_tokens_generated") == 2 * recorded


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (RequestMetrics(-1, 1, True), "latency_ms must be a finite number of at least 0, not -1"),
        (RequestMetrics(math.nan, 1, True), "latency_ms must be .*, not nan"),
        (RequestMetrics(math.inf, 1, True), "latency_ms must be .*, not inf"),
        (RequestMetrics(1, -2, True), "tokens_generated must be at least 0, not -2"),
    ],
)
def test_a_request_that_cannot_be_is_refused_and_the_others_stay(
    service: ServiceWindowProfiler, request_: RequestMetrics, message: str
) -> None:
    service.record_request(RequestMetrics(1, 1, True))
    with pytest.raises(ValueError, match=message):
        service.record_request(request_)
    service.end_window()
    assert service.windows[0].metrics["total_requests"] == 1
    with pytest.raises(TypeError, match="takes a RequestMetrics, not 5"):
        service.record_request(5)  # type: ignore[arg-type]


def test_a_request_outside_of_windows_is_in_none() -> None:
    profiler = ServiceWindowProfiler()
    profiler.record_request(RequestMetrics(1, 1, True))
    for _ in range(2):
        profiler.start_window()
        profiler.record_request(RequestMetrics(2, 1, True))
        profiler.end_window()
        profiler.record_request(RequestMetrics(1, 1, True))
    assert [window.metrics["min_latency_ms"] for window in profiler.windows] == [2, 2]


def test_a_window_has_its_metrics_whatever_scope_is_open() -> None:
    profiler = ServiceWindowProfiler(0.02)
    with marey.scope("serve"):
        profiler.start_window()

        def serve() -> None:
            with marey.scope("request"):
                profiler.record_request(RequestMetrics(1, 1, True))

        until(lambda: len(profiler.windows) >= 3, serve)
    profiler.end_window()
    for window in profiler.windows:
        root = tree(str(window.path))
        (found,) = [node for path, node in walk(root) if path.split("/")[-1] == "service_window"]
        assert found["metrics"]["total_requests"] == window.metrics["total_requests"]


def test_a_second_start_loses_no_request(service: ServiceWindowProfiler) -> None:
    service.record_request(RequestMetrics(1, 1, True))
    with pytest.raises(RuntimeError, match="window 0 is open already"):
        service.start_window()
    service.end_window()
    assert service.windows[0].metrics["total_requests"] == 1


def test_percentiles_of_a_sketch_are_those_of_numpy_within_a_64th() -> None:
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(5)
    for values in (
        random.lognormal(0, 3, 10_000),
        random.exponential(1e-9, 100),
        [0.0, 0.0, 0.0, 5.0],
        [7.0],
        [1.0, 2.0],
    ):
        sketch = Sketch()
        for value in values:
            sketch.add(float(value))
        percents = (0, 1, 50, 90, 99, 99.9, 100)
        expected = numpy.percentile(values, percents)
        assert sketch.percentiles(percents) == pytest.approx([*expected], rel=1 / 64)


def test_an_inference_window_has_a_profile_and_metadata() -> None:
    profiler = LLMInferenceProfiler(hook=None)
    profiler.start_profiling_window()
    assert (profiler.window_number, profiler.window_metrics["requests_processed"]) == (1, 0)
    for number in range(3):
        profiler.record_request(f"r{number}", 10, 20, latency_ms=5.0, success=number > 0)
    assert profiler.window_metrics == {
        "window_number": 1,
        "start_time": profiler.window_start_time.strftime("%Y%m%d_%H%M%S"),
        "requests_processed": 3,
        "tokens_generated": 60,
        "errors": 1,
    }
    profiler.end_profiling_window()
    (window,) = profiler.windows
    requests = node(window.path, "request")
    assert (requests["wall_count"], requests["prompt_tokens"], requests["total_tokens"]) == (
        3,
        30,
        90,
    )
    assert node(window.path, "inference_window")["total_prompt_tokens"] == 30
    metadata = json.loads(Path("inference_profiles/metadata_w1.json").read_text())
    assert metadata == profiler.window_metrics
    assert metadata["requests_processed"] == 3
    assert metadata["errors"] == 1
    assert metadata["profile"] == window.path
    assert metadata["p99_latency_ms"] == 5.0
    assert metadata["duration_seconds"] == window.duration_seconds
    assert metadata["end_time"] >= metadata["start_time"]


def test_metadata_of_an_earlier_program_stay() -> None:
    for _ in range(2):
        profiler = LLMInferenceProfiler(hook=None)
        profiler.start_profiling_window()
        profiler.end_profiling_window()
    assert {"metadata_w1.json", "metadata_w1_2.json"} <= {*os.listdir("inference_profiles")}


def test_a_bad_request_of_inference_is_named() -> None:
    profiler = LLMInferenceProfiler()
    with pytest.raises(ValueError, match="request r7: generated_tokens must be at least 0, not -1"):
        profiler.record_request("r7", 1, -1)


def test_detailed_windows_have_call_stacks_too() -> None:
    run_well(
        """
        import marey
        from marey.windows import LLMInferenceProfiler

        profiler = LLMInferenceProfiler(detailed_sampling_interval=2, hook=None, keep=3)
        profiler.start_profiling_window()

        def generate():
            with marey.scope("decode"):
                pass

        for _ in range(3):
            generate()
            profiler._windows.rotate()
        generate()
        profiler.end_profiling_window()
        """
    )
    names = sorted(os.listdir("inference_profiles"))
    kinds = [name[:21] for name in names if name.endswith(".hatchet")]
    assert kinds == [
        "inference_detailed_w2",
        "inference_detailed_w4",
        "inference_standard_w2",
        "inference_standard_w3",
        "inference_standard_w4",
    ]
    assert sum(name.startswith("metadata") for name in names) == 3
    detailed = json.loads(Path("inference_profiles", names[0]).read_text())
    assert "@generate" in json.dumps(detailed)
    standard = [f"inference_profiles/{name}" for name in names if "standard" in name]
    assert "@generate" not in Path(standard[0]).read_text()
    assert total(standard, "decode") == 3


def test_periodic_rotation_ends_with_the_recording_and_ends_no_window_itself() -> None:
    profiler = LLMInferenceProfiler(5, hook=None)

    async def serve() -> None:
        profiler.start_profiling_window()
        rotation = asyncio.create_task(profiler.periodic_rotation())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not rotation.done()
        assert profiler.window_number == 1
        profiler.end_profiling_window()
        await rotation

    asyncio.run(serve())
    assert len(profiler.windows) == 1
