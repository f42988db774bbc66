"""Collection of runs, from spools to tables, in a separate process.

A profiled program never loads the engine, which does the collection. The process can be killed at
any time: spools that are not collected yet are collected when the run is opened.
"""

from __future__ import annotations

import atexit
import os
import signal

from . import _command
from ._names import ENV_COLLECT

_scheduled_runs: dict[str, None] = {}  # an ordered set
_is_disabled = False


def collect_at_exit(run: str | None) -> None:
    """Schedules a run for collection when this process ends, if no process records it then."""
    if run is not None:
        _scheduled_runs[os.path.abspath(run)] = None


def disable() -> None:
    """Disables collection in this process, because its recording is part of its parent's run."""
    global _is_disabled
    _is_disabled = True


def collect(run: str) -> bool:
    """Collects a run and waits for the end. Returns false if a failure was not shown.

    On a terminal the process shows progress and errors. If a signal handler raises during the wait,
    as for Ctrl-C, the process is ended.

    Raises:
        OSError: The process cannot be started.
    """
    if not _command.is_possible():
        return True
    has_terminal = os.isatty(2)
    null_files = {0: os.O_RDONLY, 1: os.O_WRONLY}
    if not has_terminal:
        null_files[2] = os.O_WRONLY
    exit_code = _command.wait(
        _command.start(
            ["collect", run],
            [(os.POSIX_SPAWN_OPEN, file, os.devnull, mode, 0) for file, mode in null_files.items()],
        )
    )
    return has_terminal or exit_code in (None, 0, -signal.SIGINT)


def _collect_runs() -> None:
    if _is_disabled or os.environ.get(ENV_COLLECT, "1") in ("", "0"):
        return
    for run in _scheduled_runs:
        if not _has_spools(run) or is_recorded(run):
            continue
        try:
            succeeded = collect(run)
        except OSError:
            succeeded = False
        except BaseException:
            return  # raised by a signal handler; the program itself has already ended
        if not succeeded:
            from . import _session

            _session.say(f"{run} could not be collected; it will be when it is opened")


def _has_spools(run: str) -> bool:
    try:
        return len(os.listdir(os.path.join(run, "spool"))) > 0
    except OSError:
        return False


def is_recorded(run: str) -> bool:
    """Whether a process still records into the run, and so holds the lock on `.recording`."""
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
        return False  # the file system has no locks
    finally:
        os.close(lock)
    return False


# Handlers run in reverse order, so this one runs after all that are registered later.
atexit.register(_collect_runs)
