"""The interface of a GPU runtime for the hooks, and its implementation with PyTorch."""

from __future__ import annotations

from typing import Any, Protocol


class Event(Protocol):
    """An event in a stream, such as `torch.cuda.Event`."""

    def record(self, stream: Any, /) -> None:
        """Appends the event to the work of the stream."""

    def query(self) -> bool:
        """Whether the stream has passed the event. Does not wait."""

    def synchronize(self) -> None:
        """Waits until the stream has passed the event."""

    def elapsed_time(self, end: Any, /) -> float:
        """Returns milliseconds of the GPU's clock between two events that have been passed."""


class Gpu(Protocol):
    """A GPU runtime. A stream is any object that `Event.record` accepts."""

    device_type: str
    """``"CUDA"`` or ``"HIP"``."""

    def event(self, *, is_timed: bool) -> Event:
        """Creates an event."""

    def current_stream(self, tensor: Any) -> Any:
        """Returns the current stream of the tensor's device."""

    def launch_stream(self, pointer: int) -> Any:
        """Returns the stream of a driver's pointer, on the current device."""

    def is_capturing(self, stream: Any) -> bool:
        """Whether work of the stream is captured into a graph instead of executed."""

    def current_device(self) -> int:
        """Returns the number of the current device."""


class TorchGpu:
    """The runtime of PyTorch, whose streams and events are the same for CUDA and HIP.

    Args:
        torch: The package, imported if not given.
    """

    def __init__(self, torch: Any = None) -> None:
        if torch is None:
            import torch
        self._cuda: Any = torch.cuda
        self.device_type = "HIP" if torch.version.hip else "CUDA"

    def event(self, *, is_timed: bool) -> Event:
        event: Event = self._cuda.Event(enable_timing=is_timed)
        return event

    def current_stream(self, tensor: Any) -> Any:
        return self._cuda.current_stream(tensor.device)

    def launch_stream(self, pointer: int) -> Any:
        current = self._cuda.current_stream()
        if pointer == current.cuda_stream:
            return current
        # 0 is the default stream, but PyTorch's constructor creates a new stream for it.
        return self._cuda.ExternalStream(pointer) if pointer else self._cuda.default_stream()

    def is_capturing(self, stream: Any) -> bool:
        if stream == self._cuda.current_stream():
            return bool(self._cuda.is_current_stream_capturing())
        with self._cuda.stream(stream):
            return bool(self._cuda.is_current_stream_capturing())

    def current_device(self) -> int:
        return int(self._cuda.current_device())
