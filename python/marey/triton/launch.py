"""Triton kernel launches as operators, with the metrics of their `launch_metadata`."""

from __future__ import annotations

import re
import threading
from numbers import Real
from typing import Any

from marey import _native
from marey._names import METADATA_STATE_PREFIX
from marey.hooks.hook import Hook
from marey.metric import CONVERSIONS, keep_value
from marey.state import metadata_state

from .contract import LazyDict, is_installed, is_lazy_dict
from .late import REFUSAL_ERRORS, add_metrics, warn_of_refusal
from .progress import OTHER_LAUNCH, LaunchInProgress
from .tensors import TensorMetrics, is_on_gpu, is_on_host, is_tensor, tensor_value

# Keys of the metadata that are not metrics.
_RESERVED = frozenset({"name", "function", "stream"})


class _Evaluation(threading.local):
    """Whether this thread evaluates metadata, which may itself launch kernels."""

    is_under_way = False


class LaunchHook(Hook):
    """Records each launch as an operator with the name from its metadata.

    Metadata are evaluated only while a session records, and only for selected kernels. An exception
    in the metadata function propagates to the launch. Numeric metadata become metrics: ``flops``,
    ``flops8``, ``flops16``, ``flops32`` and ``flops64`` as `float`, ``bytes`` as `int`, any other
    key unchanged. A tensor becomes a number or a vector; a tensor on a GPU is added when its value
    has arrived, see `TensorMetrics`. A process has one instance of this hook.
    """

    priority = 100

    tensors: TensorMetrics
    """Fetches metrics that are tensors on GPUs."""

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
            include: Regular expression, matched at the start of the name.
            exclude: Regular expression, matched at the start of the name.
        """
        self._include = re.compile(include) if include else None
        self._exclude = re.compile(exclude) if exclude else None

    def activate(self) -> None:
        """Checks that Triton is installed.

        Raises:
            ImportError: Triton is not installed.
        """
        if not is_installed():
            raise ImportError('hook="triton" needs the package triton')

    def deactivate(self) -> None:
        """Does nothing."""

    def enter(self, metadata: Any) -> None:
        """Enters the operator, unless the kernel is excluded or computes another one's metadata."""
        if self._evaluation.is_under_way or not _native.is_active() or not is_lazy_dict(metadata):
            return
        kernel: str = metadata.data["name"]
        if self._launch.is_under_way() or not self._is_selected(kernel):
            return
        # Another hook may have evaluated the metadata already.
        values = self._evaluate(metadata, kernel) if metadata.extras else metadata.data
        name = values["name"]
        if name is not kernel and not self._is_selected(name):
            return
        operator = _native.enter_op(name)
        self._launch.begin(metadata, operator)
        if operator is not None and len(values) > len(_RESERVED):
            self._add_metrics(kernel, values)

    def exit(self, metadata: Any) -> None:
        """Leaves the operator, and adds metrics of earlier launches that have arrived."""
        operator = self._launch.end(metadata)
        if operator is not OTHER_LAUNCH:
            _native.exit_op(operator)
            self.tensors.poll()

    def settle(self) -> None:
        """Waits for metrics that are tensors on GPUs."""
        self.tensors.settle()

    def _evaluate(self, metadata: LazyDict, kernel: str) -> dict[str, Any]:
        self._evaluation.is_under_way = True
        _native.enter_state(METADATA_STATE_PREFIX + kernel)
        try:
            return metadata.get()
        finally:
            _native.exit_state()
            self._evaluation.is_under_way = False

    def _add_metrics(self, kernel: str, values: dict[str, Any]) -> None:
        """Adds the numbers to the operator, and requests those on GPUs."""
        scope = _native.innermost_scope()
        if scope is None:
            return
        metrics: dict[str, Any] = {}
        for key, value in values.items():
            if key in _RESERVED:
                continue
            convert = CONVERSIONS.get(key, keep_value)
            try:
                if isinstance(value, (int, float)):
                    metrics[key] = convert(value)
                elif not is_tensor(value):
                    if isinstance(value, Real):
                        metrics[key] = convert(value)
                elif is_on_gpu(value):
                    # The copy is not work of the kernel.
                    with metadata_state(kernel):
                        self.tensors.fetch(scope, key, value, convert)
                elif is_on_host(value):
                    metrics[key] = tensor_value(value, convert)
                else:
                    raise TypeError(f"a tensor on a {value.device} device")
            except REFUSAL_ERRORS as refusal:
                warn_of_refusal(f"{key!r}: {refusal}")
        if metrics:
            add_metrics(scope, metrics)

    def _is_selected(self, name: str) -> bool:
        if self._include is not None and self._include.match(name) is None:
            return False
        return self._exclude is None or self._exclude.match(name) is None
