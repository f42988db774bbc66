"""`marey run --window 5m` writes windows of a program that knows nothing of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from programs import Outcome, marey_command, run_marey, write_program
from window_files import total

PROGRAM = """
    import os, sys, threading

    from marey import _native, scope

    def step(work):
        _native.step_begin()
        sum(range(1000 * work))
        _native.step_end()

    def windows():
        return len([name for name in os.listdir() if ".window_" in name])

    steps = 0
    while windows() < 3:
        with scope("request"):
            step(1)
        steps += 1
    print(steps, threading.active_count(), "marey._engine" in sys.modules)
"""


def run(*options: str, source: str = PROGRAM) -> Outcome:
    """Runs a program, which must succeed, under the command."""
    write_program(source)
    return run_marey("run", "--no-torch", *options, "program.py")


def test_windows_together_have_all_of_the_program() -> None:
    done = run("--window", "50ms")
    steps, threads, has_engine = done.stdout.split()
    assert (threads, has_engine) == ("1", "False")
    files = sorted(Path().glob("*.hatchet"))
    assert len(files) >= 4
    assert {path.name for path in files} == {
        f"program.window_{number}.hatchet" for number in range(len(files))
    }
    assert total(files, "request") == int(steps)
    first, last = files[0].name, f"program.window_{len(files) - 1}.hatchet"
    line = f"marey: wrote {len(files)} windows, {first} to {last}; see one with: marey view {last}"
    assert line in done.stderr.splitlines()


def test_only_the_windows_to_keep_stay() -> None:
    done = run("--window", "20ms", "--keep", "3", "-o", "out.hatchet_msgpack")
    names = os.listdir()
    assert len([name for name in names if name.endswith(".hatchet_msgpack")]) == 3
    assert "marey: wrote 3 windows, out.window_" in done.stderr


def test_windows_of_an_earlier_run_are_renamed() -> None:
    Path("program.window_0.hatchet").write_text("earlier")
    done = run("--window", "1h", source="print(1)")
    assert Path("program.window_0.1.hatchet").read_text() == "earlier"
    assert "marey: wrote program.window_0.hatchet; see one with" in done.stderr


def test_an_alert_is_a_line_on_stderr() -> None:
    source = PROGRAM.replace("windows() < 3", "windows() < 9").replace(
        "print(", "while windows() < 11: step(2000)\n    print(", 1
    )
    done = run("--window", "50ms", "--alert", "step_time.p50>+200%, kernels", source=source)
    lines = [line for line in done.stderr.splitlines() if "step_time.p50" in line]
    assert lines
    assert lines[0].startswith("marey: window ")
    assert " above the median of the last " in lines[0]
    assert ".hatchet" in lines[0]
    missing = "marey: the alert on kernels was never checked: no window has this metric"
    assert missing in done.stderr.splitlines()


def test_child_processes_have_windows_of_their_own() -> None:
    run(
        "--window",
        "1h",
        source="""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import marey\\nwith marey.scope('c'): pass"])
        """,
    )
    names = sorted(os.listdir())
    assert "program.window_0.hatchet" in names
    (child,) = [name for name in names if name.endswith(".window_0.hatchet") and name[8].isdigit()]
    assert total([child], "c") == 1


def test_a_program_that_fails_has_its_windows() -> None:
    write_program("import marey\nwith marey.scope('s'): 1 / 0")
    done = marey_command("run", "--no-torch", "--window", "1h", "program.py")
    assert done.exit_code == 1
    assert "ZeroDivisionError" in done.stderr
    assert total(["program.window_0.hatchet"], "s") == 1


def test_ranks_have_windows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    run("--window", "1h", source="import marey\nwith marey.scope('s'): pass")
    assert total(["program.rank2.window_0.hatchet"], "s") == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--window", "0s"], "--window: the duration '0s' must be a finite number greater than 0"),
        (["--window", "5x"], "--window: '5x' is no window; known: 10, 10:12 (steps)"),
        (["--window", "5x"], "or a time such as 5m"),
        (["--window", "5m", "-d", "trace"], "--window 5m writes profiles, not --data trace"),
        (["--window", "5m", "--mode", "default"], "--window 5m sets the mode; leave --mode out"),
        (["--window", "5m", "--keep", "0"], "--keep: keep must be at least 1, not 0"),
        (["--window", "5m", "--keep", "soon"], "--keep: keep 'soon' is no limit"),
        (["--window", "5m", "--alert", "stepp>+2%"], "no metric 'stepp'; did you mean steps?"),
        (["--window", "5m", "--alert", "steps>2%"], "no change in this direction; write steps>+2%"),
        (["--keep", "3"], "--keep needs windows of time, such as --window 5m"),
        (["--window", "3", "--alert", "steps"], "--alert needs windows of time"),
    ],
)
def test_options_that_cannot_be_are_refused(options: list[str], reason: str) -> None:
    write_program("print(1)")
    done = marey_command("run", *options, "program.py")
    assert done.exit_code == 2
    assert reason in done.stderr
    assert done.stdout == ""


def test_a_project_sets_the_windows() -> None:
    pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    Path("pyproject.toml").write_text('[tool.marey]\nwindow = "1h"\nkeep = "2"\nalert = "steps"\n')
    run(source="print(1)")
    assert Path("program.window_0.hatchet").exists()
