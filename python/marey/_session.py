"""What a process does about its sessions beside recording: forks, the end, and what to say then."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from . import _collect, _native

if TYPE_CHECKING:
    from .hooks import HookManager

written: list[str] = []
"""Paths of the profiles that this process has written."""

_says_note = True


def say_nothing_at_end() -> None:
    """Leaves it to a parent process to say why there is no GPU activity, and to collect the run."""
    global _says_note
    _says_note = False
    _collect.leave_to_parent()


def finish(session: int | None, output_format: str) -> None:
    """Ends a session, or all of them, and writes the files.

    The first time, says why they hold no GPU activity.

    Raises:
        IndexError: There is no such session.
        ValueError: There is no such format.
        OSError: A file cannot be written.
    """
    global _says_note
    settle()
    for ending in _native.sessions() if session is None else [session]:
        with contextlib.suppress(IndexError):  # another thread has just ended it
            _collect.at_exit(_native.run_dir(ending))
    note = None
    if _says_note:
        from ._backend import gpu_note

        note = gpu_note()  # before the end, which forgets how the GPU was recorded
    paths = _native.finalize(session, output_format)
    written.extend(paths)
    if _says_note and paths:
        _says_note = False
        if note is not None:
            say(note)


def hook_manager() -> type[HookManager] | None:
    """The manager of hooks, if any hook was ever registered."""
    module = sys.modules.get("marey.hooks.hook")
    return None if module is None else module.HookManager


def settle() -> None:
    """Has hooks add what they still wait for: what was recorded is about to be read or to end."""
    if manager := hook_manager():
        manager.settle()


def say(line: str) -> None:
    """Prints on the real stderr, which the program may have closed or never had."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):  # nobody is left to tell
            # In one piece: other processes may print there too.
            sys.__stderr__.write(f"marey: {line}\n")
            sys.__stderr__.flush()


def _finish_at_exit() -> None:
    if not _native.is_recording():
        return
    try:
        finish(None, "")
    except OSError as error:
        say(str(error))


def _after_fork_in_child() -> None:
    """The child records on, under a name of its own, and writes it when it ends."""
    written.clear()
    say_nothing_at_end()
    _finish_with_multiprocessing()


def _finish_with_multiprocessing() -> None:
    """`multiprocessing` ends its children without the usual exit work, but with work of its own."""
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    if sys.modules["multiprocessing.process"].parent_process() is not None:
        _finish_last(util)
    # A child that is only beginning empties the registry of such work, and then calls this.
    util.register_after_fork(_anchor, lambda _: _finish_last(util))


def _finish_last(util: ModuleType) -> None:
    util.Finalize(None, _finish_at_exit, exitpriority=-100)


class _Anchor:
    """Something for `multiprocessing` to refer to weakly, as long as the process lives."""


_anchor = _Anchor()

# Registered on import, and so called after everything that the program registers later.
atexit.register(_finish_at_exit)
_finish_with_multiprocessing()
os.register_at_fork(
    before=_native.before_fork,
    after_in_parent=_native.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
