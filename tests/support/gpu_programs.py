"""Programs under marey on the double of NVIDIA's libraries, and their profiles."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import profiles
from profiles import Node, tree, walk
from programs import Outcome, run_program, run_well
from replay import environment

Kernel = tuple[int, int]
"""Count and nanoseconds."""

PROGRAM = """
import ctypes, os, signal, sys, threading
import marey
from replay import Double

double = Double()
cuda = ctypes.CDLL("libcuda.so.1")
"""


def program(body: str) -> str:
    """Returns a program that has loaded the double."""
    return PROGRAM + textwrap.dedent(body)


def run(body: str, script: str = "", **env: str) -> str:
    """Runs a program that must succeed without complaints; returns its output."""
    return run_well(program(body), **{**environment(Path("lib"), script), **env})


def record(body: str, script: str = "", *, data: str = "tree", mode: str = "", **env: str) -> str:
    """Runs a program whose one session, `profile`, is around the body; returns its output."""
    start = f'session = marey.start("profile", backend="cupti", data="{data}", mode="{mode}")\n'
    return run(f"{start}{textwrap.dedent(body)}\nmarey.finalize()", script, **env)


def try_run(body: str, script: str = "", **env: str) -> Outcome:
    """Runs a program that may fail."""
    return run_program(program(body), **{**environment(Path("lib"), script), **env})


def kernels(root: Node) -> dict[str, Kernel]:
    """Returns count and time of each path that has kernels."""
    found: dict[str, Kernel] = {}
    for path, node in walk(root):
        if "time (ns)" in node["metrics"]:
            assert path not in found, f"{path} is there twice"
            found[path] = (node["metrics"]["count"], node["metrics"]["time (ns)"])
    return found


def read_kernels(path: str = "profile.hatchet") -> dict[str, Kernel]:
    """Returns the kernels of a profile on disk."""
    return kernels(tree(path))


def losses(path: str = "profile.hatchet") -> dict[str, int]:
    """Returns the losses of a profile, by cause."""
    return profiles.losses(tree(path))


def gpu_note(path: str = "profile.hatchet") -> str:
    """Returns the profile's note on how devices were recorded."""
    text: str = tree(path)["marey"]["notes"]["gpu"]
    return text


def read_chrome_trace(path: str) -> dict[str, Any]:
    """Reads a Chrome trace."""
    document: dict[str, Any] = json.loads(Path(path).read_text())
    return document
