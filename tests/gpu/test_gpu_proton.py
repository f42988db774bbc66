"""The same launches under Proton and under marey give the same tree.

Both load the double of NVIDIA's libraries. Proton's tree is the reference, except where it loses
data.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from gpu_cases import CASES, DELIVERIES, VERSIONS
from profiles import Node
from programs import inside, run_program
from replay import environment

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")

OURS = """
    import gpu_cases, marey

    gpu_cases.record(marey)
"""

THEIRS = """
    import sys
    import gpu_cases, triton.profiler
    from replay import use_driver

    use_driver()
    # Metrics that are tensors need a kernel of Proton's own, compiled by Triton's own driver.
    sys.modules["triton.profiler.scope"].set_metric_kernels = lambda: None
    gpu_cases.record(triton.profiler)
"""

OUR_EXTRAS = {"gpu_min (ns)", "gpu_max (ns)", "gpu_p50 (ns)", "gpu_p90 (ns)", "gpu_p99 (ns)"}

LOST_BY_PROTON = {
    ("3.9", "one_kernel_on_two_devices"): "adds both up, and says it was the last one",
    ("3.6", "one_kernel_on_two_devices"): "adds both up, and says it was the last one",
    ("3.6", "two_devices"): "describes the first device alone",
    ("3.6", "graph"): "puts a graph's kernels below its launch, wherever they were captured",
    ("3.6", "unfinished"): "does not survive it",
}


def played(source: str, folder: Path, path: str = "") -> Path:
    """Plays all cases; returns the folder of their output."""
    env = environment(folder / "lib")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [path, env["PYTHONPATH"]]))
    with inside(folder):
        done = run_program(source, **env, TRITON_DEFAULT_FP_FUSION="1")
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(OURS, tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def proton_39(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(THEIRS, tmp_path_factory.mktemp("proton39"))


@pytest.fixture(scope="module")
def proton_36(tmp_path_factory: pytest.TempPathFactory, triton_36: str) -> Path:
    return played(THEIRS, tmp_path_factory.mktemp("proton36"), triton_36)


def measured(node: Node) -> dict[str, Any]:
    """Returns the metrics of a tree by name, without nodes that have no metrics and no children."""
    children: dict[str, Any] = {}
    for child in node["children"]:
        below = measured(child)
        if below["metrics"] or below["children"]:
            children.setdefault(child["frame"]["name"], []).append(below)
    metrics = {
        key: value
        for key, value in node["metrics"].items()
        if not key.startswith("wall_") and key not in OUR_EXTRAS
    }
    return {"metrics": metrics, "children": children}


def profile(folder: Path, case: str, delivery: str, version: int) -> tuple[dict[str, Any], Any]:
    """Returns the tree below the root, whose keys only list the metrics, and the devices."""
    path = folder / delivery / str(version) / f"{case}.hatchet"
    if not path.exists():
        return {}, {}
    root, devices = json.loads(path.read_text())
    return measured(root)["children"], devices


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("release", ["3.9", "3.6"])
def test_marey_and_proton_write_the_same_tree(
    release: str, case: str, delivery: str, version: int, ours: Path, request: pytest.FixtureRequest
) -> None:
    theirs = request.getfixturevalue(f"proton_{release.replace('.', '')}")
    expected = profile(theirs, case, delivery, version)
    found = profile(ours, case, delivery, version)
    assert found[0], "nothing was recorded"
    if (release, case) in LOST_BY_PROTON:
        assert found != expected, "Proton has mended this: take it off the list"
    else:
        assert found == expected


HOOKED = """
    import {profiler} as profiler
    from triton_add import Array, add_kernel, use_driver

    def describe(grid, kernel, args):
        size = args["size"]
        return {{"name": f"add_{{size}}", "flops32": size, "bytes": 8 * size}}

    add, x, y = add_kernel(describe), Array(256), Array(256)
    use_driver()
    profiler.start("profile", hook="triton", backend="cupti")
    for size in (100, 256, 100):
        with profiler.scope("step"):
            add[(2,)](x, y, size, BLOCK=128)
    with profiler.state("warm"):
        add[(2,)](x, y, 256, BLOCK=128)
    profiler.finalize()
"""


def hooked(profiler: str, folder: Path) -> tuple[Any, Any]:
    folder.mkdir()
    env = environment(folder / "lib", "kernel add duration 250")
    with inside(folder):
        done = run_program(HOOKED.format(profiler=profiler), **env, TRITON_DEFAULT_FP_FUSION="1")
    assert done.exit_code == 0, done.stderr
    root, devices = json.loads((folder / "profile.hatchet").read_text())
    return measured(root)["children"], devices


def test_launch_hooks_of_marey_and_proton_give_the_same_names(tmp_path: Path) -> None:
    theirs, their_devices = hooked("triton.profiler", tmp_path / "theirs")
    ours, our_devices = hooked("marey", tmp_path / "ours")
    assert theirs["step"][0]["children"].keys() == {"add_100", "add_256"}
    assert (ours["step"], our_devices) == (theirs["step"], their_devices)
    # Proton's hook enters a state of its own, and leaving it forgets the program's.
    assert ours["warm"][0]["children"] == {"add_256": theirs["add_256"]}
