"""The kernel launch that is in progress on a thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from .contract import LazyDict

OTHER_LAUNCH = object()
"""The result of `end` for a launch that is not the one in progress."""


class LaunchInProgress(threading.local):
    """The launch in progress on this thread. Launches inside it count as parts of it.

    Triton calls no exit hook if a launch fails. A failed launch is detected by its metadata, the
    argument of both hooks, which is freed at the end of the launch.

    Args:
        abandon: Called with the value of `begin` if the launch has failed.
    """

    def __init__(self, abandon: Callable[[Any], object]) -> None:
        self._abandon = abandon
        self._metadata: weakref.ref[LazyDict] | None = None
        self._value: Any = None

    def begin(self, metadata: LazyDict, value: Any) -> None:
        """Begins a launch. `end` returns `value`."""
        self._value = value
        self._metadata = weakref.ref(metadata, self._on_freed)

    def is_under_way(self) -> bool:
        """Whether a launch is in progress."""
        if self._metadata is None:
            return False
        if self._metadata() is None:  # freed by another thread
            self._on_freed(self._metadata)
            return False
        return True

    def end(self, metadata: LazyDict) -> Any:
        """Ends the launch. Returns the value of `begin`, or `OTHER_LAUNCH` for another launch."""
        if self._metadata is None or self._metadata() is not metadata:
            return OTHER_LAUNCH
        self._metadata = None
        return self._value

    def _on_freed(self, metadata: weakref.ref[LazyDict]) -> None:
        if metadata is self._metadata:
            self._metadata = None
            self._abandon(self._value)
