"""Programs that launch on the double, for both Proton and marey.

A child process calls `record`, which plays all cases under one profiler. Each case writes
`<delivery>/<version>/<case>.hatchet` in the working directory.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from replay import Double

Profiler = Any
"""`triton.profiler` or `marey`."""


class Case(NamedTuple):
    script: str
    play: Callable[[Profiler, Double], None]


CASES: dict[str, Case] = {}


def case(script: str = "") -> Callable[[Callable[[Profiler, Double], None]], None]:
    """Registers a program with its script. It runs while a session of its name records."""

    def add(play: Callable[[Profiler, Double], None]) -> None:
        CASES[play.__name__] = Case(script, play)

    return add


@case()
def scopes(profiler: Profiler, double: Double) -> None:
    double.launch("at the root", 5, times=3)
    for _ in range(2):
        with profiler.scope("outer"):
            double.launch("gemm", 700)
            with profiler.scope("inner"):
                double.launch("gemm", 70, times=2)
                double.launch("reduce", 11)
            double.launch("gemm", 7)
    with profiler.scope("inner"):
        double.launch("gemm", 1)


@case()
def states(profiler: Profiler, double: Double) -> None:
    with profiler.state("warmup"):
        double.launch("kernel", 2)
    with profiler.scope("step"):
        double.launch("kernel", 3)
        with profiler.state("metadata"):
            double.launch("kernel", 5)
            with profiler.scope("below"):
                double.launch("kernel", 7)


@case()
def values(profiler: Profiler, double: Double) -> None:
    for _ in range(3):
        with profiler.scope("step", {"flops": 10.0, "bytes": 4, "rank (pty)": 1}):
            double.launch("kernel", 3)
            with profiler.scope("measured only", {"loss": 0.5}):
                pass


@case()
def threads(profiler: Profiler, double: Double) -> None:
    def work(name: str, nanos: int) -> None:
        with profiler.scope(name):
            double.launch("kernel", nanos, times=500)

    workers = [threading.Thread(target=work, args=(f"thread {n}", n)) for n in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


@case(
    """
    api runtime
    order shuffled 64 42
    repeat 300 {
        launch first duration 3 stream 7
        copy to-device 64 duration 90 stream 13
        launch second duration 5 stream 13
        set 64 duration 9
        synchronize stream stream 13
    }
    """
)
def out_of_order(profiler: Profiler, double: Double) -> None:
    with profiler.scope("one"):
        double.run()
    with profiler.scope("two"):
        double.run()


@case(
    """
    part wide {
        correlation 4294967290
        repeat 5 {
            launch kernel duration 3
        }
    }
    part narrow {
        launch kernel duration 3 correlation 900000
        repeat 50 {
            launch kernel duration 7
        }
        launch kernel duration 5 correlation 2000
    }
    """
)
def jumping_numbers(profiler: Profiler, double: Double) -> None:
    for name in ("narrow", "wide"):
        with profiler.scope(name):
            double.play(name)


@case(
    """
    launch heard duration 3
    launch "of nobody" duration 1000 uncalled 77000
    launch "without a record" duration 10 unrecorded
    """
)
def without_a_call(profiler: Profiler, double: Double) -> None:
    with profiler.scope("step"):
        double.run()


@case("launch finished duration 3\nlaunch running duration 9 unfinished")
def unfinished(profiler: Profiler, double: Double) -> None:
    with profiler.scope("step"):
        double.run()


@case(
    """
    drop 3
    repeat 10 {
        launch kernel duration 3
    }
    """
)
def dropped(profiler: Profiler, double: Double) -> None:
    with profiler.scope("step"):
        double.run()


@case(
    """
    device "NVIDIA H200" arch 90 sms 132 clock 1980000 memory-clock 3201000 bus 6144
    device "NVIDIA B200" arch 100 sms 148 clock 1965000 memory-clock 3996000 bus 8192
    launch on-first duration 3
    launch on-second duration 5 device 1
    """
)
def two_devices(profiler: Profiler, double: Double) -> None:
    with profiler.scope("step"):
        double.run()


@case(
    """
    devices 2
    launch kernel duration 3
    launch kernel duration 5 device 1
    """
)
def one_kernel_on_two_devices(profiler: Profiler, double: Double) -> None:
    with profiler.scope("step"):
        double.run()


@case(
    """
    part forward {
        capture step {
            launch embed duration 100
            copy on-device 64 duration 9
            launch attend duration 10
        }
        instantiate step
    }
    part replay {
        graph step
    }
    """
)
def graph(profiler: Profiler, double: Double) -> None:
    with profiler.scope("capture"), profiler.scope("forward"):
        double.play("forward")
    for name in ("one", "two"):
        with profiler.scope(name):
            double.play("replay")
            double.launch("eager", 1)
    double.play("replay")


@case(
    """
    part capture {
        capture first {
            launch one duration 100
        }
        capture second {
            launch two duration 10
            launch two duration 10
        }
    }
    part replay {
        graph first
        graph second
        graph first
    }
    """
)
def two_graphs(profiler: Profiler, double: Double) -> None:
    double.play("capture")
    with profiler.scope("replayed"):
        double.play("replay")


@case("part step {\nlaunch kernel duration 3\n}")
def inactive(profiler: Profiler, double: Double) -> None:
    with profiler.scope("step"):
        double.play("step")
        profiler.deactivate()
        double.play("step")
        profiler.activate()
        double.play("step")


DELIVERIES = ["inline", "worker"]
VERSIONS = [26, 28, 130_001, 130_500]


def record(profiler: Profiler) -> None:
    """Plays every case under this profiler, each in its own process with a new double.

    A case that crashes the profiler writes no file.
    """
    for delivery, version in product(DELIVERIES, VERSIONS):
        folder = Path(delivery, str(version))
        folder.mkdir(parents=True)
        settings = f"version {version}\ndelivery {delivery}\n"
        children = [play_apart(profiler, folder / name, settings) for name in CASES]
        for child in children:
            os.waitpid(child, 0)


def play_apart(profiler: Profiler, path: Path, settings: str) -> int:
    """Starts a process that plays the case in the path's name; returns its pid."""
    child = os.fork()
    if child != 0:
        return child
    try:
        script, play = CASES[path.name]
        path.with_suffix(".script").write_text(settings + script)
        os.environ["MAREY_REPLAY"] = str(path.with_suffix(".script"))
        double = Double()
        session = profiler.start(str(path), backend="cupti")
        play(profiler, double)
        profiler.finalize(session)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
