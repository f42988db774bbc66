"""C++ programs over `marey.hpp`: compiled once, run case by case."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
DEADLINE_SECS = 120


def package() -> Path:
    spec = find_spec("marey")
    assert spec is not None, "the wheel is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent


def headers() -> Path:
    """Returns the headers of the wheel if one is installed."""
    installed = package() / "include"
    return installed if (installed / "marey.hpp").exists() else ROOT / "include"


def library() -> str:
    """Returns the path of `libmarey.so`: from the environment, else from the installed wheel."""
    return os.environ.get("MAREY_LIB") or str(package() / "lib" / "libmarey.so")


@cache
def compiler(family: str) -> str | None:
    """Returns the newest compiler of a family, `g++` or `clang++`."""
    versions = [f"{family}-{version}" for version in range(30, 8, -1)]
    return next((name for name in (family, *versions) if shutil.which(name)), None)


def compile_program(family: str, source: Path, *options: str) -> None:
    """Compiles without warnings; skips the test if there is no compiler."""
    name = compiler(family)
    if name is None:
        pytest.skip(f"there is no {family} here")
    libraries = () if "-fsyntax-only" in options else ("-pthread", "-ldl")
    command = [name, *STRICT, f"-I{headers()}", *options, str(source), *libraries]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def environment(**changes: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAREY_DISABLE", "MAREY_RUN", "RANK", "WORLD_SIZE", "SLURM_PROCID")
    }
    return {**kept, "MAREY_LIB": library(), **changes}


def run_case(program: Path, *arguments: str, **changes: str) -> list[str]:
    """Runs a program that must succeed without complaints; returns the lines of its output."""
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        errors="strict",
        timeout=DEADLINE_SECS,
        env=environment(**changes),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


class Report:
    """A profile as `report.hpp` prints it: events by their names."""

    def __init__(self, line: str) -> None:
        content = json.loads(line)
        self.events: list[dict[str, Any]] = content["events"]
        for event in self.events:
            (event["name"],) = event["name"]
            (event["modules"],) = event["modules"]
        self.warnings: list[str] = content["warnings"]
        self.dropped: int = content["dropped"]
        (self.trace_id,) = content["trace_id"]

    def names(self) -> list[str]:
        return [event["name"] for event in self.events]

    def __getitem__(self, name: str) -> dict[str, Any]:
        (event,) = [event for event in self.events if event["name"] == name]
        return event


class Trace:
    """A Chrome trace: its complete events by their names."""

    def __init__(self, path: str = "trace.json") -> None:
        self.content = json.loads(Path(path).read_text(encoding="utf-8"))
        self.events: list[dict[str, Any]] = self.content["traceEvents"]
        self.scopes = {e["name"]: e for e in self.events if e["ph"] == "X" and e["cat"] != "Trace"}

    def args(self, name: str) -> dict[str, Any]:
        args: dict[str, Any] = self.scopes[name]["args"]
        return args
