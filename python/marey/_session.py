"""What a process does about its sessions beside recording: forks, the end, and what to say then."""

from __future__ import annotations

import atexit
import os
import sys

from . import _native

written: list[str] = []
"""Paths of the profiles that this process has written."""

_wants_note = False


def note_missing_gpu_at_end() -> None:
    """Has the next `finish` say, once, why there is no GPU activity in the profile."""
    global _wants_note
    _wants_note = True


def say_nothing_at_end() -> None:
    """Takes that back, in a process whose parent says it."""
    global _wants_note
    _wants_note = False


def finish(session: int | None, output_format: str) -> None:
    """Ends a session, or all of them, and writes the files.

    Raises:
        IndexError: There is no such session.
        ValueError: There is no such format.
        OSError: A file cannot be written.
    """
    global _wants_note
    paths = _native.finalize(session, output_format)
    written.extend(paths)
    if _wants_note and paths:
        from ._backend import missing_gpu_note

        _wants_note = False
        print(f"marey: {missing_gpu_note()}", file=sys.__stderr__)


def _finish_at_exit() -> None:
    if not _native.is_recording():
        return
    try:
        finish(None, "")
    except OSError as error:
        print(f"marey: {error}", file=sys.__stderr__)


def _after_fork_in_child() -> None:
    """The child records on, under a name of its own, and writes it when it ends.

    `multiprocessing` ends its children without the usual exit work, but with work of its own.
    """
    global _wants_note
    written.clear()
    _wants_note = False
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # The registry is emptied after this; the function is called when that is over.
        util.register_after_fork(written_by_child, lambda _: _finish_with_multiprocessing())


class _Anchor:
    """Something for `multiprocessing` to refer to weakly, as long as the process lives."""


written_by_child = _Anchor()


def _finish_with_multiprocessing() -> None:
    from multiprocessing import util

    util.Finalize(None, _finish_at_exit, exitpriority=-100)


# Registered on import, and so called after everything that the program registers later.
atexit.register(_finish_at_exit)
os.register_at_fork(
    after_in_parent=_native.after_fork_in_parent, after_in_child=_after_fork_in_child
)
