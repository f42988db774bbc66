"""Objects that begin anew in a forked child, where the threads of the parent are gone."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["Forgetful", "begin_anew_in_child"]


class Forgetful(Protocol):
    """An object with locks or threads."""

    def forget(self) -> None:
        """Begins anew: another thread may have had a lock when the process forked."""


_objects: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def begin_anew_in_child(forgetful: Forgetful) -> None:
    """Calls `forget` in forked children, as long as the object lives."""
    _objects.add(forgetful)


def _forget() -> None:
    for forgetful in list(_objects):
        forgetful.forget()


os.register_at_fork(after_in_child=_forget)
