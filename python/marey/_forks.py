"""Objects in a forked child: their locks may have been held by a thread that it does not have."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Follower(Protocol):
    """An object that prepares itself for the child."""

    def after_fork_in_child(self) -> None:
        """Replaces locks, and drops what belongs to the parent alone."""


_followers: weakref.WeakSet[Follower] = weakref.WeakSet()
_lock = threading.Lock()


def follow(follower: Follower) -> None:
    """Prepares an object in forked children for as long as it lives."""
    with _lock:
        _followers.add(follower)


def followers() -> list[Follower]:
    """Returns the living objects."""
    with _lock:
        return list(_followers)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for follower in list(_followers):
        follower.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
