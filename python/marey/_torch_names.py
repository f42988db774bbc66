"""Dotted names of modules. Models are never modified: their names are stored here, by identity.

A name lives as long as its module.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import TYPE_CHECKING, Any

from marey import _native

if TYPE_CHECKING:
    from torch.nn import Module


def of_root(root: Module) -> Names:
    """Returns the names below a module that no other module has called, the same each time."""
    key = id(root)
    known = roots.get(key)
    if known is not None:
        return known[1]
    names = Names.below(root)
    roots[key] = (weakref.ref(root, lambda _: roots.pop(key, None)), names)
    return names


def models() -> list[Module]:
    """Returns the models that have been called and are alive."""
    references = [reference for reference, _ in list(roots.values())]
    return [root for reference in references if (root := reference()) is not None]


class Names(dict[int, str]):
    """Dotted names of the modules below one root, by id, as long as each module lives.

    The mapping has the modules that were called since a session began. The others are found by
    `find`, so that their first call takes the slow path, which records its line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._references: dict[int, weakref.ref[Module]] = {}
        self._root_key: int | None = None
        self._uncalled: dict[int, str] = {}
        self._sessions: list[int] = []

    @classmethod
    def below(cls, root: Module) -> Names:
        names = cls()
        names._root_key = id(root)
        names._learn(root)
        return names

    def find(self, key: int) -> str | None:
        """Returns the name of a module, called or not."""
        name = self.get(key)
        return self._uncalled.get(key) if name is None else name

    def is_first_call(self, key: int) -> bool:
        """Whether the sessions that are alive see the first call of a module, which this is."""
        if key == self._root_key:
            return self._follow_sessions()
        name = self._uncalled.pop(key, None)
        if name is not None:
            self[key] = name
        return name is not None

    def _follow_sessions(self) -> bool:
        sessions = _native.sessions()
        if sessions == self._sessions:
            return False
        self._sessions = sessions
        self._uncalled.update(self)
        self.clear()
        return True

    def learn_addition(self, module: Module, caller_key: int) -> None:
        """Reads all names again if `module` was added below the named module that calls it."""
        caller, root = self._living(caller_key), self._living(self._root_key)
        if caller is not None and root is not None and _is_below(module, caller):
            self._learn(root)

    def _living(self, key: int | None) -> Module | None:
        reference = None if key is None else self._references.get(key)
        return None if reference is None else reference()

    def _learn(self, root: Module) -> None:
        # A model may override `named_modules`; its exceptions must not reach the program.
        with contextlib.suppress(Exception):
            for name, module in root.named_modules():
                self._add(module, sys.intern(name))

    def _add(self, module: Module, name: str) -> None:
        key = id(module)
        if key not in self._references:
            self._references[key] = weakref.ref(module, lambda _: self._forget(key))
        if name:  # the root has no name, and must not be found as its own child
            (self if key in self else self._uncalled)[key] = name

    def _forget(self, key: int) -> None:
        self.pop(key, None)
        self._uncalled.pop(key, None)
        self._references.pop(key, None)


def _is_below(module: Module, caller: Module) -> bool:
    with contextlib.suppress(Exception):
        return module is not caller and any(below is module for below in caller.modules())
    return False


# The weak reference removes the entry when the root dies.
roots: dict[int, tuple[weakref.ref[Any], Names]] = {}
