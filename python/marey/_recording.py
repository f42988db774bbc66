"""The session of a `marey run`: in the process that runs the program, and in those it starts.

`start` opens the session and `hand_down` tells child processes of it; a child joins by `follow`,
which each Python process below a run calls before anything else, so little is imported here.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
from typing import Literal, NamedTuple

import marey
from marey import _native, _session
from marey._flags import flags
from marey._names import ENV_RUN, ENV_RUN_DIR
from marey.profile import describe_lack, start_for

_STARTUP_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup")


class Options(NamedTuple):
    """What `marey run` was asked for; child processes get it as JSON in `MAREY_RUN`."""

    path: str  # absolute, without the format's suffix
    format: str  # "hatchet" or "hatchet_msgpack"; of a trace, "chrome_trace" or "marey"
    context: Literal["shadow", "python"]
    data: Literal["tree", "trace"]
    backend: str | None
    mode: str | None
    hook: str | None
    torch: bool
    children: bool


def start(options: Options, *, announce: bool) -> int | None:
    """Open the session and have it written at exit; with `announce`, say where.

    Returns the session, or `None` when marey is disabled. Raises what `marey.start` raises.
    """
    flags.command_line = False  # set in a child; a `marey run` there opens a session of its own
    session = start_for(
        "marey" if options.format == "marey" else "chrome_trace",
        options.path,
        context=options.context,
        data=options.data,
        backend=options.backend,
        mode=options.mode,
        hook=options.hook,
    )
    flags.command_line = True
    if session is None:
        return None
    if announce and (lack := describe_lack(options.mode)):
        _session.say(lack)
    announcing = (os.getpid(), os.getcwd()) if announce else (0, "")
    run = run_directory(options) if options.data == "trace" else None
    atexit.register(_finish, options.format, run, *announcing)
    if options.torch:
        from marey import torch

        torch.enable()
    return session


def _finish(file_format: str, run: str | None, announcing_pid: int, directory: str) -> None:
    """Write the profile. Registered before the program starts, so it runs after its handlers."""
    try:
        marey.finalize(output_format=file_format)
    except Exception as error:
        _session.say(f"could not write the profile: {error}")
    if os.getpid() == announcing_pid:
        paths = dict.fromkeys(_session.written)
        if run is not None and os.path.isdir(run):
            paths[run] = None
        for path in paths:
            shown = shown_path(path, directory)
            _session.say(f"wrote {shown}")
            _session.say(_what_to_do(shown))


def _what_to_do(path: str) -> str:
    if path.endswith(".chrome_trace"):
        return "see it at https://ui.perfetto.dev or chrome://tracing"
    if path.endswith(".marey"):
        return f"ask it with: marey query {shlex.quote(path)}"
    return f"see it with: marey view {shlex.quote(path)}"


def shown_path(path: str, directory: str) -> str:
    """The path as a user in `directory` would write it."""
    inside = path.startswith(os.path.join(directory, ""))
    return os.path.relpath(path, directory) if inside else path


def hand_down(options: Options) -> None:
    """Set the environment so that Python processes started from here are profiled too."""
    os.environ[ENV_RUN] = json.dumps(options._asdict())
    if options.data == "trace":
        os.environ[ENV_RUN_DIR] = run_directory(options)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if paths[0] != _STARTUP_DIR:
        # An empty part would mean the working directory.
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP_DIR, *(paths if any(paths) else [])])


def run_directory(options: Options) -> str:
    """Where traces are recorded; within another `marey run`, that one's directory."""
    return os.environ.get(ENV_RUN_DIR) or f"{options.path}.marey"


def make_way(options: Options) -> None:
    """Move the run of an earlier program aside, where this process will not record itself."""
    session = _native.start(
        options.path,
        python_context=False,
        output_format="marey",
        flush_phases=False,
        quiet_if_empty=True,
    )
    _native.finalize(session)


def follow() -> None:
    """In a child process: open a session with the parent's options and a file of its own."""
    options = Options(**json.loads(os.environ[ENV_RUN]))
    session = start(options._replace(path=f"{options.path}.{os.getpid()}"), announce=False)
    if session is not None:
        _native.set_quiet_if_empty(session)
        _session.say_nothing_at_end()
