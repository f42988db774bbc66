"""Runs the workloads of one system: `worker.py SYSTEM`, in a scratch directory.

Each line `WORKLOAD COUNT` on standard input is answered with the nanoseconds of CPU time, of the
whole process, per item. All loops are equal for peer and marey, and both figures include the cost
of the loop.
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[int], None]
"""Runs this many items."""

Workload = Callable[[int], float]
"""Runs this many items; returns nanoseconds per item."""

STACK_FRAMES = 20


def main() -> None:
    workloads = SYSTEMS[sys.argv[1]]()
    for line in sys.stdin:
        name, count = line.split()
        print(workloads[name](int(count)), flush=True)


def time_work(work: Work) -> Workload:
    def measure(count: int) -> float:
        start_nanos = time.process_time_ns()
        work(count)
        return (time.process_time_ns() - start_nanos) / count

    return measure


# --- Proton and marey, whose interfaces are the same ---------------------------------------------


def proton_workloads(context: str | None, data: str = "tree") -> dict[str, Workload]:
    import triton.profiler
    from triton._C.libproton import proton as library
    from triton.profiler.flags import flags

    if context is not None:
        # The part of `start` after it has found a GPU, which is not needed here.
        session = library.start("proton", context, data, "instrumentation", "cuda")
        flags.profiling_on = True
        # Skips the compilation of kernels for metrics on a GPU, which Proton does once.
        scopes = importlib.import_module("triton.profiler.scope")
        vars(scopes)["set_metric_kernels"] = lambda: None
    workloads = scope_workloads(triton.profiler)
    if data == "trace":

        def start() -> int:
            return int(library.start("proton", "shadow", "trace", "instrumentation", "cuda"))

        def finalize(session: int) -> None:
            library.finalize(session, "chrome_trace")

        finalize(session)
        workloads |= trace_workloads(triton.profiler, start, finalize)
    return workloads


def marey_workloads(context: str | None, data: str = "tree") -> dict[str, Workload]:
    import marey

    workloads = scope_workloads(marey)
    if data == "trace":

        def start() -> int:
            session = marey.start("marey", data="trace")
            assert session is not None
            return session

        workloads |= trace_workloads(marey, start, marey.finalize)
    elif context is not None:
        marey.start("marey", context=context)
    return workloads


def trace_workloads(
    profiler: Any, start: Callable[[], int], finalize: Callable[[int], None]
) -> dict[str, Workload]:
    """Measures a scope of a trace session, and the end of the session per scope.

    The session is ended each time, to bound memory.
    """

    def measure(count: int) -> tuple[float, float]:
        session = start()
        start_nanos = time.process_time_ns()
        for _ in range(count):
            with profiler.scope("x"):
                pass
        end_nanos = time.process_time_ns()
        finalize(session)
        return (end_nanos - start_nanos) / count, (time.process_time_ns() - end_nanos) / count

    return {"scope": lambda count: measure(count)[0], "finalize": lambda count: measure(count)[1]}


def scope_workloads(profiler: Any) -> dict[str, Workload]:
    def scope(count: int) -> None:
        for _ in range(count):
            with profiler.scope("x"):
                pass

    def metrics(count: int) -> None:
        for _ in range(count):
            with profiler.scope("x", {"a": 1}):
                pass

    def enter_exit(count: int) -> None:
        for _ in range(count):
            profiler.enter_scope("x")
            profiler.exit_scope()

    def do_nothing() -> None:
        pass

    decorated = profiler.scope("x")(do_nothing)

    def decorator(count: int) -> None:
        for _ in range(count):
            decorated()

    def call_with_scope() -> None:
        with profiler.scope("x"):
            pass

    def scoped_calls(count: int) -> None:
        for _ in range(count):
            call_with_scope()

    return {
        "scope": time_work(scope),
        "metrics": time_work(metrics),
        "enter-exit": time_work(enter_exit),
        "decorator": time_work(decorator),
        "deep-scope": time_work(lambda count: descend(STACK_FRAMES, scope, count)),
        "deep-calls": time_work(lambda count: descend(STACK_FRAMES - 1, scoped_calls, count)),
    }


def descend(frames: int, work: Work, count: int) -> None:
    """Does the work in the frame with that number, counted from the outermost."""
    if stack_frames() + 1 < frames:
        descend(frames, work, count)
    else:
        work(count)


def stack_frames() -> int:
    """Returns the number of frames on the caller's stack, the caller included."""
    frame, frames = sys._getframe(1), 1
    while frame.f_back is not None:
        frame, frames = frame.f_back, frames + 1
    return frames


# --- PyTorch's own profiler ----------------------------------------------------------------------


def torch_workloads() -> dict[str, Workload]:
    import torch
    from torch.profiler import ProfilerActivity

    def record_function(count: int) -> None:
        for _ in range(count):
            with torch.profiler.record_function("x"):
                pass

    run_without_profiler = time_work(record_function)

    def run_with_profiler(count: int) -> float:
        # Starting and stopping the profiler is not timed.
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]):
            return run_without_profiler(count)

    return {"off": run_without_profiler, "on": run_with_profiler}


# --- Imports -------------------------------------------------------------------------------------


def import_workloads() -> dict[str, Workload]:
    # The extension alone, without the package around it.
    native = (
        "import importlib.machinery as m, importlib.util as u;"
        f"l = m.ExtensionFileLoader('marey._native', {native_path()!r});"
        "s = u.spec_from_loader('marey._native', l);"
    )
    return {
        "triton.profiler": fresh_process_workload("import triton.profiler"),
        "marey": fresh_process_workload("import marey"),
        "marey._native": fresh_process_workload("l.exec_module(u.module_from_spec(s))", native),
    }


def native_path() -> str:
    path = importlib.import_module("marey._native").__file__
    assert path is not None
    return path


def fresh_process_workload(statement: str, setup: str = "") -> Workload:
    code = (
        f"import time; {setup} start = time.process_time_ns(); {statement};"
        "print(time.process_time_ns() - start)"
    )

    def measure(count: int) -> float:
        runs = [subprocess.check_output([sys.executable, "-c", code]) for _ in range(count)]
        return sum(map(int, runs)) / count

    return measure


def training_workloads() -> dict[str, Workload]:
    module = importlib.import_module("training")
    return {"plain": module.plain, "hooked": module.hooked, "unrecorded": module.unrecorded}


# --- The profiler for training loops -------------------------------------------------------------


def region_workloads() -> dict[str, Workload]:
    return {"region": measure_region, "region-events": measure_region_with_events}


def measure_region(count: int, *, collect_memory: bool = True) -> float:
    """Measures a region, in a recording that is ended each time to bound memory."""
    from marey.training import ProfilerConfig, TrainingProfiler

    folder = Path("regions")
    config = ProfilerConfig(output_dir=folder, collect_memory=collect_memory)
    with TrainingProfiler(config) as profiler:
        start_nanos = time.process_time_ns()
        for _ in range(count):
            with profiler.profile_region("x"):
                pass
        nanos = time.process_time_ns() - start_nanos
    shutil.rmtree(folder)
    return nanos / count


class Event:
    """A double of `torch.cuda.Event` that the GPU has always passed."""

    def __init__(self, enable_timing: bool) -> None:
        pass

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return 1.0


def measure_region_with_events(count: int) -> float:
    """Measures a region that puts two events into the stream: what marey does, not CUDA."""
    cuda = importlib.import_module("torch").cuda
    doubles = {
        "Event": Event,
        "is_initialized": lambda: True,
        "is_current_stream_capturing": lambda: False,
    }
    with contextlib.ExitStack() as undo:
        for name, double in doubles.items():
            undo.callback(setattr, cuda, name, getattr(cuda, name))
            setattr(cuda, name, double)
        return measure_region(count, collect_memory=False)


SYSTEMS: dict[str, Callable[[], dict[str, Workload]]] = {
    "proton-off": lambda: proton_workloads(None),
    "proton": lambda: proton_workloads("shadow"),
    "proton-python": lambda: proton_workloads("python"),
    "marey-off": lambda: marey_workloads(None),
    "marey": lambda: marey_workloads("shadow"),
    "proton-trace": lambda: proton_workloads("shadow", "trace"),
    "marey-python": lambda: marey_workloads("python"),
    "marey-trace": lambda: marey_workloads("shadow", "trace"),
    "torch": torch_workloads,
    "imports": import_workloads,
    "training": training_workloads,
    "regions": region_workloads,
}

if __name__ == "__main__":
    main()
