"""The Triton kernels of the checks, in a separate file because Triton reads their source."""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_one(x, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < size) + 1.0, mask=at < size)


def describe(grid, kernel, args):
    metadata = {"name": f"described_{kernel.name}", "flops32": args["size"]}
    if hasattr(args["x"], "is_cuda"):
        metadata["first"] = args["x"][0]
    return metadata


@triton.jit(launch_metadata=describe)
def add_described(x, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < size) + 1.0, mask=at < size)
