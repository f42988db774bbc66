"""`marey top`: where a running process spends its time, on a terminal and elsewhere."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
import replay
from programs import DEADLINE_SECS, HOT_AND_COLD, Live, marey_command, marey_stdout

# Wide enough for the path of the program.
ROWS, COLUMNS = 30, 240
# What a terminal is told: to move the cursor, something else, or to show a letter.
TOLD = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|(.)", re.DOTALL)


class Terminal:
    """A command on a pseudo terminal."""

    def __init__(self, *arguments: str) -> None:
        self.reader, writer = pty.openpty()
        ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.settings = termios.tcgetattr(writer)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "marey", *arguments],
            stdin=writer,
            stdout=writer,
            stderr=writer,
            env={**os.environ, "TERM": "xterm"},
        )
        self.writer = writer
        self.screen = [[" "] * COLUMNS for _ in range(ROWS)]
        self.cursor = (0, 0)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.reader)
        os.close(self.writer)

    def press(self, keys: str) -> None:
        os.write(self.reader, keys.encode())

    def wait_for(self, *texts: str) -> list[str]:
        """Returns the lines of the screen once it has some texts."""
        end = time.monotonic() + DEADLINE_SECS / 4
        while time.monotonic() < end:
            if select.select([self.reader], [], [], 1)[0]:
                self.show(os.read(self.reader, 65_536).decode(errors="replace"))
            lines = ["".join(row).rstrip() for row in self.screen]
            if all(any(text in line for line in lines) for text in texts):
                return lines
        raise AssertionError(texts, lines)

    def show(self, told: str) -> None:
        row, column = self.cursor
        for to_row, to_column, letter in TOLD.findall(told):
            if to_row:
                row, column = int(to_row) - 1, int(to_column) - 1
            elif letter and row < ROWS and column < COLUMNS:
                self.screen[row][column] = letter
                column += 1
        self.cursor = (row, column)

    def leave(self, keys: str) -> int:
        """Presses keys that end the command; returns its exit code."""
        self.press(keys)
        while self.process.poll() is None:
            if select.select([self.reader], [], [], 0.1)[0]:
                os.read(self.reader, 65_536)
        return self.process.returncode


@pytest.fixture
def pid() -> Iterator[int]:
    with Live(HOT_AND_COLD) as program:
        yield int(program.read_line())


def report(pid: int, *options: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(marey_stdout("top", str(pid), "--json", *options))
    return result


def test_own_and_total_time_are_where_the_program_spends_them(pid: int) -> None:
    found = report(pid, "-d", "2")
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["hot"]["own"] > rows["cold"]["own"] > 0
    assert rows["work"]["total"] >= rows["hot"]["total"] + rows["cold"]["total"]
    assert found["rows"][0] == rows["hot"]
    assert rows["hot"]["place"].endswith("program.py")
    assert 0 < found["samples"] <= 200
    assert 0 < found["cpu"] < 2
    assert found["threads"] == 2
    assert found["resident_bytes"] > 1_000_000


def test_lines_and_threads_have_rows(pid: int) -> None:
    lines = report(pid, "--by", "lines")["rows"]
    assert re.fullmatch(r".*program\.py:[56]", lines[0]["place"])
    (worker,) = report(pid, "--by", "threads")["rows"]
    assert worker["name"] == "worker"
    names = {row["name"] for row in report(pid, "--by", "threads", "--idle")["rows"]}
    assert names == {"MainThread", "worker"}


def test_a_table_is_printed_once_where_stdout_is_not_a_terminal(pid: int) -> None:
    printed = marey_stdout("top", str(pid))
    lines = printed.splitlines()
    assert lines[0].startswith(f"Process {pid}: ")
    assert " samples, " in lines[1]
    assert "CPU " in lines[1]
    assert re.fullmatch(r"Network receives .*/s, sends .*/s", lines[2])
    assert lines[4].split() == ["own", "total", "function"]
    assert lines[5].split()[4] == "hot"
    assert "\x1b" not in printed


def test_network_and_gpus_are_those_of_the_machine(pid: int) -> None:
    readings = {
        "utilization": 87,
        "memory_utilization": 1,
        "memory_total": 1 << 30,
        "memory_used": 1 << 29,
        "memory_free": 1 << 29,
    }
    env = replay.nvml_environment(readings)
    found = json.loads(marey_command("top", str(pid), "--json", **env).stdout)
    first, second = found["devices"]
    assert first == {
        "index": 0,
        "utilization_percent": 87,
        "used_bytes": 1 << 29,
        "total_bytes": 1 << 30,
        "process_bytes": None,
    }
    assert second["utilization_percent"] is None
    assert found["received_bytes_per_sec"] >= 0
    line = marey_command("top", str(pid), **env).stdout.splitlines()[2]
    assert line.endswith("; GPU 0 87 %, 537 MB of 1.07 GB; GPU 1")


# Writes to a file and reads it again, both from storage and not from the cache.
STORES = """
import os, threading

def work():
    with open("stored", "w+b", buffering=0) as file:
        while True:
            file.seek(0)
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            file.read()

threading.Thread(target=work, daemon=True).start()
print(os.getpid(), flush=True)
input()
"""


def test_what_a_process_reads_from_and_writes_to_storage_is_shown() -> None:
    with Live(STORES) as program:
        storing = int(program.read_line())

        def stored_bytes() -> dict[str, int]:
            lines = Path(f"/proc/{storing}/io").read_text().splitlines()
            return {name: int(count) for name, count in (line.split(": ") for line in lines)}

        before = stored_bytes()
        load = report(storing, "-d", "1")
        after = stored_bytes()
    if after["write_bytes"] == before["write_bytes"]:
        pytest.skip("the folder of the test is not on storage")
    if after["read_bytes"] == before["read_bytes"]:
        pytest.skip("the file system keeps in memory what it was told to forget")
    for rate, count in (("written", "write_bytes"), ("read", "read_bytes")):
        most = after[count] - before[count]
        assert 0 < load[f"{rate}_bytes_per_sec"] * load["seconds"] <= most * 1.01, rate


def test_the_terminal_shows_rows_and_obeys_keys(pid: int) -> None:
    with Terminal("top", str(pid)) as terminal:
        lines = terminal.wait_for("hot", "cold", "work", "by own time")
        assert lines[0].startswith(f"Process {pid}: ")
        assert lines[4].split() == ["own", "total", "function"]
        terminal.press("s")
        lines = terminal.wait_for("by total time")
        assert "_bootstrap" in lines[5]
        terminal.press("\t")
        terminal.wait_for(" line", "program.py:6")
        terminal.press("\t ")
        terminal.wait_for(" thread", "worker", "paused")
        terminal.press("\t/COLD\r")
        lines = terminal.wait_for("search: COLD; paused")
        assert [line.split()[4] for line in lines[5:-1] if line] == ["cold"]
        terminal.press("f")
        terminal.wait_for(f"wrote process-{pid}.svg")
        assert "hot" in Path(f"process-{pid}.svg").read_text()
        assert terminal.leave("q") == 0
        assert termios.tcgetattr(terminal.writer) == terminal.settings


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
def test_control_c_and_escape_leave_the_terminal_as_it_was(pid: int, key: str) -> None:
    with Terminal("top", str(pid)) as terminal:
        terminal.wait_for("program.py")
        assert terminal.leave(key) == 0
        assert termios.tcgetattr(terminal.writer) == terminal.settings


def test_a_process_that_does_not_exist_is_an_error() -> None:
    done = marey_command("top", str(2**22 + 1))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: there is no process {2**22 + 1}\n"
