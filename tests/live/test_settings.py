"""Each setting of a recording process, changed by `marey config`: its effect in the recording."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest
import replay
from programs import Live, marey_stdout, query, until

# Runs the lines of its input.
PROGRAM = """
import os, select, sys, threading, time
import marey

def scopes(count, name="work"):
    for number in range(count):
        with marey.scope(name.format(number)):
            pass

def drain():
    marey.deactivate(session, flushing=True)
    marey.activate(session)

def on_a_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()

def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def work(text):
    return text  # watched

def work_for(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        work("abcdef")

def steps():
    import torch
    import marey.torch

    marey.torch.enable()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())

    def step(seconds):
        model(torch.ones(1, 2)).sum().backward()
        spin(seconds)
        optimizer.step()

    return step

session = marey.start("run", data=os.environ["DATA"], backend=os.environ.get("BACKEND"))
print(os.getpid(), flush=True)
while True:
    # Runs Python now and then while it waits for a line, as an event loop does.
    while not select.select([0], [], [], 0.01)[0]:
        pass
    exec(sys.stdin.readline())
    print("done", flush=True)
"""
QUIET = {"MAREY_SYSTEM_METRICS_SECS": "0"}


class Process:
    """A process that records, whose settings a test changes."""

    def __init__(self, program: Live) -> None:
        self.program = program
        self.pid = program.read_line()

    def do(self, statement: str) -> None:
        """Runs a statement in the process."""
        self.program.write_line(statement)
        assert self.program.read_line() == "done"

    def set(self, key: str, value: object) -> None:
        marey_stdout("config", self.pid, f"{key}={value}")

    def number(self, sql: str) -> float:
        """Returns the result of a query for one number."""
        (row,) = query(self.pid, f"SELECT coalesce(({sql}), 0) AS number")
        number: float = row["number"]
        return number

    def losses(self) -> dict[str, int]:
        processes = json.loads(marey_stdout("ps", "--json"))
        (own,) = (process for process in processes if str(process["pid"]) == self.pid)
        losses: dict[str, int] = own["losses"]
        return losses


@contextlib.contextmanager
def recording(data: str, **env: str) -> Iterator[Process]:
    with Live(PROGRAM, DATA=data, **{**QUIET, **env}) as program:
        yield Process(program)


def test_effect_of_checkpoint_interval() -> None:
    with recording("tree", MAREY_CHECKPOINT_SECS="1") as process:
        process.set("checkpoint.interval", 0.05)
        times: list[int] = []

        def are_close() -> bool:
            process.do("scopes(1)")
            if Path("run.hatchet").exists():
                time_nanos = Path("run.hatchet").stat().st_mtime_ns
                times.extend({time_nanos}.difference(times))
            return any(after - before < 5e8 for before, after in pairwise(times))

        until(are_close)


def test_effect_of_device_counter_interval() -> None:
    env = replay.nvml_environment({"temperature": 71})
    with recording("trace", MAREY_NVML_PERIOD_MS="1000", **env) as process:
        process.set("device.counter_interval", 10)
        readings = "FROM counters WHERE name = 'gpu_temperature (C)' ORDER BY time_nanos"

        def are_close() -> bool:
            rows = query(process.pid, f"SELECT time_nanos, value {readings}")
            assert {row["value"] for row in rows} <= {71}
            nanos: list[int] = [row["time_nanos"] for row in rows]
            return sum(after - before < 5e8 for before, after in pairwise(nanos)) >= 5

        until(are_close)


def test_effect_of_launch_buffer_bytes() -> None:
    env = replay.environment(Path("double"))
    with recording("tree", BACKEND="cupti", **env) as process:
        process.set("launch.buffer_bytes", 64)
        process.do("from replay import Double; double = Double()")
        process.do("on_a_thread(lambda: double.launch('kernel', 3, times=100_000))")
        until(lambda: process.losses().get("launch_buffer_full", 0) > 0)


def test_effect_of_ring_max_bytes() -> None:
    with recording("ring", MAREY_RING_RECORDS="1000000") as process:
        process.set("ring.max_bytes", 65_536)
        for _ in range(20):
            process.do("scopes(2000); drain()")
        assert sum(path.stat().st_size for path in Path("run.marey/spool").iterdir()) <= 65_536
        assert process.losses()["ring_dropped"] > 0


def test_effect_of_ring_records() -> None:
    with recording("ring") as process:
        process.set("ring.records", 300)
        for _ in range(10):
            process.do("scopes(300); drain()")
        assert process.number("SELECT count(*) FROM spans") == 300


def test_effect_of_ring_seconds() -> None:
    with recording("ring") as process:
        process.do("scopes(1)")
        process.set("ring.seconds", 0.2)
        first = "SELECT count(*) FROM spans WHERE name = 'work'"
        assert process.number(first) == 1

        def is_dropped() -> bool:
            process.do("marey.scope('later').__enter__().__exit__(None, None, None)")
            return process.number(first) == 0

        until(is_dropped)


def test_effect_of_sample_interval() -> None:
    sampled(("sample.interval", 0.005), "interval", "spin(0.05)")


def test_effect_of_sample_scope() -> None:
    sampled(("sample.scope", "load"), "scope", "with marey.scope('load'): spin(0.05)")


def test_effect_of_sample_slow_step() -> None:
    pytest.importorskip("torch")
    with recording("trace") as process:
        process.do("step = steps()")
        process.set("sample.slow_step", 4)
        process.do("for number in range(8): step(0.02)")
        lengths = count(0.5, 0.5)

        def is_sampled() -> bool:
            process.do(f"step({next(lengths)})")  # on a busy machine the others took long too
            return process.number(samples("slow step")) > 0

        until(is_sampled)


def test_effect_of_sample_signal() -> None:
    with recording("trace") as process:
        process.set("sample.signal", "SIGUSR2")
        process.do("spin(0)")
        os.kill(int(process.pid), signal.SIGUSR2)
        until(lambda: process.number(samples("signal")) == 1)


def test_effect_of_spool_max_bytes() -> None:
    with recording("trace") as process:
        process.set("spool.max_bytes", 0)
        process.do("scopes(10)")
        marey_stdout("flush", process.pid)
        assert process.losses()["spool_full"] > 0


def test_effect_of_system_interval() -> None:
    with recording("trace") as process:
        process.set("system.interval", 0.05)
        read = "SELECT count(*) FROM counters WHERE name = 'process_cpu (%)'"
        until(lambda: process.number(read) > 0)


def test_effect_of_torch_memory() -> None:
    pytest.importorskip("torch")
    with recording("trace") as process:
        process.do("step = steps()")
        readings = "SELECT count(*) FROM memory_events"
        process.do("for number in range(2): step(0)")
        assert process.number(readings) == 0
        process.set("torch.memory", "on")
        process.do("for number in range(3): step(0)")
        assert process.number(readings) > 0
        process.set("torch.memory", "off")
        process.do("step(0)")  # they end with it
        found = process.number(readings)
        process.do("for number in range(3): step(0)")
        assert process.number(readings) == found


def test_effect_of_torch_operators() -> None:
    pytest.importorskip("torch")
    with recording("trace") as process:
        process.do("step = steps()")
        process.do("step(0)")
        process.set("torch.operators", "on")
        process.do("for number in range(2): step(0)")
        assert process.number("SELECT count(*) FROM spans WHERE name LIKE 'aten::%'") > 0


def test_effect_of_torch_shapes() -> None:
    pytest.importorskip("torch")
    with recording("trace") as process:
        process.do("step = steps()")
        process.set("torch.shapes", "all")
        process.set("torch.operators", "on")
        process.do("for number in range(3): step(0)")
        shapes = (
            "SELECT count(*) FROM spans WHERE name = 'aten::addmm' "
            "AND arg(args, 'Input Dims') IS NOT NULL"
        )
        assert process.number(shapes) == 2  # the first step ends before they begin
        process.set("torch.shapes", "off")
        process.do("for number in range(3): step(0)")
        assert process.number(shapes) == 3  # they end with the step
        named = "SELECT count(*) FROM spans WHERE name = 'aten::addmm'"
        assert process.number(named) == 5


def test_effect_of_trace_buffer_bytes() -> None:
    with recording("trace") as process:
        process.set("trace.buffer_bytes", 64)
        process.do("on_a_thread(scopes, 100_000)")
        assert process.losses()["trace_buffer_full"] > 0


def test_effect_of_tree_max_nodes() -> None:
    with recording("tree") as process:
        process.set("tree.max_nodes", 5)
        process.do("on_a_thread(scopes, 10, 'work {}')")
        assert process.losses()["nodes"] > 0


def test_effect_of_watch_rate() -> None:
    with recording("trace") as process:
        process.set("watch.rate", 0.001)
        marey_stdout("watch", process.pid, watched())
        process.do("work_for(0.3)")  # three times by default
        (watch,) = json.loads(marey_stdout("watch", process.pid, "--json"))
        assert watch["recorded"] == 1


def test_effect_of_watch_text_length() -> None:
    with recording("trace") as process:
        process.set("watch.text_length", 3)
        marey_stdout("watch", process.pid, watched())
        process.do("work('abcdef')")
        (row,) = query(process.pid, "SELECT value FROM python.variables")
        assert row["value"] == "abc"


def sampled(setting: tuple[str, object], cause: str, statement: str) -> None:
    """Changes a setting and runs a statement until there are samples with a cause."""
    with recording("trace") as process:
        process.set(*setting)

        def is_sampled() -> bool:
            process.do(statement)
            return process.number(samples(cause)) > 0

        until(is_sampled)


def watched() -> str:
    lines = enumerate(Path("program.py").read_text().splitlines(), 1)
    return f"program.py:{next(number for number, text in lines if '# watched' in text)}:text"


def samples(cause: str) -> str:
    return f"SELECT count(*) FROM samples WHERE arg(args, 'cause') = '{cause}'"


def test_each_setting_has_a_test() -> None:
    with recording("tree") as process:
        settings = json.loads(marey_stdout("config", process.pid, "--json"))
    names = {f"test_effect_of_{setting.replace('.', '_')}" for setting in settings}
    assert names == {name for name in globals() if name.startswith("test_effect_of_")}
