"""What the tests share: live programs, and short ways to read what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import marey
import pytest

Node = dict[str, Any]

# Programs inherit ignored signals: a suite that runs in the background ignores these two.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The newest CPython whose frames and contexts marey reads directly.
NEWEST_KNOWN = (3, 15)

# A hung program fails its test, not the whole run.
DEADLINE_SECS = 120


class Outcome(NamedTuple):
    """How a program ended. A negative exit code is the signal that ended it."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs a test in a directory of its own and ends the sessions that it leaves open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    yield
    marey.finalize()


def write_program(source: str, name: str = "program.py") -> Path:
    path = Path(name).absolute()
    path.write_text(textwrap.dedent(source))
    return path


def run_program(source: str, *flags: str, stdin: str | None = None, **env: str) -> Outcome:
    """Runs a program with this interpreter in the working directory, whatever comes of it."""
    done = subprocess.run(
        [sys.executable, *flags, str(write_program(source))],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECS,
        env={**os.environ, **env},
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def run_well(source: str, *flags: str, **env: str) -> str:
    """Runs a program that must succeed and have nothing to complain of; returns its output."""
    done = run_program(source, *flags, **env)
    assert done.exit_code == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("marey: no GPU")]
    assert complaints == []
    return done.stdout


class Live:
    """A running program, met over its stdin and stdout.

    The program prints a line when it is ready, and waits by reading a line.
    """

    def __init__(self, source: str, *flags: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", *flags, str(write_program(source))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def hear(self) -> str:
        """The next line that the program prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> Outcome:
        """Waits for the end."""
        stdout, stderr = self.process.communicate(timeout=DEADLINE_SECS)
        return Outcome(self.process.returncode, stdout, stderr)


def tree(path: str | Path) -> Node:
    """The root of a profile on disk."""
    root: Node = json.loads(Path(path).read_text())[0]
    assert root["frame"]["name"] == "ROOT"
    return root


def recorded(session: int | None, phase: int = 0) -> Node:
    """The root of what a live session holds."""
    document = marey.data.get(session, phase)
    assert document is not None
    root: Node = document[0]
    return root


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every node below, with its path: names joined by slashes."""
    for child in node["children"]:
        below = f"{path}/{child['frame']['name']}" if path else child["frame"]["name"]
        yield below, child
        yield from walk(child, below)


def find(node: Node, path: str) -> Node:
    """The node with this path, which must be there once."""
    found = [candidate for name, candidate in walk(node) if name == path]
    assert len(found) == 1, (
        f"{len(found)} nodes are called {path}: {[name for name, _ in walk(node)]}"
    )
    return found[0]


def counts(root: Node) -> dict[str, int]:
    """How often each path was entered and left."""
    found: dict[str, int] = {}
    for path, node in walk(root):
        assert path not in found, f"{path} is there twice"
        found[path] = node["metrics"].get("wall_count", 0)
    return found


def states(node: Node) -> dict[str, int]:
    """How often each state was entered and left at a node, of those that recorded nothing else."""
    listed = node["marey"].get("states", [])
    return {state["name"]: state["metrics"]["wall_count"] for state in listed}


def metrics(node: Node) -> dict[str, Any]:
    """The metrics of a node that the program gave."""
    return {key: value for key, value in node["metrics"].items() if not key.startswith("wall_")}


def files(suffix: str = ".hatchet", directory: str | Path = ".") -> list[str]:
    """The names of the profiles in a directory, sorted."""
    return sorted(path.name for path in Path(directory).glob(f"*{suffix}"))
