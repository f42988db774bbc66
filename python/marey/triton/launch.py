"""Triton kernel launches as operators, with the metrics that their `launch_metadata` gives."""

from __future__ import annotations

import re
import threading
from numbers import Number
from typing import Any

from marey import _native
from marey._warning import warn
from marey.hooks.hook import Hook
from marey.state import metadata_state

from .contract import LazyDict, is_installed, is_lazy_dict
from .late import add_metrics
from .progress import LaunchInProgress
from .tensors import Conversion, TensorMetrics, is_on_gpu, is_on_host, is_tensor, plain

# Keys of the metadata that are no metrics.
_RESERVED = frozenset({"name", "function", "stream"})


class _Evaluation(threading.local):
    """Whether this thread evaluates metadata, for which it may itself launch kernels."""

    is_under_way = False


class LaunchHook(Hook):
    """Records each launch as an operator under the name that its metadata gives.

    Metadata are evaluated only while a session records and for kernels that are wanted; what their
    function raises, the launch raises. Numeric metadata become metrics: ``flops``, ``flops8``,
    ``flops16``, ``flops32`` and ``flops64`` as floats, ``bytes`` as an int, any other key as it is.
    A tensor is one number or a vector; one on a GPU is added when it has come, see `TensorMetrics`.
    There is one such hook in a process.
    """

    priority = 100

    tensors: TensorMetrics
    """What fetches metrics that lie on GPUs."""

    _instance: LaunchHook | None = None
    _include: re.Pattern[str] | None = None
    _exclude: re.Pattern[str] | None = None
    _launch: LaunchInProgress
    _evaluation: _Evaluation

    def __new__(cls) -> LaunchHook:
        if cls._instance is None:
            hook = super().__new__(cls)
            hook._launch = LaunchInProgress(_native.exit_op)
            hook._evaluation = _Evaluation()
            hook.tensors = TensorMetrics()
            cls._instance = hook
        return cls._instance

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
        if not is_installed():
            raise ImportError('hook="triton" needs the package triton')

    def deactivate(self) -> None:
        """Nothing is to be undone."""

    def enter(self, metadata: Any) -> None:
        """Enters the operator, unless the kernel is left out or serves another one's metadata."""
        if self._evaluation.is_under_way or not _native.is_active() or not is_lazy_dict(metadata):
            return
        kernel = metadata.data.get("name")
        if self._launch.is_under_way() or not self._is_wanted(kernel):
            return
        values = self._evaluate(metadata, kernel)
        name = values["name"]
        if not self._is_wanted(name):
            return
        operator = _native.enter_op(name)
        self._launch.begin(metadata, operator)
        if operator is not None and len(values) > len(_RESERVED):
            self._add_metrics(kernel, values)

    def exit(self, metadata: Any) -> None:
        """Leaves the operator that `enter` entered, and adds metrics of launches that have come."""
        if self._launch.is_at(metadata):
            _native.exit_op(self._launch.end())
            self.tensors.poll()

    def settle(self) -> None:
        """Waits for metrics that lie on GPUs."""
        self.tensors.settle()

    def _evaluate(self, metadata: LazyDict, kernel: str | None) -> dict[str, Any]:
        self._evaluation.is_under_way = True
        try:
            with metadata_state(kernel):
                return metadata.get()
        finally:
            self._evaluation.is_under_way = False

    def _add_metrics(self, kernel: str | None, values: dict[str, Any]) -> None:
        """Adds the numbers to the operator, and fetches those that lie on GPUs."""
        place = _native.place()
        if place is None:
            return
        metrics: dict[str, Any] = {}
        for key, value in values.items():
            if key in _RESERVED:
                continue
            if not is_tensor(value):
                if isinstance(value, Number):
                    metrics[key] = _conversion(key)(value)
            elif is_on_gpu(value):
                # The copy is no work of the kernel's.
                with metadata_state(kernel):
                    self.tensors.fetch(place, key, value, _conversion(key))
            elif is_on_host(value):
                metrics[key] = plain(value, _conversion(key))
            else:
                warn(
                    f"metric {key!r} is a tensor on a {value.device} device and was left out",
                    via="triton",
                )
        if metrics:
            add_metrics(place, metrics)

    def _is_wanted(self, name: str | None) -> bool:
        if name is None:
            return True
        if self._include is not None and self._include.match(name) is None:
            return False
        return self._exclude is None or self._exclude.match(name) is None


def _conversion(key: str) -> Conversion:
    """What makes the metric with this key of a number."""
    if key.startswith("flops"):
        return float
    return int if key == "bytes" else _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
