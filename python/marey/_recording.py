"""The session of a `marey run`, in the process of the program and in its child processes.

`start` opens the session, and `export_to_children` sets the environment of child processes. Each
Python child process calls `follow` before anything else, so this module imports little.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

import marey
from marey import _collect, _command, _native, _process_exit, _session
from marey._flags import flags
from marey._import_hook import ImportHook
from marey._names import ENV_RUN, ENV_RUN_DIR
from marey.profile import describe_lack, start_for

if TYPE_CHECKING:
    from marey.windows.run_windows import RunWindows

_STARTUP_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup")


class Options(NamedTuple):
    """The options of `marey run`. Child processes read them as JSON from `MAREY_RUN`."""

    path: str  # absolute, without the suffix of the format
    format: str  # "hatchet" or "hatchet_msgpack"; of a trace, "chrome_trace" or "marey"
    context: Literal["shadow", "python"]
    data: Literal["tree", "trace", "ring"]
    backend: str | None
    mode: str | None
    hook: str | None
    torch: bool
    operators: bool
    performance_events: list[str] | None
    shapes: Literal["sampled", "all", "off"]
    window: str | None
    overhead: bool
    overhead_target: str | None
    memory: bool
    children: bool
    keep: str | None = None
    alert: list[str] | None = None
    profile: str | None = None  # absolute path of the training profile


def start(options: Options, *, announce: bool) -> int | None:
    """Opens the session and writes it at exit; with `announce`, prints the paths.

    Returns the session, or `None` if marey is disabled. Raises the errors of `marey.start`.
    """
    if options.performance_events:
        _count_events(options.performance_events)
    window_seconds = _window_seconds(options)
    if window_seconds is not None:
        options = options._replace(mode=f"periodic_flushing:format={options.format}")
    flags.command_line = False  # is set in a child, where `marey run` opens another session
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
    run = run_directory(options) if options.data != "tree" else None
    windows = None
    if window_seconds is not None:
        windows = _start_windows(options, session, window_seconds)
    atexit.register(_finish, options, run, windows, *announcing)
    if options.torch:
        _record_torch(options, is_stepwise=options.window is not None and window_seconds is None)
    return session


def _record_torch(options: Options, *, is_stepwise: bool) -> None:
    """Installs PyTorch's hooks: if nothing needs them before, when the program imports PyTorch."""

    def enable(_: object = None) -> None:
        from marey import torch

        torch.enable(
            operators=options.operators,
            shapes=options.shapes,
            memory=options.memory,
            measure_overhead=options.overhead,
            overhead_target=options.overhead_target,
        )

    if "torch" in sys.modules or is_stepwise or options.overhead or options.overhead_target:
        enable()
    else:
        # The program may itself use the hooks, which must then be as the options say.
        ImportHook(("torch", "marey.torch"), enable).install()
    if is_stepwise:
        from marey import _torch_window

        assert options.window is not None
        _torch_window.arm(options.window)


def _window_seconds(options: Options) -> float | None:
    """Returns the length of windows of time; `None` if there are none."""
    if options.window is None or options.data == "trace":
        return None
    from marey import _checks  # a module that most programs never use

    return _checks.duration_seconds(options.window)


def _start_windows(options: Options, session: int, seconds: float) -> RunWindows:
    from marey.windows.run_windows import RunWindows

    suffix, alerts = f".{options.format}", options.alert or []
    return RunWindows(seconds, options.path, suffix, session, keep=options.keep, alerts=alerts)


def _count_events(events: list[str]) -> None:
    from marey import performance

    try:
        performance.enable(events)
    except RuntimeError as error:
        _session.say(f"no performance events are recorded: {error}")


def _finish(
    options: Options,
    run: str | None,
    windows: RunWindows | None,
    announcing_pid: int,
    directory: str,
) -> None:
    """Writes the profile. Registered before the program starts, so it runs after its handlers."""
    _process_exit.begin()
    if windows is not None:
        windows.finish(directory if os.getpid() == announcing_pid else None)
    try:
        marey.finalize(output_format=options.format)
    except Exception as error:
        _session.say(f"could not write the profile: {error}")
    if os.getpid() == announcing_pid:
        _say_overhead()
        paths = dict.fromkeys(_session.written)
        if run is not None and options.profile is not None:
            _save_profile(run, options.profile, directory)
        if run is not None and os.path.isdir(run):
            paths[run] = None
        for path in filter(os.path.exists, paths):
            shown = shown_path(path, directory)
            _session.say(f"wrote {shown}")
            _session.say(_next_step(shown))


def _save_profile(run: str, path: str, directory: str) -> None:
    """Packs the run into a training profile, and removes its folder unless a process uses it."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _command.run("pack", run, "-o", path, "--force")
    except OSError as error:
        _session.say(f"could not write the training profile: {error}")
        return
    shown = shown_path(path, directory)
    _session.say(f"wrote {shown}")
    _session.say(f"analyze it with: marey profile analyze {shlex.quote(shown)}")
    if not _collect.is_recorded(run):
        import shutil  # imports modules that a profiled program need not have

        shutil.rmtree(run, ignore_errors=True)


def _say_overhead() -> None:
    """Prints what recording has cost, if that was measured."""
    torch = sys.modules.get("marey.torch")
    statement = None if torch is None else torch.measured_overhead()
    if statement is not None:
        _session.say(f"recording costs {statement}")


def _next_step(path: str) -> str:
    if path.endswith(".chrome_trace"):
        return "see it at https://ui.perfetto.dev or chrome://tracing"
    if path.endswith(".marey"):
        return f"query it with: marey query {shlex.quote(path)}"
    return f"see it with: marey view {shlex.quote(path)}"


def shown_path(path: str, directory: str) -> str:
    """Returns the path relative to `directory` if it is inside, else the absolute path."""
    inside = path.startswith(os.path.join(directory, ""))
    return os.path.relpath(path, directory) if inside else path


def export_to_children(options: Options) -> None:
    """Sets the environment so that Python child processes are profiled too."""
    os.environ[ENV_RUN] = json.dumps(options._asdict())
    if options.data != "tree":
        os.environ[ENV_RUN_DIR] = run_directory(options)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if paths[0] != _STARTUP_DIR:
        # An empty entry would mean the working directory.
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP_DIR, *(paths if any(paths) else [])])


def run_directory(options: Options) -> str:
    """Returns the run directory of traces; inside another `marey run`, the outer directory."""
    return os.environ.get(ENV_RUN_DIR) or f"{options.path}.marey"


def rename_earlier_run(options: Options) -> None:
    """Renames the run of an earlier program, in a process that does not record itself."""
    session = _native.start(
        options.path,
        python_context=False,
        output_format="marey",
        flush_phases=False,
        quiet_if_empty=True,
    )
    _native.finalize(session)


def follow() -> None:
    """Opens, in a child process, a session with the parent's options and its own file."""
    options = Options(**json.loads(os.environ[ENV_RUN]))
    session = start(options._replace(path=f"{options.path}.{os.getpid()}"), announce=False)
    if session is not None:
        _native.set_quiet_if_empty(session)
        _session.leave_end_to_parent()
