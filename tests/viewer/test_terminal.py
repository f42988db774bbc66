"""`marey view` on a terminal: bars and colours only there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import DATA
from programs import marey_stdout

KERNELS = DATA / "viewer" / "kernels.hatchet"
VIEW = [sys.executable, "-m", "marey", "view", "-m", "time/ms"]


def on_terminal(command: list[str], **environment: str) -> str:
    """Returns the output of a program in a pseudo-terminal."""
    ours, its = pty.openpty()
    variables = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment}
    if "NO_COLOR" not in environment:
        variables.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=variables) as program:
        os.close(its)
        written = b""
        while chunk := read(ours):
            written += chunk
    os.close(ours)
    assert program.returncode == 0, written
    return written.decode()


def read(terminal: int) -> bytes:
    """Reads the next output; returns nothing at the end, which Linux reports as an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_a_terminal_gets_a_table_with_bars_and_colours() -> None:
    shown = on_terminal([*VIEW, str(KERNELS)])
    assert "time/ms" in shown
    assert "████████" in shown
    assert "\x1b[" in shown


def test_no_color_keeps_the_bars() -> None:
    shown = on_terminal([*VIEW, str(KERNELS)], NO_COLOR="1")
    assert "████████" in shown
    assert "\x1b[" not in shown


@pytest.mark.parametrize("layout", ["lines", "table"])
def test_a_pipe_gets_no_bars_and_no_colours(layout: str) -> None:
    shown = marey_stdout("view", "-m", "time/ms", "--layout", layout, KERNELS)
    assert "█" not in shown
    assert "\x1b" not in shown


def test_reading_a_large_profile_shows_progress(tmp_path: Path) -> None:
    """A pipe supplies white space before the profile until the progress bar appears."""
    fifo = tmp_path / "slow.hatchet"
    os.mkfifo(fifo)
    ours, its = pty.openpty()
    command = [*VIEW, str(fifo)]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its) as program:
        os.close(its)
        text = KERNELS.read_bytes()
        written = b""
        with fifo.open("wb", buffering=0) as pipe:
            os.set_blocking(ours, False)
            deadline = time.monotonic() + 60
            while b"reading" not in written:
                assert time.monotonic() < deadline, written
                pipe.write(b" " * 4096)
                written += read(ours)
            pipe.write(text)
        os.set_blocking(ours, True)
        while chunk := read(ours):
            written += chunk
    os.close(ours)
    assert program.returncode == 0, written
    assert "step 1" in written.decode()
