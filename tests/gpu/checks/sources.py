"""Records that come from elsewhere: NVML's counters, NVTX, metadata of Triton's launches."""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from typing import Any

import marey
from case import Figures, MakeWorld, Skipped, check, expect, require
from recordings import Profile, losses, rows, trace, tree
from worlds import BLOCK, KERNEL, SIZE, TritonWorld

SAMPLED_SECS = 2
FEWEST_SAMPLES = 10
EVERY_DEVICE = ("gpu_power (W)", "gpu_memory_used (bytes)")


@check("triton", "torch", once=True, timed=True)
def nvml(make_world: MakeWorld) -> Figures:
    """A trace has NVML's counters while CUPTI records, and those of GPM where there are any."""
    library = os.environ.get("MAREY_NVML_LIB", "libnvidia-ml.so.1")
    try:
        ctypes.CDLL(library)
    except OSError as error:
        raise Skipped(str(error)) from error
    with trace("x", backend="cupti") as recorded:
        world = make_world()
        end_secs = time.monotonic() + SAMPLED_SECS
        launched = 0
        while time.monotonic() < end_secs:
            world.launch(100)
            world.synchronize()
            launched += 100
    run = recorded[0]
    found = rows(
        run,
        """
        SELECT name, count(*) AS count, max(value) AS most FROM counters
        WHERE device IS NOT NULL GROUP BY name ORDER BY name
        """,
    )
    counters = {row["name"]: row for row in found}
    missing = [name for name in EVERY_DEVICE if name not in counters]
    require(not missing, f"there is no {missing}: only {sorted(counters)}")
    for name in EVERY_DEVICE:
        require(counters[name]["count"] >= FEWEST_SAMPLES, f"{name} was read too rarely")
        require(counters[name]["most"] > 0, f"{name} is never above 0")
    [[kernels]] = run.sql(f"SELECT count(*) FROM kernels WHERE strpos(name, '{KERNEL}') > 0")
    expect("kernels beside the counters", kernels, launched)
    lost = losses(run)
    lost.pop("counters_ended", None)  # kinds that this machine does not allow to read
    expect("losses", lost, {})
    gpm = [name for name in counters if name.startswith("gpu_sm_active")]
    return {"greatest": {name: row["most"] for name, row in counters.items()}, "has_gpm": bool(gpm)}


@check("torch")
def nvtx(make_world: MakeWorld) -> Figures:
    """Ranges of `torch.cuda.nvtx` are scopes, with the kernels that were launched in them."""
    with tree("x", backend="cupti") as recorded:
        nvtx: Any = importlib.import_module("torch.cuda.nvtx")

        world = make_world()
        nvtx.range_push("load")
        world.launch(5)
        nvtx.range_pop()
        world.synchronize()
    expect("kernels in the range", recorded[0].kernels("load", like=KERNEL).count, 5)
    return {}


@check("triton", "torch+triton")
def triton_metadata(make_world: MakeWorld) -> Figures:
    """A launch's metadata are metrics of its operator, also tensors on the device."""
    from kernels import add_described

    world = make_world()
    with tree("x", hook="triton", backend="cupti") as recorded:
        with marey.scope("described"):
            for _ in range(10):
                add_described[(SIZE // BLOCK,)](world.x, SIZE, BLOCK=BLOCK)
        world.synchronize()
    metrics = _metrics(recorded[0], "described", "described_add_described")
    expect("flops32", metrics.get("flops32"), 10 * SIZE)
    expect("count", metrics.get("count"), 10)
    require(metrics.get("time (ns)", 0) > 0, "the operator has no time")
    if not isinstance(world, TritonWorld):
        # Before the n-th launch the tensor is n - 1.
        expect("the tensor's values", metrics.get("first"), sum(range(10)))
    return {}


def _metrics(profile: Profile, *path: str) -> dict[str, float]:
    node = profile.root
    for name in path:
        children = {child["frame"]["name"]: child for child in node["children"]}
        require(name in children, f"{name} is not among {sorted(children)}")
        node = children[name]
    metrics: dict[str, float] = node["metrics"]
    return metrics
