"""Failures and losses: the program continues, and the profile reports what is missing."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from gpu_programs import gpu_note, losses, read_kernels, record, run, try_run
from profiles import counts, tree


class Refusal(NamedTuple):
    """A failing call and the message about it."""

    script: str
    code: int | None
    step: str
    hint: str


REFUSALS = {
    "held by another tool": Refusal("fail cuptiSubscribe 39", 39, "`cuptiSubscribe`", "other tool"),
    "no driver, 12.9": Refusal("fail cupti* 15", 15, "`cuptiGetVersion`", "MAREY_CUPTI_LIB"),
    "no driver, 13.0": Refusal("fail cuptiSubscribe 999", 999, "`cuptiSubscribe`", "newer"),
    "not initialized": Refusal("fail cuptiSubscribe 15", 15, "`cuptiSubscribe`", "newer"),
    "no version": Refusal("fail cuptiGetVersion 999", 999, "`cuptiGetVersion`", "MAREY_CUPTI_LIB"),
    "no privileges": Refusal(
        "fail cuptiActivityEnable 35", 35, "`cuptiActivityEnable`", "NVreg_RestrictProfiling"
    ),
    "no buffers": Refusal(
        "fail cuptiActivityRegisterCallbacks 999",
        999,
        "`cuptiActivityRegisterCallbacks`",
        "MAREY_CUPTI_LIB",
    ),
    "no callbacks": Refusal(
        "fail cuptiEnableCallback 14", 14, "`cuptiEnableCallback`", "other tool"
    ),
    "no clock": Refusal(
        "fail cuptiGetTimestamp 999", 999, "`cuptiGetTimestamp`", "MAREY_CUPTI_LIB"
    ),
    "no device": Refusal("devices 0", 100, "`cuInit`", "CUDA_VISIBLE_DEVICES"),
    "a driver of another version": Refusal("fail cuInit 803", 803, "`cuInit`", "restart"),
    "devices that cannot be counted": Refusal(
        "fail cuDeviceGetCount 999", 999, "`cuDeviceGetCount`", "nvidia-smi"
    ),
    "newer than the driver": Refusal("driver 12080", None, "CUDA 13", "MAREY_CUPTI_LIB"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_failing_call_is_reported_and_the_host_is_recorded(refusal: Refusal) -> None:
    ended = try_run(
        """
        import json
        try:
            marey.start("none", backend="cupti")
        except marey.BackendUnavailable as error:
            print(json.dumps([error.backend, error.step, error.code, error.hint]))
        double.launch("kernel", 1)  # the program uses CUDA
        marey.start("profile")
        with marey.scope("step"):
            double.launch("kernel", 5)
        marey.finalize()
        print(double.stats().callbacks, double.stats().written)
        """,
        refusal.script,
    )
    assert ended.exit_code == 0, ended.stderr
    told, counted = ended.stdout.splitlines()
    backend, step, code, hint = json.loads(told)
    assert (backend, code) == ("cupti", refusal.code)
    assert refusal.step in step
    assert refusal.hint in hint
    assert counted == "0 0", "nothing of CUPTI may stay on"
    assert counts(tree("profile.hatchet")) == {"step": 1}
    assert read_kernels() == {}
    assert gpu_note() == f"host only: {step}; {hint}"
    assert ended.stderr.count("\n") == 1, ended.stderr
    if "no device" not in refusal.script and "devices" not in refusal.script:
        assert step in ended.stderr or "no GPU was found" in ended.stderr
    assert not Path("none.hatchet").exists()


def test_a_library_that_lacks_a_record_kind_still_has_kernels() -> None:
    record(
        "double.run()",
        # Of a trace's kinds the first is the kernels'.
        """
        fail cuptiActivityEnable 1 at 2
        launch kernel duration 3
        copy to-device 64
        """,
        data="trace",
    )
    events = json.loads(Path("profile.chrome_trace").read_text())["traceEvents"]
    assert [event["name"] for event in events if event.get("cat") == "kernel"] == ["kernel"]


def test_a_tool_that_holds_cupti_is_reported_with_a_remedy() -> None:
    """torch.profiler stays subscribed after its session unless `TEARDOWN_CUPTI` is set."""
    run(
        """
        double.play("come")
        double.launch("kernel", 1)
        for _ in range(2):
            try:
                marey.start("none", backend="cupti")
            except marey.BackendUnavailable as error:
                assert error.code == 39
                assert "torch.profiler, once used, keeps CUPTI" in error.hint, error.hint
                assert "TEARDOWN_CUPTI=1" in error.hint, error.hint
            else:
                raise AssertionError("marey took CUPTI from another tool")
        double.play("leave")
        marey.start("profile", backend="cupti")
        double.launch("kernel", 5)
        marey.finalize()
        """,
        """
        part come {
            tool subscribes
        }
        part leave {
            tool leaves
        }
        """,
    )
    assert read_kernels() == {"kernel": (1, 5)}


TORCH = """
    class Event:
        nanos = 0

        def __init__(self, enable_timing):
            pass

        def record(self, stream):
            Event.nanos += 1500
            self.nanos = Event.nanos

        def query(self):
            return True

        synchronize = query

        def elapsed_time(self, end):
            return (end.nanos - self.nanos) / 1e6

    class cuda:
        Event = Event

        class Stream:
            cuda_stream = 7

        current_stream = staticmethod(lambda device=None, stream=Stream(): stream)
        is_current_stream_capturing = staticmethod(lambda: False)
        current_device = staticmethod(lambda: 0)

    class version:
        hip = None
"""


TRITON = """
import sys, textwrap, types
from triton import knobs
from triton.compiler import LazyDict
import marey.hooks

sys.modules["torch"] = torch = types.ModuleType("torch")
exec(textwrap.dedent({torch!r}), vars(torch))
{before}
marey.start("profile", hook={hook})
{after}
with marey.scope("step"):
    for _ in range(3):
        metadata = LazyDict({{"name": "matmul", "function": 1, "stream": 7}})
        knobs.runtime.launch_enter_hook(metadata)
        double.launch("kernel", 5)
        knobs.runtime.launch_exit_hook(metadata)
marey.finalize()
"""

START = "assert cuda.cuInit(0) == 0"


@pytest.mark.parametrize("code", [39, 14])
@pytest.mark.parametrize("hook", ['"triton"', "marey.hooks.LaunchHook()"])
@pytest.mark.parametrize(("before", "after"), [(START, ""), ("", START)])
@pytest.mark.parametrize("injection", [None, "/nowhere/tool.so"])
def test_triton_launches_are_timed_by_events_if_cupti_is_held(
    hook: str, code: int, before: str, after: str, injection: str | None
) -> None:
    """Also if that turns out when the program first uses CUDA, without a notification."""
    pytest.importorskip("triton")
    ended = try_run(
        TRITON.format(torch=TORCH, hook=hook, before=before, after=after),
        f"fail cuptiSubscribe {code}",
        **({} if injection is None else {"CUDA_INJECTION64_PATH": injection}),
    )
    assert ended.exit_code == 0, ended.stderr
    assert read_kernels() == {"step/matmul": (3, 4500)}
    assert gpu_note().startswith("Triton launches by events: `cuptiSubscribe`")
    assert f"returned {code}" in gpu_note()
    (line,) = ended.stderr.splitlines()
    assert line.startswith("marey: Triton launches were timed by events: `cuptiSubscribe`")
    assert "end the other tool's session" in line


def test_events_of_a_paused_session_belong_to_it() -> None:
    """A resumed session uses the same timing hook."""
    pytest.importorskip("triton")
    again = """
        from marey.hooks import HookManager
        (timer,) = [hook for hook in HookManager.registered() if hasattr(hook, "is_timing")]
        before = timer._timer
        marey.deactivate()
        marey.activate()
        assert timer._timer is before is not None
        """
    source = TRITON.format(torch=TORCH, hook='"triton"', before=START, after=textwrap.dedent(again))
    ended = try_run(source, "fail cuptiSubscribe 39")
    assert ended.exit_code == 0, ended.stderr
    assert read_kernels() == {"step/matmul": (3, 4500)}


def test_triton_kernels_are_recorded_without_the_injection() -> None:
    pytest.importorskip("triton")
    source = TRITON.format(torch=TORCH, hook='"triton"', before="", after=START)
    ended = try_run(source, CUDA_INJECTION64_PATH="/nowhere/tool.so")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert read_kernels() == {"step/matmul": (3, 15)}
    assert gpu_note().startswith("CUPTI ")


def test_a_missing_injection_is_explained_at_the_end() -> None:
    ended = try_run(
        """
        marey.start("profile")
        assert cuda.cuInit(0) == 0
        double.launch("kernel", 5)
        marey.finalize()
        """,
        CUDA_INJECTION64_PATH="/nowhere/tool.so",
    )
    assert ended.exit_code == 0, ended.stderr
    why = (
        "CUDA_INJECTION64_PATH names another tool (/nowhere/tool.so), so marey is not "
        "notified of its start: start the session after the first use of CUDA"
    )
    assert ended.stderr == f"marey: the GPU was not recorded: {why}\n"
    assert gpu_note() == f"the program had not used CUDA; {why}"


# Losses


def test_records_dropped_by_cupti_are_counted() -> None:
    record("double.run()", "drop 3\nrepeat 10 {\nlaunch kernel duration 3\n}")
    assert read_kernels() == {"kernel": (7, 21)}
    assert losses() == {"device_records_dropped": 3}


def test_an_unfinished_kernel_is_a_loss_and_not_summed() -> None:
    record("double.run()", "launch ended duration 3\nlaunch running duration 9 unfinished")
    assert read_kernels() == {"ended": (1, 3)}
    assert losses() == {"device_records_dropped": 1}


@pytest.mark.parametrize("delivery", ["inline", "worker"])
@pytest.mark.parametrize("version", [26, 130_001])
def test_buffers_are_bounded_and_every_loss_is_counted(delivery: str, version: int) -> None:
    """The older version does not accept NULL for a buffer."""
    record(
        """
        for _ in range(30):
            double.launch("kernel", 3, times=20_000)
        """,
        f"version {version}\ndelivery {delivery}",
        MAREY_GPU_BUFFER_BYTES=str(8 << 20),
    )
    ((count, nanos),) = read_kernels().values()
    assert nanos == 3 * count
    lost = losses()
    missing = lost.get("device_records_dropped", 0) + lost.get("unmatched_activities", 0)
    assert count + missing == 600_000


def test_launches_beyond_a_threads_log_are_counted() -> None:
    record(
        """
        with marey.scope("step"):
            double.launch("kernel", 3, times=200_000)
        """,
        MAREY_LAUNCH_BUFFER_BYTES="4096",
    )
    count, nanos = read_kernels()["step/kernel"]
    assert nanos == 3 * count
    lost = losses()
    assert count + lost["unmatched_activities"] == 200_000
    assert lost["launch_buffer_full"] == lost["unmatched_activities"]
