"""The import of torch, seen by a finder that stands before the others until then."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any


class Finder(importlib.abc.MetaPathFinder):
    """Finds torch with the other finders, and calls a function with it after its import."""

    def __init__(self, on_import: Callable[[Any], None]) -> None:
        self._on_import = on_import

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, self._on_import)
                    return spec
        return None


class _Loader(importlib.abc.Loader):
    """Wraps a loader. The wrapped loader is restored in the module before torch's code runs."""

    def __init__(self, loader: Any, on_import: Callable[[Any], None]) -> None:
        self._loader = loader
        self._on_import = on_import

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._on_import(module)
        except Exception as error:
            warnings.warn(f"marey cannot hook this torch: {error!r}", RuntimeWarning, stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
