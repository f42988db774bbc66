"""Beginnings and ends: of the program's use of CUDA, of sessions, of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import marey
from case import Figures, MakeWorld, Skipped, check, expect, require
from recordings import Profile, tree
from worlds import KERNEL

HERE = Path(__file__).parent.parent
EXAMPLE = HERE.parent.parent / "examples" / "train_gpt.py"


@check()
def started_before_cuda(make_world: MakeWorld) -> Figures:
    """A session without a backend records from the moment at which the program starts CUDA."""
    with tree("x") as recorded:
        world = make_world()
        with marey.scope("loop"):
            world.launch(100)
        world.synchronize()
    profile = recorded[0]
    expect("kernels", profile.kernels("loop", like=KERNEL).count, 100)
    require("missing" not in profile.level, f"CUPTI began too late: {profile.level}")
    return {"level": profile.level}


@check()
def started_within(make_world: MakeWorld) -> Figures:
    """A session without a backend records at once where CUDA is in use already."""
    world = make_world()
    world.launch()
    with tree("x") as recorded:
        with marey.scope("loop"):
            world.launch(100)
        world.synchronize()
    expect("kernels", recorded[0].kernels("loop", like=KERNEL).count, 100)
    return {"level": recorded[0].level}


UNFINISHED = """
import sys
sys.path.insert(0, sys.argv[1])
import marey
from worlds import WORLDS
marey.start("x", backend="cupti")
world = WORLDS[sys.argv[2]]()
with marey.scope("loop"):
    world.launch(100)
"""


@check("triton", "torch")
def ended_without_finalize(make_world: MakeWorld) -> Figures:
    """A program that ends while kernels run leaves a profile with all of them."""
    name = "triton" if make_world.__name__ == "TritonWorld" else "torch"
    program = [sys.executable, "-c", UNFINISHED, str(HERE), name]
    done = subprocess.run(program, capture_output=True, text=True, timeout=50)
    expect("the exit code", done.returncode, 0)
    expect("kernels", Profile("x.hatchet").kernels("loop", like=KERNEL).count, 100)
    return {}


@check()
def forked(make_world: MakeWorld) -> Figures:
    """A fork while devices are recorded takes nothing from the parent, and the child ends well."""
    with tree("x", backend="cupti") as recorded:
        world = make_world()
        with marey.scope("before"):
            world.launch(100)
        child = os.fork()
        if child == 0:
            with marey.scope("child"):
                pass
            os._exit(7)
        _, status = os.waitpid(child, 0)
        with marey.scope("after"):
            world.launch(100)
        world.synchronize()
    expect("the child's exit code", os.waitstatus_to_exitcode(status), 7)
    expect("kernels before", recorded[0].kernels("before", like=KERNEL).count, 100)
    expect("kernels after", recorded[0].kernels("after", like=KERNEL).count, 100)
    return {}


@check("torch", limit_secs=120)
def run_command(make_world: MakeWorld) -> Figures:
    """`marey run` of a training that knows nothing of it has kernels under its modules."""
    if not EXAMPLE.exists():
        raise Skipped(f"{EXAMPLE.name} was not carried here")
    training = [str(EXAMPLE), "--steps", "20", "--device", "cuda"]
    command = [sys.executable, "-m", "marey", "run", "-o", "gpt.hatchet", *training]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    expect(f"the exit code ({done.stderr[-300:]})", done.returncode, 0)
    profile = Profile("gpt.hatchet")
    modules = profile.kernels("step", "GPT").count
    backward = profile.kernels("step", "backward").count
    require(modules > 0, "modules launched no kernels")
    require(profile.kernels().count > 2 * modules, "backward launched no kernels")
    return {
        "kernels": profile.kernels().count,
        "below_modules": modules,
        "below_backward": backward,  # PyTorch launches these from threads of its own
        "level": profile.level,
    }
