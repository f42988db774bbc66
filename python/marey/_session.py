"""Forks, the end of the process, and its messages, for the sessions of a process."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from types import ModuleType

from . import _collect, _native, _process_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .hooks import HookManager

written: list[str] = []
"""Paths of the profiles that this process has written."""

_prints_gpu_note = True


def leave_end_to_parent() -> None:
    """Leaves the note on missing GPU activity and the collection of the run to a parent process."""
    global _prints_gpu_note
    _prints_gpu_note = False
    _collect.disable()


def finish(session: int | None, output_format: str) -> None:
    """Ends a session, or all sessions, and writes the files.

    The first time, prints why the files have no GPU activities.

    Raises:
        IndexError: The session does not exist.
        ValueError: The format is unknown.
        OSError: A file cannot be written.
    """
    global _prints_gpu_note
    _process_exit.begin_if_in_exit_handler()
    _end_windows(session)
    watching = sys.modules.get("marey.watching")
    if watching is not None:
        watching.settle()
    settle()
    for ending in _native.sessions() if session is None else [session]:
        with contextlib.suppress(IndexError):  # another thread has just ended the session
            _collect.collect_at_exit(_native.run_dir(ending))
    note = None
    if _prints_gpu_note:
        from ._backend import gpu_note

        note = gpu_note()  # before `finalize`, which resets the GPU level
    paths = _native.finalize(session, output_format)
    if watching is not None and not _native.is_recording():
        watching.end_all()
    written.extend(paths)
    if _prints_gpu_note and paths:
        _prints_gpu_note = False
        if note is not None:
            say(note)


def hook_manager() -> type[HookManager] | None:
    """Returns the hook manager, or `None` if no hook was ever registered."""
    module = sys.modules.get("marey.hooks.hook")
    return None if module is None else module.HookManager


settlers: list[Callable[[], None]] = []
"""Functions that record what they have put off, before data is read or a session ends."""


def settle() -> None:
    """Makes hooks add metrics that they wait for, before data is read or a session ends."""
    if manager := hook_manager():
        manager.settle()
    for settler in settlers:
        settler()


def _end_windows(session: int | None) -> None:
    """Ends the windows of torch.profiler that a trace session is about to lose."""
    windows = sys.modules.get("marey._torch_window")
    if windows is not None and (session is None or _native.run_dir(session) is not None):
        windows.finish()


def say(line: str) -> None:
    """Prints a line to the original stderr, unless the program has closed it."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):  # stderr is closed
            # In one write, because other processes may print there too.
            sys.__stderr__.write(f"marey: {line}\n")
            sys.__stderr__.flush()


def _finish_at_exit() -> None:
    if not _native.is_recording():
        return
    _process_exit.begin()
    try:
        finish(None, "")
    except OSError as error:
        say(str(error))
    # The exit handler of the library would wait for these threads. Daemon threads would then ask
    # for the GIL, for which CPython 3.10 reads what the interpreter has freed by then, and crash.
    _native.end_idle_threads()


def _after_fork_in_child() -> None:
    """Prepares a forked child, which keeps recording to its own file and writes it at its end."""
    written.clear()
    leave_end_to_parent()
    _register_with_multiprocessing()


def _register_with_multiprocessing() -> None:
    """Registers with `multiprocessing`, whose children run its finalizers but not `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    if sys.modules["multiprocessing.process"].parent_process() is not None:
        _register_finalizer(util)
    # A new child clears the registry of finalizers before it calls this function.
    util.register_after_fork(_anchor, lambda _: _register_finalizer(util))


def _register_finalizer(util: ModuleType) -> None:
    util.Finalize(None, _finish_at_exit, exitpriority=-100)


class _Anchor:
    """The object that `multiprocessing` refers to weakly; lives as long as the process."""


_anchor = _Anchor()

# Handlers run in reverse order, so this one runs after all that the program registers later.
atexit.register(_finish_at_exit)
_register_with_multiprocessing()
os.register_at_fork(
    before=_native.before_fork,
    after_in_parent=_native.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
