"""Shapes of operators: what is read, what it costs in FLOP and bytes, and of which calls."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from gpu_programs import run as run_on_double
from marey import _native, _torch_operators
from marey._torch_inputs import UNKNOWN_INPUTS
from programs import run_marey, write_program
from threads import run_in_threads
from torch_programs import PRELUDE
from trace_files import run_rows, traced

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(
    _torch_operators.find_support(torch.__version__, torch.version.git_version).inputs
    == UNKNOWN_INPUTS,
    reason="the fields with the inputs are unknown in this version",
)

Metrics = dict[str, Any]


@pytest.fixture
def all_shapes() -> Iterator[None]:
    """Records the shapes of all operators during a test."""
    torch.ones(1, requires_grad=True).sum().backward()  # loads what the first calls load
    marey.torch.enable(operators=True, shapes="all")
    yield
    marey.torch.disable()


def operators(session: int | None) -> dict[str, Metrics]:
    """Ends a session; returns the metrics of its operators without overload, summed by name."""
    document: Any = marey.data.get(session)
    marey.finalize(session)
    found: dict[str, Metrics] = {}
    pending = [document[0]]
    while pending:
        node = pending.pop()
        pending += node["children"]
        metrics = found.setdefault(node["frame"]["name"].split(".")[0], {})
        for key, value in node["metrics"].items():
            if isinstance(value, int | float):
                metrics[key] = metrics.get(key, 0) + value
    return found


def spans(path: str, condition: str = "args IS NOT NULL") -> list[tuple[str, Any]]:
    """Returns name and arguments of the operators of a run, without overload."""
    rows = marey.open(path).sql(
        f"SELECT name, args FROM spans WHERE kind(context_id) = 'operator' AND {condition}"
    )
    return [(name.split(".")[0], json.loads(args)) for name, args in rows.rows()]


@pytest.mark.usefixtures("all_shapes")
def test_costs_are_those_of_the_formulas() -> None:
    image, weight = torch.ones(1, 2, 9, 9), torch.ones(4, 2, 3, 3)
    half = torch.ones(2, 3, 4, dtype=torch.bfloat16)
    session = marey.start("costs")
    for _ in range(3):
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))
    torch.bmm(half, half.transpose(1, 2))
    with torch.no_grad():
        torch.nn.functional.conv2d(image, weight, None, stride=(2, 1))
    torch.tanh(torch.ones(1, 2, 1, 3, 1, 2))  # more dimensions than a tensor stores in itself
    found = operators(session)
    assert found["aten::mm"]["flops32"] == 3 * 2 * 2 * 3 * 4
    assert found["aten::mm"]["bytes"] == 3 * 4 * (2 * 3 + 3 * 4 + 2 * 4)
    assert found["aten::bmm"]["flops16"] == 2 * 2 * 3 * 4 * 3
    convolutions = [cost.get("flops32", 0) for name, cost in found.items() if "conv" in name]
    assert sum(convolutions) == 2 * (4 * 7) * (4 * 2 * 3 * 3)
    assert found["aten::tanh"]["flops32"] == 12
    # All calls were read, so nothing is extrapolated.
    assert not any("sampled_calls" in metrics for metrics in found.values())


@pytest.mark.usefixtures("all_shapes")
def test_flop_of_training_are_counted_once_as_by_pytorch_s_counter() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4, bias=False)
    )
    x = torch.ones(5, 8, requires_grad=True)
    session = marey.start("training")
    model(x).sum().backward()
    found = operators(session)
    counted = sum(found.get(name, {}).get("flops32", 0) for name in ("aten::mm", "aten::addmm"))
    marey.torch.disable()
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    assert counted == counter.get_total_flops()
    # It calls addmm, whose cost is the same.
    assert "flops32" not in found["aten::linear"]


@pytest.mark.usefixtures("all_shapes")
def test_spans_have_the_arguments_of_pytorch_s_profiler() -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    def run() -> None:
        layer = torch.nn.Linear(3, 4, dtype=torch.float64)
        outputs = [layer(torch.ones(2, 3, dtype=torch.float64)) for _ in range(2)]
        loss = torch.nn.functional.cross_entropy(torch.cat(outputs), torch.tensor([0, 1, 2, 3]))
        loss.backward()

    run()
    recorder = torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    with traced("arguments"), recorder as profiler:
        run()
    profiler.export_chrome_trace("torch.json")
    ours = Counter(
        (name, str(args["Input Dims"]), str(args["Input type"]))
        for name, args in spans("arguments.marey")
        if name.startswith("aten::")
    )
    theirs = Counter(
        (event["name"], str(event["args"]["Input Dims"]), str(event["args"]["Input type"]))
        for event in json.loads(Path("torch.json").read_text())["traceEvents"]
        # marey reads the inputs of operators, not those of autograd nodes.
        if event["name"].startswith("aten::") and event["args"].get("Input Dims")
    )
    assert ours[("aten::cat", "[[[2, 4], [2, 4]], []]", "['TensorList', 'Scalar']")] == 1
    assert ours == theirs


def train(steps: int, *, after_step: Callable[[int], object] = lambda _: None) -> None:
    """Runs steps with one product of 2x3 and 3x4 each, and its backward."""
    layer = torch.nn.Linear(3, 4, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.ones(2, 3)
    for step in range(steps):
        layer(x).sum().backward()
        optimizer.step()
        after_step(step)


def test_costs_of_a_sampled_step_are_extrapolated_and_marked() -> None:
    marey.torch.enable(operators=True)
    session = marey.start("sampled")
    train(30)
    found = operators(session)
    marey.torch.disable()
    mm = found["aten::mm"]
    # The product and the gradient of the weight.
    assert mm["wall_count"] == 60
    assert mm["flops32"] == pytest.approx(60 * 2 * 2 * 3 * 4)
    assert 2 <= mm["sampled_calls"] < 60


def test_a_trace_has_shapes_in_sampled_steps_only() -> None:
    marey.torch.enable(operators=True)
    with traced("steps"):
        train(250)
    marey.torch.disable()
    run = marey.open("steps.marey")
    steps = run.sql(
        """
        SELECT t.number, count(*), count(s.args)
        FROM spans AS s
        JOIN steps AS t ON s.start_nanos >= t.start_nanos
            AND s.start_nanos < t.start_nanos + t.duration_nanos
        WHERE kind(s.context_id) = 'operator' AND s.name LIKE 'aten::%'
        GROUP BY t.number ORDER BY t.number
        """
    ).rows()
    sampled = [number for number, _, with_args in steps if number > 0 and with_args > 0]
    # One of the first ten, then one of each hundred.
    assert len(sampled) in (2, 3)
    assert 1 <= sampled[0] <= 10
    assert 100 <= sampled[1] < 200
    by_number = {number: (calls, with_args) for number, calls, with_args in steps}
    assert all(by_number[number][0] == by_number[number][1] for number in sampled)
    notes = run.sql("SELECT value FROM metadata WHERE key = 'operator_shapes'")
    assert notes.rows() == [('"sampled"',)]


MATMULS = """
import warnings

import torch

warnings.simplefilter("ignore")  # aten::mm is replaced

def mm(left, right):
    double.launch("gemm", 1_000)
    return left.new_zeros(left.shape[0], right.shape[1])

library = torch.library.Library("aten", "IMPL")
library.impl("mm", mm, "CPU")
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
session = marey.start("matmuls", backend="cupti", data="trace")
marey.torch.enable(operators=True, shapes=SHAPES)
left, right = torch.ones(128, 64), torch.ones(64, 32)
optimizer.step()  # the first step begins
for _ in range(20):
    torch.mm(left, right)
    optimizer.step()
marey.finalize(session)
"""


@pytest.mark.parametrize("shapes", ["all", "sampled"])
def test_a_recording_has_the_roofline_and_the_utilization_of_its_device(shapes: str) -> None:
    program = "import marey.torch\n" + MATMULS.replace("SHAPES", repr(shapes))
    run_on_double(program, "clock real\n")
    run = marey.open("matmuls.marey")
    flops = 2 * 128 * 64 * 32
    columns = "name, calls, flops, is_extrapolated, total_nanos, peak_flops_percent > 0"
    (row,) = run.sql(f"SELECT {columns} FROM roofline").rows()
    assert row[0].split(".")[0] == "aten::mm"
    assert row[1:] == (20, 20 * flops, shapes == "sampled", 20_000, True)
    (mfu,) = run.sql("SELECT flops_per_step, covered_percent, mfu_percent > 0 FROM mfu").rows()
    assert mfu == (pytest.approx(20 * flops / 21), 100, True)  # the first step has none


def test_pauses_do_not_begin_the_sampling_of_steps_anew() -> None:
    marey.torch.enable(operators=True)
    session = marey.start("pauses", data="trace")
    for _ in range(30):
        marey.deactivate(session)
        marey.activate(session)
        train(10)
    marey.finalize(session)
    marey.torch.disable()
    sampled = marey.open("pauses.marey").sql(
        """
        SELECT count(DISTINCT t.number) FILTER (WHERE s.args IS NOT NULL), count(DISTINCT t.number)
        FROM spans AS s
        JOIN steps AS t ON s.start_nanos >= t.start_nanos
            AND s.start_nanos < t.start_nanos + t.duration_nanos
        WHERE kind(s.context_id) = 'operator' AND s.name LIKE 'aten::%' AND t.number > 0
        """
    )
    # One of the first ten, of the second hundred and of the third.
    ((sampled_steps, steps),) = sampled.rows()
    assert sampled_steps == 3
    assert steps >= 290


def test_a_sampled_step_in_which_recording_pauses_at_once_is_made_up_for() -> None:
    marey.torch.enable(operators=True)
    session = marey.start("meter")
    for _ in range(12):
        train(1)
        marey.deactivate(session)
        marey.activate(session)
        _native.step_end()  # as the measurement of the cost does after a pause
    mm = operators(session)["aten::mm"]
    marey.torch.disable()
    # The inputs of the first step are read of one operator in a hundred.
    assert mm["sampled_calls"] >= 2


def test_operators_without_steps_are_sampled_one_by_one() -> None:
    x = torch.ones(2, 3)
    marey.torch.enable(operators=True, shapes="sampled")
    session = marey.start("inference")
    for _ in range(20_000):
        torch.tanh(x)
    tanh = operators(session)["aten::tanh"]
    marey.torch.disable()
    assert 100 < tanh["sampled_calls"] < 400
    assert tanh["flops32"] == pytest.approx(6 * 20_000)


def test_shapes_may_be_off() -> None:
    marey.torch.enable(operators=True, shapes="off")
    with traced("off"):
        train(12)
    marey.torch.disable()
    assert spans("off.marey") == []


def test_shapes_can_be_changed_while_operators_are_recorded() -> None:
    x = torch.ones(2, 3)
    marey.torch.enable(operators=True, shapes="off")
    session = marey.start("changed")
    torch.sigmoid(x)
    marey.torch.enable(operators=True, shapes="all")
    torch.tanh(x)
    found = operators(session)
    marey.torch.disable()
    assert "flops32" not in found["aten::sigmoid"]
    assert found["aten::tanh"]["flops32"] == 6


def test_an_unknown_choice_of_shapes_is_refused() -> None:
    with pytest.raises(ValueError, match="shapes must be one of off, sampled, all, not 'some'"):
        marey.torch.enable(operators=True, shapes="some")  # type: ignore[arg-type]
    assert not marey.torch.is_enabled()


@pytest.mark.usefixtures("all_shapes")
def test_unusual_inputs_are_read_without_harm() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with marey.profile("unusual", data="trace"):
        torch.sparse.mm(torch.eye(3).to_sparse(), torch.ones(3, 2))
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).relu()
        torch.ones(()).add(torch.tensor(2j))
        torch.relu(torch.ones([1] * 20))
        torch.cat([torch.ones(1)] * 500)  # more tensors than are recorded
        torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))
        torch.nn.functional.embedding(torch.tensor([0]), torch.ones(2, 2))
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
        torch.ones(2).to("meta").add(1)
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            symbolic = mode.from_tensor(torch.ones(5, 3))
            symbolic @ torch.ones(3, 2)
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        torch.relu(torch.ones(2, 3))
    found = spans("unusual.marey")
    assert ("aten::relu", {"Input Dims": [[2, 3]], "Input type": ["float"]}) in found
    assert ("aten::relu", {"Input Dims": [[1] * 20], "Input type": ["float"]}) in found
    losses = dict(run_rows("unusual.marey", "SELECT cause, count FROM losses"))
    assert losses["operator_inputs"] >= 1


@pytest.mark.usefixtures("all_shapes")
def test_operators_of_fifty_threads_have_their_own_shapes() -> None:
    barrier = threading.Barrier(50)

    def work(size: int) -> None:
        barrier.wait()
        for _ in range(20):
            torch.tanh(torch.ones(size))

    session = marey.start("threads")
    run_in_threads(*(partial(work, size) for size in range(1, 51)))
    assert operators(session)["aten::tanh"]["flops32"] == 20 * sum(range(1, 51))


def test_the_command_records_shapes() -> None:
    script = write_program(PRELUDE + "net(x)\n")
    arguments = ["-d", "trace", "--operators", "--shapes", "all", "-o", "out.marey"]
    run_marey("run", *arguments, script)
    linear = [args["Input Dims"] for name, args in spans("out.marey") if name == "aten::linear"]
    assert linear == [[[2, 4], [4, 4], [4]]] * 2 + [[[2, 4], [1, 4], [1]]]


def test_a_project_may_switch_shapes_off() -> None:
    script = write_program("import torch\nfor _ in range(2000):\n    torch.relu(torch.ones(1))\n")
    Path("pyproject.toml").write_text('[tool.marey]\noperators = true\nshapes = "off"\n')
    run_marey("run", "-d", "trace", "-o", "out.marey", script)
    assert spans("out.marey") == []
