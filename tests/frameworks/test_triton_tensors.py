"""Launch metrics that are tensors, on a fake GPU whose work ends when the test says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import marey
import pytest
from marey.triton.launch import LaunchHook
from marey.triton.tensors import MAX_WAITING_BYTES, TensorMetrics
from profiles import find, live_root, losses, metrics, tree
from triton_gpu import FakeGpu, FakeTensor

knobs = pytest.importorskip("triton.knobs")
compiler = pytest.importorskip("triton.compiler")


@pytest.fixture
def gpu() -> Iterator[FakeGpu]:
    hook, gpu = LaunchHook(), FakeGpu()
    before, hook.tensors = hook.tensors, TensorMetrics(gpu)
    yield gpu
    gpu.advance()
    hook.tensors = before


def launch(name: str, **values: Any) -> None:
    """Does what Triton does for a launch."""
    metadata = compiler.LazyDict({"name": name, "function": 1, "stream": 2})
    metadata.add(lambda: values, ())
    knobs.runtime.launch_enter_hook(metadata)
    knobs.runtime.launch_exit_hook(metadata)


def test_a_gpu_tensor_is_added_when_it_has_arrived(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    with marey.scope("outer"):
        launch("kernel", flops8=FakeTensor(3, gpu), bytes=FakeTensor(4.0, gpu), tokens=1)
        launch("kernel", flops8=FakeTensor(5, gpu))
    gpu.advance()
    with marey.scope("elsewhere"):
        launch("other")
    assert gpu.waits == 0
    # Nothing is left to wait for.
    queries = gpu.queries
    launch("other")
    assert gpu.queries == queries
    root = live_root(session)
    found = metrics(find(root, "outer/kernel"))
    assert found == {"flops8": 8.0, "bytes": 4, "tokens": 1}
    assert [type(found[key]) for key in ("flops8", "bytes")] == [float, int]
    assert metrics(find(root, "elsewhere/other")) == {}
    assert losses(root) == {}


def test_a_vector_tensor_is_added(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    launch("kernel", tokens=FakeTensor([1, 2], gpu), bytes=FakeTensor([3.0, 4.0]))
    launch("kernel", tokens=FakeTensor([10, 20], gpu))
    gpu.advance()
    found = metrics(find(live_root(session), "kernel"))
    assert found == {"tokens": [11, 22], "bytes": [3, 4]}


def test_launches_poll_once_and_never_wait(gpu: FakeGpu) -> None:
    marey.start("x", hook="triton")
    for _ in range(100):
        launch("kernel", tokens=FakeTensor(1, gpu))
    assert (gpu.waits, gpu.queries) == (0, 100)


@pytest.mark.parametrize("how", ["finalize", "deactivate", "phase", "get", "msgpack"])
def test_reading_or_ending_a_recording_waits(gpu: FakeGpu, how: str) -> None:
    session = marey.start("x", hook="triton")
    assert session is not None
    launch("kernel", tokens=FakeTensor(7, gpu))
    if how == "finalize":
        marey.finalize(session)
        root = tree("x.hatchet")
    elif how == "get":
        root = live_root(session)
    else:
        if how == "deactivate":
            marey.deactivate(session)
        elif how == "phase":
            assert marey.data.advance_phase(session) == 1
        else:
            assert b"tokens" in (marey.data.get_msgpack(session) or b"")
        assert gpu.waits == 1
        root = live_root(session)
    assert gpu.waits == 1
    assert metrics(find(root, "kernel")) == {"tokens": 7}


def test_a_value_belongs_to_the_phase_and_the_sessions_of_its_launch(gpu: FakeGpu) -> None:
    first = marey.start("x", hook="triton")
    assert first is not None
    launch("kernel", tokens=FakeTensor(1, gpu))
    second = marey.start("y", hook="triton")
    marey.data.advance_phase(first)
    launch("kernel", tokens=FakeTensor(2, gpu))
    gpu.advance()
    phases = [marey.data.get(first, phase) for phase in (0, 1)]
    assert all(phases)
    assert [metrics(find(phase[0], "kernel")) for phase in phases if phase] == [
        {"tokens": 1},
        {"tokens": 2},
    ]
    assert metrics(find(live_root(second), "kernel")) == {"tokens": 2}


def test_a_value_in_a_trace_has_the_time_of_its_launch(gpu: FakeGpu) -> None:
    marey.start("x", data="trace", hook="triton")
    launch("kernel", tokens=FakeTensor(1, gpu))
    with marey.scope("later"):
        gpu.advance()
        launch("other")
    marey.finalize()
    events = tree_of_trace("x.chrome_trace")
    [kernel] = [event for event in events if event["name"] == "kernel"]
    [value] = [event for event in events if "tokens" in event["name"]]
    assert value["args"]["call_stack"][-1] == "kernel"
    assert kernel["ts"] <= value["ts"] <= kernel["ts"] + kernel["dur"]


def tree_of_trace(path: str) -> list[dict[str, Any]]:
    import json

    with open(path) as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return events


def test_values_beyond_the_limit_are_counted(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    half = [1] * (MAX_WAITING_BYTES // 16)
    launch("first", tokens=FakeTensor(half, gpu))
    launch("second", tokens=FakeTensor(half, gpu))
    launch("lost", tokens=FakeTensor(1, gpu))
    gpu.advance()
    launch("third", tokens=FakeTensor(half, gpu))
    assert gpu.waits == 0
    root = live_root(session)
    assert losses(root) == {"metrics_unfetched": 1}
    has_tokens = [bool(metrics(find(root, name))) for name in ("first", "second", "lost", "third")]
    assert has_tokens == [True, True, False, True]


def test_values_of_a_failed_gpu_are_counted_as_lost(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    launch("kernel", tokens=FakeTensor(1, gpu))
    gpu.is_broken = True
    launch("kernel", tokens=FakeTensor(1, gpu))
    root = live_root(session)
    assert metrics(find(root, "kernel")) == {}
    assert losses(root)["metrics_unfetched"] == 2


def test_tensors_during_a_capture_are_skipped_with_one_warning(
    gpu: FakeGpu, recwarn: pytest.WarningsRecorder
) -> None:
    session = marey.start("x", hook="triton")
    gpu.captured.add("current of 0")
    launch("kernel", tokens=FakeTensor(1, gpu), flops=2)
    launch("kernel", tokens=FakeTensor(1, gpu))
    [warning] = recwarn
    assert "'tokens' is a tensor on a GPU whose stream is being captured" in str(warning.message)
    assert warning.filename == __file__
    assert not gpu.pending_copies
    assert metrics(find(live_root(session), "kernel")) == {"flops": 2.0}


def test_tensors_on_other_devices_are_skipped(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    with pytest.warns(UserWarning, match="left out: 'tokens': a tensor on a .*xpu.* device"):
        launch("kernel", tokens=FakeTensor(1, gpu, kind="xpu"))
    assert metrics(find(live_root(session), "kernel")) == {}


def test_a_metric_that_changes_its_type_fails_no_launch(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    launch("kernel", tokens=1)
    with pytest.warns(UserWarning, match="a launch's metric was left out"):
        launch("kernel", tokens=1.5, flops=2)
    launch("kernel", tokens=1)
    root = live_root(session)
    assert metrics(find(root, "kernel")) == {"tokens": 2, "flops": 2.0}
    assert find(root, "kernel")["metrics"]["wall_count"] == 3


def test_a_value_that_is_no_metric_fails_no_launch(
    gpu: FakeGpu, recwarn: pytest.WarningsRecorder
) -> None:
    session = marey.start("x", hook="triton")
    nan = float("nan")
    launch("kernel", bytes=nan, flops=1)
    launch("kernel", bytes=FakeTensor(nan), flops=2)
    launch("kernel", bytes=FakeTensor(nan, gpu), flops=3)
    gpu.advance()
    launch("kernel", complex=1j, flops=4)
    told = {str(warning.message) for warning in recwarn}
    assert told == {"a launch's metric was left out: 'bytes': cannot convert float NaN to integer"}
    root = live_root(session)
    assert metrics(find(root, "kernel")) == {"flops": 10.0}


def test_pending_values_at_a_fork_stay_with_the_parent(gpu: FakeGpu) -> None:
    session = marey.start("x", hook="triton")
    launch("kernel", tokens=FakeTensor(1, gpu))
    child = os.fork()
    if child == 0:
        LaunchHook().tensors.settle()
        os._exit(gpu.waits)
    assert os.waitpid(child, 0)[1] == 0
    assert metrics(find(live_root(session), "kernel")) == {"tokens": 1}


def test_a_tensor_of_torch_on_the_host_is_read_at_once() -> None:
    torch = pytest.importorskip("torch")
    session = marey.start("x", hook="triton")
    launch("kernel", flops=torch.tensor(3), bytes=torch.tensor([1.0, 2.0]))
    launch("kernel", flops=torch.tensor([[4.5]]), seen=torch.tensor(True))
    found = metrics(find(live_root(session), "kernel"))
    assert found == {"flops": 7.5, "bytes": [1, 2], "seen": 1}
