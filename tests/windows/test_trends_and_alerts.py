"""`analyze_trends` compares windows, and alerts are raised where chance is no cause."""

from __future__ import annotations

import json
import math
import os
import random
import threading
from pathlib import Path
from typing import Any

import marey
import pytest
from gpu_programs import run
from marey import _native
from marey.windows import (
    Alert,
    ContinuousProfiler,
    LLMInferenceProfiler,
    MultiGPUProfiler,
    RequestMetrics,
    RollingWindowProfiler,
    ServiceWindowProfiler,
    TimeWindowProfiler,
)
from marey.windows.alert import Condition
from marey.windows.robust import Baseline
from marey.windows.summary import summarize
from marey.windows.watch import Watch
from profiles import record_scope
from programs import until

# As docs/windows.md states it.
FALSE_ALARM_RATE = 0.01


def step(work: int) -> None:
    """Runs a training step of some thousand operations."""
    _native.step_begin()
    sum(range(1000 * work))
    _native.step_end()


def test_trends_are_a_table_over_the_windows_that_are_kept() -> None:
    profiler = RollingWindowProfiler(10, max_windows_kept=3)
    profiler.start_new_window()
    for number in range(5):
        step(1)
        record_scope("request")
        if number > 2:
            profiler.record_request(RequestMetrics(number, 1, True))
        profiler.start_new_window()
    profiler.stop()
    trends = profiler.analyze_trends()
    assert len(trends) == 3
    assert trends.column("window") == [3, 4, 5]
    assert trends.column("steps") == [1, 1, None]
    assert trends.column("total_requests") == [1, 1, None]
    assert trends.column("max_latency_ms") == [3, 4, None]
    assert trends.column("path") == profiler.get_recent_profiles()
    assert all(value > 0 for value in trends.column("step_time.p99")[:2])
    assert [row["window"] for row in trends] == [3, 4, 5]
    assert repr(trends).splitlines()[0].split()[:3] == ["window", "start", "duration_seconds"]
    assert "<table" in trends._repr_html_()
    with pytest.raises(KeyError, match="no column is called 'time'; the columns are window, start"):
        trends.column("time")


def test_trends_have_the_known_kernels_of_each_window() -> None:
    printed = run("""
        import json
        from marey.windows import RollingWindowProfiler

        profiler = RollingWindowProfiler()
        profiler.start_new_window()
        for factor in (1, 2):
            for nanos in (1_000_000, 3_000_000):
                with marey.scope("step"):
                    double.launch("gemm", factor * nanos)
            profiler.start_new_window()
        profiler.stop()
        trends = profiler.analyze_trends()
        names = "kernels", "total_kernel_time_ms", "avg_kernel_time_ms", "max_kernel_time_ms"
        print(json.dumps([trends.column(name) for name in names]))
    """)
    kernels, total_ms, mean_ms, longest_ms = json.loads(printed)
    assert kernels == [2, 2, None]
    assert total_ms == pytest.approx([4, 8, None])
    assert mean_ms == pytest.approx([2, 4, None])
    assert longest_ms == pytest.approx([3, 6, None])


def test_the_utilization_of_a_window_is_that_of_its_kernels_weighted_by_time() -> None:
    def kernel(name: str, millis: int, **metrics: float) -> dict[str, Any]:
        times = {"count": 1, "device_id": "0", "device_type": "CUDA", "time (ns)": millis * 10**6}
        return {"children": [], "frame": {"name": name}, "metrics": {**times, **metrics}}

    kernels = [
        kernel("short", 1, flops16=1e9, bytes=1),
        kernel("long", 3, flops16=9e9, bytes=1),
        kernel("unknown", 20),
    ]
    device = {"arch": "90", "bus_width": 6144, "clock_rate": 1980000}
    device |= {"memory_clock_rate": 3201000, "num_sms": 132}
    root = {"children": kernels, "frame": {"name": "ROOT"}, "metrics": {"count": 0, "time (ns)": 0}}
    Path("window.hatchet").write_text(json.dumps([root, {"CUDA": {"0": device}}]))
    peak = marey.specs.max_flops("CUDA", "90", 16, 132, 1980000)
    found = summarize("window.hatchet")
    assert found["avg_utilization"] == pytest.approx(10e9 / (peak * 4e-3))
    assert found["kernels"] == 3


def test_windows_and_alerts_are_tables_in_notebooks() -> None:
    profilers: list[Any] = [
        TimeWindowProfiler(10),
        RollingWindowProfiler(10),
        ServiceWindowProfiler(10),
        LLMInferenceProfiler(10),
        ContinuousProfiler(10),
        MultiGPUProfiler(),
    ]
    for profiler in profilers:
        assert "<table" in profiler._repr_html_()
    rolling = profilers[1]
    rolling.start_new_window()
    rolling.record_request(RequestMetrics(5, 1, True))
    rolling.stop()
    (window,) = rolling.windows
    for page in (rolling._repr_html_(), window._repr_html_()):
        assert "total_requests" in page
        assert str(window.path) in page
    assert "step_time.p99" in Alert("step_time.p99", 2.0, 1.0, 5)._repr_html_()


def test_trends_can_be_a_data_frame() -> None:
    pytest.importorskip("pandas")
    profiler = RollingWindowProfiler()
    profiler.start_new_window()
    profiler.stop()
    frame = profiler.analyze_trends().to_pandas()
    assert [*frame["window"]] == [0]


def test_a_profile_that_is_gone_has_no_row() -> None:
    profiler = RollingWindowProfiler()
    assert repr(profiler.analyze_trends()) == "no window has ended"
    profiler.start_new_window()
    profiler.start_new_window()
    profiler.stop()
    os.remove(profiler.get_recent_profiles()[0])
    assert profiler.analyze_trends().column("window") == [1]


def test_recent_profiles_are_the_last_ones() -> None:
    profiler = RollingWindowProfiler(10, 3)
    for _ in range(5):
        profiler.start_new_window()
    queue = profiler.profile_queue
    assert queue[-1]["session"] == profiler.current_session
    assert [entry["session"] for entry in queue][:-1] == [None] * 3
    profiler.stop()
    recent = profiler.get_recent_profiles()
    assert len(recent) == 3
    assert profiler.get_recent_profiles(2) == recent[1:]
    assert profiler.get_recent_profiles(0) == []
    assert [entry["path"] + ".hatchet" for entry in profiler.profile_queue] == recent
    with pytest.raises(ValueError, match="n must be at least 0, not -1"):
        profiler.get_recent_profiles(-1)


def run_windows(profiler: ContinuousProfiler, works: list[int]) -> None:
    """Runs a window for each amount of work, and leaves the next one open."""
    profiler.start()
    for work in works:
        for _ in range(5):
            step(work)
        profiler._windows.rotate()


def test_a_slow_window_calls_back_on_a_thread_of_its_own() -> None:
    called = []

    def alert(metrics: dict[str, Any]) -> None:
        called.append((metrics, threading.get_ident()))

    profiler = ContinuousProfiler(300, alert, alerts=["step_time.p50>+100%"])
    run_windows(profiler, [10] * 8 + [1000])
    profiler.stop()
    ((metrics, thread),) = called
    assert thread != threading.get_ident()
    assert metrics is profiler.performance_history[8]
    assert os.path.exists(metrics["profile_path"])
    (found,) = metrics["alerts"]
    assert found.metric == "step_time.p50"
    assert found.value == metrics["step_time.p50"] > 2 * found.baseline
    assert str(found).startswith("step_time.p50 is ")
    assert "above the median of the last 8 windows" in str(found)
    assert profiler.baseline_metrics is not None
    assert "step_time.p50" in profiler.baseline_metrics


def test_a_callback_that_blocks_or_raises_disturbs_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    entered, may_go = threading.Event(), threading.Event()

    def alert(metrics: dict[str, Any]) -> None:
        entered.set()
        may_go.wait(60)
        raise OSError("no pager")

    profiler = ContinuousProfiler(300, alert, alerts=["step_time.p50>+100%"])
    run_windows(profiler, [10] * 6 + [1000] + [10] * 3)
    assert entered.wait(60)
    assert len(profiler.windows) == 10
    may_go.set()
    profiler.stop()
    assert "marey: the alert callback alert raised OSError('no pager')" in capfd.readouterr().err


def test_a_callback_may_stop_the_recording() -> None:
    stopped = threading.Event()

    def alert(metrics: dict[str, Any]) -> None:
        profiler.stop()
        stopped.set()

    profiler = ContinuousProfiler(300, alert, alerts=["step_time.p50>+100%"])
    run_windows(profiler, [10] * 6 + [1000])
    assert stopped.wait(5)
    assert profiler._windows.open is None


def test_monitoring_returns_the_metrics_of_each_window() -> None:
    profiler = ContinuousProfiler(0.05)
    found = [profiler.profile_with_monitoring() for _ in range(3)]
    profiler.stop()
    numbers = [metrics["window"] for metrics in found if metrics is not None]
    assert numbers == [0, 1, 2]
    assert {"timestamp", "avg_kernel_time_ms", "max_kernel_time_ms", "avg_utilization"} <= {
        *(found[0] or {})
    }


def test_monitoring_skips_no_window_that_has_ended_between_two_calls() -> None:
    profiler = ContinuousProfiler(300)
    profiler.start()
    for _ in range(3):
        profiler._windows.rotate()
    found = [profiler.profile_with_monitoring() for _ in range(3)]
    profiler.stop()
    assert [metrics["window"] for metrics in found if metrics is not None] == [0, 1, 2]


def test_monitoring_returns_when_another_thread_stops_it() -> None:
    profiler = ContinuousProfiler(300)
    returned = []
    thread = threading.Thread(target=lambda: returned.append(profiler.profile_with_monitoring()))
    thread.start()
    until(lambda: profiler._windows.open is not None)
    profiler.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert profiler.profile_with_monitoring() is None
    assert len(returned) == len(profiler.windows) == 1


def test_requests_of_a_continuous_window_raise_alerts() -> None:
    called: list[dict[str, Any]] = []
    profiler = ContinuousProfiler(300, called.append)
    profiler.start()
    for latency_ms in [10.0, 11.0, 10.5, 9.5, 10.2, 10.4, 80.0]:
        profiler.record_request(RequestMetrics(latency_ms, 1, True))
        profiler._windows.rotate()
    profiler.stop()
    assert [alert.metric for metrics in called for alert in metrics["alerts"]] == ["p99_latency_ms"]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("step_time.p99>+20%", Condition("step_time.p99", 1, 20)),
        ("requests_per_second<-12.5%", Condition("requests_per_second", -1, 12.5)),
        ("kernels", Condition("kernels", 0, 0)),
        ("scope(decode > prefill).p99 > +5%", Condition("scope(decode > prefill).p99", 1, 5)),
    ],
)
def test_conditions_are_parsed(text: str, condition: Condition) -> None:
    assert Condition.parse(text, ("step_time.p99", "requests_per_second", "kernels")) == condition


@pytest.mark.parametrize("text", ["", "kernels>", "kernels>=+5%", "kernels>+5", "kernels<+5%"])
def test_a_text_that_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write |no metric"):
        Condition.parse(text, ("kernels",))


def test_a_condition_needs_history_direction_amount_and_no_chance() -> None:
    more = Condition("x", 1, 20)
    assert Baseline.from_values([10.0] * 4) is None
    assert more.judge(100, None) is None
    history = Baseline.from_values([10.0 + number / 100 for number in range(8)])
    assert more.judge(11, history) is None
    assert more.judge(1, history) is None
    assert more.judge(None, history) is None
    assert more.judge(13, history) == Alert("x", 13, 10.035, 8)
    noisy = Baseline.from_values([10.0, 2.0, 18.0, 7.0, 13.0, 5.0, 16.0, 9.0])
    assert more.judge(20, noisy) is None
    assert Condition("x").judge(1, history) == Alert("x", 1, 10.035, 8)
    zero = Baseline.from_values([0.0] * 8)
    assert str(more.judge(3, zero)).startswith("x is 3, 3 above the median of the last 8")


def test_windows_without_the_metric_are_no_history() -> None:
    watch = Watch(["steps"], ["steps"])
    for _ in range(10):
        assert watch.judge({}) == []
    for number in range(5):
        assert watch.judge({"steps": 10 + number}) == []
    assert watch.medians is None
    assert [alert.windows for alert in watch.judge({"steps": 500})] == [5]
    assert watch.medians == {"steps": 12}


def test_one_outlier_in_the_history_does_not_hide_another() -> None:
    baseline = Baseline.from_values([10.0, 10.1, 9.9, 10.05, 9.95, 80.0, 10.02, 9.98])
    assert baseline is not None
    assert baseline.differs(80.0)
    assert not baseline.differs(10.2)


@pytest.mark.parametrize("count", [5, 6, 9, 14, 20])
def test_the_rate_of_false_alarms_is_the_stated_one(count: int) -> None:
    draw = random.Random(count)
    samples = 20_000
    alarms = 0
    for _ in range(samples):
        baseline = Baseline.from_values([draw.gauss(1000, 200) for _ in range(count)])
        assert baseline is not None
        alarms += baseline.differs(draw.gauss(1000, 200))
    assert alarms / samples == pytest.approx(FALSE_ALARM_RATE, rel=0.3)


@pytest.mark.parametrize("mean", [0.05, 0.6, 3.0])
@pytest.mark.parametrize("count", [5, 20])
def test_counts_of_rare_events_raise_few_false_alarms(count: int, mean: float) -> None:
    draw = random.Random(count)

    def events() -> float:
        """Returns a count with nearly the distribution of Poisson."""
        probability = 1 - math.exp(-mean / 50)
        return float(sum(draw.random() < probability for _ in range(50)))

    samples = 1000
    alarms = 0
    for _ in range(samples):
        baseline = Baseline.from_values([events() for _ in range(count)], are_counts=True)
        assert baseline is not None
        alarms += baseline.differs(events())
    assert alarms / samples <= 0.025  # 1.6 %, and two deviations


def test_one_failed_request_after_windows_without_is_chance_and_several_are_not() -> None:
    watch = Watch(["failed_requests", "scope(retry).count"], ["failed_requests"])
    for _ in range(5):
        assert watch.judge({"failed_requests": 0, "scope(retry).count": 0}) == []
    assert watch.judge({"failed_requests": 1, "scope(retry).count": 1}) == []
    found = watch.judge({"failed_requests": 9, "scope(retry).count": 9})
    assert [alert.metric for alert in found] == ["failed_requests", "scope(retry).count"]
