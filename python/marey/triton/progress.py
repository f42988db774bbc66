"""Which launch a thread is at."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from .contract import LazyDict

ELSEWHERE = object()
"""What is returned for a launch that is not the one in progress."""


class LaunchInProgress(threading.local):
    """The launch that this thread is at, for a hook to which those inside it are parts of it.

    Triton calls no exit hook when a launch fails. The metadata that it gives to both hooks die with
    the launch, and that is how a failed one is told.

    Args:
        abandon: Called with what `begin` was given when the launch has failed.
    """

    def __init__(self, abandon: Callable[[Any], object]) -> None:
        self._abandon = abandon
        self._metadata: weakref.ref[LazyDict] | None = None
        self._kept: Any = None

    def begin(self, metadata: LazyDict, kept: Any) -> None:
        """The launch begins; `kept` is for its end."""
        self._kept = kept
        self._metadata = weakref.ref(metadata, self._died)

    def is_under_way(self) -> bool:
        """Whether a launch is in progress."""
        if self._metadata is None:
            return False
        if self._metadata() is None:  # freed by another thread
            self._died(self._metadata)
            return False
        return True

    def end(self, metadata: LazyDict) -> Any:
        """The launch is over; returns what `begin` was given, `ELSEWHERE` if it is another one."""
        if self._metadata is None or self._metadata() is not metadata:
            return ELSEWHERE
        self._metadata = None
        return self._kept

    def _died(self, metadata: weakref.ref[LazyDict]) -> None:
        if metadata is self._metadata:
            self._metadata = None
            self._abandon(self._kept)
