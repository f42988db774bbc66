"""What the hooks ask of a GPU's runtime: PyTorch's, or the stand-in of a test."""

from __future__ import annotations

from typing import Any, Protocol


class Event(Protocol):
    """A mark in a stream. `torch.cuda.Event` is one."""

    def record(self, stream: Any, /) -> None:
        """Puts the mark behind what was given to the stream so far."""

    def query(self) -> bool:
        """Whether the stream has passed the mark; does not wait."""

    def synchronize(self) -> None:
        """Waits until it has."""

    def elapsed_time(self, end: Any, /) -> float:
        """Milliseconds of the GPU's clock from this mark to another one, both passed."""


class Gpu(Protocol):
    """A GPU's runtime. A stream is whatever `Event.record` takes."""

    device_type: str
    """``"CUDA"`` or ``"HIP"``."""

    def event(self, *, is_timed: bool) -> Event:
        """A new event."""

    def current_stream(self, tensor: Any) -> Any:
        """The current stream of the tensor's device."""

    def launch_stream(self, pointer: int) -> Any:
        """The stream behind a driver's pointer, on the current device."""

    def is_capturing(self, stream: Any) -> bool:
        """Whether what is given to the stream becomes part of a graph instead of being run."""

    def current_device(self) -> int:
        """Number of the current device."""


class TorchGpu:
    """PyTorch's. Its streams and events are the same for CUDA and HIP.

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
        # 0 is a stream, but for PyTorch's constructor it means a new one.
        return self._cuda.ExternalStream(pointer) if pointer else self._cuda.default_stream()

    def is_capturing(self, stream: Any) -> bool:
        if stream == self._cuda.current_stream():
            return bool(self._cuda.is_current_stream_capturing())
        with self._cuda.stream(stream):
            return bool(self._cuda.is_current_stream_capturing())

    def current_device(self) -> int:
        return int(self._cuda.current_device())
