"""A fake GPU: its work ends when a test says so, and it records who waited for it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class FakeEvent:
    """An event in a stream of a `FakeGpu`."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.stream: str | None = None
        self.recorded_nanos = 0
        self.is_passed = False

    def record(self, stream: Any) -> None:
        self.stream = stream
        self.recorded_nanos = self.gpu.nanos
        self.is_passed = False
        self.gpu.ahead.append(self)

    def query(self) -> bool:
        self.gpu.fail_if_broken()
        self.gpu.queries += 1
        return self.is_passed

    def synchronize(self) -> None:
        self.gpu.fail_if_broken()
        self.gpu.waits += 1
        self.gpu.advance()

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.is_passed
        assert end.is_passed
        return (end.recorded_nanos - self.recorded_nanos) / 1e6


class FakeGpu:
    """An implementation of `marey.triton.gpu.Gpu`."""

    device_type = "CUDA"

    def __init__(self) -> None:
        self.nanos = 0
        self.ahead: list[FakeEvent] = []
        self.pending_copies: list[Callable[[], None]] = []
        self.events = self.queries = self.waits = 0
        self.is_broken = False
        self.captured: set[str] = set()

    def event(self, *, is_timed: bool) -> FakeEvent:
        self.fail_if_broken()
        self.events += 1
        return FakeEvent(self)

    def current_stream(self, tensor: Any) -> str:
        return f"current of {tensor.device.index}"

    def launch_stream(self, pointer: int) -> str:
        return f"stream {pointer}"

    def is_capturing(self, stream: Any) -> bool:
        return stream in self.captured

    def current_device(self) -> int:
        return 3

    def advance(self) -> None:
        """Completes all pending work."""
        for copy in self.pending_copies:
            copy()
        for event in self.ahead:
            event.is_passed = True
        self.pending_copies.clear()
        self.ahead.clear()

    def fail_if_broken(self) -> None:
        if self.is_broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")


class FakeTensor:
    """A tensor on a `FakeGpu`, or on the host. A number has 8 bytes."""

    def __init__(self, values: Any, gpu: FakeGpu | None = None, kind: str = "cuda") -> None:
        self.values = values
        self.gpu = gpu
        self.is_cuda = gpu is not None and kind == "cuda"
        self.device = SimpleNamespace(type=kind if gpu is not None else "cpu", index=0)

    def data_ptr(self) -> int:
        return id(self)

    def numel(self) -> int:
        return len(self.values) if isinstance(self.values, list) else 1

    def element_size(self) -> int:
        return 8

    def detach(self) -> FakeTensor:
        return self

    def flatten(self) -> FakeTensor:
        return self

    def to(self, device: str, *, non_blocking: bool) -> FakeTensor:
        assert self.gpu is not None
        assert (device, non_blocking) == ("cpu", True)
        self.gpu.fail_if_broken()
        host = FakeTensor(-1)
        values = self.values  # those that the stream has at this point

        def copy() -> None:
            host.values = values

        host.numel = self.numel  # type: ignore[method-assign]
        self.gpu.pending_copies.append(copy)
        return host

    def item(self) -> Any:
        assert self.gpu is None, "this waits for the GPU"
        return self.values[0] if isinstance(self.values, list) else self.values

    def tolist(self) -> Any:
        assert self.gpu is None, "this waits for the GPU"
        return self.values
