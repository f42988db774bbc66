"""C++ programs that tests compile against the installed headers, and run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import marey
import pytest
from paths import ROOT, TESTS

PACKAGE = Path(marey.__file__).parent
# The headers of the package that is tested; those of the checkout if the package links to it.
HEADERS = PACKAGE / "include"
LIBRARY = os.environ.get("MAREY_LIB") or str(PACKAGE / "lib" / "libmarey.so")
SOURCES = TESTS / "cpp"
EXAMPLES = ROOT / "examples" / "cpp"
# `.ci/sanitize` sets these two: options for every program, and the one compiler of all programs.
EXTRA_OPTIONS = shlex.split(os.environ.get("MAREY_TEST_CXXFLAGS", ""))
ONLY_COMPILER = os.environ.get("MAREY_TEST_CXX")
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
# The results of earlier runs, which `.ci/run` keeps.
CCACHE = ("ccache",) if shutil.which("ccache") is not None else ()
# Clang warns of options for the linker.
COMPILE = ("-c", "-Wno-unused-command-line-argument")
DEADLINE_SECS = 120


@cache
def newest(compiler: str) -> str | None:
    """Returns the newest installed version of a compiler, such as `clang++`."""
    versions = [f"{compiler}-{version}" for version in range(30, 8, -1)]
    return next((name for name in (compiler, *versions) if shutil.which(name)), None)


def complete(*command: str | Path) -> None:
    """Runs a compiler that must succeed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def compile_program(
    output: Path,
    *sources: Path,
    standard: str = "c++17",
    options: tuple[str, ...] = (),
    compiler: str = "c++",
) -> Path:
    """Compiles C++ sources without a warning, or skips the test without the compiler.

    `options` come after the sources, so that they may name libraries. Returns `output`.
    """
    name = newest(ONLY_COMPILER or compiler)
    if name is None:
        pytest.skip(f"there is no {ONLY_COMPILER or compiler} here")
    flags = (f"-std={standard}", *STRICT, f"-I{HEADERS}", "-pthread", *EXTRA_OPTIONS)
    if "-fsyntax-only" in options:
        complete(name, *flags, *sources, *options)
        return output
    objects = [output.with_name(f"{output.name}-{source.stem}.o") for source in sources]
    for source, compiled in zip(sources, objects, strict=True):
        complete(*CCACHE, name, *flags, *COMPILE, source, *options, "-o", compiled)
    complete(name, *flags, *objects, *options, "-o", output, "-ldl")
    return output


def environment(**changes: str) -> dict[str, str]:
    """Returns the environment of a program: this one, without what would change a profile."""
    excluded = ("MAREY_DISABLE", "MAREY_RUN", "RANK", "WORLD_SIZE", "SLURM_PROCID")
    kept = {name: value for name, value in os.environ.items() if name not in excluded}
    return {**kept, "MAREY_LIB": LIBRARY, **changes}


def run(*command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that must succeed, with `libmarey.so` unless `env` names another."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        errors="strict",
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_SECS,
        env=environment(**env),
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done


def run_case(*command: str | Path, **env: str) -> list[str]:
    """Runs a program that must succeed without complaints; returns the lines of its output."""
    done = run(*command, **env)
    assert done.stderr == ""
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


def assert_nests(text: str) -> None:
    """Checks what Perfetto asks of a trace: events of a thread nest, and flows are on events."""
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    lanes: dict[tuple[Any, Any], list[tuple[Decimal, Decimal]]] = {}
    for event in events:
        if event["ph"] == "X":
            times = (Decimal(event["ts"]), Decimal(event["ts"]) + Decimal(event["dur"]))
            lanes.setdefault((event["pid"], event["tid"]), []).append(times)
    for lane, spans in lanes.items():
        ends: list[Decimal] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1], f"events of {lane} overlap"
            ends.append(end)
    for event in events:
        if event["ph"] in ("s", "f"):
            spans = lanes[event["pid"], event["tid"]]
            assert any(start <= event["ts"] <= end for start, end in spans), event


def assert_known_events(text: str) -> None:
    """Checks that Perfetto's importer reads each event: a phase that it knows, with its members."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    flows: dict[tuple[str, int], list[str]] = {}
    for event in json.loads(text, parse_float=Decimal, parse_constant=refuse)["traceEvents"]:
        assert isinstance(event["name"], str), event
        assert all(isinstance(event[key], int | str) for key in ("pid", "tid")), event
        assert isinstance(event["ts"], int | Decimal), event
        assert event["ts"] >= 0, event
        match event["ph"]:
            case "X":
                assert event["dur"] >= 0, event
            case "i":
                assert event["s"] == "t", event
            case "M":
                assert isinstance(event["args"].get("name", event["args"].get("labels")), str)
            case "s" | "f" as phase:
                # A flow ends in the event around its point, and not in the next one.
                assert phase == "s" or event["bp"] == "e", event
                flows.setdefault((event["cat"], event["id"]), []).append(phase)
            case other:
                raise AssertionError(f"the phase {other} is unknown")
    for flow, phases in flows.items():
        assert phases.count("s") <= 1, f"the flow {flow} starts more than once"


class Trace:
    """A Chrome trace: its complete events by their names."""

    def __init__(self, path: str = "trace.json") -> None:
        text = Path(path).read_text(encoding="utf-8")
        assert_nests(text)
        assert_known_events(text)
        self.content = json.loads(text)
        self.events: list[dict[str, Any]] = self.content["traceEvents"]
        self.scopes = {e["name"]: e for e in self.events if e["ph"] == "X" and e["cat"] != "Trace"}

    def args(self, name: str) -> dict[str, Any]:
        args: dict[str, Any] = self.scopes[name]["args"]
        return args
