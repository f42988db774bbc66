"""Launches timed by events, on a fake GPU whose work ends when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import marey
import pytest
from marey.triton.events import EventTimer
from marey.triton.gpu import TorchGpu
from profiles import counts, find, live_root, metrics, tree
from programs import run_well
from replay import SUPPORT
from triton_gpu import FakeGpu

knobs = pytest.importorskip("triton.knobs")
compiler = pytest.importorskip("triton.compiler")


def launch(gpu: FakeGpu, kernel: str, nanos: int, stream: int = 2, **values: Any) -> None:
    """Does what Triton does for a launch of this duration."""
    metadata = compiler.LazyDict({"name": kernel, "function": 1, "stream": stream})
    metadata.add(lambda: values, ())
    knobs.runtime.launch_enter_hook(metadata)
    gpu.nanos += nanos
    knobs.runtime.launch_exit_hook(metadata)


def timed(count: int, nanos: int) -> dict[str, Any]:
    return {"count": count, "time (ns)": nanos, "device_id": "3", "device_type": "CUDA"}


def test_times_are_added_to_the_operator_of_the_launch_hook() -> None:
    gpu = FakeGpu()
    session = marey.start("x", hook=EventTimer(gpu))
    marey.start("x", hook="triton")
    with marey.scope("outer"):
        launch(gpu, "raw", 1500, name="matmul", flops=2)
        launch(gpu, "raw", 500, name="matmul", flops=2)
    gpu.advance()
    launch(gpu, "other", 20)
    assert gpu.waits == 0
    root = live_root(session)
    assert counts(root) == {"outer": 1, "outer/matmul": 2, "other": 1}
    assert metrics(find(root, "outer/matmul")) == {**timed(2, 2000), "flops": 4.0}
    assert metrics(find(root, "other")) == timed(1, 20)
    assert root["metrics"] == {"count": 0, "time (ns)": 0, "flops": 0}
    # Only the last launch had to be waited for.
    assert gpu.waits == 1


def test_without_a_launch_hook_the_timer_enters_an_operator() -> None:
    gpu = FakeGpu()
    session = marey.start("x", hook=EventTimer(gpu))
    with marey.scope("outer"):
        launch(gpu, "kernel", 1000, name="not evaluated")
    root = live_root(session)
    assert counts(root) == {"outer": 1, "outer/kernel": 1}
    assert metrics(find(root, "outer/kernel")) == timed(1, 1000)


def test_events_are_reused() -> None:
    gpu = FakeGpu()
    session = marey.start("x", hook=EventTimer(gpu, max_pairs=8))
    for _ in range(10):
        for _ in range(8):
            launch(gpu, "kernel", 10)
        gpu.advance()
    root = live_root(session)
    assert metrics(find(root, "kernel")) == timed(80, 800)
    assert gpu.events == 2 * 9
    assert not root["marey"]["losses"]["metrics_unfetched"]


def test_launches_beyond_the_pairs_are_counted() -> None:
    gpu = FakeGpu()
    session = marey.start("x", hook=EventTimer(gpu, max_pairs=8))
    for _ in range(11):
        launch(gpu, "kernel", 10)
    root = live_root(session)
    assert metrics(find(root, "kernel")) == timed(8, 80)
    assert root["marey"]["losses"]["metrics_unfetched"] == 3
    assert gpu.events == 2 * 9


def test_events_are_recorded_on_the_stream_of_the_launch() -> None:
    gpu = FakeGpu()
    marey.start("x", hook=EventTimer(gpu))
    launch(gpu, "kernel", 10, stream=0x70)
    assert [event.stream for event in gpu.ahead] == ["stream 112"] * 2
    marey.finalize()


def test_launches_of_a_graph_are_not_timed() -> None:
    gpu = FakeGpu()
    gpu.captured.add("stream 7")
    session = marey.start("x", hook=EventTimer(gpu))
    launch(gpu, "captured", 10, stream=7)
    launch(gpu, "eager", 10)
    root = live_root(session)
    assert gpu.events == 2
    assert (metrics(find(root, "captured")), metrics(find(root, "eager"))) == ({}, timed(1, 10))


def test_launches_are_not_timed_without_a_recording_session() -> None:
    gpu = FakeGpu()
    timer = EventTimer(gpu)
    session = marey.start("x", hook=timer)
    marey.hooks.HookManager.register(timer, -1)
    marey.deactivate(session)
    launch(gpu, "kernel", 10)
    marey.hooks.HookManager.unregister(-1)
    assert gpu.events == 0


def fail_before_exit(gpu: FakeGpu) -> None:
    metadata = compiler.LazyDict({"name": "failing", "function": 1, "stream": 2})
    knobs.runtime.launch_enter_hook(metadata)


def break_gpu(gpu: FakeGpu) -> None:
    gpu.is_broken = True
    launch(gpu, "failing", 10)
    gpu.is_broken = False


@pytest.mark.parametrize("fail", [fail_before_exit, break_gpu])
def test_a_launch_that_fails_leaves_its_operator(fail: Callable[[FakeGpu], None]) -> None:
    gpu = FakeGpu()
    session = marey.start("x", hook=EventTimer(gpu))
    fail(gpu)
    launch(gpu, "kernel", 10)
    root = live_root(session)
    assert counts(root) == {"failing": 1, "kernel": 1}
    assert (metrics(find(root, "failing")), metrics(find(root, "kernel"))) == ({}, timed(1, 10))


HANGING_GPU = """
import threading
import marey
from marey._gpu_times import HostClock, PendingTimes
from marey.triton.events import EventTimer
from triton import knobs
from triton.compiler import LazyDict
from triton_gpu import FakeEvent, FakeGpu

class HangingEvent(FakeEvent):
    def synchronize(self):
        threading.Event().wait()

class HangingGpu(FakeGpu):
    def event(self, *, is_timed):
        return HangingEvent(self)

class HangingClock(HostClock):
    def is_passed(self, stamp):
        return False

    def wait(self, stamp):
        threading.Event().wait()

marey.start("profile", hook=EventTimer(HangingGpu()))
metadata = LazyDict({"name": "kernel", "function": 1, "stream": 2})
knobs.runtime.launch_enter_hook(metadata)
knobs.runtime.launch_exit_hook(metadata)
times = PendingTimes(HangingClock(), print)
times.add("never", 0, 1)
times.add("never either", 0, 1)
"""


def test_a_process_exits_although_its_gpu_hangs() -> None:
    run_well(HANGING_GPU, PYTHONPATH=str(SUPPORT))
    root = tree("profile.hatchet")
    assert counts(root) == {"kernel": 1}
    assert root["marey"]["losses"]["metrics_unfetched"] == 3


def test_streams_of_torch_are_those_of_the_driver() -> None:
    # For PyTorch's constructor 0 is no stream, so the default one must come from elsewhere.
    cuda = SimpleNamespace(
        current_stream=lambda: SimpleNamespace(cuda_stream=7),
        default_stream=lambda: SimpleNamespace(cuda_stream=0),
        ExternalStream=lambda pointer: SimpleNamespace(cuda_stream=pointer, is_external=True),
    )
    gpu = TorchGpu(SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None)))
    assert gpu.device_type == "CUDA"
    streams = [gpu.launch_stream(pointer) for pointer in (7, 0, 8)]
    assert [stream.cuda_stream for stream in streams] == [7, 0, 8]
    assert [hasattr(stream, "is_external") for stream in streams] == [False, False, True]
