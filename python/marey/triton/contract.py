"""The launch hooks of Triton 3.6 to 3.9, as marey uses them.

``triton.knobs.runtime`` holds a chain of functions for each kind of hook. Both versions call
``launch_enter_hook`` in the order of addition and ``launch_exit_hook`` and ``kernel_load_end_hook``
in the reverse, all with the same arguments; 3.6 has no ``kernel_unload_hook``. Neither calls
``launch_exit_hook`` when the launch fails.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeGuard

from marey._warning import warn

# The chains, and whether marey needs each of them.
_CHAINS = {
    "kernel_load_end_hook": True,
    "kernel_unload_hook": False,
    "launch_enter_hook": True,
    "launch_exit_hook": True,
}


class Chain(Protocol):
    """Triton's list of hooks of one kind."""

    def add(self, func: Callable[..., None], /) -> None: ...
    def remove(self, func: Callable[..., None], /) -> None: ...


class LazyDict(Protocol):
    """The argument that Triton passes to launch hooks: one object for both hooks of a launch."""

    data: dict[str, Any]
    """``name``, ``function`` and ``stream``; after `get`, all metadata."""

    extras: list[Any]
    """The metadata that `get` has not evaluated yet."""

    def get(self) -> dict[str, Any]:
        """Returns all metadata. The first call evaluates the kernel's ``launch_metadata``."""


def is_installed() -> bool:
    """Whether Triton is installed. Does not import it."""
    return importlib.util.find_spec("triton") is not None


def listen(listeners: Mapping[str, Callable[..., None]]) -> None:
    """Adds a function to each chain. If a chain is unknown, warns and adds none."""
    for name, chain in _chains().items():
        chain.add(listeners[name])


def unlisten(listeners: Mapping[str, Callable[..., None]]) -> None:
    """Removes the functions from the chains. They must be the objects that were added."""
    for name, chain in _chains().items():
        chain.remove(listeners[name])


def unknown_chain() -> str | None:
    """Returns the name of the first chain that is not as in 3.6 to 3.9; `None` if all are."""
    runtime = getattr(_knobs(), "runtime", None)
    for name, is_needed in _CHAINS.items():
        chain = getattr(runtime, name, None)
        is_missing = chain is None and not is_needed
        if not is_missing and not (hasattr(chain, "add") and hasattr(chain, "remove")):
            return f"knobs.runtime.{name}"
    return None


def _chains() -> dict[str, Chain]:
    """Returns the chains by name; empty if one is not as in 3.6 to 3.9."""
    import triton

    if unknown := unknown_chain():
        version = getattr(triton, "__version__", "?")
        _warn_once(
            f"triton {version}: {unknown} is no chain of "
            "hooks as in triton 3.6 to 3.9; its launches are not recorded as operators"
        )
        return {}
    runtime = getattr(_knobs(), "runtime", None)
    chains = {name: getattr(runtime, name, None) for name in _CHAINS}
    return {name: chain for name, chain in chains.items() if chain is not None}


def _knobs() -> object:
    try:
        from triton import knobs
    except ImportError:
        return None
    return knobs


# Whether metadata of a type have the interface of `LazyDict`.
_known_types: dict[type, bool] = {}


def is_lazy_dict(metadata: object) -> TypeGuard[LazyDict]:
    """Whether metadata of a launch have the interface of `LazyDict`; warns once if not."""
    cached = _known_types.get(type(metadata))
    if cached is not None:
        return cached
    # The metadata is None if the launch began on another thread before the hooks were added.
    is_known = (
        isinstance(data := getattr(metadata, "data", None), dict)
        and "name" in data
        and isinstance(getattr(metadata, "extras", None), list)
        and callable(getattr(metadata, "get", None))
        and type(metadata).__weakrefoffset__ != 0
    )
    _known_types[type(metadata)] = is_known
    if not is_known and metadata is not None:
        _warn_once(
            f"Triton's launch hooks were given a {type(metadata).__name__} where triton 3.6 to 3.9 "
            "give a LazyDict; such launches are not recorded as operators"
        )
    return is_known


_warned: set[str] = set()


def _warn_once(note: str) -> None:
    if note not in _warned:
        _warned.add(note)
        warn(note, via="triton")
