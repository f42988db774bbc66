"""Triton kernel launches as operators, with the metrics that their `launch_metadata` gives."""

from __future__ import annotations

import importlib.util
import re
import threading
import warnings
from numbers import Number
from typing import Any

from marey import _native
from marey.state import metadata_state

from .hook import Hook

# Keys of the metadata that are no metrics.
_RESERVED = frozenset({"name", "function", "stream"})


class _LaunchState(threading.local):
    """What this thread's launch is at: metadata may itself launch kernels."""

    is_evaluating = False
    is_entered = False


class LaunchHook(Hook):
    """Records each launch as an operator under the name that its metadata gives.

    Numeric metadata become metrics: ``flops``, ``flops8``, ``flops16``, ``flops32`` and ``flops64``
    as floats, ``bytes`` as an int, any other key as it is. There is one such hook in a process.
    """

    priority = 100
    _instance: LaunchHook | None = None
    _include: re.Pattern[str] | None = None
    _exclude: re.Pattern[str] | None = None

    def __new__(cls) -> LaunchHook:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._launch = _LaunchState()
        return cls._instance

    _launch: _LaunchState

    def configure(self, *, include: str | None = None, exclude: str | None = None) -> None:
        """Records only kernels whose name matches `include` and does not match `exclude`.

        Args:
            include: Regular expression, matched at the beginning of the name.
            exclude: Likewise.
        """
        self._include = re.compile(include) if include else None
        self._exclude = re.compile(exclude) if exclude else None

    def activate(self) -> None:
        """Makes sure that there is something to hook.

        Raises:
            ImportError: Triton is not installed.
        """
        if importlib.util.find_spec("triton") is None:
            raise ImportError('hook="triton" needs the package triton')

    def deactivate(self) -> None:
        """Nothing is to be undone."""

    def enter(self, metadata: Any) -> None:
        """Enters the operator, unless the kernel is left out or serves another one's metadata."""
        launch = self._launch
        kernel = metadata.data.get("name")
        if launch.is_evaluating or launch.is_entered or not self._is_wanted(kernel):
            return
        launch.is_evaluating = True
        try:
            with metadata_state(kernel):
                values = metadata.get()
        finally:
            launch.is_evaluating = False
        name = values["name"]
        if not self._is_wanted(name) or _native.enter_op(name) is None:
            return
        launch.is_entered = True
        metrics = {
            key: _as_metric(key, value) for key, value in values.items() if _is_metric(key, value)
        }
        if metrics:
            _native.add_metrics(metrics)

    def exit(self, metadata: Any) -> None:
        """Leaves the operator that `enter` entered."""
        if self._launch.is_entered and not self._launch.is_evaluating:
            self._launch.is_entered = False
            _native.exit_op()

    def _is_wanted(self, name: str | None) -> bool:
        if name is None:
            return True
        if self._include is not None and self._include.match(name) is None:
            return False
        return self._exclude is None or self._exclude.match(name) is None


def _is_metric(key: str, value: Any) -> bool:
    if key in _RESERVED:
        return False
    if hasattr(value, "data_ptr") and getattr(value, "is_cuda", False):
        # Reading it would wait for the GPU in the middle of the program.
        warnings.warn(f"metric {key!r} is a tensor on the GPU and was left out", stacklevel=2)
        return False
    return isinstance(value, Number) or hasattr(value, "data_ptr")


def _as_metric(key: str, value: Any) -> Any:
    if key.startswith("flops"):
        return float(value)
    return int(value) if key == "bytes" else value
