"""Who holds CUPTI, and what is recorded when another tool does."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import marey
from case import Figures, MakeWorld, check, expect, require
from recordings import Profile, tree
from subscriber import HELD, holding, installed, short, try_together
from worlds import KERNEL, World

LAUNCHES = 200

TEARDOWN_SECS = 20


@check("triton", "torch", limit_secs=120, once=True)
def libraries(make_world: MakeWorld) -> Figures:
    """One of the installed libcuptis can be subscribed to; what each says, alone and in pairs."""
    found = installed()
    alone = {path: try_together([path])[0] for path in found}
    sound = [path for path in found if alone[path]["subscribe"] == 0]
    require(len(sound) > 0, f"none can be used: {alone}")
    pairs = {
        f"{short(first)} then {short(second)}": try_together([first, second])[1]["subscribe"]
        for first, second in itertools.permutations(sound, 2)
    }
    return {
        "alone": {short(path): said for path, said in alone.items()},
        "second_subscriptions": pairs,
    }


@contextlib.contextmanager
def _another_tool() -> Iterator[None]:
    """Another tool holds the library that marey takes."""
    with tree("which", backend="cupti") as recorded:
        pass
    path = recorded[0].level.split(", ")[1]
    with holding(path) as code:
        expect("the other tool's subscription", code, 0)
        yield


@check("triton", "torch")
def held_by_another(make_world: MakeWorld) -> Figures:
    """A named backend that another tool holds is refused with 39, and free afterwards."""
    world = make_world()
    world.launch()
    with _another_tool():
        try:
            marey.start("refused", backend="cupti")
        except marey.BackendUnavailable as error:
            refusal = str(error)
            expect("the code", error.code, HELD)
        else:
            raise AssertionError("marey took CUPTI from another tool")
    with tree("x", backend="cupti") as recorded:
        world.launch(LAUNCHES)
        world.synchronize()
    expect("kernels afterwards", recorded[0].kernels(like=KERNEL).count, LAUNCHES)
    return {"refusal": refusal}


@check("torch+triton", timed=True)
def timed_by_events(make_world: MakeWorld) -> Figures:
    """Beside another tool, each of Triton's launches is timed by events, as long as CUPTI says."""
    world = make_world()
    world.launch(10)
    world.synchronize()
    with _another_tool(), tree("events", hook="triton") as by_events:
        _loop(world)
    with tree("cupti", hook="triton", backend="cupti") as by_cupti:
        _loop(world)
    events = by_events[0].kernels("loop", like=KERNEL)
    cupti = by_cupti[0].kernels("loop", like=KERNEL)
    expect("launches by events", events.count, LAUNCHES)
    expect("kernels by CUPTI", cupti.count, LAUNCHES)
    ratio = events.nanos / cupti.nanos
    require(ratio > 0.9, f"events say {ratio:.2f} of CUPTI's time")
    return {"level": by_events[0].level, "events_by_cupti_ratio": ratio}


def _loop(world: World) -> None:
    with marey.scope("loop"):
        world.launch(LAUNCHES)
    world.synchronize()


@check("torch")
def torch_profiler_before(make_world: MakeWorld) -> Figures:
    """While torch.profiler holds CUPTI the program goes on, and its trace is complete."""
    from torch.profiler import profile

    world = make_world()
    world.launch()
    with profile() as profiler, tree("x") as recorded:
        _loop(world)
    require(recorded[0].has("loop"), "the host side is missing")
    expect("kernels in torch.profiler", _kernels_of(profiler), LAUNCHES)
    return {"level": recorded[0].level}


@check("torch")
def torch_profiler_kept(make_world: MakeWorld) -> Figures:
    """After torch.profiler, marey records every kernel, or is refused with what mends it."""
    world = make_world()
    _profile_with_torch(world)
    try:
        with tree("x", backend="cupti") as recorded:
            _loop(world)
    except marey.BackendUnavailable as error:
        expect("the code", error.code, HELD)
        require("TEARDOWN_CUPTI=1" in error.hint, f"the hint does not help: {error.hint}")
        return {"torch_profiler_kept_cupti": True}
    expect("kernels", recorded[0].kernels("loop", like=KERNEL).count, LAUNCHES)
    return {"torch_profiler_kept_cupti": False}


@check("torch")
def torch_profiler_torn_down(make_world: MakeWorld) -> Figures:
    """After torch.profiler with `TEARDOWN_CUPTI=1`, marey records every kernel."""
    os.environ["TEARDOWN_CUPTI"] = "1"
    world = make_world()
    _profile_with_torch(world)
    # It lets go in a later call of CUDA, on a thread of its own.
    end_secs = time.monotonic() + TEARDOWN_SECS
    refusals = 0
    while True:
        _loop(world)
        try:
            session = marey.start("x", backend="cupti")
        except marey.BackendUnavailable as error:
            require(time.monotonic() < end_secs, f"it keeps CUPTI all the same: {error}")
            refusals += 1
        else:
            break
    _loop(world)
    marey.finalize(session)
    expect("kernels", Profile("x.hatchet").kernels("loop", like=KERNEL).count, LAUNCHES)
    return {"refusals": refusals}


def _profile_with_torch(world: World) -> None:
    from torch.profiler import profile

    with profile() as profiler:
        _loop(world)
    expect("kernels in torch.profiler", _kernels_of(profiler), LAUNCHES)


@check("torch")
def torch_profiler_within(make_world: MakeWorld) -> Figures:
    """A torch.profiler session within marey's neither fails nor takes kernels from marey.

    What it sees itself, then and when marey has let go, is a figure: a first one may stay blind.
    """
    from torch.profiler import profile

    world = make_world()
    world.launch()
    with tree("x", backend="cupti") as recorded:
        with profile() as profiler:
            _loop(world)
        with marey.scope("after"):
            world.launch(LAUNCHES)
        world.synchronize()
    expect("kernels", recorded[0].kernels("loop", like=KERNEL).count, LAUNCHES)
    expect("kernels after", recorded[0].kernels("after", like=KERNEL).count, LAUNCHES)
    with profile() as later:
        _loop(world)
    return {
        "kernels_in_torch_profiler": _kernels_of(profiler),
        "kernels_in_a_later_torch_profiler": _kernels_of(later),
    }


@check("torch")
def torch_profiler_after(make_world: MakeWorld) -> Figures:
    """When marey's session has ended, torch.profiler sees every kernel."""
    from torch.profiler import profile

    world = make_world()
    with tree("x", backend="cupti"):
        _loop(world)
    with profile() as profiler:
        _loop(world)
    expect("kernels in torch.profiler", _kernels_of(profiler), LAUNCHES)
    return {}


def _kernels_of(profiler: Any) -> int:
    """Kernels that a torch.profiler has seen."""
    events = [event for event in profiler.events() if event.device_type.name == "CUDA"]
    return sum(KERNEL in event.name for event in events)


@check("triton", "torch+triton")
def proton_after(make_world: MakeWorld) -> Figures:
    """After marey's session Proton records every kernel, and after Proton's marey does again."""
    import triton.profiler as proton

    world = make_world()
    with tree("first", backend="cupti"):
        _loop(world)
    session = proton.start("proton", backend="cupti")
    _loop(world)
    proton.finalize(session)
    found = Profile("proton.hatchet").kernels(like=KERNEL).count
    expect("kernels in Proton", found, LAUNCHES)
    with tree("second", backend="cupti") as recorded:
        _loop(world)
    expect("kernels after Proton", recorded[0].kernels("loop", like=KERNEL).count, LAUNCHES)
    return {}
