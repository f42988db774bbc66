"""Values of variables at a line of a running program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marey as marey_package
import pytest
from interpreters import VERSIONS, require
from programs import Live, marey_stdout, query, run_well

# Trains until a line arrives on stdin.
TRAIN = """
import os, sys, threading, time
import marey

class Model:
    __slots__ = ("width",)

class Trainer:
    depth = 3

    def __init__(self):
        self.rate = 0.5
        self.model = Model()
        self.model.width = 7

    @property
    def secret(self):
        print("code of the program ran", flush=True)

    def __getattr__(self, name):
        print("code of the program ran", flush=True)

def step(number, trainer, losses):
    loss = number / 2
    time.sleep(0.001)
    return loss

def train():
    number, losses = 0, {"last": [1, 2]}
    while not ends.is_set():
        number += 1
        step(number, Trainer(), losses)

ends = threading.Event()
session = marey.start("train", data="trace")
threading.Thread(target=lambda: (sys.stdin.readline(), ends.set())).start()
print(os.getpid(), flush=True)
train()
marey.finalize(session, "marey")
"""
STEP = TRAIN.splitlines().index("    time.sleep(0.001)") + 1


WITH_PACKAGE = {"PYTHONPATH": str(Path(marey_package.__file__).parent.parent)}
"""The environment with which other interpreters find this package."""


def watched(pid: str, *arguments: str) -> list[dict[str, Any]]:
    watches: list[dict[str, Any]] = json.loads(marey_stdout("watch", pid, *arguments, "--json"))
    return watches


def until_recorded(pid: str, count: int = 3) -> list[dict[str, Any]]:
    for _ in range(100):
        watches = watched(pid)
        if all(watch["recorded"] >= count for watch in watches):
            return watches
    raise AssertionError(watches)


@pytest.mark.parametrize("version", VERSIONS)
def test_variables_of_a_running_process_are_watched_listed_and_ended(version: str) -> None:
    spec = f"program.py:{STEP}:loss, number"
    with Live(TRAIN, python=require(version), **WITH_PACKAGE) as program:
        pid = program.read_line()
        assert watched(pid) == []
        (watch,) = watched(pid, spec)
        assert (watch["spec"], watch["function"]) == (spec, "step")
        marey_stdout("config", pid, "watch.rate=200")
        until_recorded(pid)
        listed = marey_stdout("watch", pid).splitlines()
        assert listed[0].split() == ["RECORDED", "SKIPPED", "UNREAD", "WATCH"]
        assert f"{spec} in step (" in listed[1]
        rows = query(
            pid,
            "SELECT func, lineno, name, value, number, value_type, thread FROM python.variables"
            " ORDER BY time_nanos, name",
        )
        loss, number = rows[0], rows[1]
        assert (loss["func"], loss["lineno"], loss["name"]) == ("step", STEP, "loss")
        assert (loss["value_type"], loss["thread"]) == ("float", "MainThread")
        assert (number["name"], number["value_type"]) == ("number", "int")
        assert loss["number"] == number["number"] / 2
        assert number["value"] == str(int(number["number"]))
        assert watched(pid, "--off", spec) == []
        program.write_line()
        assert program.end().exit_code == 0


def test_texts_are_cut_at_the_limit_and_a_process_has_16_watches() -> None:
    source = """
    import marey
    from marey import _names, _native

    def step(text):
        return text  # watched

    _native.set_setting(_names.SETTING_WATCH_TEXT_LENGTH, 7)
    marey.start("program", data="trace")
    watches = [marey.watch(f"program.py:6:text[{number}]") for number in range(15)]
    watches.append(marey.watch("program.py:6:text"))
    try:
        marey.watch("program.py:6:text, step")
    except ValueError as error:
        print(error)
    step("0123456789")
    """
    refusal = "16 watches are active, which is the maximum: end one before\n"
    assert run_well(source) == refusal
    values = "SELECT value FROM python.variables WHERE name = 'text'"
    assert query("program.marey", values) == [{"value": "0123456"}]


def test_what_only_code_of_the_program_can_read_is_counted_and_not_run() -> None:
    names = "trainer.rate, trainer.depth, trainer.model.width, losses['last'][-1], trainer.secret,"
    with Live(TRAIN) as program:
        pid = program.read_line()
        watched(pid, f"program.py:{STEP}:{names} trainer.absent, nothing, losses['no'], trainer")
        (watch,) = until_recorded(pid, 1)
        assert watch["unread"] == 4 * watch["recorded"]
        assert watch["reason"].startswith("losses['no']: ")
        assert "last unread: losses['no']: dict has no key 'no'" in marey_stdout("watch", pid)
        program.write_line()
        done = program.end()
        assert (done.exit_code, done.stdout) == (0, "")
    rows = query("train.marey", "SELECT DISTINCT name, value FROM python.variables")
    assert {row["name"]: row["value"] for row in rows} == {
        "trainer.rate": "0.5",
        "trainer.depth": "3",
        "trainer.model.width": "7",
        "losses['last'][-1]": "2",
        "trainer": "<Trainer>",
    }
    (loss,) = query("train.marey", "SELECT count FROM losses WHERE cause = 'watched_values_unread'")
    assert loss["count"] >= 4


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("absent.py:1:x", "no code of a file `absent.py` is loaded"),
        ("program.py:1:x", "has no code; the nearest that has: 2"),
        (f"program.py:{STEP}:f()", "no code is run"),
        (f"program.py:{STEP}:x[y]", "neither a whole number nor a text"),
        (f"program.py:{STEP}:", "is not FILE:LINE:NAMES"),
        ("program.py", "is not FILE:LINE:NAMES"),
        (f"program.py:{STEP}:a b", "is not a list of names"),
        (f"program.py:{STEP}:" + ", ".join("abcdefghijklmnopq"), "from 1 to 16 variables"),
    ],
)
def test_a_watch_that_cannot_be_is_refused_with_its_reason(spec: str, reason: str) -> None:
    source = TRAIN.replace(
        "train()\nmarey",
        "try:\n    marey.watch(sys.argv[1])\nexcept ValueError as error:\n"
        "    print(error, flush=True)\nmarey",
    )
    with Live(source.replace("sys.argv[1]", repr(spec))) as program:
        program.read_line()
        assert reason in program.read_line()
        program.write_line()
        assert program.end().exit_code == 0


LOOP = """
import sys, threading
import marey

def loop(turns):
    total = 0
    for number in range(turns):
        total += number
    return total

def other(turns):
    total = 0
    for number in range(turns):
        total += number
    return total

session = marey.start("loop", data="trace")
"""
LOOP_LINE = LOOP.splitlines().index("        total += number") + 1


def run_with(version: str, source: str) -> str:
    """Runs a program with an interpreter; returns its output."""
    with Live(source, python=require(version), **WITH_PACKAGE) as program:
        done = program.end()
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_a_line_that_runs_too_often_is_recorded_at_the_rate_and_the_rest_is_counted(
    version: str,
) -> None:
    source = f"""
watch = marey.watch("program.py:{LOOP_LINE}:number")
assert marey.watch("program.py:{LOOP_LINE}:number") is watch
import time
start = time.monotonic()
while (elapsed := time.monotonic() - start) < 0.5:
    loop(10_000)
print(1 < watch.recorded <= elapsed * 10 + 1, watch.skipped > 1000, watch.has_paused)
marey.finalize(session, "marey")
assert marey.watching.watches() == []
"""
    pauses = version not in ("3.10", "3.11")
    assert run_with(version, LOOP + source) == f"True True {pauses}\n"
    counted = "SELECT count FROM losses WHERE cause = 'watched_lines_skipped'"
    (loss,) = query("loop.marey", counted)
    assert loss["count"] > 1000


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_left_in_the_interpreter_after_the_last_watch(version: str) -> None:
    source = f"""
from marey import _names, _native

def state():
    tools = [sys.monitoring.get_tool(n) for n in range(6)] if sys.version_info >= (3, 12) else []
    return tools, sys.gettrace(), threading._trace_hook

_native.set_setting(_names.SETTING_WATCH_RATE, 0.001)  # one record, however slow the machine is
before = state()
watches = [marey.watch("program.py:{LOOP_LINE}:" + name) for name in ("number", "total")]
loop(5000)
watches[0].end()
assert state() != before
loop(3)
watches[1].end()
print(state() == before, watches[1].recorded)
"""
    assert run_with(version, LOOP + source) == "True 1\n"


@pytest.mark.skipif("3.11" not in VERSIONS, reason="needs CPython 3.11")
def test_before_3_12_a_watch_is_refused_where_a_debugger_traces() -> None:
    source = f"""
def debugger(frame, event, argument):
    return None

sys.settrace(debugger)
try:
    marey.watch("program.py:{LOOP_LINE}:number")
except RuntimeError as error:
    print(error)
print(sys.gettrace() is debugger)
"""
    message, is_kept = run_with("3.11", LOOP + source).splitlines()
    assert message.startswith("the program is traced by debugger (/")
    assert is_kept == "True"


@pytest.mark.parametrize("version", [v for v in VERSIONS if v not in ("3.10", "3.11")])
def test_a_watch_leaves_the_events_of_other_tools_as_they_are(version: str) -> None:
    source = f"""
monitoring = sys.monitoring
monitoring.use_tool_id(monitoring.COVERAGE_ID, "coverage")
lines = []
monitoring.register_callback(
    monitoring.COVERAGE_ID, monitoring.events.LINE, lambda code, line: lines.append(line)
)
monitoring.set_local_events(monitoring.COVERAGE_ID, loop.__code__, monitoring.events.LINE)
watch = marey.watch("program.py:{LOOP_LINE}:number")
loop(5000)
watch.end()
loop(5000)
print(lines.count({LOOP_LINE}))
"""
    assert run_with(version, LOOP + source) == "10000\n"


def test_a_watch_needs_a_trace() -> None:
    source = """
marey.finalize(session)
for data in (None, "tree"):
    session = data and marey.start("profile", data=data)
    try:
        marey.watch("program.py:1:x")
    except RuntimeError as error:
        print(error)
"""
    assert run_well(LOOP + source).count("no session records a trace") == 2


def test_a_fork_neither_hangs_nor_warns_and_the_child_goes_on() -> None:
    source = f"""
import os, warnings
warnings.simplefilter("error")
watch = marey.watch("program.py:{LOOP_LINE}:number")
for _ in range(5):
    loop(5000)
    child = os.fork()
    if child == 0:
        before = watch.recorded
        while watch.recorded == before:
            loop(1000)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    version = max(VERSIONS, key=lambda text: int(text.split(".")[1]))
    run_with(version, LOOP + source)


def test_tensors_and_numbers_of_numpy_are_read_without_an_operator() -> None:
    pytest.importorskip("torch")
    source = """
import warnings
import numpy, torch
from torch.overrides import TorchFunctionMode

class Mode(TorchFunctionMode):
    def __torch_function__(self, function, kinds, arguments=(), keywords=None):
        print("code of the program ran")
        return function(*arguments, **(keywords or {}))

def step():
    loss, half = torch.tensor(0.5), torch.tensor(2.5, dtype=torch.bfloat16)
    weight = torch.nn.Parameter(torch.ones(2, 3))
    count, meta = numpy.float64(3.5), torch.ones(4, device="meta")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])  # has no shape
    with Mode():
        ready = True  # watched

warnings.simplefilter("ignore")  # nested tensors are a prototype

session = marey.start("loop", data="trace")
LINE = 1 + open(__file__).read().splitlines().index("        ready = True  # watched")
marey.torch.enable(operators=True)
marey.watch(f"program.py:{LINE}:loss, half, weight, count, meta, nested")
step()
marey.finalize(session, "marey")
"""
    assert run_well("import marey, marey.torch\n" + source) == ""
    rows = query("loop.marey", "SELECT name, value, number, value_type FROM python.variables")
    assert {row["name"]: (row["value_type"], row["number"] or row["value"]) for row in rows} == {
        "loss": ("Tensor", 0.5),
        "half": ("Tensor", 2.5),
        "weight": ("Parameter", "float32[2, 3] cpu"),
        "count": ("float64", 3.5),
        "meta": ("Tensor", "float32[4] meta"),
    }
    (loss,) = query("loop.marey", "SELECT count FROM losses WHERE cause = 'watched_values_unread'")
    assert loss["count"] == 1, "nested"
    item = "SELECT count(*) AS calls FROM spans WHERE name LIKE '%item%'"
    assert query("loop.marey", item) == [{"calls": 0}]
