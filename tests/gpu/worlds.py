"""Ways to use a device: by the driver with Triton's kernels, by PyTorch, by both.

All worlds have the same interface, so that a check is written once.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Protocol

SIZE = 1 << 20
"""Floats that a kernel adds one to, which takes some microseconds."""

BLOCK = 1024

KERNEL = "add"
"""What names of kernels that `World.launch` launches have in them, and those of no others."""


class World(Protocol):
    """A way to work on device 0."""

    x: Any
    """`SIZE` floats of the device, as a kernel's argument."""

    def launch(self, times: int = 1) -> None:
        """Launches exactly one kernel on the current stream."""

    def synchronize(self) -> None:
        """Waits for the device."""

    def synchronize_stream(self) -> None:
        """Waits for the current stream."""

    def other_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Makes a new stream current on this thread."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Captures the launches of the block; returns a function that launches the graph."""

    def copy(self, direction: str, size_bytes: int, *, pinned: bool) -> None:
        """Copies between two memories: ``HtoD``, ``DtoH`` or ``DtoD``."""

    def fill(self, size_bytes: int) -> None:
        """Fills device memory by `memset`."""

    def use_here(self) -> None:
        """Prepares this new thread for launches."""


class TritonWorld:
    """Triton's kernels and launcher, with memory and streams of the driver."""

    def __init__(self) -> None:
        import triton
        from cuda_driver import CudaDriver
        from triton.backends.nvidia.driver import CudaDriver as TritonsDriver

        self._cuda = CudaDriver()
        self._here = threading.local()
        driver = TritonsDriver()
        # What it would ask PyTorch for.
        driver.get_current_device = lambda: 0
        driver.get_current_stream = lambda device=None: self._stream()
        driver.get_device_capability = lambda device=None: self._cuda.capability()
        driver.set_current_device = lambda device: None
        triton.runtime.driver.set_active(driver)
        memory = self._cuda.allocate(4 * SIZE)
        self.x = SimpleNamespace(dtype="float32", data_ptr=lambda: memory)
        self._memories: dict[tuple[str, int], int] = {}
        self._kept: list[Any] = []

    def launch(self, times: int = 1) -> None:
        from kernels import add_one

        for _ in range(times):
            add_one[(SIZE // BLOCK,)](self.x, SIZE, BLOCK=BLOCK)

    def synchronize(self) -> None:
        self._cuda.synchronize()

    def synchronize_stream(self) -> None:
        self._cuda.synchronize_stream(self._stream())

    @contextlib.contextmanager
    def other_stream(self) -> Iterator[None]:
        before = self._stream()
        self._here.stream = self._cuda.new_stream()
        try:
            yield
        finally:
            self._here.stream = before

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        with self.other_stream():
            stream = self._stream()
            self._cuda.begin_capture(stream)
            work()
            graph = self._cuda.end_capture(stream)
        return lambda: self._cuda.launch_graph(graph, stream)

    def copy(self, direction: str, size_bytes: int, *, pinned: bool) -> None:
        host = self._memory("pinned" if pinned else "pageable", size_bytes)
        to, source = {
            "HtoD": (self._memory("device", size_bytes), host),
            "DtoH": (host, self._memory("device", size_bytes)),
            "DtoD": (self._memory("other", size_bytes), self._memory("device", size_bytes)),
        }[direction]
        self._cuda.copy(direction, to, source, size_bytes, self._stream())

    def fill(self, size_bytes: int) -> None:
        self._cuda.fill(self._memory("device", size_bytes), 0, size_bytes, self._stream())

    def use_here(self) -> None:
        self._cuda.use_here()

    def _stream(self) -> int:
        return getattr(self._here, "stream", 0)

    def _memory(self, kind: str, size_bytes: int) -> int:
        """Returns the address of a memory of this kind, allocated on first use."""
        key = (kind, size_bytes)
        if key not in self._memories:
            self._memories[key] = self._new_memory(kind, size_bytes)
        return self._memories[key]

    def _new_memory(self, kind: str, size_bytes: int) -> int:
        if kind == "pinned":
            return self._cuda.allocate_pinned(size_bytes)
        if kind == "pageable":
            self._kept.append(ctypes.create_string_buffer(size_bytes))
            return ctypes.addressof(self._kept[-1])
        return self._cuda.allocate(size_bytes)


class TorchWorld:
    """PyTorch's kernels, memory, streams and graphs."""

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")
        self.x = self._torch.zeros(SIZE, device="cuda")
        self._memories: dict[tuple[str, int], Any] = {}

    def launch(self, times: int = 1) -> None:
        for _ in range(times):
            self.x.add_(1.0)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def synchronize_stream(self) -> None:
        self._torch.cuda.current_stream().synchronize()

    def other_stream(self) -> contextlib.AbstractContextManager[Any]:
        stream: contextlib.AbstractContextManager[Any]
        stream = self._torch.cuda.stream(self._torch.cuda.Stream())
        return stream

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        graph: Any = self._torch.cuda.CUDAGraph()
        self.synchronize()
        with self._torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
        return lambda: graph.replay()

    def copy(self, direction: str, size_bytes: int, *, pinned: bool) -> None:
        host = self._memory("pinned" if pinned else "pageable", size_bytes)
        device = self._memory("device", size_bytes)
        to, source = {
            "HtoD": (device, host),
            "DtoH": (host, device),
            "DtoD": (self._memory("other", size_bytes), device),
        }[direction]
        to.copy_(source, non_blocking=pinned)

    def fill(self, size_bytes: int) -> None:
        from cuda_driver import CudaDriver

        # PyTorch fills by kernels.
        memory = self._memory("device", size_bytes).data_ptr()
        stream = self._torch.cuda.current_stream().cuda_stream
        CudaDriver().fill(memory, 0, size_bytes, stream)

    def use_here(self) -> None:
        self._torch.cuda.set_device(0)

    def _memory(self, kind: str, size_bytes: int) -> Any:
        key = (kind, size_bytes)
        if key not in self._memories:
            is_host = kind in ("pinned", "pageable")
            self._memories[key] = self._torch.ones(
                size_bytes,
                dtype=self._torch.uint8,
                device="cpu" if is_host else "cuda",
                pin_memory=kind == "pinned",
            )
        return self._memories[key]


class TorchTritonWorld(TorchWorld):
    """Triton's kernels on PyTorch's tensors and streams."""

    def launch(self, times: int = 1) -> None:
        from kernels import add_one

        for _ in range(times):
            add_one[(SIZE // BLOCK,)](self.x, SIZE, BLOCK=BLOCK)


WORLDS: dict[str, Callable[[], World]] = {
    "triton": TritonWorld,
    "torch": TorchWorld,
    "torch+triton": TorchTritonWorld,
}


def available(*, with_torch: bool) -> list[str]:
    """Returns the names of the worlds whose packages are installed."""
    has_triton = importlib.util.find_spec("triton") is not None
    names = ["triton"] if has_triton else []
    if with_torch and importlib.util.find_spec("torch") is not None:
        names += ["torch", "torch+triton"] if has_triton else ["torch"]
    return names
