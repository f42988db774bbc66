"""`CUDATimer`: on the host, and on a double of PyTorch's events."""

from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import marey
import pytest
from marey._gpu_times import EventClock
from marey.metrics import CUDATimer
from profiles import find, live_root, metrics, record_scope
from threads import run_in_threads
from trace_files import run_rows, traced


class Device:
    """A device that works through its queue when it is told to, with `torch.cuda`'s events."""

    def __init__(self) -> None:
        self.queued_ms = 0.0
        self.done_ms = 0.0
        self.syncs = 0
        self.fails = False
        self.is_capturing = False
        device = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.time_ms = device.queued_ms

            def query(self) -> bool:
                return self.time_ms <= device.done_ms

            def synchronize(self) -> None:
                device.done_ms = max(device.done_ms, self.time_ms)

            def elapsed_time(self, end: Any) -> float:
                if device.fails:
                    raise RuntimeError("CUDA error: an illegal memory access was encountered")
                assert end.query(), "the event is not passed"
                elapsed: float = end.time_ms - self.time_ms
                return elapsed

        cuda = SimpleNamespace(
            Event=Event,
            synchronize=self.synchronize,
            is_current_stream_capturing=lambda: self.is_capturing,
        )
        self.torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None))

    def synchronize(self) -> None:
        self.syncs += 1
        self.done_ms = self.queued_ms

    def work(self, millis: float) -> None:
        self.queued_ms += millis


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    double = Device()
    monkeypatch.setattr("marey.metrics.timer.find_clock", lambda: EventClock(double.torch))
    return double


@pytest.fixture
def timer() -> CUDATimer:
    return CUDATimer()


# The host


def test_without_a_gpu_the_host_is_timed_and_the_summary_says_so(timer: CUDATimer) -> None:
    waiting = threading.Event()
    with timer.measure("forward"):
        waiting.wait(0.02)
    assert timer.clock == "host"
    assert 20 <= timer.get_elapsed("forward") < 5000
    assert "clock: host" in timer.summary()
    assert "host" in repr(timer)


def test_nested_and_repeated_names_are_kept_apart(timer: CUDATimer) -> None:
    waiting = threading.Event()
    with timer.measure("a"):
        with timer.measure("a"):
            pass
        with timer.measure("b"):
            waiting.wait(0.02)
    assert timer.results["a"].count == 2
    assert timer.results["a"].min < timer.results["b"].max < timer.results["a"].max
    assert timer.get_elapsed("a") == timer.results["a"].max


def test_start_and_stop_measure_and_may_overlap(timer: CUDATimer) -> None:
    with traced("x"), marey.scope("b"):
        timer.start("a")
        timer.start("b")
        timer.stop("a")
        timer.stop("b")
        record_scope("inside")
    assert set(timer.results) == {"a", "b"}
    paths = marey.open("x.marey").sql("SELECT path FROM spans").column("path")
    assert sorted(paths) == ["b", "b/a", "b/a/b", "b/inside"]


def test_a_block_that_raises_is_measured(timer: CUDATimer) -> None:
    with pytest.raises(ZeroDivisionError), timer.measure("fails"):
        _ = 1 / 0
    assert timer.results["fails"].count == 1


def test_tasks_that_take_turns_have_their_own_times(timer: CUDATimer) -> None:
    async def both() -> None:
        first, second = asyncio.Event(), asyncio.Event()

        async def request(name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
            timer.start(name)
            other.set()
            await mine.wait()
            timer.stop(name)

        await asyncio.gather(request("a", first, second), request("b", second, first))

    with traced("x"):
        asyncio.run(both())
    assert set(timer.results) == {"a", "b"}
    run = marey.open("x.marey")
    assert sorted(run.sql("SELECT path FROM spans").column("path")) == ["a", "b"]
    assert run.info()["losses"] == {}


def test_tasks_may_time_the_same_name_in_turns(timer: CUDATimer) -> None:
    async def both() -> None:
        first_started, second_started, first_stopped = (asyncio.Event() for _ in range(3))

        async def first() -> None:
            timer.start("request")
            first_started.set()
            await second_started.wait()
            timer.stop("request")
            first_stopped.set()

        async def second() -> None:
            await first_started.wait()
            threading.Event().wait(0.02)
            timer.start("request")
            second_started.set()
            await first_stopped.wait()
            timer.stop("request")

        await asyncio.gather(first(), second())

    asyncio.run(both())
    # The second began 20 ms later, and stopped last.
    assert timer.get_elapsed("request") == timer.results["request"].min


def test_stop_ends_the_latest_start_of_a_name(timer: CUDATimer) -> None:
    timer.start("a")
    threading.Event().wait(0.02)
    timer.start("a")
    timer.stop("a")
    inner = timer.get_elapsed("a")
    timer.stop("a")
    assert inner < 20 <= timer.get_elapsed("a")


def test_time_iterations_leaves_the_warmup_out() -> None:
    calls: list[int] = []
    timer = CUDATimer(warmup=2, repeat=5)
    figures = timer.time_iterations("step", lambda: calls.append(1))
    assert (figures.count, len(calls)) == (5, 7)
    assert timer.time_iterations("step", lambda: None, iterations=3, warmup=0).count == 3
    assert timer.results["step"].count == 8


def test_a_measured_time_is_a_scope(session: int, timer: CUDATimer) -> None:
    with timer.measure("forward"), timer.measure("matmul"):
        pass
    assert find(live_root(session), "forward")["children"][0]["frame"]["name"] == "matmul"


# The GPU


def test_times_are_those_of_the_events(device: Device, timer: CUDATimer) -> None:
    with timer.measure("forward"):
        device.work(3.0)
        with timer.measure("matmul"):
            device.work(2.0)
    assert timer.clock == "CUDA events"
    assert (timer.get_elapsed("forward"), timer.get_elapsed("matmul")) == (5.0, 2.0)


def test_synchronize_waits_before_each_time_only(device: Device, timer: CUDATimer) -> None:
    device.work(10.0)
    timer.start("forward")
    assert (device.syncs, device.done_ms) == (1, 10.0)
    device.work(1.0)
    timer.stop("forward")
    assert (device.syncs, device.done_ms) == (1, 10.0)


def test_without_synchronize_the_gpu_is_waited_for_when_a_result_is_read(device: Device) -> None:
    timer = CUDATimer(synchronize=False)
    for _ in range(100):
        with timer.measure("step"):
            device.work(1.0)
    assert (device.syncs, device.done_ms) == (0, 0.0)
    assert timer.get_elapsed("step") == 1.0
    assert timer.results["step"].count == 100
    assert device.syncs == 0


def test_passed_events_are_read_without_waiting(device: Device) -> None:
    timer = CUDATimer(synchronize=False)
    with timer.measure("first"):
        device.work(1.0)
    device.done_ms = device.queued_ms
    with timer.measure("second"):
        device.work(1.0)
    assert len(timer._times) == 1


def test_the_time_of_the_gpu_is_a_metric_of_the_scope(device: Device) -> None:
    timer = CUDATimer(synchronize=False)
    # The end of the session reads what is pending.
    with traced("x"), marey.scope("step"), timer.measure("forward"):
        device.work(2.5)
    query = "SELECT path, value FROM counters WHERE name = 'gpu_time (ns)'"
    assert run_rows("x.marey", query) == [("step/forward", 2.5e6)]


def test_the_time_of_the_gpu_is_in_a_tree(session: int, device: Device, timer: CUDATimer) -> None:
    for _ in range(2):
        with timer.measure("forward"):
            device.work(2.0)
    assert metrics(find(live_root(session), "forward"))["gpu_time (ns)"] == 4_000_000


def test_a_gpu_that_failed_loses_the_time_and_nothing_else(device: Device) -> None:
    timer = CUDATimer(synchronize=False)
    with timer.measure("before"):
        device.work(1.0)
    assert timer.results["before"].count == 1
    with traced("x"):
        device.fails = True
        with timer.measure("lost"):
            device.work(1.0)
        assert set(timer.results) == {"before"}
    assert marey.open("x.marey").info()["losses"] == {"metrics_unfetched": 1}


def test_a_gpu_that_fails_inside_a_block_leaves_the_error_of_the_program(device: Device) -> None:
    timer = CUDATimer(synchronize=False)

    def query(_event: Any) -> bool:
        raise RuntimeError("CUDA error")

    def fail() -> None:
        event: Any = device.torch.cuda.Event
        event.query = event.record = query
        raise ValueError("of the program")

    raises = pytest.raises(ValueError, match="of the program")
    with traced("x"), raises, timer.measure("lost"):
        fail()
    run = marey.open("x.marey")
    assert run.sql("SELECT name FROM spans").rows() == [("lost",)]
    assert run.info()["losses"] == {"metrics_unfetched": 1}


def test_the_capture_of_a_graph_is_not_disturbed_and_its_time_is_lost(
    device: Device, timer: CUDATimer
) -> None:
    with traced("x"):
        device.is_capturing = True
        with timer.measure("captured"):
            device.work(1.0)
        device.is_capturing = False
        assert (device.syncs, timer.results) == (0, {})
    assert marey.open("x.marey").info()["losses"] == {"metrics_unfetched": 1}


def test_a_forked_child_leaves_pending_times_to_its_parent(device: Device) -> None:
    timer = CUDATimer(synchronize=False)
    with timer.measure("step"):
        device.work(1.0)
    child = os.fork()
    if not child:
        os._exit(len(timer.results))
    assert os.waitpid(child, 0)[1] == 0
    assert timer.results["step"].count == 1


# Bad input


def test_stop_without_start_names_the_time(timer: CUDATimer) -> None:
    with pytest.raises(RuntimeError, match=r"stop\('forward'\) without start\('forward'\)"):
        timer.stop("forward")


def test_stop_on_another_thread_names_the_thread_that_started(timer: CUDATimer) -> None:
    timer.start("forward")
    errors: list[str] = []

    def stop() -> None:
        try:
            timer.stop("forward")
        except RuntimeError as error:
            errors.append(str(error))

    run_in_threads(stop)
    assert errors == [
        "stop('forward') without start('forward') on this thread or task;"
        f" thread {threading.get_ident()} has started it"
    ]
    timer.stop("forward")
    assert timer.results["forward"].count == 1


def test_an_unknown_time_names_the_nearest(timer: CUDATimer) -> None:
    with pytest.raises(KeyError, match="there is none yet"):
        timer.get_elapsed("forward")
    with timer.measure("forward_pass"):
        pass
    with pytest.raises(KeyError, match="did you mean 'forward_pass'"):
        timer.get_elapsed("forward_pas")
    with pytest.raises(KeyError, match="there are forward_pass"):
        timer.get_elapsed("xyz")


def test_a_time_that_is_not_stopped_has_no_elapsed_time(timer: CUDATimer) -> None:
    timer.start("forward")
    with pytest.raises(RuntimeError, match="'forward' was started, but not stopped yet"):
        timer.get_elapsed("forward")
    timer.stop("forward")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"warmup": -1}, ValueError, "warmup must be at least 0, not -1"),
        ({"repeat": 0}, ValueError, "repeat must be at least 1, not 0"),
        ({"repeat": "x"}, TypeError, "repeat must be a whole number, not 'x'"),
        ({"warmup": 1.5}, TypeError, "warmup must be a whole number, not 1.5"),
    ],
)
def test_wrong_counts_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        CUDATimer(**options)


def test_a_wrong_name_is_refused_before_the_work(timer: CUDATimer) -> None:
    with pytest.raises(ValueError, match="empty"), timer.measure(""):
        pytest.fail("the block ran")
    with pytest.raises(TypeError, match="name must be a str"):
        timer.start(3)  # type: ignore[arg-type]
