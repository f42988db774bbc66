"""`MetricsCollector`: times and values, their figures, and what a session records of them."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import threading
import time
import warnings
from typing import Any

import marey
import pytest
from marey.metrics import MetricsCollector, compare_runs
from marey.metrics.nesting import self_times
from marey.metrics.series import MAX_ITEMS, Span
from profiles import find, live_root, metrics
from programs import marey_stdout, run_well
from threads import run_in_threads
from trace_files import traced


def spin(count: int = 1000) -> None:
    sum(range(count))


def record_trace(body: Any) -> marey.run.Run:
    """Runs a function in a trace session and opens its run."""
    with traced("collected"):
        body()
    return marey.open("collected.marey")


@pytest.fixture
def collector() -> MetricsCollector:
    return MetricsCollector()


# Figures


def test_statistics_of_values_are_those_of_the_standard_library(
    collector: MetricsCollector,
) -> None:
    numbers = [float(n * n % 101) for n in range(100)]
    for number in numbers:
        collector.record("loss", number)
    figures = collector.generate_report()["values"]["loss"]
    assert figures["count"] == 100
    assert figures["mean"] == pytest.approx(statistics.fmean(numbers))
    assert figures["std"] == pytest.approx(statistics.stdev(numbers))
    assert (figures["min"], figures["max"], figures["last"]) == (0.0, 100.0, numbers[-1])
    assert figures["p50"] == pytest.approx(statistics.median(numbers))
    cuts = statistics.quantiles(numbers, n=100, method="inclusive")
    assert figures["p99"] == pytest.approx(cuts[98])


def test_one_value_has_no_deviation(collector: MetricsCollector) -> None:
    collector.record("loss", 2)
    figures = collector.generate_report()["values"]["loss"]
    assert (figures["mean"], figures["std"], figures["p99"]) == (2.0, 0.0, 2.0)


def test_times_are_in_milliseconds_of_the_wall_clock(collector: MetricsCollector) -> None:
    ready = threading.Event()
    with collector.measure_time("wait"):
        ready.wait(0.05)
    assert 50 <= collector.generate_report()["timing"]["wait"]["mean"] < 5000


def test_throughput_is_from_the_first_start_to_the_last_end(collector: MetricsCollector) -> None:
    for _ in range(4):
        collector.record("batch_size", 8)
        with collector.measure_time("iteration"):
            spin()
    spans = collector.times()["iteration"].spans()
    seconds = (spans[-1].end - spans[0].start) / 1e9
    throughput = collector.generate_report()["throughput"]
    assert throughput["iterations_per_sec"] == pytest.approx(4 / seconds)
    assert throughput["samples_per_sec"] == pytest.approx(32 / seconds)


def test_another_time_can_be_the_iteration() -> None:
    collector = MetricsCollector(iteration="step")
    with collector.measure_time("step"):
        spin()
    assert collector.generate_report()["throughput"]["iterations_per_sec"] > 0


def test_throughput_without_iterations_is_unknown() -> None:
    report = MetricsCollector().generate_report()
    assert report["throughput"] == {"samples_per_sec": None, "iterations_per_sec": None}


def test_warmup_is_left_out_of_aggregates(collector: MetricsCollector) -> None:
    for number in (100, 1, 3):
        collector.record("loss", number)
    with collector.measure_time("first"):
        pass
    aggregate = collector.aggregate(warmup=1)
    assert aggregate["values"]["loss"].mean == 2.0
    assert aggregate["timing"] == {}
    assert collector.aggregate()["timing"]["first"].count == 1


def test_add_records_several_values(collector: MetricsCollector) -> None:
    collector.add({"loss": 0.5, "batch_size": 4})
    collector.add({"loss": 0.25})
    aggregate = collector.aggregate()["values"]
    assert (aggregate["loss"].count, aggregate["batch_size"].total) == (2, 4.0)


def test_times_are_readings_of_the_clock_of_perf_counter(collector: MetricsCollector) -> None:
    ready = threading.Event()
    before = time.perf_counter_ns()
    with collector.measure_time("wait"):
        inner_start = time.perf_counter_ns()
        ready.wait(0.01)
        inner_end = time.perf_counter_ns()
    after = time.perf_counter_ns()
    (span,) = collector.times()["wait"].spans()
    # The rate of the recorder's clock is measured, so its readings may differ a little.
    slack = 5_000_000
    assert before - slack <= span.start <= inner_start + slack
    assert inner_end - slack <= span.end <= after + slack
    assert span.thread == threading.get_ident()


def test_blocks_of_one_name_that_overlap_keep_their_own_times(collector: MetricsCollector) -> None:
    def block() -> Any:
        with collector.measure_time("block"):
            yield

    first, second = block(), block()
    next(first)
    next(second)
    for generator in (first, second):
        assert next(generator, None) is None
    one, other = collector.times()["block"].spans()
    assert one.start <= other.start <= one.end <= other.end


def test_recursive_blocks_of_one_name_lie_in_each_other(collector: MetricsCollector) -> None:
    def recurse(depth: int) -> None:
        with collector.measure_time("level"):
            if depth:
                recurse(depth - 1)

    recurse(3)
    spans = collector.times()["level"].spans()
    assert len(spans) == 4
    for inner, outer in itertools.pairwise(spans):
        assert outer.start <= inner.start <= inner.end <= outer.end


def test_two_calls_return_two_objects(collector: MetricsCollector) -> None:
    one, other = collector.measure_time("x"), collector.measure_time(name="x")
    assert one is not other
    with one, other:
        pass
    method = collector.measure_time("x").__exit__
    with collector.measure_time("x"):
        pass
    with pytest.raises(RuntimeError, match='"x" was not entered'):
        method(None, None, None)
    assert collector.generate_report()["timing"]["x"]["count"] == 3


def test_an_object_measures_one_block_at_a_time() -> None:
    measurement = MetricsCollector().measure_time("x")
    with measurement, pytest.raises(RuntimeError, match="call measure_time again"), measurement:
        pass
    with measurement:
        pass


def test_wrong_arguments_of_measure_time_are_named(collector: MetricsCollector) -> None:
    wrong: Any = collector.measure_time
    with pytest.raises(TypeError, match="takes 1 argument, 2 were given"):
        wrong("x", "y")
    with pytest.raises(TypeError, match='unexpected argument "nane"'):
        wrong(nane="x")


def test_times_that_nobody_reads_stay_within_the_limit(collector: MetricsCollector) -> None:
    for _ in range(MAX_ITEMS + 10):
        with collector.measure_time("x"):
            pass
    report = collector.generate_report()
    assert report["timing"]["x"]["count"] < MAX_ITEMS
    assert report["timing"]["x"]["count"] + report["dropped"]["x"] == MAX_ITEMS + 10


def test_old_items_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marey.metrics.collector.MAX_ITEMS", 8)
    monkeypatch.setattr("marey.metrics.series.MAX_ITEMS", 8)
    collector = MetricsCollector("kept")
    for number in range(10):
        collector.record("loss", number)
        with collector.measure_time("step"):
            pass
    report = collector.generate_report()
    assert report["values"]["loss"]["count"] + report["dropped"]["loss"] == 10
    assert report["timing"]["step"]["count"] + report["dropped"]["step"] == 10
    assert report["values"]["loss"]["max"] == 9.0
    exposed = marey.metrics.prometheus(collector)
    assert 'marey_time_seconds_count{collector="kept",name="step"} 10' in exposed
    assert "loss: the first" in str(report)


# Bottlenecks


def test_the_bottleneck_is_the_largest_self_time_and_percentages_add_up(
    collector: MetricsCollector,
) -> None:
    with collector.measure_time("iteration"):
        with collector.measure_time("forward"):
            spin(1000)
        with collector.measure_time("backward"):
            spin(500_000)
    analysis = collector.analyze_bottlenecks()
    assert analysis["bottleneck"] == "backward"
    assert sum(part["percent"] for part in analysis["components"]) == pytest.approx(100)
    iteration = next(part for part in analysis["components"] if part["name"] == "iteration")
    assert iteration["self_ms"] < iteration["total_ms"] / 2


def test_marey_analyze_names_what_a_collector_has_measured(collector: MetricsCollector) -> None:
    def work() -> None:
        for _ in range(3):
            with collector.measure_time("iteration"):
                spin(100_000)

    record_trace(work)
    assert "iteration" in marey_stdout("analyze", "collected.marey")


def test_tasks_that_overlap_inside_a_block_share_no_time() -> None:
    def span(start: int, end: int) -> Span:
        return Span(start, end, 1)

    spans = {"outer": [span(0, 100)], "a": [span(10, 50)], "b": [span(40, 90)]}
    assert self_times(spans) == {"outer": 20, "a": 30, "b": 50}
    # The end of a task that began early lies after that of the block inside it.
    spans = {"a": [span(0, 60)], "b": [span(10, 100)], "c": [span(20, 30), span(70, 80)]}
    assert self_times(spans) == {"a": 10, "b": 70, "c": 20}


def test_percentages_of_tasks_that_overlap_inside_a_block_add_up(
    collector: MetricsCollector,
) -> None:
    async def task(name: str) -> None:
        with collector.measure_time(name):
            for _ in range(3):
                spin(20_000)
                await asyncio.sleep(0)

    async def work() -> None:
        with collector.measure_time("all"):
            await asyncio.gather(task("a"), task("b"))

    asyncio.run(work())
    parts = {part["name"]: part for part in collector.analyze_bottlenecks()["components"]}
    whole_ms = sum(part["self_ms"] for part in parts.values())
    assert whole_ms == pytest.approx(parts["all"]["total_ms"])


def test_times_of_other_threads_are_not_inside(collector: MetricsCollector) -> None:
    def work() -> None:
        with collector.measure_time("worker"):
            spin(200_000)

    with collector.measure_time("main"):
        run_in_threads(work)
    parts = {part["name"]: part for part in collector.analyze_bottlenecks()["components"]}
    assert parts["main"]["self_ms"] == parts["main"]["total_ms"]


def test_nothing_measured_has_no_bottleneck() -> None:
    analysis = MetricsCollector().analyze_bottlenecks()
    assert analysis == {"bottleneck": None, "percent": 0.0, "components": []}


# Threads, tasks, exceptions


def test_all_threads_are_counted(collector: MetricsCollector) -> None:
    def work() -> None:
        for number in range(1000):
            with collector.measure_time("step"):
                collector.record("loss", number)

    run_in_threads(*[work] * 4)
    report = collector.generate_report()
    assert report["timing"]["step"]["count"] == report["values"]["loss"]["count"] == 4000


def test_tasks_that_take_turns_have_their_own_times(collector: MetricsCollector) -> None:
    turn = asyncio.Event

    async def both() -> None:
        first, second = turn(), turn()

        async def request(name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
            with collector.measure_time(name):
                other.set()
                await mine.wait()

        await asyncio.gather(request("a", first, second), request("b", second, first))

    run = record_trace(lambda: asyncio.run(both()))
    assert {name: figures["count"] for name, figures in collector_timing(collector)} == {
        "a": 1,
        "b": 1,
    }
    assert sorted(run.sql("SELECT path FROM spans").column("path")) == ["a", "b"]


def collector_timing(collector: MetricsCollector) -> Any:
    return collector.generate_report()["timing"].items()


def test_a_forked_child_may_use_a_collector_whose_locks_were_held() -> None:
    program = """
    import os, signal
    from marey.metrics import MetricsCollector
    collector = MetricsCollector()
    with collector._lock:
        child = os.fork()
        if not child:
            signal.alarm(20)
            collector.record("new in the child", 1)
            os._exit(0)
    print(os.waitpid(child, 0)[1])
    """
    assert run_well(program) == "0\n"


def test_a_block_that_raises_is_measured(session: int, collector: MetricsCollector) -> None:
    with pytest.raises(ZeroDivisionError), collector.measure_time("fails"):
        _ = 1 / 0
    with collector.measure_time("after"):
        pass
    assert collector.generate_report()["timing"]["fails"]["count"] == 1
    assert [node["frame"]["name"] for node in live_root(session)["children"]] == ["fails", "after"]


# Recording


def test_times_are_scopes_and_values_are_metrics_of_a_tree(
    session: int, collector: MetricsCollector
) -> None:
    with collector.measure_time("iteration"):
        collector.record("loss", 1)
        collector.record("loss", 0.5)
        collector.record("rate (pty)", 0.1)
        collector.record("rate (pty)", 0.2)
    node = find(live_root(session), "iteration")
    assert {"loss": 1.5, "rate": 0.2}.items() <= metrics(node).items()


def test_a_run_has_the_same_figures(collector: MetricsCollector) -> None:
    def train() -> None:
        for number in range(50):
            collector.record("batch_size", 4)
            with collector.measure_time("iteration"):
                spin(20_000)
            collector.record("loss", 1 / (number + 1))

    run = record_trace(train)
    assert run.sql("SELECT sum(value) FROM counters WHERE name = 'batch_size'").rows() == [(200.0,)]
    comparison = compare_runs(collector, run)
    loss = comparison["metrics"]["loss"]
    assert loss.before == pytest.approx(loss.after)
    ours = collector.generate_report()
    with marey.metrics.comparison.report_of(run) as theirs:
        pass
    for key in ("std", "min", "max", "p50", "p99", "total", "std_error", "last", "count"):
        assert ours["values"]["loss"][key] == pytest.approx(theirs["values"]["loss"][key]), key
    # The session and the collector have the same readings of the clock, each rounded.
    medians = [report["timing"]["iteration"]["p50"] for report in (ours, theirs)]
    assert medians[1] == pytest.approx(medians[0], abs=5e-6)
    rates = [report["throughput"]["samples_per_sec"] for report in (ours, theirs)]
    assert rates[1] == pytest.approx(rates[0], rel=0.5)


def test_a_metric_of_another_type_in_the_session_is_named_once_and_the_values_are_kept(
    session: int, collector: MetricsCollector
) -> None:
    with marey.scope("s", {"loss": "text"}):
        with pytest.warns(UserWarning, match="'loss' is recorded with two types"):
            collector.record("loss", 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            collector.add({"loss": 0.5})
            collector.record("loss", 0.5)
        assert find(live_root(session), "s")["metrics"]["loss"] == "text"
    assert collector.generate_report()["values"]["loss"]["count"] == 3


# Bad input


@pytest.mark.parametrize("value", ["0.5", None, [1.0], b"1", 1j])
def test_a_value_that_is_no_number_names_the_metric(
    value: Any, collector: MetricsCollector
) -> None:
    with pytest.raises(TypeError, match="the value of 'loss' must be a number"):
        collector.record("loss", value)
    with pytest.raises(TypeError, match="'loss'"):
        collector.add({"size": 1, "loss": value})
    assert collector.generate_report()["values"] == {}


def test_numbers_of_other_types_are_accepted() -> None:
    numpy = pytest.importorskip("numpy")
    collector = MetricsCollector()
    for value in (1, True, numpy.float32(2), numpy.int64(3)):
        collector.record("n", value)
    assert collector.generate_report()["values"]["n"]["total"] == 7.0


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_counted_with_one_warning(
    number: float, collector: MetricsCollector
) -> None:
    collector.record("loss", 1.0)
    with pytest.warns(UserWarning, match=r"'loss' is .*counted") as warned:
        collector.record("loss", number)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collector.record("loss", number)
    figures = collector.generate_report()["values"]["loss"]
    assert (figures["count"], figures["mean"], figures["not_finite"]) == (1, 1.0, 2)


def test_only_not_finite_values_are_in_the_report_too(collector: MetricsCollector) -> None:
    with pytest.warns(UserWarning, match="loss"):
        collector.record("loss", float("nan"))
    report = collector.generate_report()
    assert (report["values"]["loss"]["count"], report["values"]["loss"]["not_finite"]) == (0, 1)
    assert "loss: 1 infinite or NaN" in str(report)
    assert "null" in report.to_json()


@pytest.mark.parametrize(("name", "error"), [("", ValueError), (3, TypeError), (None, TypeError)])
def test_a_wrong_name_is_refused(
    name: Any, error: type[Exception], collector: MetricsCollector
) -> None:
    with pytest.raises(error, match="name must"):
        collector.measure_time(name)
    with pytest.raises(error, match="name must"):
        collector.record(name, 1.0)
    with pytest.raises(error, match="name must"):
        MetricsCollector(iteration=name)


def test_a_negative_warmup_is_refused() -> None:
    with pytest.raises(ValueError, match="warmup must be at least 0, not -1"):
        MetricsCollector().aggregate(warmup=-1)


def test_negative_values_are_values(collector: MetricsCollector) -> None:
    collector.record("log likelihood", -3.5)
    assert collector.generate_report()["values"]["log likelihood"]["min"] == -3.5


def test_importing_metrics_loads_no_query_engine() -> None:
    program = "import sys, marey.metrics; print([m for m in sys.modules if 'engine' in m])"
    assert run_well(program) == "[]\n"
