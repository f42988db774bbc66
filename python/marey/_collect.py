"""Collecting runs, from spools to tables: in a process of its own.

A profiled program never loads the engine that collects. And such a process can be ended at any
moment: what has not been collected by then will be when the run is opened.
"""

from __future__ import annotations

import atexit
import os
import signal

from . import _command
from ._names import ENV_COLLECT

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
    if not _command.is_possible():
        return True
    is_seen = os.isatty(2)
    closed = {0: os.O_RDONLY, 1: os.O_WRONLY}
    if not is_seen:
        closed[2] = os.O_WRONLY
    exit_code = _command.wait(
        _command.start(
            ["collect", run],
            [(os.POSIX_SPAWN_OPEN, file, os.devnull, mode, 0) for file, mode in closed.items()],
        )
    )
    return is_seen or exit_code in (None, 0, -signal.SIGINT)


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
