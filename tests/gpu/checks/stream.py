"""A stream of a device's records, kept for the double to play."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import marey
from case import Figures, MakeWorld, check, expect, require
from cuda_driver import CudaDriver
from recordings import rows, trace
from replay_script import Device, script
from worlds import World

SCRIPT = "stream.replay"
"""The file that the check leaves in its directory."""


@check()
def recorded_stream(make_world: MakeWorld) -> Figures:
    """The operations of a device become a script that repeats them on the double."""
    with trace("x", backend="cupti") as recorded:
        world = make_world()
        _mixture(world)
    run = recorded[0]
    activities = rows(run, "SELECT * FROM gpu_activities ORDER BY start_nanos")
    launches = rows(run, "SELECT * FROM spans WHERE kind = 'runtime'")
    [[name, properties]] = run.sql("SELECT name, properties FROM devices WHERE device = 0").rows()
    [[level]] = run.sql("SELECT value FROM metadata WHERE key = 'gpu'").rows()
    library_version = int(json.loads(level).split()[1].strip(","))
    numbers = {key: int(value) for key, value in json.loads(properties).items()}
    device = Device(name, numbers, CudaDriver().version(), library_version)
    text = script(device, activities, launches)
    Path(SCRIPT).write_text(text)
    kinds = Counter(activity["kind"] for activity in activities)
    lines = Counter(line.split()[0] for line in text.splitlines() if line)
    alone = sum(it["kind"] == "kernel" and it["graph_node_id"] is None for it in activities)
    graphs = {it["correlation_id"] for it in activities if it["graph_node_id"] is not None}
    expect("launches", lines["launch"] - _captured(text), alone)
    expect("launches of graphs", lines["graph"], len(graphs))
    require(kinds["memcpy"] > 0, "no copy was recorded")
    return {"activities": dict(kinds), "lines": len(text.splitlines())}


def _captured(text: str) -> int:
    """Kernels within graphs."""
    return sum(line.startswith("    launch") for line in text.splitlines())


def _mixture(world: World) -> None:
    """Some of everything that programs do."""
    world.copy("HtoD", 1 << 20, pinned=False)
    with marey.scope("eager"):
        world.launch(200)
    with marey.scope("streams"):
        for _ in range(3):
            with world.other_stream():
                world.launch(50)
                world.copy("DtoD", 1 << 16, pinned=False)
    world.synchronize()
    world.fill(1 << 16)
    launch_graph = world.capture(lambda: world.launch(10))
    with marey.scope("graphs"):
        for _ in range(20):
            launch_graph()
    world.synchronize_stream()
    world.copy("DtoH", 1 << 20, pinned=True)
    world.synchronize()
