"""Records against launches: nothing is missing, nothing is invented, all is where it belongs."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

import marey
from case import Figures, MakeWorld, check, expect, require
from recordings import losses, rows, trace, tree
from worlds import KERNEL, World

LAUNCHES = 1000


@check()
def eager_tree(make_world: MakeWorld) -> Figures:
    """Each launch is a kernel under its scope, with a time, and sums are exact."""
    with tree("x", backend="cupti") as recorded:
        world = make_world()
        with marey.scope("outer"):
            world.launch(LAUNCHES)
            with marey.scope("inner"):
                world.launch(7)
        world.launch(3)
    profile = recorded[0]
    outer = profile.kernels("outer", like=KERNEL)
    inner = profile.kernels("outer", "inner", like=KERNEL)
    expect("kernels under outer", outer.count, LAUNCHES + 7)
    expect("kernels under inner", inner.count, 7)
    expect("kernels in all", profile.kernels(like=KERNEL).count, LAUNCHES + 10)
    require(inner.nanos > 0, "kernels took no time")
    expect("losses", profile.losses, {})
    require(list(profile.devices) == ["CUDA"], f"the devices are {profile.devices}")
    return {"level": profile.level, "mean_kernel_nanos": outer.nanos / outer.count}


@check()
def eager_trace(make_world: MakeWorld) -> Figures:
    """Each kernel has a row with its launch, its scope and its shape, after its launch began."""
    with trace("x", backend="cupti") as recorded:
        world = make_world()
        world.launch()
        world.synchronize()
        with marey.scope("loop"):
            world.launch(LAUNCHES)
        world.synchronize()
    run = recorded[0]
    which = f"WHERE strpos(name, '{KERNEL}') > 0 AND split_part(path, '/', 1) = 'loop'"
    kernels = rows(
        run,
        f"""
        SELECT start_nanos, end_nanos, grid, block, registers FROM kernels
        {which} ORDER BY start_nanos
        """,
    )
    expect("kernels", len(kernels), LAUNCHES)
    shapeless = sum(None in (it["grid"], it["block"], it["registers"]) for it in kernels)
    expect("kernels without a shape", shapeless, 0)
    launched = rows(run, f"SELECT queue_nanos FROM launches {which}")
    expect("kernels with a launch", len(launched), LAUNCHES)
    delays = sorted(launch["queue_nanos"] for launch in launched)
    # The two clocks are read one after the other.
    require(delays[0] >= -1000, f"a kernel began {-delays[0]} ns before its launch did")
    overlaps = sum(
        later["start_nanos"] < kernel["end_nanos"] for kernel, later in itertools.pairwise(kernels)
    )
    expect("kernels of one stream that overlap", overlaps, 0)
    expect("losses", losses(run), {})
    return {"launch_to_start_nanos": {"least": delays[0], "median": delays[len(delays) // 2]}}


@check()
def streams(make_world: MakeWorld) -> Figures:
    """Kernels of several streams are told apart, by stream and by scope."""
    launches = {"one": 100, "two": 200, "three": 300}
    with trace("x", backend="cupti") as recorded:
        world = make_world()
        world.launch()
        for name, times in launches.items():
            with marey.scope(name), world.other_stream():
                world.launch(times)
        world.synchronize()
    found = rows(
        recorded[0],
        f"""
        SELECT path, stream, count(*) AS count FROM kernels
        WHERE strpos(name, '{KERNEL}') > 0 AND path != '' GROUP BY path, stream
        """,
    )
    by_scope = Counter(dict.fromkeys(launches, 0))
    for row in found:
        by_scope[row["path"].split("/")[0]] += row["count"]
    expect("kernels by scope", {name: by_scope[name] for name in launches}, launches)
    numbers = {row["stream"] for row in found if row["path"].split("/")[0] in launches}
    expect("streams", len(numbers), len(launches))
    return {"streams": sorted(numbers)}


@check()
def threads(make_world: MakeWorld) -> Figures:
    """Threads that launch at once have their kernels under their own scopes."""
    count = 8
    with tree("x", backend="cupti") as recorded:
        world = make_world()
        world.launch()
        world.synchronize()
        gate = threading.Barrier(count)
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                world.use_here()
                gate.wait()
                with world.other_stream(), marey.scope(f"thread {number}"):
                    world.launch(LAUNCHES // 2 + number)
            except BaseException as error:
                failures.append(error)
                gate.abort()

        workers = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        world.synchronize()
    require(not failures, f"a thread failed: {failures[:1]}")
    profile = recorded[0]
    for number in range(count):
        found = profile.kernels(f"thread {number}", like=KERNEL).count
        expect(f"kernels of thread {number}", found, LAUNCHES // 2 + number)
    expect("losses", profile.losses, {})
    return {"threads": count}


@check()
def python_frames(make_world: MakeWorld) -> Figures:
    """With `context="python"` kernels lie below the lines that launched them."""
    with tree("x", context="python", backend="cupti") as recorded:
        world = make_world()
        _launch_here(world)
        world.synchronize()
    profile = recorded[0]
    expect("kernels below the function", profile.kernels_within("_launch_here").count, 20)
    expect("losses", profile.losses, {})
    return {}


def _launch_here(world: World) -> None:
    world.launch(20)


@check()
def copies(make_world: MakeWorld) -> Figures:
    """Copies and fills are rows with their bytes, direction and memory; waits are rows, too."""
    sizes = {"HtoD": 1 << 20, "DtoH": 1 << 21, "DtoD": 1 << 22}
    with trace("x", backend="cupti") as recorded:
        world = make_world()
        for pinned in (False, True):
            with marey.scope("pinned" if pinned else "pageable"):
                for direction, size_bytes in sizes.items():
                    world.copy(direction, size_bytes, pinned=pinned)
                    world.synchronize_stream()
        with marey.scope("fill"):
            world.fill(1 << 18)
            world.synchronize()
    run = recorded[0]
    found = rows(
        run,
        """
        SELECT path, name, bytes, duration_nanos, start_nanos FROM gpu_activities
        WHERE kind IN ('memcpy', 'memset') AND path != '' ORDER BY start_nanos
        """,
    )
    for place in ("pageable", "pinned"):
        for direction, size_bytes in sizes.items():
            # The driver may split a copy from pageable memory.
            copied = sum(
                row["bytes"]
                for row in found
                if row["path"].split("/")[0] == place and direction in row["name"]
            )
            expect(f"bytes {direction} of {place} memory", copied, size_bytes)
    named_pinned = [row for row in found if "Pinned" in row["name"]]
    require(len(named_pinned) >= 2, f"no copy is of pinned memory: {[r['name'] for r in found]}")
    filled = [row["bytes"] for row in found if row["name"].startswith("Memset")]
    expect("bytes that were filled", filled, [1 << 18])
    waits = rows(run, "SELECT name FROM gpu_activities WHERE kind = 'sync'")
    require(len(waits) > 0, "no wait was recorded")
    expect("losses", losses(run), {})
    return {"names": sorted({row["name"] for row in found + waits})}
