"""Operators of PyTorch as scopes: where they stand, and when they are recorded."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import json
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from marey import _torch_operators
from marey._torch_fields import KNOWN, UNKNOWN, Fields
from marey._torch_inputs import KNOWN_INPUTS, UNKNOWN_INPUTS
from programs import marey_command, run_command, run_marey, write_program
from threads import run_in_threads
from torch_programs import GPT, PRELUDE, Shape, shape
from trace_files import run_rows, traced

torch = pytest.importorskip("torch")


# Never freed: PyTorch 2.12 compiles nothing after an operator that it has listed is gone.
LIBRARY = torch.library.Library("marey_tests", "DEF")

MINOR = _torch_operators.minor_of(torch.__version__)

names_regions = pytest.mark.skipif(
    MINOR in ((2, 2), (2, 3)), reason="PyTorch 2.4 and later have scopes of compiled regions"
)

REGION = "Torch-Compiled Region" if MINOR in ((2, 4), (2, 5)) else "Torch-Compiled Region: 0/0"
"""A compiled region, from PyTorch 2.6 on with the id of its graph."""


@pytest.fixture
def operators() -> Iterator[None]:
    """Records operators during a test."""
    torch.ones(1, requires_grad=True).sum().backward()  # loads what the first calls load
    marey.torch.enable(operators=True)
    yield
    marey.torch.disable()


def recorded(session: int | None) -> Shape:
    """Ends a session and returns its scopes: name to number of calls and inner scopes."""
    document: Any = marey.data.get(session)
    marey.finalize(session)
    return shape(document[0])


def are_callbacks_registered() -> bool:
    """Whether PyTorch has any callback for operators, by anyone."""
    library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    has_callbacks = library._ZN2at18hasGlobalCallbacksEv
    has_callbacks.restype = ctypes.c_bool
    return bool(has_callbacks())


@pytest.mark.usefixtures("operators")
def test_operators_are_below_the_scope_that_calls_them() -> None:
    x = torch.ones(2, 3)
    session = marey.start("nested")
    for _ in range(3):
        with marey.scope("outer"):
            torch.relu(x + 1.0)
    tree = recorded(session)
    assert tree["outer"][0] == 3
    inner = tree["outer"][1]
    assert inner["aten::relu"][0] == 3
    # From PyTorch 2.7 on the overload is part of the name.
    assert inner[_overloaded("aten::add", "Tensor")][0] == 3


def _overloaded(name: str, overload: str) -> str:
    has_overloads = (_torch_operators.minor_of(torch.__version__) or (0, 0)) >= (2, 7)
    return f"{name}.{overload}" if has_overloads else name


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("data", ["tree", "trace"])
def test_operators_are_below_the_python_line_that_calls_them(data: str) -> None:
    x = torch.ones(2, 3)

    def caller() -> None:
        torch.relu(x)  # this line

    with marey.profile("lines", context="python", data=data):
        caller()
        run_in_threads(caller)
    if data == "tree":
        (node,) = json.loads(Path("lines.hatchet").read_text())[:1]
        paths = [path for path in paths_of(node) if path[-1] == "aten::relu"]
    else:
        rows = marey.open("lines.marey").sql("SELECT path FROM spans WHERE name = 'aten::relu'")
        paths = [path.split("/") for (path,) in rows.rows()]
    line = inspect.getsourcelines(caller)[1] + 1
    assert len(paths) == 2
    assert all(path[-2].endswith(f":{line}@caller") for path in paths), paths


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("data", ["tree", "trace"])
def test_a_function_that_ends_on_another_thread_leaves_no_scope_open(data: str) -> None:
    future: Any = torch.futures.Future()
    is_entered, is_begun = threading.Event(), threading.Event()

    def complete() -> None:
        with torch.profiler.record_function("asynchronous"):
            is_entered.set()
            is_begun.wait()
            future.set_result(torch.ones(1))
            with torch.profiler.record_function("inside"):
                pass

    with marey.profile("futures", data=data):
        thread = threading.Thread(target=complete)
        thread.start()
        is_entered.wait()
        with marey.scope("outer"), torch.profiler.record_function("outliving") as function:
            outlived = function._call_end_callbacks_on_future(future)
        with torch.profiler.record_function("asynchronous") as function:
            profiled = function._call_end_callbacks_on_future(future)
        is_begun.set()
        thread.join()
        assert profiled.wait() == outlived.wait() == torch.ones(1)
        with torch.profiler.record_function("later"):
            pass
    if data == "tree":
        document = json.loads(Path("futures.hatchet").read_text())
        tree = shape(document[0])
        assert not any(document[0]["marey"]["losses"].values())
    else:
        run = marey.open("futures.marey")
        assert run.sql("SELECT * FROM losses").rows() == []
        spans = "SELECT path, count(*) FROM spans WHERE kind = 'scope' GROUP BY path"
        tree = {}
        for path, count in run.sql(f"{spans} ORDER BY path").rows():
            *above, name = path.split("/")
            place = tree
            for outer in above:
                place = place[outer][1]
            place[name] = (count, {})
    scopes = {name: node for name, node in tree.items() if "::" not in name}
    assert set(scopes) == {"outer", "asynchronous", "later"}
    assert {name: calls for name, (calls, _) in scopes["outer"][1].items()} == {"outliving": 1}
    assert scopes["asynchronous"][0] == 2
    assert scopes["asynchronous"][1]["inside"][0] == 1


def paths_of(node: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the names from the root to each node."""
    path = (*above, node["frame"]["name"])
    yield path
    for child in node["children"]:
        yield from paths_of(child, path)


class Reentrant(torch.autograd.Function):  # type: ignore[misc, name-defined]
    """Its backward calls backward again, which beyond some depth goes on on a thread of PyTorch."""

    @staticmethod
    def forward(ctx: Any, x: Any, depth: int) -> Any:
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.depth:
            with torch.enable_grad():
                x = torch.ones(1, requires_grad=True)
                Reentrant.apply(x, ctx.depth - 1).backward()
        else:
            torch.relu(gradient)
            INNERMOST_THREADS.append(threading.get_native_id())
        return gradient, None


INNERMOST_THREADS: list[int] = []


@pytest.mark.usefixtures("operators")
def test_operators_on_a_thread_of_autograd_are_recorded() -> None:
    with traced("engine"):
        Reentrant.apply(torch.ones(1, requires_grad=True), 70).backward()
    rows = marey.open("engine.marey").sql(
        "SELECT t.os_id FROM spans s JOIN threads t ON t.id = s.thread_id"
        " WHERE s.name = 'aten::relu'"
    )
    (thread,) = INNERMOST_THREADS
    assert thread != threading.get_native_id()
    assert rows.rows() == [(thread,)]


@pytest.mark.usefixtures("operators")
def test_a_model_s_operators_are_below_its_modules_and_backward() -> None:
    layer = torch.nn.Linear(4, 4)
    model = torch.nn.Sequential(layer, torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = marey.start("model")
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    step = recorded(session)["step"][1]
    assert "aten::addmm" in step["Sequential"][1]["0"][1]["aten::linear"][1]
    assert list(step["Sequential"][1]["1"][1]) == ["aten::relu"]
    node = step["backward"][1]["autograd::engine::evaluate_function: AddmmBackward0"][1]
    assert "aten::mm" in node["AddmmBackward0"][1]
    assert any(name.startswith("aten::") for name in step["SGD.step"][1])
    # marey has a scope for the optimizer's step; PyTorch's own would be a second one.
    assert not any(name.startswith("Optimizer.step") for name in step["SGD.step"][1])


@pytest.mark.usefixtures("operators")
def test_record_function_is_a_scope() -> None:
    session = marey.start("user")
    with torch.profiler.record_function("load"):
        torch.ones(1)
    document: Any = marey.data.get(session)
    (scope,) = document[0]["children"]
    assert scope["frame"]["name"] == "load"
    assert scope["marey"]["kind"] == "scope"
    (operator,) = scope["children"]
    assert operator["frame"]["name"] == "aten::ones"
    assert operator["marey"]["kind"] == "operator"
    marey.finalize(session)


@pytest.mark.usefixtures("operators")
def test_a_trace_has_a_span_for_each_operator() -> None:
    x = torch.ones(2, 2)
    with traced("spans"):
        for _ in range(5):
            torch.mm(x, x)
    rows = marey.open("spans.marey").sql(
        "SELECT count(*) FROM spans WHERE kind(context_id) = 'operator' AND name = 'aten::mm'"
    )
    assert rows.rows() == [(5,)]


@pytest.mark.usefixtures("operators")
def test_backward_is_linked_to_the_modules_that_made_it() -> None:
    if _torch_operators.find_support(torch.__version__, "").fields == UNKNOWN:
        pytest.skip("the fields with the links are unknown in this version")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    losses: list[Any] = []

    def forward() -> None:
        losses.append(model(torch.ones(2, 4)).sum())

    with traced("links"):
        forward()
        forward()
        run_in_threads(forward)  # has sequence numbers of its own
        for loss in losses:
            loss.backward()
    run = marey.open("links.marey")
    calls = run.sql(
        "SELECT name, forward_name, count(*), count(DISTINCT forward_thread_id) "
        "FROM autograd_calls GROUP BY name, forward_name ORDER BY name"
    ).rows()
    assert calls == [
        ("AddmmBackward0", "aten::addmm", 3, 2),
        ("ReluBackward0", "aten::relu", 3, 2),
        ("SumBackward0", "aten::sum", 3, 2),
        ("TBackward0", "aten::t", 3, 2),
    ]
    modules = run.sql(
        "SELECT name, sum(calls), sum(backward_calls), bool_and(backward_nanos > 0) "
        "FROM module_times GROUP BY name ORDER BY name"
    ).rows()
    assert modules == [("0", 3, 6, True), ("1", 3, 3, True), ("Sequential", 3, 9, True)]
    run_marey("export", "links.marey", "-f", "kineto", "-o", "links.json")
    events = json.loads(Path("links.json").read_text())["traceEvents"]
    arrows = [event["ph"] for event in events if event.get("cat") == "fwdbwd"]
    assert sorted(arrows) == ["f"] * 12 + ["s"] * 12


def test_the_report_names_module_and_line_of_the_hottest_operator() -> None:
    arguments = ["-d", "trace", "--operators", "-o", "out.marey"]
    run_marey("run", *arguments, GPT, "--steps", "5", "--device", "cpu")
    report = marey_command("analyze", "out.marey", "--threshold", _LOW_THRESHOLD)
    source = GPT.read_text().splitlines()
    # Any operator: which one takes the most time depends on what else the machine does.
    finding = re.search(
        r"operator aten::\S+ took .* module (\S+), called at (.+):(\d+)\.", report.stdout
    )
    section = report.stdout.partition("Modules of the hottest operators:")[2]
    row = re.search(r"aten::\S+ +\S+ +\S+ \S+ +(\S+) +(.+):(\d+)", section)
    for found in (finding, row):
        assert found is not None, report.stdout
        module, path, line = found.groups()
        assert Path(path).name == GPT.name
        assert call_in_example(module) in source[int(line) - 1]


def call_in_example(module: str) -> str:
    """Returns how the example calls the module of this name."""
    name = module.rpartition(".")[2]
    if name.isdigit():
        return "block("
    return "model(" if name == "GPT" else f"self.{name}("


_LOW_THRESHOLD = "hot_operation.medium_percent=1"


@pytest.mark.parametrize("memory", [False, True])
def test_the_first_call_of_a_module_in_each_session_has_its_line(memory: bool) -> None:
    layer = torch.nn.Linear(1, 1)
    model = torch.nn.Sequential(torch.nn.Sequential(layer))
    marey.torch.enable(memory=memory)
    for name in ("first", "second"):
        session = marey.start(name)
        for _ in range(2):
            model(torch.ones(1))
        (line,) = (n for n, text in enumerate(_SOURCE, 1) if text.strip() == "model(torch.ones(1))")
        document: Any = marey.data.get(session)
        marey.finalize(session)
        (step,) = document[0]["children"]
        sites, inner = [], step["children"]
        while inner:
            sites.append(inner[0]["metrics"]["call_site"])
            inner = inner[0]["children"]
        # PyTorch itself calls the inner ones.
        assert sites == [f"{__file__}:{line}"] * 3
    marey.torch.disable()


_SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.mark.usefixtures("operators")
def test_an_exception_in_an_operator_ends_it() -> None:
    session = marey.start("exception")
    with marey.scope("outer"):
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        torch.relu(torch.ones(1))
    outer = recorded(session)["outer"][1]
    assert outer["aten::mm"][0] == 1
    assert outer["aten::relu"][0] == 1


@pytest.mark.usefixtures("operators")
def test_operators_of_fifty_threads_are_counted() -> None:
    x = torch.ones(4)
    barrier = threading.Barrier(50)

    def work(number: int) -> None:
        barrier.wait()
        with marey.scope(f"thread {number}"):
            for _ in range(100):
                torch.relu(x)

    session = marey.start("threads")
    run_in_threads(*(partial(work, number) for number in range(50)))
    tree = recorded(session)
    assert {f"thread {number}" for number in range(50)} <= set(tree)
    assert all(tree[f"thread {n}"][1]["aten::relu"][0] == 100 for n in range(50))


@pytest.mark.usefixtures("operators")
def test_an_operator_in_a_task_is_below_the_task_s_scope() -> None:
    x = torch.ones(4)

    async def task(name: str) -> None:
        with marey.scope(name):
            await asyncio.sleep(0)
            torch.relu(x)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(task("first"), task("second"))

    session = marey.start("tasks")
    asyncio.run(main())
    tree = recorded(session)
    assert tree["first"][1]["aten::relu"][0] == 1
    assert tree["second"][1]["aten::relu"][0] == 1


@pytest.mark.usefixtures("operators")
def test_a_fork_in_an_operator_is_recorded_by_the_parent_alone() -> None:
    def fork_and_copy(x: Any) -> Any:
        if (child := os.fork()) == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        return x.clone()

    LIBRARY.define("fork(Tensor x) -> Tensor")
    LIBRARY.impl("fork", fork_and_copy, "CPU")
    fork = torch.ops.marey_tests.fork
    x = torch.ones(1)
    fork(x)
    session = marey.start("forking")
    with marey.scope("outer"):
        fork(x)
        torch.relu(x)
    outer = recorded(session)["outer"][1]
    assert outer["marey_tests::fork"][0] == 1
    assert outer["aten::relu"][0] == 1


def test_nothing_is_registered_unless_a_session_records() -> None:
    marey.torch.enable(operators=True)
    assert not are_callbacks_registered()
    session = marey.start("registered")
    assert are_callbacks_registered()
    marey.deactivate(session)
    assert not are_callbacks_registered()
    marey.activate(session)
    assert are_callbacks_registered()
    marey.torch.disable()
    assert not are_callbacks_registered()
    marey.torch.enable(operators=True)
    assert are_callbacks_registered()
    marey.finalize(session)
    assert not are_callbacks_registered()
    marey.torch.disable()


def test_hooks_alone_record_no_operators() -> None:
    marey.torch.enable()
    session = marey.start("modules")
    torch.nn.Linear(1, 1)(torch.ones(1))
    marey.torch.enable(operators=True)  # adds operators to the hooks
    torch.nn.Linear(1, 1)(torch.ones(1))
    marey.torch.disable()
    assert recorded(session)["step"][1]["Linear"][1]["aten::linear"][0] == 1


@pytest.mark.usefixtures("operators")
def test_torch_s_profiler_records_beside_marey() -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    def count(profiler: Any) -> int:
        return sum(e.count for e in profiler.key_averages() if e.key == "aten::relu")

    x = torch.ones(4)
    session = marey.start("beside")
    torch.relu(x)
    with torch_profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            torch.relu(x)
    torch.relu(x)
    assert recorded(session)["aten::relu"][0] == 5
    assert count(profiler) == 3


def test_the_trial_of_an_unknown_version_finds_the_support_of_this_one() -> None:
    trial = _torch_operators._try_in_child()
    assert trial == _torch_operators.find_support(torch.__version__, "")
    assert trial.fields == KNOWN.get(MINOR, trial.fields)
    assert trial.inputs == KNOWN_INPUTS.get(MINOR, trial.inputs)


def test_an_unknown_version_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    good = _torch_operators.Support(None, Fields(25, 38))
    bad = _torch_operators.Support("it crashed with SIGSEGV", UNKNOWN)
    trials = [bad, good]
    monkeypatch.setattr(_torch_operators, "_try_in_child", trials.pop)
    assert _torch_operators.find_support("99.0.0", "good") == good
    assert _torch_operators.find_support("99.0.0", "bad") == bad
    assert trials == []
    # The results are kept by build.
    assert _torch_operators.find_support("99.0.0", "good") == good
    assert _torch_operators.find_support("99.0.0", "bad") == bad


@pytest.mark.parametrize("content", ["", "{}", "[null, [1]]", "[null, [1, 999]]", "[3, [1, 2]]"])
def test_a_damaged_result_of_a_trial_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    good = _torch_operators.Support(None, Fields(25, 38))
    monkeypatch.setattr(_torch_operators, "_try_in_child", lambda: good)
    assert _torch_operators.find_support("99.0.0", "x") == good
    (path,) = (tmp_path / "marey").iterdir()
    path.write_text(content)
    assert _torch_operators.find_support("99.0.0", "x") == good


@pytest.mark.parametrize("version", ["2.15.0", "2.7.1+cu126", "2.9.0+cpu.cxx11.abi", "2.8.0+xpu"])
def test_the_fields_of_a_release_are_those_of_the_table(version: str) -> None:
    support = _torch_operators.find_support(version, "")
    minor = _torch_operators.minor_of(version)
    assert support == (None, KNOWN[minor], KNOWN_INPUTS[minor])


@pytest.mark.parametrize(
    "version", ["2.11.0a0+6c7a2e1.nv26.01", "2.9.0.dev20250901+cu130", "2.8.0rc1", "2.7.0+gita0"]
)
def test_a_build_that_is_no_release_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = _torch_operators.Support(None, Fields(1, 2))
    monkeypatch.setattr(_torch_operators, "_try_in_child", lambda: found)
    assert _torch_operators.find_support(version, "x") == found


def test_a_run_says_how_operators_were_recorded() -> None:
    session = marey.start("noted", data="trace")
    marey.torch.enable(operators=True)
    torch.relu(torch.ones(1))
    marey.finalize(session, "marey")
    marey.torch.disable()
    support = _torch_operators.find_support(torch.__version__, torch.version.git_version)
    way = _torch_operators.describe(torch.__version__, support)
    assert way.startswith("recorded by callbacks, ")
    assert note_of("noted.marey") == way + ("; shapes: sampled" if support.has_shapes else "")
    session = marey.start("without", data="trace")
    marey.finalize(session, "marey")
    assert note_of("without.marey") == f"{way}; switched off"


def note_of(run: str) -> str:
    ((text,),) = run_rows(run, "SELECT value FROM metadata WHERE key = 'operators'")
    return str(json.loads(text))


def test_shapes_that_a_version_does_not_give_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    support = _torch_operators.find_support(torch.__version__, torch.version.git_version)
    lacking = support._replace(inputs=UNKNOWN_INPUTS)
    monkeypatch.setattr(_torch_operators, "find_support", lambda *_: lacking)
    reason = "shapes of PyTorch .* are not recorded: a trial did not find them"
    with pytest.warns(UserWarning, match=reason):
        marey.torch.enable(operators=True, shapes="all")
    marey.torch.disable()


def test_a_version_that_fails_its_trial_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = _torch_operators.Support("a trial failed", UNKNOWN)
    monkeypatch.setattr(_torch_operators, "find_support", lambda *_: failed)
    with pytest.warns(UserWarning, match="operators of PyTorch .* are not recorded: a trial"):
        marey.torch.enable(operators=True)
    assert marey.torch.is_enabled()
    marey.torch.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        marey.torch.enable()
        marey.torch.disable()


def test_the_command_records_operators_below_modules() -> None:
    script = write_program(PRELUDE + "train(net, torch.optim.SGD(net.parameters(), lr=0.1), x)\n")
    plain = run_command(sys.executable, script)
    done = run_marey("run", "--operators", "-o", "out.hatchet", script)
    assert done.stdout == plain.stdout
    tree = shape(json.loads(Path("out.hatchet").read_text())[0])
    head = tree["step"][1]["Net"][1]["head"][1]
    assert list(head) == ["aten::linear"]


@names_regions
@pytest.mark.usefixtures("operators")
def test_a_compiled_region_is_a_scope_with_its_graph_s_id() -> None:
    torch.compiler.reset()
    compiled = torch.compile(torch.relu, backend="eager")
    compiled(torch.ones(2))
    session = marey.start("compiled")
    compiled(torch.ones(2))
    assert recorded(session)[REGION][1]["aten::relu"][0] == 1


@names_regions
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler of C++")
@pytest.mark.usefixtures("operators")
def test_kernels_of_inductor_are_below_the_compiled_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takes some seconds, in which g++ compiles a kernel."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    options = {
        "cpp.enable_kernel_profile": True,  # a kernel on the CPU is reported as an operator
        "compile_threads": 1,
    }
    if MINOR not in ((2, 4), (2, 5)):
        options["cpp.vec_isa_ok"] = True  # compiles no program only to find this out
    torch.compiler.reset()
    compiled = torch.compile(torch.nn.functional.gelu, options=options)
    compiled(torch.ones(8))
    session = marey.start("inductor")
    with marey.scope("outer"):
        compiled(torch.ones(8))
    outer = recorded(session)["outer"][1]
    kernels = [name for name in names_below(outer[REGION]) if "cpp_fused_gelu" in name]
    assert len(kernels) == 1, outer


def names_below(node: tuple[int, Shape]) -> Iterator[str]:
    """Yields the names of all scopes in a scope."""
    for name, inner in node[1].items():
        yield name
        yield from names_below(inner)


LOADER = """
import torch
from torch.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((2,), index)

for workers in (0, 2):
    assert len(list(DataLoader(Numbers(), batch_size=2, num_workers=workers))) == 3
"""


def test_batches_are_recorded_where_they_are_loaded_and_awaited() -> None:
    script = write_program(LOADER)
    arguments = ["--operators", "-d", "trace", "-o", "out.marey"]
    run_marey("run", *arguments, script)
    counts = marey.open("out.marey").sql(
        """
        SELECT name, count(*), count(DISTINCT pid) FROM spans
        WHERE name LIKE '%DataLoader%' GROUP BY name ORDER BY name
        """
    )
    # The iterators have a call more, which finds that there are no more batches.
    assert counts.rows() == [
        ("DataLoader.fetch", 6, 3),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 4, 1),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 4, 1),
    ]


def test_loading_is_not_hooked_after_the_end() -> None:
    fetch = torch.utils.data._utils.fetch._MapDatasetFetcher.fetch
    for _ in range(2):
        marey.torch.enable(operators=True)
        assert torch.utils.data._utils.fetch._MapDatasetFetcher.fetch is not fetch
        marey.torch.disable()
        assert torch.utils.data._utils.fetch._MapDatasetFetcher.fetch is fetch


def test_a_project_may_switch_operators_on() -> None:
    script = write_program("import torch\ntorch.relu(torch.ones(1))\n")
    Path("pyproject.toml").write_text("[tool.marey]\noperators = true\n")
    run_marey("run", script)
    tree = shape(json.loads(Path("program.hatchet").read_text())[0])
    assert tree["aten::relu"][0] == 1
