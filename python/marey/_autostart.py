"""Starts recording when the interpreter starts, if `MAREY` says so, as `marey run` would.

`marey.pth` imports this module before the program runs, which must behave as without it.
"""

from __future__ import annotations

import os
import shlex
import sys

from marey._flags import is_disabled
from marey._names import ENV_MAREY, ENV_RUN, ENV_TORCH_PROFILING

_ON = ("1", "on", "true", "yes")
_OFF = ("", "0", "off", "false", "no")
_TORCH_PROFILING = ["-d", "trace", "--memory"]
_OPTIONS_WITH_VALUE = "WX"  # of the interpreter; -c and -m end its options
_LONG_OPTIONS_WITH_VALUE = ("--check-hash-based-pycs",)
_PROGRAM_OF_CODE = ["-m", "python"]  # the name of a recording of `python -c`, or of a prompt


def start() -> None:
    """Starts recording, unless this process is marey's own or a child of a recorded process.

    A failure is printed, and the program runs without a recording.
    """
    is_on = _is_on(ENV_MAREY) or _is_on(ENV_TORCH_PROFILING)
    if not is_on or is_disabled() or os.environ.get(ENV_RUN):
        return
    target = _program(sys.orig_argv)
    if _is_marey(target):
        return
    try:
        _start([*_options(), *target])
    except SystemExit:
        _say_failure("see above")  # the parser has printed what is wrong
    except Exception as error:
        _say_failure(str(error))


def _start(arguments: list[str]) -> None:
    # They import modules that an unrecorded process does not need.
    from marey import _recording, _run_options

    _, options, _ = _run_options.parse(arguments)
    os.makedirs(os.path.dirname(options.path), exist_ok=True)
    _recording.start(options, announce=True)
    if options.children:
        _recording.export_to_children(options)
    else:  # they would read these variables too
        os.environ.pop(ENV_MAREY, None)
        os.environ.pop(ENV_TORCH_PROFILING, None)


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() not in _OFF


def _options() -> list[str]:
    """Returns the options of `marey run` that the environment names."""
    if not _is_on(ENV_MAREY):
        return _TORCH_PROFILING
    value = os.environ[ENV_MAREY]
    return [] if value.strip().lower() in _ON else shlex.split(value)


def _program(argv: list[str]) -> list[str]:
    """Returns the program of an interpreter's command line as arguments of `marey run`."""
    position = 1
    while position < len(argv) and argv[position].startswith("-") and argv[position] != "-":
        option = argv[position]
        position += 1
        if option.startswith("--"):
            position += option in _LONG_OPTIONS_WITH_VALUE
            continue
        # Short options may be joined: -Ic is -I -c.
        for offset, letter in enumerate(option[1:], 2):
            value = option[offset:]
            if letter == "c":
                return _PROGRAM_OF_CODE
            if letter == "m":
                return ["-m", *([value] if value else []), *argv[position:]]
            if letter in _OPTIONS_WITH_VALUE:
                position += not value
                break
    program = argv[position:]
    return program if program and program[0] != "-" else _PROGRAM_OF_CODE


def _is_marey(target: list[str]) -> bool:
    """Whether a program is the command line of marey, which records its program itself."""
    if target[0] == "-m":
        return target[1:2] == ["marey"]
    return os.path.basename(target[0]) in ("marey", "marey-viewer")


def _say_failure(reason: str) -> None:
    sys.stderr.write(f"marey: process {os.getpid()} is not profiled: {reason}\n")


start()
