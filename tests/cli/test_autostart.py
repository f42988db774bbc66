"""`MAREY=1 python program.py`: recording starts with the interpreter, by the file `marey.pth`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from programs import marey_stdout, query, run_command, run_marey, run_program

PROGRAM = """
import sys
import marey

with marey.scope("work"):
    print(sys.argv[1:], sys.orig_argv[2:], marey.depth())
"""


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.suffix != ".py")


def test_a_program_is_recorded_under_its_name_and_sees_its_own_arguments() -> None:
    plain = run_program(PROGRAM)
    done = run_program(PROGRAM, MAREY="1")
    assert done.exit_code == 0
    assert done.stdout == plain.stdout.replace(" None", " 1")
    assert "marey: wrote program.hatchet" in done.stderr
    assert files() == ["program.hatchet"]
    assert "work" in marey_stdout("view", "program.hatchet")


@pytest.mark.parametrize("value", ["", "0"])
def test_nothing_is_imported_or_written_unless_it_is_switched_on(value: str) -> None:
    loaded = "import sys; print([name for name in sys.modules if name.startswith('marey')])"
    done = run_command(sys.executable, "-c", loaded, MAREY=value)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert files() == []


def test_a_program_without_options_pays_for_no_parser_and_no_engine() -> None:
    seldom_needed = {"argparse", "ctypes", "gettext", "inspect", "marey._engine", "tempfile"}
    loaded = f"import sys; print(sorted({seldom_needed!r} & set(sys.modules)))"
    assert run_command(sys.executable, "-c", loaded, MAREY="1").stdout == "[]\n"


def test_marey_and_its_command_pay_for_no_typing() -> None:
    # It takes a quarter of the time that `marey --version` takes.
    loaded = "import sys, marey._cli, marey._command; print('typing' in sys.modules)"
    assert run_command(sys.executable, "-c", loaded).stdout == "False\n"


def test_options_are_those_of_run_and_children_are_part_of_the_run() -> None:
    source = """
    import os, subprocess, sys
    import marey

    with marey.scope("parent" if len(sys.argv) == 1 else "child"):
        if len(sys.argv) == 1:
            subprocess.run([sys.executable, sys.argv[0], "child"], check=True)
    """
    done = run_program(source, MAREY="-d trace -o job.marey")
    assert done.exit_code == 0, done.stderr
    assert files() == ["job.marey"]
    names = "SELECT DISTINCT name(name_id) AS name FROM spans ORDER BY 1"
    assert query("job.marey", names) == [{"name": "child"}, {"name": "parent"}]


@pytest.mark.parametrize("value", ["--no-such-option", "-d neither", "'"])
def test_a_wrong_option_is_reported_and_the_program_runs_without_a_recording(value: str) -> None:
    done = run_program("print('done')", MAREY=value)
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert "is not profiled" in done.stderr
    assert "Traceback" not in done.stderr
    assert files() == []


def test_modules_and_code_are_recorded_and_the_command_line_is_not() -> None:
    Path("package.py").write_text("import marey\nmarey.enter_scope('of a module')\n")
    run_command(sys.executable, "-X", "utf8", "-m", "package", MAREY="1")
    run_command(sys.executable, "-c", "import marey; marey.enter_scope('of code')", MAREY="1")
    assert files() == ["package.hatchet", "python.hatchet"]
    assert "of a module" in marey_stdout("view", "package.hatchet", MAREY="1")
    run_marey("run", "-n", "once", "package.py", MAREY="1")
    assert files() == ["once.hatchet", "package.hatchet", "python.hatchet"]


def test_a_program_is_not_recorded_where_marey_is_disabled() -> None:
    done = run_program("print('done')", MAREY="1", MAREY_DISABLE="1")
    assert (done.stdout, done.stderr, files()) == ("done\n", "", [])
