"""CUDA graphs: kernels that no call launches one by one."""

from __future__ import annotations

import marey
from case import Figures, MakeWorld, check, expect, require
from recordings import losses, rows, trace, tree
from worlds import KERNEL, World

REPLAYS = 50


def _two_layers(world: World) -> None:
    with marey.scope("first"):
        world.launch(2)
    with marey.scope("second"):
        world.launch(3)


@check()
def graph_tree(make_world: MakeWorld) -> Figures:
    """Kernels of a graph lie below the launch of the graph, `<captured_at>` and their capture."""
    with tree("x", backend="cupti") as recorded:
        world = make_world()
        world.launch()
        launch_graph = world.capture(lambda: _two_layers(world))
        with marey.scope("replay"):
            for _ in range(REPLAYS):
                launch_graph()
        world.synchronize()
    profile = recorded[0]
    at = ("replay", "<captured_at>")
    expect("kernels of first", profile.kernels(*at, "first", like=KERNEL).count, 2 * REPLAYS)
    expect("kernels of second", profile.kernels(*at, "second", like=KERNEL).count, 3 * REPLAYS)
    expect("kernels while capturing", profile.kernels("first").count, 0)
    expect("losses", profile.losses, {})
    return {"level": profile.level}


@check()
def graph_trace(make_world: MakeWorld) -> Figures:
    """Kernels of a graph have the node that made them, and the number of the graph's launch."""
    with trace("x", backend="cupti") as recorded:
        world = make_world()
        world.launch()
        launch_graph = world.capture(lambda: _two_layers(world))
        with marey.scope("replay"):
            for _ in range(REPLAYS):
                launch_graph()
        world.synchronize()
    run = recorded[0]
    kernels = rows(
        run,
        f"""
        SELECT graph_node_id, correlation_id FROM kernels
        WHERE graph_node_id IS NOT NULL AND strpos(name, '{KERNEL}') > 0
        """,
    )
    expect("kernels with a node", len(kernels), 5 * REPLAYS)
    expect("nodes", len({kernel["graph_node_id"] for kernel in kernels}), 5)
    expect("launches", len({kernel["correlation_id"] for kernel in kernels}), REPLAYS)
    expect("losses", losses(run), {})
    return {}


@check()
def graph_made_before(make_world: MakeWorld) -> Figures:
    """Kernels of a graph that was made before the session lie below the launch of the graph."""
    world = make_world()
    world.launch()
    launch_graph = world.capture(lambda: _two_layers(world))
    launch_graph()
    world.synchronize()
    with tree("x", backend="cupti") as recorded:
        with marey.scope("replay"):
            for _ in range(REPLAYS):
                launch_graph()
        world.synchronize()
    profile = recorded[0]
    found = profile.kernels("replay", like=KERNEL).count
    expect(f"kernels, with losses {profile.losses}", found, 5 * REPLAYS)
    require(not profile.has("replay", "<captured_at>"), "they have a capture that nobody saw")
    return {"losses": profile.losses}
