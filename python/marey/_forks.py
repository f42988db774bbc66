"""Objects in a forked child: their locks may have been held by a thread that it does not have."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_followers: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
# A signal handler may end the session in the middle of `follow`.
_lock = threading.RLock()


def follow(follower: T, prepare: Callable[[T], None]) -> None:
    """Calls `prepare` with an object in forked children, for as long as the object lives.

    It replaces locks, and drops what belongs to the parent alone.
    """
    with _lock:
        _followers[follower] = prepare


def followers(kind: type[T]) -> list[T]:
    """Returns the living objects of a class."""
    with _lock:
        return [follower for follower in _followers if isinstance(follower, kind)]


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    with contextlib.ExitStack() as preparations:  # each runs, even if another raises
        for follower, prepare in reversed(list(_followers.items())):
            preparations.callback(prepare, follower)


os.register_at_fork(after_in_child=_after_fork_in_child)
