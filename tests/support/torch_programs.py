"""PyTorch programs under `marey run`: writing, running, and reading their trees."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from paths import ROOT
from programs import DEADLINE_SECS, marey_stdout, run_command, write_program

GPT = ROOT / "examples" / "train_gpt.py"

# Opens every program: a net of two named parts, one of them nested, and a training step.
PRELUDE = """
import torch
from torch import nn

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.inner(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Part(), Part()])
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.head(x)

def train(net, optimizer, x):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()

torch.manual_seed(0)
net, x = Net(), torch.ones(2, 4)
"""

Shape = dict[str, tuple[int, "Shape"]]


class Outcome(NamedTuple):
    """The output of a program, and its scopes: name to number of calls and inner scopes."""

    stdout: str
    stderr: str
    scopes: Shape


def profile(source: str, *args: str) -> Outcome:
    """Runs `PRELUDE` and the source under `marey run`, which must succeed."""
    return profile_script(write_program(PRELUDE + textwrap.dedent(source)), *args)


def profile_script(script: Path, *args: str) -> Outcome:
    path = Path("out.hatchet")
    done = _server().run(["marey", "run", "-o", str(path), str(script), *args])
    assert done.returncode == 0, done.stderr
    return Outcome(done.stdout, done.stderr, shape(json.loads(path.read_text())[0]))


# Imports PyTorch once, and runs each command of marey that arrives on stdin in a forked process.
SERVER = """
import json, os, sys
import torch

def serve():
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)

request = serve()
for descriptor, path in enumerate(("/dev/null", request["stdout"], request["stderr"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), descriptor)
os.chdir(request["directory"])
os.environ.clear()
os.environ.update(request["env"])
sys.argv = request["command"]
from marey._cli import main
main()
"""


class _Server:
    """A process that imports PyTorch once, which takes 2 s of CPU time."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="marey-torch-"))
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._end)

    def _end(self) -> None:
        self._process.communicate()
        shutil.rmtree(self._folder)

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command of marey in the working directory, with this process's environment."""
        stdout, stderr = self._folder / "stdout", self._folder / "stderr"
        request = {
            "command": command,
            "directory": os.getcwd(),
            "env": {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            "stdout": str(stdout),
            "stderr": str(stderr),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        is_answered, _, _ = select.select([self._process.stdout], [], [], DEADLINE_SECS)
        if not is_answered:
            self._process.kill()
            raise TimeoutError(command)
        exit_code = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(
            command, exit_code, stdout.read_text(), stderr.read_text()
        )


@functools.cache
def _server() -> _Server:
    return _Server()


def trace_ranks(script: Path, run: Path, ranks: int, *options: str) -> list[str]:
    """Records a trace of this many ranks of a script; returns the lines that they print."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), str(script)]
    return marey_stdout("run", *options, "-d", "trace", "-o", run, *launcher).splitlines()


def run_plain(source: str) -> str:
    """Runs a source without a profiler, which must succeed; returns its output."""
    done = run_command(sys.executable, "-c", textwrap.dedent(source))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def shape(node: dict[str, Any]) -> Shape:
    children = {
        child["frame"]["name"]: (child["metrics"].get("wall_count", 0), shape(child))
        for child in node["children"]
    }
    assert len(children) == len(node["children"]), "two scopes of one name and kind under one node"
    return children


def net_scopes(calls: int, *, prefix: str = "") -> Shape:
    """Returns the scopes inside a `Net` after `calls` calls."""
    parts: Shape = {
        f"{prefix}parts.{index}": (calls, {f"{prefix}parts.{index}.inner": (calls, {})})
        for index in range(2)
    }
    return {**parts, f"{prefix}head": (calls, {})}
