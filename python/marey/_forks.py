"""Objects in a forked child: their locks may have been held by a thread that it does not have."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_followers: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


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
    _lock = threading.Lock()
    for follower, prepare in list(_followers.items()):
        prepare(follower)


os.register_at_fork(after_in_child=_after_fork_in_child)
