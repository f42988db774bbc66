"""Python programs run by tests: to their end (`run_program`), or in steps (`Live`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

NOBODY_UID = 65534
# A hung program fails its test, not the whole run.
DEADLINE_SECS = 300

# A thread that is in `hot` longer than in `cold`, until a line arrives. It prints its process id.
HOT_AND_COLD = """
import os, sys, threading, time

def hot():
    end = time.perf_counter() + 0.004
    while time.perf_counter() < end:
        pass

def cold():
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass

def work():
    while True:
        hot()
        cold()

threading.Thread(target=work, name="worker", daemon=True).start()
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


def until(is_reached: Callable[[], object], work: Callable[[], object] | None = None) -> None:
    """Does the work, or waits, until the condition holds."""
    deadline = monotonic() + DEADLINE_SECS
    pause = threading.Event()
    while not is_reached():
        assert monotonic() < deadline, "the condition was never met"
        if work is None:
            pause.wait(0.005)
        else:
            work()


@contextmanager
def inside(folder: str | Path) -> Iterator[None]:
    """Makes a folder the working directory of a block."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Outcome(NamedTuple):
    """The result of a program. A negative exit code is a signal number."""

    exit_code: int
    stdout: str
    stderr: str


def write_program(source: str, name: str = "program.py") -> Path:
    path = Path(name).absolute()
    path.write_text(textwrap.dedent(source))
    return path


def run_command(
    *command: str | Path | int, stdin: str | None = None, cwd: str | Path | None = None, **env: str
) -> Outcome:
    """Runs a command to its end, in the working directory unless `cwd` is another."""
    done = subprocess.run(
        list(map(str, command)),
        input=stdin,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def run_program(source: str, *flags: str, stdin: str | None = None, **env: str) -> Outcome:
    """Runs a program with this interpreter in the working directory."""
    return run_command(sys.executable, *flags, write_program(source), stdin=stdin, **env)


def marey_command(
    *arguments: str | Path | int, cwd: str | Path | None = None, **env: str
) -> Outcome:
    """Runs a command of marey."""
    return run_command(sys.executable, "-m", "marey", *arguments, cwd=cwd, **env)


def run_marey(*arguments: str | Path | int, **env: str) -> Outcome:
    """Runs a command of marey that must succeed."""
    done = marey_command(*arguments, **env)
    assert done.exit_code == 0, done.stderr
    return done


def marey_stdout(*arguments: str | Path | int, **env: str) -> str:
    """Runs a command of marey that must succeed; returns its output."""
    return run_marey(*arguments, **env).stdout


def query(run: str, sql: str) -> list[dict[str, Any]]:
    """Returns the rows that `marey query` finds in a run or, by its id, in a process."""
    rows: list[dict[str, Any]] = json.loads(marey_stdout("query", run, sql, "-f", "json"))
    return rows


def run_well(source: str, *flags: str, **env: str) -> str:
    """Runs a program that must succeed without complaints; returns its output."""
    done = run_program(source, *flags, **env)
    assert done.exit_code == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("marey: no GPU")]
    assert complaints == []
    return done.stdout


Self = TypeVar("Self", bound="LiveCommand")


class LiveCommand:
    """A running command, controlled over its stdin, stdout and stderr."""

    def __init__(self, *command: str | Path | int, **env: str) -> None:
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read_line(self) -> str:
        """Returns the next line of stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def read_message(self) -> str:
        """Returns the next line of stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def write_line(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, stdin: str = "") -> Outcome:
        """Writes a last input, which an ended command need not read, and waits for the end."""
        stdout, stderr = self.process.communicate(stdin, timeout=DEADLINE_SECS)
        return Outcome(self.process.returncode, stdout, stderr)


class Live(LiveCommand):
    """A running program.

    The program prints a line when it is ready, and waits by reading a line.
    """

    def __init__(self, source: str, *flags: str, python: str = sys.executable, **env: str) -> None:
        super().__init__(python, "-u", *flags, write_program(source), **env)


def marey_as_nobody(*arguments: str | int) -> Outcome:
    """Runs a command of marey as a user without rights, which root can become."""
    # The interpreter may be in root's home, so the user changes after the imports.
    return run_program(
        f"""
        import os
        from marey import _engine
        os.setgid({NOBODY_UID})
        os.setuid({NOBODY_UID})
        raise SystemExit(_engine.cli_main({["marey", *map(str, arguments)]}))
        """
    )
