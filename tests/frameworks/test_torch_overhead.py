"""The measurement of what recording costs, and the limit for this cost."""

from __future__ import annotations

import importlib
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import marey
import marey.torch
import pytest
from marey import _torch_hooks, _torch_overhead, _torch_patches
from marey._torch_overhead import BASELINE_STEPS, FIRST_RECORDED_STEPS, MIN_BLOCKS, Cost, is_above
from programs import marey_command, run_command, run_marey
from trace_files import traced

torch = pytest.importorskip("torch")
# `torch.optim` has no attribute for this submodule.
optimizers = importlib.import_module("torch.optim.optimizer")

CYCLE_STEPS = FIRST_RECORDED_STEPS + BASELINE_STEPS

PROGRAM = """
import torch

torch.manual_seed(0)

class Many(torch.nn.Module):
    def forward(self, x):
        for _ in range(100):
            x = x + 1.0
        return x

net = torch.nn.Sequential(Many(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
for _ in range({steps}):
    optimizer.zero_grad()
    net(torch.ones(4)).sum().backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def no_hooks_around() -> Iterator[None]:
    if (calls := _torch_hooks._module_calls) is not None:
        # Earlier tests of this process may have used up the removals of the method.
        calls._removals_left = _torch_patches._MAX_REMOVALS
        calls._remove()
    yield
    marey.torch.disable()


@pytest.fixture
def train() -> Callable[[int], None]:
    """Returns a function that trains a model with many operators for a number of steps."""
    scope: dict[str, Any] = {}
    exec(PROGRAM.format(steps=1), scope)  # the function shares the model of this program
    net, optimizer, x = scope["net"], scope["optimizer"], torch.ones(4)

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()

    return run


def meter() -> _torch_overhead.Meter:
    assert _torch_hooks._meter is not None
    return _torch_hooks._meter


def overhead(path: str) -> dict[str, Any]:
    table = marey.open(path).sql("SELECT * FROM recording_overhead")
    (row,) = table.rows()
    return dict(zip(table.columns, row, strict=True))


def test_blocks_without_recording_give_the_cost_of_recording(train: Callable[[int], None]) -> None:
    steps = (MIN_BLOCKS + 1) * CYCLE_STEPS
    with traced("measured"):
        marey.torch.enable(operators=True, measure_overhead=True)
        train(steps)
    found = overhead("measured.marey")
    assert found["block_count"] >= MIN_BLOCKS
    assert found["low_percent"] < found["percent"] < found["high_percent"]
    assert found["statement"].startswith(f"{found['percent']:.1f} % (95 % interval ")
    assert f"{found['block_count']} blocks of {BASELINE_STEPS} steps" in found["statement"]
    assert found["detail"] == "shapes, operators, modules, steps"
    assert found["step_count"] == steps
    assert found["unrecorded_steps"] == BASELINE_STEPS * MIN_BLOCKS
    # No recorded step contains unrecorded ones.
    run = marey.open("measured.marey")
    assert run.sql("SELECT count(*) FROM steps").rows() == [(steps - found["unrecorded_steps"],)]
    most = run.sql(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM steps AS s JOIN spans AS o "
        "ON o.name = 'Sequential' AND o.start_nanos BETWEEN s.start_nanos "
        "AND s.start_nanos + s.duration_nanos GROUP BY s.number)"
    )
    assert most.rows() == [(1,)]


def test_a_baseline_has_no_hook_but_the_one_that_ends_steps(train: Callable[[int], None]) -> None:
    modules = torch.nn.modules.module
    backward, call = torch.autograd.backward, torch.nn.Module.__call__
    fetch = torch.utils.data._utils.fetch._MapDatasetFetcher.fetch
    session = marey.start("baseline")
    marey.torch.enable(operators=True, measure_overhead=True)
    train(FIRST_RECORDED_STEPS)
    assert meter().is_baseline
    assert marey._native.active_sessions() == []
    assert not modules._has_any_global_hook()
    assert not optimizers._global_optimizer_pre_hooks
    assert len(optimizers._global_optimizer_post_hooks) == 1
    assert torch.autograd.backward is backward
    assert torch.nn.Module.__call__ is call
    assert torch.utils.data._utils.fetch._MapDatasetFetcher.fetch is fetch
    train(BASELINE_STEPS)
    assert not meter().is_baseline
    assert marey._native.active_sessions() == [session]
    assert torch.nn.Module.__call__ is not call
    assert torch.autograd.backward is not backward


def test_too_few_blocks_give_no_figure(train: Callable[[int], None]) -> None:
    with traced("few"):
        marey.torch.enable(measure_overhead=True)
        train(2 * CYCLE_STEPS)
    found = overhead("few.marey")
    assert found["statement"] == (
        f"unknown: 1 block of {BASELINE_STEPS} steps without marey, "
        f"at least {MIN_BLOCKS} are needed"
    )
    assert (found["percent"], found["low_percent"], found["high_percent"]) == (None, None, None)


def test_a_run_without_a_measurement_says_so(train: Callable[[int], None]) -> None:
    with traced("plain"):
        marey.torch.enable()
        train(2)
    found = overhead("plain.marey")
    assert found["statement"] == "unknown: not measured; --overhead measures it"
    assert found["unrecorded_steps"] == 0


def test_a_target_drops_the_detail_that_costs_too_much(
    train: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The time in which other programs use the processor is none of a step.
    clock = SimpleNamespace(perf_counter_ns=time.thread_time_ns)
    monkeypatch.setattr(_torch_overhead, "time", clock)
    with traced("target"):
        # A hundred operators are nearly all of the step: recording them cannot be this cheap.
        marey.torch.enable(operators=True, shapes="off", overhead_target="0.01%")
        # The second or third look at the cost may be the first to be certain.
        for blocks in (MIN_BLOCKS + 1, MIN_BLOCKS, 2 * MIN_BLOCKS):
            if _torch_hooks._records_operators:
                train(blocks * CYCLE_STEPS)
        assert not _torch_hooks._records_operators
        train(CYCLE_STEPS)
    found = overhead("target.marey")
    assert found["target_percent"] == 0.01
    assert found["backoff"].startswith("operators off after ")
    assert "is above the target of 0.01 %" in found["backoff"]
    assert "operators" not in found["detail"]
    # The last step has its scopes and no operators.
    names = marey.open("target.marey").sql(
        "SELECT DISTINCT kind(o.context_id) FROM spans AS o, "
        "(SELECT max(start_nanos) AS t FROM steps) AS last WHERE o.start_nanos >= last.t"
    )
    assert "operator" not in {kind for (kind,) in names.rows()}


def test_each_detail_is_dropped_in_turn(train: Callable[[int], None]) -> None:
    with marey.profile("ladder"):
        marey.torch.enable(operators=True, memory=True)
        modules = torch.nn.modules.module
        details = ["shapes", "operators", "memory", "modules", "steps"]
        while details != ["steps"]:
            assert _torch_hooks.recorded_details() == details
            assert _torch_hooks.drop_detail() == details.pop(0)
            train(1)  # at its end the settings are followed, which have to say the same
        assert _torch_hooks.recorded_details() == details
        assert not modules._global_forward_hooks
        assert _torch_hooks.drop_detail() is None
        marey.torch.disable()
        marey.torch.enable()
        assert _torch_hooks.recorded_details() == ["modules", "steps"]


def test_a_program_that_stops_training_in_a_baseline_is_recorded_again(
    train: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_torch_overhead, "MIN_LATE_S", 0.01)
    monkeypatch.setattr(_torch_overhead, "LATE_FACTOR", 1)
    session = marey.start("stops")
    marey.torch.enable(measure_overhead=True)
    train(FIRST_RECORDED_STEPS)
    timer = meter()._timer
    assert timer is not None
    timer.join()
    assert not meter().is_baseline
    assert marey._native.active_sessions() == [session]


def test_a_child_that_is_forked_in_a_baseline_records(train: Callable[[int], None]) -> None:
    marey.start("forked")
    marey.torch.enable(measure_overhead=True)
    train(FIRST_RECORDED_STEPS)
    assert meter().is_baseline
    child = os.fork()
    if child == 0:
        os._exit(0 if marey._native.is_active() and not meter().is_baseline else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert meter().is_baseline


def test_disable_ends_a_baseline(train: Callable[[int], None]) -> None:
    session = marey.start("disabled")
    marey.torch.enable(measure_overhead=True)
    train(FIRST_RECORDED_STEPS)
    assert marey._native.active_sessions() == []
    marey.torch.disable()
    assert marey._native.active_sessions() == [session]
    assert not optimizers._global_optimizer_post_hooks


def test_steps_of_several_optimizers_are_those_of_the_first(train: Callable[[int], None]) -> None:
    second = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    marey.start("two")
    marey.torch.enable(measure_overhead=True)
    for _ in range(FIRST_RECORDED_STEPS):
        train(1)
        second.step()
    assert meter()._total_steps == FIRST_RECORDED_STEPS


def test_the_interval_is_that_of_student_s_t() -> None:
    ratios = [0.010, 0.020, 0.015, 0.030, 0.005, 0.022]
    cost = Cost.estimate(ratios)
    assert cost is not None
    # scipy.stats: t.interval(0.95, 5, mean, sem)
    mean, margin = 0.017, 0.009348
    assert cost.percent == pytest.approx(100 * math.expm1(mean), rel=1e-6)
    assert cost.low_percent == pytest.approx(100 * math.expm1(mean - margin), rel=2e-2)
    assert cost.high_percent == pytest.approx(100 * math.expm1(mean + margin), rel=2e-2)
    assert Cost.estimate(ratios[1:]) is None


def test_a_cost_that_is_the_target_is_seldom_above_it() -> None:
    """However long the program runs: each look at the interval could find it above by chance."""
    chance = random.Random(17)
    programs, blocks, target_percent = 300, 200, 2.0
    wrong = right = 0
    for _ in range(programs):
        noise = [chance.gauss(0, 0.03) for _ in range(blocks)]
        looks = range(MIN_BLOCKS, blocks)
        at_target = [math.log1p(0.02) + value for value in noise]
        wrong += any(is_above(target_percent, at_target[:look]) for look in looks)
        far_above = [math.log1p(0.20) + value for value in noise[:MIN_BLOCKS]]
        right += is_above(target_percent, far_above)
    assert wrong <= 0.05 * programs  # 2.5 % or less are expected
    assert right >= 0.95 * programs


def test_a_target_may_be_given_later(train: Callable[[int], None]) -> None:
    with traced("later"):
        marey.torch.enable(measure_overhead=True)
        train(1)
        marey.torch.enable(overhead_target="3%")
        marey.torch.enable(measure_overhead=True)
    assert overhead("later.marey")["target_percent"] == 3.0


@pytest.mark.parametrize("target", ["2", "-1%", "0%", "%", "nan%", "two percent", "inf%"])
def test_a_target_that_is_no_percentage_is_rejected(target: str) -> None:
    with pytest.raises(ValueError, match="must be a percentage such as '2%'"):
        marey.torch.enable(overhead_target=target)
    assert not marey.torch.is_enabled()


def test_the_command_measures_and_reports_the_cost(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    steps = (MIN_BLOCKS + 1) * CYCLE_STEPS
    script.write_text(PROGRAM.format(steps=steps) + "print(net[1].weight.tolist())\n")
    plain = run_command(sys.executable, script)
    arguments = ["--overhead-target", "99999%", "-d", "trace", "-o", "out.marey"]
    done = run_marey("run", *arguments, script)
    assert done.stdout == plain.stdout
    statement = overhead("out.marey")["statement"]
    assert f"marey: recording costs {statement}" in done.stderr
    report = marey_command("analyze", "out.marey")
    assert f"Cost of recording: {statement}" in report.stdout
    assert "What recording costs:" in report.stdout


def test_a_wrong_target_is_an_error_of_the_command(tmp_path: Path) -> None:
    done = marey_command("run", "--overhead-target", "2", "program.py")
    assert done.exit_code == 2
    assert "overhead target '2' must be a percentage such as '2%'" in done.stderr
    Path("pyproject.toml").write_text('[tool.marey]\noverhead_target = "much"\n')
    done = marey_command("run", "program.py")
    assert done.exit_code == 2
    assert "pyproject.toml: tool.marey.overhead_target: overhead target 'much'" in done.stderr
