"""Collecting runs, from spools to tables: in a process of its own.

A profiled program never loads the engine that collects. And such a process can be ended at any
moment: what has not been collected by then will be when the run is opened.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

from ._names import ENV_COLLECT

# Runs isolated from the program's directory and environment, but with the same marey.
_PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path.append(sys.argv[1])
from marey import _engine
sys.exit(_engine.cli_main(["marey", "collect", *sys.argv[2:]]))
"""

_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_runs: dict[str, None] = {}  # a set in order
_is_left_to_parent = False


def at_exit(run: str | None) -> None:
    """Has a run, if it is one, collected when this process ends, if nobody records it then."""
    if run is not None:
        _runs[os.path.abspath(run)] = None


def leave_to_parent() -> None:
    """Collects nothing at the end: what this process records is a part of its parent's run."""
    global _is_left_to_parent
    _is_left_to_parent = True


def collect(run: str) -> bool:
    """Collects a run and waits for it. Returns whether there is nothing left to complain of.

    On a terminal it shows how far it is, and what goes wrong. If the handler of a signal raises
    meanwhile, as Ctrl-C does, it is ended.

    Raises:
        OSError: The process cannot be started.
    """
    if not _is_python(sys.executable) or getattr(sys, "frozen", False):
        return True  # there is no interpreter to start
    is_seen = os.isatty(2)
    process = _start(run, is_seen)
    try:
        _, status = os.waitpid(process, 0)
    except ChildProcessError:
        return True  # the program waits for children that it does not know
    except BaseException:
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
        raise
    return is_seen or os.waitstatus_to_exitcode(status) in (0, -signal.SIGINT)


def _is_python(executable: str | None) -> bool:
    """Whether this is an interpreter, and no program with one inside, as uWSGI is."""
    return os.path.basename(executable or "").startswith(("python", "pypy"))


def _start(run: str, is_seen: bool) -> int:
    """Starts the process: by no fork, for which a large program waits, and which hooks notice."""
    closed = {0: os.O_RDONLY, 1: os.O_WRONLY}
    if not is_seen:
        closed[2] = os.O_WRONLY
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", _PROGRAM, _PACKAGES, run],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, file, os.devnull, mode, 0) for file, mode in closed.items()
        ],
        setsigmask=[],
    )


def _collect_at_exit() -> None:
    if _is_left_to_parent or os.environ.get(ENV_COLLECT, "1") in ("", "0"):
        return
    for run in _runs:
        if not _has_spools(run) or _is_recorded(run):
            continue
        try:
            is_well = collect(run)
        except OSError:
            is_well = False
        except BaseException:
            return  # from a signal's handler: the program itself has ended already
        if not is_well:
            from . import _session

            _session.say(f"{run} could not be collected: that is tried again when it is opened")


def _has_spools(run: str) -> bool:
    try:
        return len(os.listdir(os.path.join(run, "spool"))) > 0
    except OSError:
        return False


def _is_recorded(run: str) -> bool:
    """Whether some process still records into the run: it then holds a lock."""
    import fcntl

    try:
        lock = os.open(os.path.join(run, ".recording"), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a filesystem without locks
    finally:
        os.close(lock)
    return False


# Registered on import, and so called after everything that is registered later.
atexit.register(_collect_at_exit)
