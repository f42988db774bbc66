"""PyTorch programs under `marey run`: writing, running, and reading their trees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from paths import ROOT

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


def profile(tmp_path: Path, source: str, *args: str) -> Outcome:
    """Runs `PRELUDE` and the source under `marey run`, which must succeed."""
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + textwrap.dedent(source))
    return profile_script(tmp_path, script, *args)


def profile_script(tmp_path: Path, script: Path, *args: str) -> Outcome:
    path = tmp_path / "out.hatchet"
    command = ["-m", "marey", "run", "-o", str(path), str(script), *args]
    done = python(*command)
    assert done.returncode == 0, done.stderr
    return Outcome(done.stdout, done.stderr, shape(json.loads(path.read_text())[0]))


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def run_plain(source: str) -> str:
    """Runs a source without a profiler, which must succeed; returns its output."""
    done = python("-c", textwrap.dedent(source))
    assert done.returncode == 0, done.stderr
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
