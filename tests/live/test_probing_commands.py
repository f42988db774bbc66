"""The commands and calls of Probing's documentation, with marey in the place of probing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from programs import Live, marey_command, marey_stdout, run_well, write_program

TRAIN = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""
STATISTICS = """
-- Per-module statistics
SELECT
    module,
    COUNT(*) as count,
    AVG(duration) as avg_duration,
    MAX(allocated) as peak_memory
FROM python.torch_trace
GROUP BY module;
"""


TABLES = """
-- List available tables
SELECT table_name FROM information_schema.tables;
"""
TRACES = """
-- Query torch traces
SELECT * FROM python.torch_trace WHERE step > 100;
"""
BACKTRACES = """
-- Query backtraces
SELECT * FROM python.backtrace;
"""


def counts(run: str) -> dict[str | None, int]:
    rows = json.loads(marey_stdout("query", run, STATISTICS, "-f", "json"))
    return {row["module"]: row["count"] for row in rows}


def test_a_variable_profiles_pytorch_in_a_program_that_is_not_changed() -> None:
    script = write_program(TRAIN, "train.py")
    environment = {**os.environ, "MAREY_TORCH_PROFILING": "on"}
    subprocess.run([sys.executable, str(script)], check=True, env=environment)
    calls = counts("train.marey")
    assert calls["0"] == calls["1"] == calls["Sequential"] == 3


def test_a_call_profiles_pytorch() -> None:
    run_well("import marey\nmarey.enable_torch_profiling()\n" + TRAIN)
    assert counts("torch.marey")["Sequential"] == 3


def test_an_endpoint_is_queried_and_configured() -> None:
    program = "import os, marey\nmarey.enable_torch_profiling()\n" + TRAIN
    # Runs Python now and then while it waits for a line, as a training loop does.
    program += "import select\nprint(os.getpid(), flush=True)\n"
    program += "while not select.select([0], [], [], 0.01)[0]: pass\n"
    with Live(program) as live:
        endpoint = live.read_line()
        tables = "SELECT table_name FROM information_schema.tables"
        assert "torch_trace" in marey_stdout(endpoint, "query", tables)
        trace = "SELECT * FROM python.torch_trace WHERE step > 0"
        assert len(json.loads(marey_stdout(endpoint, "query", trace, "-f", "json"))) > 0
        set_to = marey_stdout(endpoint, "config", "probing.sample_rate=0.1")
        assert set_to == "sample.interval = 0.1 s\n"
        assert f"MainThread ({endpoint})" in marey_stdout(endpoint, "backtrace")
        assert f"MainThread ({endpoint})" in marey_stdout("backtrace", endpoint, endpoint)
        backtrace = "SELECT * FROM python.backtrace;"
        frames = json.loads(marey_stdout(endpoint, "query", backtrace, "-f", "json"))
        (innermost,) = (frame for frame in frames if frame["depth"] == 0)
        path = str(Path("program.py").resolve())
        line = len(program.splitlines())
        expected = {"func": "<module>", "file": path, "lineno": line, "frame_type": "Python"}
        assert innermost.items() >= expected.items()
        assert innermost.get("ip") is None  # of native frames
        live.write_line()
        assert live.end().exit_code == 0


def test_each_statement_runs_as_it_is_written() -> None:
    program = "import os, marey\nmarey.enable_torch_profiling()\n"
    program += TRAIN.replace("range(3)", "range(103)")
    program += "import select\nprint(os.getpid(), flush=True)\n"
    program += "while not select.select([0], [], [], 0.01)[0]: pass\n"
    with Live(program) as live:
        endpoint = live.read_line()

        def rows(sql: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads(
                marey_stdout(endpoint, "query", sql, "-f", "json")
            )
            return found

        assert {"torch_trace", "backtrace"} <= {row["table_name"] for row in rows(TABLES)}
        traces = rows(TRACES)
        assert {row["step"] for row in traces} == {101, 102}
        assert {"forward", "step"} <= {row["stage"] for row in traces}
        forward = next(row for row in traces if (row["module"], row["stage"]) == ("0", "forward"))
        types = {"step": int, "seq": int, "module": str, "stage": str, "duration": float}
        assert {name: type(forward[name]) for name in types} == types
        for name in ("allocated", "max_allocated", "cached"):
            assert forward[name] is None or isinstance(forward[name], float)  # of a GPU
        assert forward["duration"] > 0
        (innermost,) = (row for row in rows(BACKTRACES) if row["depth"] == 0)
        assert (innermost["func"], innermost["frame_type"]) == ("<module>", "Python")
        assert {row["module"]: row["count"] for row in rows(STATISTICS)}["Sequential"] == 103
        for key in ("probing.sample_rate", "marey.sample_rate"):
            assert marey_stdout(endpoint, "config", f"{key}=0.1") == "sample.interval = 0.1 s\n"
        live.write_line()
        assert live.end().exit_code == 0


def test_a_process_that_cannot_be_sampled_is_queried_with_a_warning() -> None:
    program = "import os, marey\nmarey.start('tree')\nprint(os.getpid(), flush=True)\ninput()\n"
    with Live(program) as live:
        endpoint = live.read_line()
        done = marey_command("query", endpoint, "SELECT * FROM python.backtrace")
        assert "warning: backtrace has no new sample: process" in done.stderr
        assert f"`marey dump {endpoint}` reads the stacks from outside" in done.stderr
