"""Windows: sections of a recording for which torch.profiler runs too."""

from __future__ import annotations

import itertools
import os
import re
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from marey import _native, _torch_operators
from programs import marey_command, run_marey
from threads import run_in_threads
from torch_programs import PRELUDE
from trace_files import run_rows, traced

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def hooks() -> Iterator[None]:
    """Removes the hooks after a test."""
    yield
    marey.torch.disable()


class Model:
    """A model with a convolution, and its training step."""

    def __init__(self) -> None:
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(256, 2)
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.net(torch.ones(2, 3, 8, 8)).sum().backward()
            self.optimizer.step()


def windows(run: str) -> list[tuple[Any, ...]]:
    return run_rows(run, "SELECT key FROM metadata WHERE key LIKE 'torch_window.%'")


def traced_steps(run: str) -> list[int]:
    """Returns the numbers of the steps in which the profiler ran."""
    found = run_rows(
        run,
        "SELECT DISTINCT s.number FROM steps AS s JOIN traced_operators AS o "
        "ON o.start_nanos BETWEEN s.start_nanos AND s.start_nanos + s.duration_nanos "
        "ORDER BY s.number",
    )
    return [number for (number,) in found]


def losses(run: str) -> dict[str, int]:
    return dict(run_rows(run, "SELECT cause, count FROM losses"))


@pytest.fixture
def model() -> Model:
    return Model()


def test_the_command_line_records_everything_about_the_operators_of_some_steps(
    tmp_path: Path,
) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        PRELUDE
        + """
from torch._C._profiler import _RecordFunctionFast

optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    train(net, optimizer, x)
    with _RecordFunctionFast("triton_add", [x], {"grid": "g", "warps": 4}):
        torch.add(x, x, alpha=2)
print("trained")
"""
    )
    arguments = ["--operators", "--window", "2:3", "-o", "out.marey", str(script)]
    done = run_marey("run", *arguments)
    assert done.stdout == "trained\n"
    assert "USDT" not in done.stderr
    assert "profiler_start" not in done.stderr
    assert traced_steps("out.marey") == [2, 3]
    (linear,) = run_rows(
        "out.marey",
        "SELECT DISTINCT module, input_dims, input_types, input_strides, concrete_inputs, flops, "
        "forward_thread FROM traced_operators WHERE name = 'aten::addmm' AND module = 'head'",
    )
    assert linear == (
        "head",
        "[[1], [2, 4], [4, 1], [], []]",
        '["float", "float", "float", "Scalar", "Scalar"]',
        "[[1], [4, 1], [1, 4], [], []]",
        '["", "", "", "1", "1"]',
        16,
        0,
    )
    ids = run_rows("out.marey", "SELECT record_function_id FROM traced_operators")
    assert len(set(ids)) == len(ids), "each call has a number of its own"
    ((backward, forward),) = run_rows(
        "out.marey",
        "SELECT count(*), count(f.sequence) FROM traced_operators AS b LEFT JOIN "
        "(SELECT DISTINCT sequence FROM traced_operators WHERE name = 'aten::addmm') AS f "
        "ON f.sequence = b.sequence WHERE b.name = 'AddmmBackward0' AND b.forward_thread > 0",
    )
    assert backward == forward == 6
    ((stack,),) = run_rows(
        "out.marey",
        "SELECT DISTINCT call_stack FROM traced_operators WHERE name = 'aten::addmm' "
        "AND module = 'head'",
    )
    # Calls that the program made before the window began are only in the stacks.
    assert run_rows("out.marey", "SELECT DISTINCT path FROM spans WHERE name = 'step'") == [
        ("step",)
    ]
    frames = stack.split(";")
    (caller,) = (frame for frame in frames if re.fullmatch(r"program\.py\(\d+\): forward", frame))
    (module,) = (frame for frame in frames if frame.startswith("nn.Module: Linear_"))
    assert frames.index(module) < frames.index(caller)
    kernel = "SELECT DISTINCT arg(args, 'grid'), arg(args, 'warps') FROM traced_operators"
    assert run_rows("out.marey", f"{kernel} WHERE name = 'triton_add'") == [("g", "4")]


def test_an_operator_that_both_record_is_one_span(model: Model) -> None:
    model.train(1)
    marey.torch.enable(operators=True, shapes="off")
    with marey.profile("both", data="trace"):
        with marey.torch.window(with_stack=False):
            model.train(2)
        model.train(2)
    operators = (
        "SELECT s.number, o.name, count(*), count(NULLIF(o.args, '{}')) FROM spans AS o JOIN steps "
        "AS s ON o.start_nanos BETWEEN s.start_nanos AND s.start_nanos + s.duration_nanos "
        "WHERE o.kind = 'operator' GROUP BY s.number, o.name ORDER BY o.name"
    )
    counts: dict[int, list[tuple[str, int]]] = {}
    for number, name, count, with_args in run_rows("both.marey", operators):
        assert with_args == (count if number < 2 else 0), (number, name)
        counts.setdefault(number, []).append((name, count))
    # The second step of the window has the operators of the second one without.
    assert counts[1] == counts[3]


def test_both_clocks_agree_within_50_microseconds() -> None:
    # Without operators marey does not record `record_function`, so each has its own span.
    with traced("clock"), marey.torch.window(with_stack=False):
        for _ in range(50):
            with marey.scope("ours"), torch.profiler.record_function("theirs"):
                torch.ones(1)
    spans = "(SELECT *, row_number() OVER (ORDER BY start_nanos) AS place FROM spans WHERE name = "
    distances = run_rows(
        "clock.marey",
        "SELECT t.start_nanos - o.start_nanos, o.end_nanos - t.end_nanos, t.path "
        f"FROM {spans}'ours') AS o JOIN {spans}'theirs') AS t ON t.place = o.place",
    )
    assert len(distances) == 50
    # The quickest of 50 is not delayed by another process.
    assert min(abs(start) for start, _, _ in distances) < 50_000
    assert min(abs(end) for _, end, _ in distances) < 50_000
    assert {path for _, _, path in distances} == {"ours/theirs"}
    ((offset,),) = run_rows(
        "clock.marey",
        "SELECT arg(value, 'clock_offset_nanos') FROM metadata WHERE key LIKE 'torch%'",
    )
    assert offset is not None


def test_a_schedule_has_the_steps_of_torch_profiler_schedule(model: Model) -> None:
    window = marey.torch.window(steps=2, wait=1, warmup=1, repeat=2, with_stack=False)
    with traced("cycles"), window:
        model.train(10)
    assert traced_steps("cycles.marey") == [2, 3, 6, 7]
    assert len(windows("cycles.marey")) == 2


def test_a_window_without_a_wait_begins_with_the_first_step(model: Model) -> None:
    with traced("first"):
        window = marey.torch.window(steps=1, with_stack=False).arm()
        model.train(3)
        window.disarm()
    assert traced_steps("first.marey") == [0]


def test_a_window_that_is_open_at_the_end_is_in_the_run(model: Model) -> None:
    with traced("end"):
        marey.torch.window(steps=100, wait=1, with_stack=False).arm()
        model.train(3)
    assert traced_steps("end.marey") == [1, 2]


def test_a_file_triggers_a_window_each_time_it_is_written(tmp_path: Path) -> None:
    model, file = Model(), tmp_path / "go"
    with traced("file"), marey.torch.window(on=f"file:{file}", with_stack=False):
        model.train(2)
        file.write_text("")
        model.train(4)
        file.unlink()
        model.train(1)
        file.write_text("")
        model.train(2)
    assert traced_steps("file.marey") == [3, 8]


def test_sigusr2_triggers_a_window_and_reaches_the_program_s_handler() -> None:
    received: list[int] = []
    model = Model()
    earlier = signal.signal(signal.SIGUSR2, lambda number, _: received.append(number))
    try:
        handler = signal.getsignal(signal.SIGUSR2)
        with traced("signal"):
            with marey.torch.window(on="SIGUSR2", with_stack=False):
                model.train(1)
                os.kill(os.getpid(), signal.SIGUSR2)
                model.train(3)
            assert signal.getsignal(signal.SIGUSR2) is handler
    finally:
        signal.signal(signal.SIGUSR2, earlier)
    assert received == [signal.SIGUSR2]
    assert traced_steps("signal.marey") == [2]


def test_a_handler_that_the_program_sets_later_stays(model: Model) -> None:
    earlier = signal.getsignal(signal.SIGUSR2)
    session = marey.start("later", data="trace")
    try:
        window = marey.torch.window(on="SIGUSR2", with_stack=False).arm()
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        with pytest.warns(UserWarning, match="has set a handler of its own"):
            model.train(1)
        window.disarm()
        assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, earlier)
        marey.finalize(session)


def test_the_step_after_a_slow_one_is_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    # The ninth step is slow. The next one is a window, and the writing of its trace makes the one
    # after that slow, which must not count.
    ends = iter(itertools.accumulate([1.0] * 8 + [9.0, 60.0] + [1.0] * 4))
    monkeypatch.setattr("marey._torch_window_plans.perf_counter", lambda: next(ends))
    model = Model()
    with traced("slow"), marey.torch.window(on="slow:1.5x", with_stack=False):
        model.train(14)
    assert traced_steps("slow.marey") == [9]


def test_allocations_have_the_context_that_made_them(model: Model) -> None:
    model.train(1)
    marey.torch.enable(operators=True, shapes="off")
    with traced("memory"), marey.torch.window(with_stack=False):
        model.train(1)
    events = run_rows(
        "memory.marey",
        "SELECT path FROM memory_events WHERE action = 'alloc' AND bytes = 2048",
    )
    assert any("Sequential/0/aten::conv2d" in (path or "") for (path,) in events), events


def test_a_profiler_of_the_program_is_not_disturbed(model: Model) -> None:
    with traced("others"):
        window = marey.torch.window(steps=1, wait=1).arm()
        program = torch.profiler.profile()
        program.start()
        with pytest.warns(UserWarning, match=r"another torch\.profiler is running"):
            model.train(3)
        program.stop()
        window.disarm()
        assert any(event.name == "aten::conv2d" for event in program.events())
    assert windows("others.marey") == []
    assert losses("others.marey")["torch_windows"] == 1


def test_a_profiler_of_the_program_that_warms_up_is_not_disturbed(model: Model) -> None:
    with traced("warmup"):
        window = marey.torch.window(steps=1, wait=2).arm()
        model.train(1)
        schedule = torch.profiler.schedule(wait=0, warmup=2, active=1)
        with torch.profiler.profile(schedule=schedule) as program:
            with pytest.warns(UserWarning, match=r"another torch\.profiler is running"):
                model.train(1)
            program.step()
            model.train(1)
            program.step()
            model.train(1)
        window.disarm()
        assert any(event.name == "aten::conv2d" for event in program.events())
    assert losses("warmup.marey")["torch_windows"] == 1


def test_a_window_ends_when_the_program_starts_a_profiler(model: Model) -> None:
    with traced("yields"):
        with marey.torch.window(with_stack=False):
            model.train(1)
            with torch.profiler.profile() as program:
                model.train(1)
            model.train(1)
        assert sum(event.name == "aten::conv2d" for event in program.events()) == 1
    assert traced_steps("yields.marey") == [0]


def test_switches_change_what_is_recorded(model: Model) -> None:
    window = marey.torch.window(record_shapes=False, profile_memory=False, with_stack=False)
    with traced("switches"), window:
        model.train(1)
    ((total, dims, stacks, flops),) = run_rows(
        "switches.marey",
        "SELECT count(*), count(input_dims), count(call_stack), count(flops) FROM traced_operators",
    )
    assert total > 0
    assert (dims, stacks, flops) == (0, 0, 0)
    assert run_rows("switches.marey", "SELECT count(*) FROM memory_events") == [(0,)]
    assert run_rows("switches.marey", "SELECT count(*) FROM spans WHERE kind = 'frame'") == [(0,)]


def test_flops_are_those_of_pytorch_if_wanted(model: Model) -> None:
    with traced("flops"), marey.torch.window(with_stack=False, with_flops=True):
        model.train(1)
    assert run_rows(
        "flops.marey",
        "SELECT arg(args, 'flops') FROM traced_operators WHERE name LIKE 'aten::conv2d%'",
    ) == [(str(2 * 2 * 4 * 64 * 27),)]


def test_modules_of_torchscript_are_named_if_wanted() -> None:
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4)))
    with traced("modules"):
        for wanted in (False, True):
            with (
                marey.torch.window(with_stack=False, with_modules=wanted),
                marey.scope(str(wanted)),
            ):
                model(torch.ones(2, 4))
    ((without, named),) = run_rows(
        "modules.marey",
        "SELECT count(*) FILTER (WHERE path LIKE '%False%'), "
        "count(*) FILTER (WHERE path LIKE '%True%') "
        "FROM traced_operators WHERE arg(args, 'Module Hierarchy') LIKE '%Linear%'",
    )
    assert (without, named > 0) == (0, True)


def test_synchronisations_are_asked_for_if_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    config = torch._C._profiler._ExperimentalConfig
    asked = []

    def create(**options: bool) -> Any:
        asked.append(options.get("enable_cuda_sync_events", False))
        return config(**options)

    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", create)
    with traced("synchronisations"):
        for wanted in (False, True):
            with marey.torch.window(with_stack=False, sync_events=wanted):
                torch.ones(2)
    assert asked == [False, True]


def test_values_of_inputs_can_be_left_out(model: Model) -> None:
    with traced("values"):
        with marey.torch.window(with_stack=False, record_concrete_inputs=False):
            model.train(1)
        with marey.torch.window(with_stack=False):
            model.train(1)
    values = run_rows(
        "values.marey",
        "SELECT count(concrete_inputs) FROM traced_operators WHERE name LIKE 'aten::conv2d%' "
        "GROUP BY start_nanos ORDER BY start_nanos",
    )
    assert values == [(0,), (1,)]


def test_all_threads_are_recorded_if_wanted() -> None:
    def multiply() -> None:
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))

    for all_threads in (False, True):
        expected = int(all_threads)
        with (
            traced(f"threads{expected}"),
            marey.torch.window(with_stack=False, profile_memory=False, all_threads=all_threads),
        ):
            run_in_threads(multiply)
        found = run_rows(
            f"threads{expected}.marey",
            "SELECT count(*) FROM traced_operators WHERE name = 'aten::mm'",
        )
        assert found == [(expected,)]


def test_performance_events_are_counted_in_the_window_alone() -> None:
    with traced("events"):
        with marey.torch.window(performance_events=["page_faults"]), marey.scope("inside"):
            torch.ones(2)
        with marey.scope("outside"):
            torch.ones(2)
    query = "SELECT DISTINCT path FROM counters WHERE name = 'page_faults' AND path LIKE '%side'"
    assert run_rows("events.marey", query) == [("inside",)]


def test_performance_events_are_counted_in_each_operator() -> None:
    marey.torch.enable(operators=True)
    window = marey.torch.window(with_stack=False, performance_events=["page_faults"])
    with traced("operators"), window:
        torch.ones(1 << 24)  # 64 MiB are always new memory: malloc keeps 32 MiB at most
    ((faults,),) = run_rows(
        "operators.marey",
        "SELECT sum(value) FROM counters WHERE name = 'page_faults' AND path LIKE '%aten::fill_%'",
    )
    assert faults > 0


def test_performance_events_that_the_machine_lacks_are_named() -> None:
    with (
        traced("no_events"),
        pytest.warns(
            UserWarning, match="a window has no performance events: .*`rffffffffffffffff`"
        ),
        marey.torch.window(performance_events=["rffffffffffffffff"]),
    ):
        torch.ones(2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"all_threads": True}, "needs profile_memory=False"),
        ({"record_shapes": False, "with_flops": True}, "needs record_shapes=True"),
        ({"wait": 1}, "need steps"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"on": "monday"}, "'monday' is no window"),
        ({"on": "slow:0.5x"}, "greater than 1"),
    ],
)
def test_switches_without_effect_are_rejected(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        marey.torch.window(**arguments)


def test_a_session_without_a_trace_has_no_window() -> None:
    warned = pytest.warns(UserWarning, match="no session records a trace")
    with marey.profile("tree"), warned, marey.torch.window():
        torch.ones(1)


def test_nothing_is_left_behind(model: Model) -> None:
    profile = torch.autograd.profiler.profile
    before = profile._prepare_trace, profile.__exit__
    with traced("clean"):
        with marey.torch.window():
            model.train(1)
        assert not torch.autograd._profiler_enabled()
        assert (profile._prepare_trace, profile.__exit__) == before
        assert "KINETO_LOG_LEVEL" not in os.environ


def test_a_forked_child_leaves_the_window_to_its_parent(model: Model) -> None:
    with traced("fork"), marey.torch.window(with_stack=False):
        model.train(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of forks with threads
            child = os.fork()
        if child == 0:
            marey._session.leave_end_to_parent()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert len(windows("fork.marey")) == 1


def test_record_function_ids_end_with_the_window() -> None:
    if _torch_operators.find_support(torch.__version__, "").objection is not None:
        pytest.skip("operators of this version cannot be observed")
    with traced("ids"), marey.torch.window():
        torch.ones(1)
    with torch.profiler.profile() as program:
        torch.ones(1)
    program.export_chrome_trace("program.json")
    assert '"Record function id": 0' in Path("program.json").read_text()
    _native.number_operators(False)  # has no effect


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--window", "12:10"], "--window: the window 12:10 ends before it begins"),
        (
            ["--window", "noon"],
            "--window: 'noon' is no window; known: 10, 10:12 (steps)",
        ),
        (["--window", "3", "-d", "tree"], "--window needs a trace, not --data tree"),
        (["--window", "3", "--no-torch"], "--window needs the hooks that --no-torch leaves out"),
    ],
)
def test_the_command_line_rejects_windows_that_cannot_be(arguments: list[str], reason: str) -> None:
    done = marey_command("run", *arguments, "program.py")
    assert done.exit_code == 2
    assert reason in done.stderr
