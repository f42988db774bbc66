"""The prompt of `marey query`, in a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from profiles import record_scope
from trace_files import traced

MAREY = [sys.executable, "-m", "marey"]
PATIENCE_SECS = 60
ENDLESS = "SELECT a.name FROM " + ", ".join(f"spans {letter}" for letter in "abcdefghijklmn")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with ten spans called `forward`."""
    path = tmp_path_factory.mktemp("prompt") / "train"
    with traced(str(path)):
        for _ in range(10):
            record_scope("forward")
    return path.with_suffix(".marey")


class Prompt:
    """A running prompt."""

    def __init__(self, run: Path, state: Path) -> None:
        self._ours, its = pty.openpty()
        variables = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "XDG_STATE_HOME": str(state)}
        # The terminal is its own, so that Ctrl-C there is a signal to it.
        command = ["setsid", "--ctty", *MAREY, "query", str(run)]
        self.program = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=variables)
        os.close(its)
        self.read_until("marey> ")

    def ask(self, keys: str, until: str = "marey> ") -> str:
        """Types a text, and reads up to the expected output."""
        os.write(self._ours, keys.encode())
        return self.read_until(until)

    def read_until(self, end: str) -> str:
        shown = b""
        deadline = time.monotonic() + PATIENCE_SECS
        while not shown.endswith(end.encode()):
            wait_secs = deadline - time.monotonic()
            assert select.select([self._ours], [], [], max(wait_secs, 0))[0], shown
            shown += os.read(self._ours, 1)
        return shown.decode()

    def close(self) -> int:
        try:
            os.write(self._ours, b"\\q\r")
            while os.read(self._ours, 4096):
                pass
        except OSError:
            pass  # on Linux a closed other side is an error
        os.close(self._ours)
        return self.program.wait(PATIENCE_SECS)


@pytest.fixture
def prompt(run: Path, tmp_path: Path) -> Iterator[Prompt]:
    prompt = Prompt(run, tmp_path)
    yield prompt
    assert prompt.close() == 0


def test_the_prompt_runs_several_queries(prompt: Prompt) -> None:
    shown = prompt.ask("SELECT count(*) AS n FROM spans;\r", until="1 row in ")
    assert "n\r\n10\r\n" in shown.replace(" ", "")
    prompt.read_until("marey> ")
    shown = prompt.ask("SELECT DISTINCT name\rFROM spans;\r", until="1 row in ")
    assert "forward" in shown


def test_errors_do_not_end_the_prompt(prompt: Prompt) -> None:
    shown = prompt.ask("SELECT nam FROM spans;\r", until="hint: ")
    assert "error: there is no column `nam`" in shown
    prompt.read_until("marey> ")
    assert "unknown command `\\x`" in prompt.ask("\\x\r", until="list the commands")
    prompt.read_until("marey> ")
    assert "10" in prompt.ask("SELECT count(*) AS n FROM spans;\r", until="1 row in ")


def test_tab_completes_names(prompt: Prompt) -> None:
    shown = prompt.ask("SELECT count(*) AS n FROM spans WHERE spans.is_o\t;\r", until="row in ")
    assert "spans.is_open" in shown


def test_commands_describe_tables_and_choose_the_format(prompt: Prompt) -> None:
    shown = prompt.ask("\\d spans\r", until="name_id")
    assert "duration_nanos  BIGINT" in shown
    prompt.read_until("marey> ")
    prompt.ask("\\f csv\r")
    shown = prompt.ask("SELECT 1 AS a, 2 AS b;\r", until="row in ")
    assert "a,b\r\n1,2\r\n" in shown
    prompt.read_until("marey> ")
    assert "a binary format cannot be written to a terminal" in prompt.ask(
        "\\f parquet\r", until="hint: "
    )


def test_ctrl_c_cancels_a_query_and_keeps_the_prompt(prompt: Prompt) -> None:
    prompt.ask("\\f csv\r")
    prompt.ask(f"{ENDLESS};\r", until="forward\r\nforward")  # it runs
    prompt.ask("\x03", until="cancelled\r\n")
    prompt.read_until("marey> ")
    assert "\n10\r" in prompt.ask("SELECT count(*) AS n FROM spans;\r", until="1 row in ")


def test_ctrl_c_clears_the_line(prompt: Prompt) -> None:
    prompt.ask("SELECT 'never\x03")
    assert "10" in prompt.ask("SELECT count(*) AS n FROM spans;\r", until="1 row in ")


def test_the_history_file_is_private(run: Path, tmp_path: Path) -> None:
    first = Prompt(run, tmp_path)
    first.ask("SELECT 41 + 1 AS answer;\r", until="row in ")
    assert first.close() == 0
    history = tmp_path / "marey" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    second = Prompt(run, tmp_path)
    shown = second.ask("\x1b[A\r", until="row in ")  # the arrow up
    assert "42" in shown
    assert second.close() == 0


def test_ctrl_d_ends_the_prompt(run: Path, tmp_path: Path) -> None:
    prompt = Prompt(run, tmp_path)
    os.write(prompt._ours, b"\x04")
    assert prompt.close() == 0
