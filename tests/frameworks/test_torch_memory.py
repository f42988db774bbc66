"""Memory of PyTorch programs: leaks, and readings by module and step."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from marey import _native, _torch_memory
from programs import (
    DEADLINE_SECS,
    marey_command,
    marey_stdout,
    run_command,
    run_marey,
    write_program,
)
from torch_devices import MIB, Device
from torch_programs import PRELUDE
from trace_files import run_rows, traced

torch = pytest.importorskip("torch")

MB = 1_000_000

# Leaks, from the command line.

TRAINING = (
    PRELUDE
    + """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
for step in range(30):
    train(net, optimizer, x)
    made = bytearray(b"x") * 12_000_000
    if {keeps}:
        kept.append(made)
"""
)


def analysis_of(program: str) -> str:
    write_program(program)
    path = "train.marey"
    run_marey("run", "-d", "trace", "--memory", "-o", path, "program.py")
    return marey_stdout("analyze", path)


def test_a_list_that_grows_by_12_mb_in_each_step_is_a_leak_of_the_host() -> None:
    report = analysis_of(TRAINING.format(keeps="True"))
    assert "memory_leak" in report
    assert "Memory allocated on host grew by 12" in report
    [slope] = run_rows(
        "train.marey",
        "SELECT (max(allocated_bytes) - min(allocated_bytes)) / (max(number) - min(number)) "
        "FROM step_memory WHERE device_type = 'host' AND number >= 2",
    )[0]
    assert slope == pytest.approx(12 * MB, rel=0.05)


def test_a_program_that_keeps_nothing_after_its_warm_up_does_not_leak() -> None:
    assert "memory_leak" not in analysis_of(TRAINING.format(keeps="step < 5"))


# Readings of devices, by a double of their allocator.


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    double = Device()
    allocator = _torch_memory.Allocator("cuda", lambda: True, lambda: 2, double.counters)
    monkeypatch.setattr(_torch_memory, "find_allocator", lambda _: allocator)
    marey.torch.enable(memory=True)
    yield double
    marey.torch.disable()


class Keeps(torch.nn.Module):  # type: ignore[name-defined, misc]
    """Allocates 3 MiB in forward beside a temporary of 10, and calls a part that allocates 2."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.part = Allocates(device, 2)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: Any) -> Any:
        self.device.allocate(10)
        self.device.allocate(-10)
        self.device.allocate(3)
        return self.part(x * self.weight)


class Allocates(torch.nn.Module):  # type: ignore[name-defined, misc]
    def __init__(self, device: Device, mib: int) -> None:
        super().__init__()
        self.device, self.mib = device, mib

    def forward(self, x: Any) -> Any:
        self.device.allocate(self.mib)
        return x


def record(device: Device, steps: int) -> marey.run.Run:
    """Records steps of a `Keeps`, whose memory is freed after backward."""
    model = Keeps(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    device.allocate(1)
    with traced("devices"):
        for _ in range(steps):
            loss = model(torch.ones(1))
            loss.backward()
            device.allocate(-5)
            optimizer.step()
    return marey.open("devices.marey")


def test_each_step_has_the_memory_of_each_device_in_use(device: Device) -> None:
    rows = (
        record(device, 3)
        .sql(
            "SELECT number, allocated_bytes, peak_bytes, reserved_bytes, change_bytes, "
            "peak_change_bytes, reserved_change_bytes FROM step_memory "
            "WHERE device_type = 'cuda' AND device = 0 ORDER BY number"
        )
        .rows()
    )
    # The device is found at the end of the first backward pass. The allocator's peak, which is
    # that of the first step, says nothing about the peaks of later ones.
    assert rows == [
        (0, 1 * MIB, 6 * MIB, 20 * MIB, None, None, None),
        (1, 1 * MIB, 6 * MIB, 20 * MIB, 0, 5 * MIB, 0),
        (2, 1 * MIB, 6 * MIB, 20 * MIB, 0, 5 * MIB, 0),
    ]


def test_a_peak_that_rises_in_a_step_is_the_peak_of_that_step(device: Device) -> None:
    class Grows(Allocates):
        def forward(self, x: Any) -> Any:
            self.mib += 10
            self.device.allocate(self.mib)
            self.device.allocate(-self.mib)
            return x * self.weight

    model = Grows(device, 0)
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    device.allocate(1)
    with traced("peaks"):
        for _ in range(4):
            model(torch.ones(1)).backward()
            optimizer.step()
    rows = run_rows(
        "peaks.marey", "SELECT number, peak_bytes FROM step_memory WHERE device = 0 ORDER BY number"
    )
    assert rows[1:] == [(number, (1 + 10 * (number + 1)) * MIB) for number in (1, 2, 3)]


def test_each_module_has_the_growth_of_its_calls(device: Device) -> None:
    rows = (
        record(device, 4)
        .sql(
            "SELECT name, calls, growth_bytes, self_growth_bytes, peak_bytes, peak_change_bytes, "
            "max_reserved_bytes FROM module_memory WHERE device_type = 'cuda' ORDER BY depth"
        )
        .rows()
    )
    # The first step passes before the device is found.
    assert rows == [
        ("Keeps", 4, 3 * 5 * MIB, 3 * 3 * MIB, 6 * MIB, 5 * MIB, 20 * MIB),
        ("part", 4, 3 * 2 * MIB, 3 * 2 * MIB, 6 * MIB, 2 * MIB, 20 * MIB),
    ]


def test_a_tree_has_the_growth_of_each_scope(device: Device) -> None:
    model = Keeps(device)
    device.allocate(1)
    session = marey.start("tree")
    _torch_memory.read_step()
    for _ in range(4):
        model(torch.ones(1))
    document: Any = marey.data.get(session)
    marey.finalize(session)
    name = "memory_growth cuda:0 (bytes)"
    [step] = document[0]["children"]
    [keeps] = step["children"]
    [part] = keeps["children"]
    assert keeps["frame"]["name"] == "Keeps"
    assert keeps["metrics"][name] == 4 * 3 * MIB
    assert part["metrics"][name] == 4 * 2 * MIB


def test_a_reading_asks_the_allocator_once(device: Device) -> None:
    model = torch.nn.Linear(1, 1)
    device.allocate(1)
    session = marey.start("calls")
    _torch_memory.read_step()
    before = device.calls
    model(torch.ones(1))
    assert device.calls - before == 2  # before and after the module
    marey.deactivate(session)
    model(torch.ones(1))
    assert device.calls - before == 2
    marey.finalize(session)


def test_an_allocator_without_counters_does_not_disturb_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def counters(_: int) -> dict[str, Any]:
        raise RuntimeError("plugged in")

    allocator = _torch_memory.Allocator("cuda", lambda: True, lambda: 1, counters)
    monkeypatch.setattr(_torch_memory, "find_allocator", lambda _: allocator)
    said: list[str] = []
    monkeypatch.setattr("marey._session.say", said.append)
    marey.torch.enable(memory=True)
    with traced("plugged"):
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.ones(1)).sum().backward()
            optimizer.step()
    marey.torch.disable()
    assert len(said) == 1
    assert "plugged in" in said[0]
    types = run_rows("plugged.marey", "SELECT DISTINCT device_type FROM memory_events")
    assert types == [("host",)]


# The table of Probing.


def test_the_queries_of_probing_run_as_written(device: Device) -> None:
    run = record(device, 103)
    tables = run.sql("SELECT table_name FROM information_schema.tables;").rows()
    assert ("torch_trace",) in tables
    late = run.sql("SELECT * FROM python.torch_trace WHERE step > 100;").rows()
    assert {row[0] for row in late} == {101, 102}
    sums = run.sql(
        """
        SELECT
            module,
            COUNT(*) as count,
            AVG(duration) as avg_duration,
            MAX(allocated) as peak_memory
        FROM python.torch_trace
        GROUP BY module;
        """
    ).rows()
    peaks = {module: (count, peak) for module, count, _, peak in sums}
    # In MB of 1,048,576 bytes.
    assert peaks == {"Keeps": (103, 6), "part": (103, 6), None: (103, 6), "SGD": (103, 1)}
    assert all(0 < duration < 10 for _, _, duration, _ in sums)


def test_rows_of_the_table_of_probing_have_stage_order_and_memory(device: Device) -> None:
    rows = (
        record(device, 3)
        .sql(
            "SELECT step, seq, module, stage, allocated, max_allocated, cached, time_offset >= 0 "
            "FROM python.torch_trace WHERE step = 1 ORDER BY seq"
        )
        .rows()
    )
    assert rows == [
        (1, 0, "Keeps", "forward", 6, 11, 20, True),
        (1, 1, "part", "forward", 6, 11, 20, True),
        (1, 2, None, "backward", 6, 11, 20, True),
        (1, 3, "SGD", "step", 1, 11, 20, True),
    ]


# The process's own size.


def test_the_resident_size_of_a_forked_child_is_its_own() -> None:
    held = bytearray(b"x") * (64 * MIB)
    parent = _native.resident_bytes()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        grown = bytearray(b"x") * (128 * MIB)
        os.write(writer, f"{_native.resident_bytes()} {len(grown)}".encode())
        os._exit(0)
    os.close(writer)
    child, _ = map(int, os.read(reader, 100).split())
    os.waitpid(pid, 0)
    os.close(reader)
    assert parent is not None
    assert child > len(held) + 100 * MIB
    again = _native.resident_bytes()
    assert again is not None
    assert again < parent + 64 * MIB


def test_a_program_may_close_all_descriptors() -> None:
    done = run_command(
        sys.executable,
        "-c",
        "import os\n"
        "from marey import _native\n"
        "first = _native.resident_bytes()\n"
        "os.closerange(3, 64)\n"
        "files = [os.open('/dev/null', os.O_WRONLY) for _ in range(60)]\n"
        "assert 0.5 < _native.resident_bytes() / first < 2\n"
        "assert all(os.write(file, b'x') == 1 for file in files)\n",
    )
    assert done.exit_code == 0, done.stderr


# Switching on and off.


@pytest.mark.parametrize("modules", [True, False])
def test_memory_can_be_added_and_is_removed_with_the_hooks(modules: bool) -> None:
    model = torch.nn.Linear(1, 1)
    plain = torch.nn.Module.__call__
    marey.torch.enable(modules=modules)
    with traced("added"):
        try:
            model(torch.ones(1))
            marey.torch.enable(memory=True)
            model(torch.ones(1))
        finally:
            marey.torch.disable()
        assert torch.nn.Module.__call__ is plain
        model(torch.ones(1))
    run = marey.open("added.marey")
    assert run.sql("SELECT count(*) FROM memory_events").rows() == [(2,)]
    names = run.sql("SELECT name, count(*) FROM spans WHERE name = 'Linear' GROUP BY name").rows()
    assert names == ([("Linear", 2)] if modules else [])


def test_compiled_models_are_compiled_as_without_memory(device: Device) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with traced("compiled"), warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        assert torch.equal(compiled(torch.ones(2)), model(torch.ones(2)))


# Events of torch.profiler.


def test_memory_events_of_the_profiler_have_the_node_of_their_operator() -> None:
    with (
        torch.profiler.profile(profile_memory=True) as profiler,
        torch.profiler.record_function("outer"),
    ):
        kept = torch.ones(1000)
    profiler.export_chrome_trace("trace.json")
    paths = run_rows(
        "trace.json", "SELECT path FROM memory_events WHERE bytes = 4000 AND action = 'alloc'"
    )
    assert kept.numel() == 1000
    [(path,)] = paths
    assert path.split("/")[-2:] == ["aten::ones", "aten::empty"]
    assert "outer" in path.split("/")


def test_the_switch_of_the_command_needs_the_hooks() -> None:
    write_program("")
    done = marey_command("run", "--memory", "--no-torch", "program.py")
    assert done.exit_code == 2
    assert "--memory needs the hooks that --no-torch leaves out" in done.stderr


def test_a_project_may_record_memory_by_default() -> None:
    Path("pyproject.toml").write_text("[tool.marey]\nmemory = true\n")
    write_program(PRELUDE + "net(x)\n")
    run_marey("run", "-o", "out.hatchet", "program.py")
    metrics = json.loads(Path("out.hatchet").read_text())
    assert "memory host (bytes)" in str(metrics)


# Switching, while the program runs.


def test_memory_is_switched_while_another_thread_calls_the_hooks_of_its_optimizer() -> None:
    # `torch.optim` has no attribute for this submodule.
    optimizers = importlib.import_module("torch.optim.optimizer")
    main = threading.current_thread()
    is_inside, may_go = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        if threading.current_thread() is not main:
            is_inside.set()
            assert may_go.wait(DEADLINE_SECS)

    def step() -> None:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1)).backward()
        optimizer.step()

    with traced("switched"):
        handle = optimizers.register_optimizer_step_pre_hook(wait)
        marey.torch.enable()
        try:
            with ThreadPoolExecutor(1) as pool:
                other = pool.submit(step)
                assert is_inside.wait(DEADLINE_SECS)
                for value in ("on", "off", "on"):
                    marey_stdout("config", os.getpid(), f"torch.memory={value}")
                    step()
                    assert _torch_memory.is_started() == (value == "on")
                may_go.set()
                other.result()
        finally:
            may_go.set()
            marey.torch.disable()
            handle.remove()
    assert not _torch_memory.is_started()
