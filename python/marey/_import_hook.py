"""Functions that are called right after the program's import of a module, which they wait for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class ImportHook:
    """Calls a function with a module of one of these names, whichever is imported first.

    An exception of the function becomes a warning, so that the program's import succeeds. The
    classes here derive from none of `importlib.abc`, which imports much that programs may not need.
    """

    def __init__(self, names: Sequence[str], act: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._act = act

    def install(self) -> None:
        """Begins to wait for the import."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Ends the waiting."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns what the other finders find, with a loader that calls the function."""
        if fullname not in self._names:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
                    return spec
        return None

    def call(self, module: ModuleType) -> None:
        """Calls the function, unless `remove` was called since."""
        if self not in sys.meta_path:
            return
        self.remove()
        try:
            self._act(module)
        except Exception as error:
            name = module.__name__
            warnings.warn(f"marey cannot hook this {name}: {error!r}", RuntimeWarning, stacklevel=3)


class _Loader:
    """Wraps a loader, which is restored in the module before the module's code runs."""

    def __init__(self, loader: Any, hook: ImportHook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hook.call(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
