"""`marey run` of commands, and its command line."""

from __future__ import annotations

import re
import signal
import sys

import pytest
from marey import _run_parser
from scripts import (
    MAREY,
    RUN,
    SCOPED,
    SCRIPTS,
    child_profiles,
    names_in,
    profiles,
    run,
    without_addresses,
    write,
)

# Commands


def test_a_command_replaces_the_process() -> None:
    seen = run(*RUN, "--", "sh", "-c", "cat; echo got $0 $1; exit 5", "-n", "--", stdin="in\n")
    assert seen[:3] == (5, "in\ngot -n --\n", "")


def test_the_signal_that_kills_a_command_is_reported() -> None:
    assert run(*RUN, "--", "sh", "-c", "kill -9 $$").exit_code == -signal.SIGKILL


def test_python_processes_of_a_command_are_profiled() -> None:
    write("script.py", SCOPED)
    seen = run(*RUN, "-n", "job", "--", "sh", "-c", f"{sys.executable} script.py")
    (name,) = child_profiles()
    assert name.startswith("job.")
    assert "outer" in names_in(name)
    assert seen.marey == "marey: each Python process writes job.<pid>.hatchet\n"


def test_a_missing_command_is_reported() -> None:
    seen = run(*RUN, "--", "no-such-command")
    assert (seen.exit_code, seen.stderr) == (127, "error: command not found: no-such-command\n")
    write("not_executable", "")
    seen = run(*RUN, "--", "./not_executable")
    assert (seen.exit_code, seen.stderr) == (
        126,
        "error: cannot run ./not_executable: Permission denied\n",
    )


# The command line


@pytest.mark.parametrize("before", [[], ["-n", "script"], ["--context=shadow"]])
def test_run_may_be_left_out(before: list[str]) -> None:
    write("script.py", SCOPED + "\n    import sys; print(sys.argv)\n")
    seen = run(*MAREY, *before, "script.py", "-x", "view")
    assert seen.stdout == "['script.py', '-x', 'view']\n"
    assert profiles() == ["script.hatchet"]


def test_the_installed_command_does_the_same() -> None:
    write("bin/marey", "import sys\nfrom marey._cli import main\nsys.exit(main())\n")
    write("script.py", SCRIPTS["main module"] + "\n        raise KeyboardInterrupt\n")
    plain = run(sys.executable, "-B", "script.py", "a")
    profiled = run(sys.executable, "-B", "bin/marey", "run", "script.py", "a")
    assert without_addresses(profiled)[:3] == without_addresses(plain)[:3]
    assert profiled.exit_code == -signal.SIGINT


def test_options_after_the_script_belong_to_the_script() -> None:
    write("script.py", "import sys; print(sys.argv[1:])")
    arguments = ["-n", "x", "--help", "-m", "--", "--no-torch"]
    assert run(*RUN, "-n", "mine", "script.py", *arguments).stdout == f"{arguments}\n"
    assert profiles() == ["mine.hatchet"]


def test_help_and_version_are_printed() -> None:
    helped = run(*MAREY, "--help")
    assert helped.exit_code == 0
    assert "marey run train.py" in helped.stdout
    assert run(*MAREY).stdout == run(*MAREY, "-h").stdout == helped.stdout
    assert run(*MAREY, "help").stdout == helped.stdout
    assert re.fullmatch(r"marey \d+\.\d+\.\d+\S*\n", run(*MAREY, "--version").stdout)


def test_the_help_of_run_lists_exactly_its_options() -> None:
    helped = run(*RUN, "-n", "x", "--help")
    assert helped.exit_code == 0
    assert helped.stdout == run(*MAREY, "help", "run").stdout
    described = set(re.findall(r"^ +(?:-\w, )?(?:-m\b|--[a-z-]+)", helped.stdout, re.MULTILINE))
    taken = _run_parser._parser()._actions
    assert {words for line in described for words in line.replace(",", " ").split()} == {
        word for action in taken for word in action.option_strings
    }
    for action in taken:
        if action.choices:
            assert f"[possible values: {', '.join(action.choices)}]" in " ".join(
                helped.stdout.split()
            )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-"],
        ["--"],
        ["-m"],
        ["--no-such-option", "script.py"],
        ["-c", "nonsense", "script.py"],
        ["-d", "trace", "-o", "x.hatchet", "script.py"],
        ["-o", "x.chrome_trace", "script.py"],
        ["-b", "nonsense", "script.py"],
        ["-i", "nonsense", "script.py"],
        ["-o", "/dev/null/x/y", "script.py"],
    ],
)
def test_usage_errors_are_reported_before_the_script_runs(arguments: list[str]) -> None:
    write("script.py", "print('ran')")
    seen = run(*RUN, *arguments)
    assert (seen.exit_code, seen.stdout) == (2, "")
    assert re.fullmatch(r"error: .+\n(hint: .+\n)?", seen.stderr)
    assert profiles() == []
