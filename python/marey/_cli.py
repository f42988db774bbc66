"""The command `marey`: `run`, `doctor`, `profile`, `--cflags` are in Python, others in the engine.

The help of all commands, these three included, is in the engine, in one style.
"""

from __future__ import annotations

import os
import signal
import sys

from marey import _build_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Runs the command in `sys.argv`. The target's exceptions and `SystemExit` pass through."""
    first = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if first == "run":
        _run(sys.argv[2:])
    elif _build_options.are_build_options(sys.argv[1:]):
        print(_build_options.text(sys.argv[1:]))
    elif first == "doctor":
        _doctor_command(sys.argv[2:])
    elif first == "profile":
        _profile_command(sys.argv[2:])
    elif first not in _TOP_LEVEL_OPTIONS and _is_bare_run(first):
        _run(sys.argv[1:])
    else:
        run_engine(sys.argv)


_TOP_LEVEL_OPTIONS = ("-h", "--help", "-V", "--version")
"""Options of `marey` itself, which the engine handles."""


def viewer() -> None:
    """Runs the command `marey-viewer`: `marey view` under a name like that of Proton's viewer."""
    run_engine(["marey", "view", *sys.argv[1:]])


def _run(arguments: list[str]) -> None:
    from marey import _run_command  # imports modules that other commands do not need

    _run_command.main(arguments)


def _doctor_command(arguments: list[str]) -> NoReturn:
    if not {"-h", "--help"}.isdisjoint(arguments):
        run_engine(["marey", "doctor", "--help"])
    from marey import _doctor  # imports modules that a profiled program does not need

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # waits for child processes; no cleanup needed
    sys.exit(_doctor.main(arguments))


def _profile_command(arguments: list[str]) -> NoReturn:
    from marey.training import cli  # loads the engine

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly when a pager is closed
    sys.exit(cli.main(arguments))


def run_engine(argv: list[str]) -> NoReturn:
    from marey import _engine  # large, and never needed in a profiled program

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the engine does not return to Python
    sys.exit(_engine.cli_main(argv))


def _is_bare_run(first: str) -> bool:
    """Whether the first argument is an option or the target of `run`, and not a command.

    No command contains a dot or a slash, so a file called `view` does not hide `marey view`. For a
    profile or a run, which is not a program, the engine prints how to view it.
    """
    if first.rstrip(os.sep).endswith((".hatchet", ".hatchet_msgpack", ".marey", ".marey.zip")):
        return False
    is_path = os.sep in first or first.endswith((".py", ".pyc", ".pyz", ".zip"))
    return first.startswith("-") or first == "pytest" or is_path
