"""The libcuda calls that the checks make themselves, without a framework."""

from __future__ import annotations

import ctypes
from typing import Any

THREAD_LOCAL_CAPTURE = 1
"""`CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads' calls do not spoil the capture."""

MAJOR_ATTRIBUTE, MINOR_ATTRIBUTE = 75, 76
"""`CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`."""


class CudaError(RuntimeError):
    """A call of the driver failed."""


class CudaDriver:
    """Device 0 through its primary context, which PyTorch uses too.

    Streams, memory and graphs are the driver's handles as integers, which live as long as the
    process.

    Raises:
        OSError: The driver is not installed.
        CudaError: A call of the driver failed.
    """

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.device_count = count.value
        if count.value == 0:
            raise CudaError("the driver shows no device to this process")
        self._context = self._pointer("cuDevicePrimaryCtxRetain", ctypes.c_int(0))
        self.use_here()

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function and checks its result."""
        code = getattr(self._lib, function)(*arguments)
        if code != 0:
            raise CudaError(f"{function} gave {code}")

    def use_here(self) -> None:
        """Makes the context current on this thread."""
        self.call("cuCtxSetCurrent", ctypes.c_void_p(self._context))

    def version(self) -> int:
        """Returns the CUDA version of the driver, such as 13000."""
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return version.value

    def device_name(self) -> str:
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), 0)
        return name.value.decode()

    def attribute(self, number: int) -> int:
        """Returns an attribute of the device, by its number in `CUdevice_attribute`."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        return value.value

    def capability(self) -> tuple[int, int]:
        return self.attribute(MAJOR_ATTRIBUTE), self.attribute(MINOR_ATTRIBUTE)

    def total_memory_bytes(self) -> int:
        size = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(size), 0)
        return size.value

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    def synchronize_stream(self, stream: int) -> None:
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def new_stream(self) -> int:
        """Creates a stream that does not wait for the default stream."""
        return self._pointer("cuStreamCreate", ctypes.c_uint(1))

    def allocate(self, size_bytes: int) -> int:
        """Allocates device memory."""
        return self._pointer("cuMemAlloc_v2", ctypes.c_size_t(size_bytes))

    def allocate_pinned(self, size_bytes: int) -> int:
        """Allocates pinned host memory."""
        return self._pointer("cuMemAllocHost_v2", ctypes.c_size_t(size_bytes))

    def fill(self, memory: int, value: int, size_bytes: int, stream: int) -> None:
        what = (ctypes.c_uint64(memory), ctypes.c_ubyte(value), ctypes.c_size_t(size_bytes))
        self.call("cuMemsetD8Async", *what, ctypes.c_void_p(stream))

    def copy(self, direction: str, to: int, source: int, size_bytes: int, stream: int) -> None:
        """Copies in a direction: ``HtoD``, ``DtoH`` or ``DtoD``."""
        addresses = (ctypes.c_uint64(to), ctypes.c_uint64(source))
        size = ctypes.c_size_t(size_bytes)
        self.call(f"cuMemcpy{direction}Async_v2", *addresses, size, ctypes.c_void_p(stream))

    def begin_capture(self, stream: int) -> None:
        self.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), THREAD_LOCAL_CAPTURE)

    def end_capture(self, stream: int) -> int:
        """Returns the captured graph, instantiated."""
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        return self._pointer("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))

    def launch_graph(self, graph: int, stream: int) -> None:
        self.call("cuGraphLaunch", ctypes.c_void_p(graph), ctypes.c_void_p(stream))

    def _pointer(self, function: str, *arguments: Any) -> int:
        """Returns the value that a function writes to its first argument."""
        pointer = ctypes.c_void_p()
        self.call(function, ctypes.byref(pointer), *arguments)
        return pointer.value or 0
