"""A kernel that programs on the double launch through Triton's own driver."""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs

from __future__ import annotations

import ctypes

import triton
import triton.language as tl
from triton.backends.nvidia.driver import CudaDriver


class Array:
    """An argument of the kernel."""

    dtype = "float32"

    def __init__(self, size):
        self.memory = (ctypes.c_float * size)()

    def data_ptr(self):
        return ctypes.addressof(self.memory)


def add_kernel(describe=None):
    """Returns the kernel `add`, whose launches a function may describe."""

    @triton.jit(launch_metadata=describe)
    def add(x, y, size, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < size) + 1.0, mask=at < size)

    return add


def use_driver():
    """Returns the driver, started as PyTorch does it, by which Triton launches from now on."""
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    driver = CudaDriver()
    triton.runtime.driver.set_active(driver)
    return driver
