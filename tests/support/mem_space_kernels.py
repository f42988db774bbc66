"""Triton kernels that use every memory, and their compilation for a GPU that need not be there.

As a program, `ARCHITECTURE KERNEL...`: compiles kernels and writes the PTX of each to the working
directory, as `KERNEL.ptx`.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, total, mask=mask)


@triton.jit
def largest(values):
    return tl.max(values, axis=0)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n + columns
    values = tl.load(x + row, mask=columns < n, other=-float("inf"))
    powers = tl.exp(values - largest(values))
    tl.store(out + row, powers / tl.sum(powers, axis=0), mask=columns < n)


@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr):
    inner = tl.arange(0, BLOCK)
    rows = tl.program_id(0) * BLOCK + inner
    columns = tl.program_id(1) * BLOCK + inner
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for at in range(0, n, BLOCK):
        left = tl.load(a + rows[:, None] * n + (at + inner)[None, :])
        right = tl.load(b + (at + inner)[:, None] * 512 + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * 512 + columns[None, :], total)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + offsets, mask=offsets < n, other=0), 1)
    tl.atomic_max(bins + n, 3)
    tl.atomic_cas(bins + n + 1, 0, 1)


@triton.jit
def tiles(a, c, n, BLOCK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [n, 512], [512, 1], [BLOCK, BLOCK])
    right = tl.make_tensor_descriptor(c, [n, 512], [512, 1], [BLOCK, BLOCK])
    tile = left.load([0, 0])
    right.store([0, 0], tile)
    right.atomic_add([BLOCK, 0], tile)


@triton.jit
def taken(x, offsets, n):
    return tl.load(
        x + offsets,
        mask=offsets < n,
        other=0,
    )


@triton.jit
def stack(x, y, n, BLOCK: tl.constexpr):
    """Keeps what it prints on the thread's stack: registers have no address."""
    offsets = tl.arange(0, BLOCK)
    first = taken(x, offsets, n)
    second = taken(y, offsets, n)
    tl.device_print("sum", first + second)


@triton.jit(noinline=True)
def doubled(x):
    tl.store(x, tl.load(x) * 2)


@triton.jit
def calls(x, n, BLOCK: tl.constexpr):
    doubled(x)
    tl.store(x + BLOCK, n)


_ARGUMENTS: dict[str, tuple[Any, dict[str, str], int]] = {
    "add": (add, {"x": "*fp32", "y": "*fp32", "out": "*fp32"}, 1024),
    "softmax": (softmax, {"x": "*fp32", "out": "*fp32"}, 1024),
    "matmul": (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp32"}, 64),
    "histogram": (histogram, {"x": "*i32", "bins": "*i32"}, 256),
    "tiles": (tiles, {"a": "*fp16", "c": "*fp16"}, 64),
    "stack": (stack, {"x": "*i32", "y": "*i32"}, 128),
    "calls": (calls, {"x": "*i32"}, 128),
}

NAMES = tuple(_ARGUMENTS)


def compile_ptx(name: str, architecture: int) -> str:
    """Compiles a kernel; every pointer is aligned to 16 bytes, as PyTorch's are."""
    function, pointers, block = _ARGUMENTS[name]
    signature = {**pointers, "n": "i32", "BLOCK": "constexpr"}
    attributes = {(at,): [["tt.divisibility", 16]] for at in range(len(pointers) + 1)}
    source = ASTSource(function, signature, {"BLOCK": block}, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
    ptx: str = compiled.asm["ptx"]
    return ptx


if __name__ == "__main__":
    for kernel in sys.argv[2:]:
        Path(f"{kernel}.ptx").write_text(compile_ptx(kernel, int(sys.argv[1])))
