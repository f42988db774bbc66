"""The exit of the process, from which on each wait for a GPU ends after a few seconds.

A GPU may hang for ever, as behind a collective whose peer has died, and the process must exit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from . import _native

MAX_WAIT_SECS = 3.0
"""The longest time that the exit handlers of the process wait for values of GPUs, in all."""

_left_secs: float | None = None
"""The rest of that time; `None` before the process exits."""


def begin() -> None:
    """Bounds all waits for GPUs from now on. Each of our exit handlers calls this first."""
    global _left_secs
    if _left_secs is None:
        _left_secs = MAX_WAIT_SECS
        _native.begin_process_exit()


def begin_if_in_exit_handler() -> None:
    """Calls `begin` if exit handlers run, such as one of the program that ends a session."""
    threading = sys.modules.get("threading")
    # Python ends the main thread, as far as `threading` knows, before it calls the handlers.
    if threading is not None and not threading.main_thread().is_alive():
        begin()


def left_secs() -> float:
    """Returns how long a wait for a GPU may last, -1 for any time, as `Lock.acquire` does."""
    return -1 if _left_secs is None else _left_secs


def has_given_up() -> bool:
    """Whether that time is over. What GPUs have not delivered by then is lost."""
    return _left_secs == 0.0


def wait_for_gpu(is_passed: Callable[[], bool], wait: Callable[[], None]) -> bool:
    """Calls `wait`; while the process exits, asks `is_passed` until its time is over instead.

    Returns whether the GPU has passed what was waited for.
    """
    global _left_secs
    if _left_secs is None:
        wait()
        return True
    deadline = time.monotonic() + _left_secs
    while not is_passed():
        _left_secs = max(0.0, deadline - time.monotonic())
        if _left_secs == 0.0:
            return False
        time.sleep(0.001)  # noqa: TID251 - a GPU notifies nobody without a wait that has no end
    return True


def _after_fork_in_child() -> None:
    global _left_secs
    _left_secs = None


os.register_at_fork(after_in_child=_after_fork_in_child)
