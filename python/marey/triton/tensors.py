"""Metrics of launches that are tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from marey import _native
from marey._warning import warn

from .gpu import Event, Gpu, TorchGpu
from .late import REFUSAL_ERRORS, LateMetrics, count_loss

Conversion: TypeAlias = Callable[[Any], Any]
"""A function that converts a number to a metric."""

MAX_WAITING_BYTES = 1 << 20
"""Limit of the memory of metrics of launches that are being copied from GPUs."""


class TensorMetrics(LateMetrics):
    """Fetches metrics that are tensors on GPUs, without waiting.

    Each tensor is copied to pinned memory on the current stream of its device, and an event is
    recorded after the copy. During the capture of a CUDA graph the copy would become part of the
    graph, so such tensors are skipped.

    Args:
        gpu: Runtime that copies and records events; PyTorch's if not given.
    """

    def __init__(self, gpu: Gpu | None = None) -> None:
        super().__init__(MAX_WAITING_BYTES)
        self._gpu = gpu
        self._has_warned = False

    def fetch(self, scope: _native.ScopeRef, name: str, tensor: Any, convert: Conversion) -> None:
        """Adds the value of a tensor to `scope` when it has arrived.

        Args:
            scope: The context node that the metric belongs to.
            name: Name of the metric.
            tensor: A tensor with one number, or a vector.
            convert: Conversion of each number.
        """
        gpu = self._gpu = self._gpu or TorchGpu()
        try:
            stream = gpu.current_stream(tensor)
            if gpu.is_capturing(stream):
                self._warn_of_capture(name)
                return
            host = tensor.detach().to("cpu", non_blocking=True)
            event = gpu.event(is_timed=False)
            event.record(stream)
        except RuntimeError:  # the GPU has failed, or has no memory left
            count_loss()
            return
        self.add(scope, _PendingCopy(name, host, event, convert))

    def _warn_of_capture(self, name: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            warn(
                f"metric {name!r} is a tensor on a GPU whose stream is being captured into a "
                "graph; such values are left out",
                via="triton",
            )


class _PendingCopy:
    """A pending copy to the host."""

    def __init__(self, name: str, host: Any, event: Event, convert: Conversion) -> None:
        self._name = name
        self._host = host
        self._event = event
        self._convert = convert
        self.size_bytes = int(host.numel() * host.element_size())

    def is_ready(self) -> bool:
        return self._event.query()

    def wait(self) -> None:
        self._event.synchronize()

    def metrics(self) -> dict[str, Any]:
        try:
            return {self._name: tensor_value(self._host, self._convert)}
        except REFUSAL_ERRORS as refusal:
            raise ValueError(f"{self._name!r}: {refusal}") from refusal


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch or of a library with the same interface."""
    return hasattr(value, "data_ptr")


def is_on_gpu(tensor: Any) -> bool:
    """Whether a tensor is on a CUDA or HIP device, so that reading it would wait."""
    return bool(getattr(tensor, "is_cuda", False))


def is_on_host(tensor: Any) -> bool:
    """Whether a tensor is in host memory, so that reading it does not wait."""
    return getattr(getattr(tensor, "device", None), "type", "cpu") == "cpu"


def tensor_value(tensor: Any, convert: Conversion) -> Any:
    """Returns the number, or the list of numbers, of a tensor on the host."""
    if tensor.numel() == 1:
        return convert(tensor.item())
    return [convert(number) for number in tensor.flatten().tolist()]
