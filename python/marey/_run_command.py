"""The command `marey run`: records a program in this process, or a command in child processes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import marey
from marey import _native, _recording, _run
from marey._flags import is_disabled
from marey._run_options import Target, fail, parse


def main(arguments: list[str]) -> None:
    target, options, instrument = parse(arguments)
    if target.kind == "command":
        _exec_command(target, options)
    program = _run.load(target)
    if not is_disabled():
        if instrument:
            _instrument()
        else:
            _start(options)
    # Frames below this one are marey's and not part of the program's call stacks.
    _native.set_frame_base(_run.run.__code__)
    _run.run(program)


def _start(options: _recording.Options) -> None:
    try:
        os.makedirs(os.path.dirname(options.path), exist_ok=True)
        _recording.start(options, announce=True)
    except (marey.BackendUnavailable, ValueError, OSError) as error:
        fail(str(error), getattr(error, "hint", None))
    if options.children:
        _recording.export_to_children(options)


def _instrument() -> None:
    from marey import _mem_spaces  # imports modules that a profiled program does not need

    try:
        _mem_spaces.start()
    except ModuleNotFoundError as error:
        fail(str(error), f"{sys.executable} -m pip install triton")
    except OSError as error:
        fail(str(error))


def _exec_command(target: Target, options: _recording.Options) -> NoReturn:
    if not is_disabled():
        _announce_processes(options)
        _recording.export_to_children(options)
    try:
        os.execvpe(target.argv[0], target.argv, os.environ)
    except FileNotFoundError:
        fail(f"command not found: {target.argv[0]}", exit_code=127)
    except OSError as error:
        fail(f"cannot run {target.argv[0]}: {error.strerror}", exit_code=126)


def _announce_processes(options: _recording.Options) -> None:
    if options.data != "tree":
        try:
            _recording.rename_earlier_run(options)
        except OSError as error:
            fail(str(error))
    if options.format == "marey":
        verb, path = "records into", _recording.run_directory(options)
    else:
        verb, path = "writes", f"{options.path}.<pid>.{options.format}"
    shown = _recording.shown_path(path, os.getcwd())
    print(f"marey: each Python process {verb} {shown}", file=sys.stderr, flush=True)
