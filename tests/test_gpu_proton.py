"""The same launches under the real Proton and under marey leave the same tree.

Both load the double of NVIDIA's libraries. Proton's tree is the measure, but where it loses
something.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import Node, run_program
from gpu_cases import CASES, DELIVERIES, VERSIONS
from replay import environment
from triton_wheels import triton_36  # noqa: F401 - a fixture

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
    ("3.6", "two_graphs"): "puts a graph's kernels below its launch, wherever they were captured",
    ("3.6", "unfinished"): "does not survive it",
}


def played(source: str, folder: Path, path: str = "") -> Path:
    """Plays all cases; returns the folder of what they leave."""
    env = environment(folder / "lib")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [path, env["PYTHONPATH"]]))
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = run_program(source, **env, TRITON_DEFAULT_FP_FUSION="1")
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(OURS, tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def proton_39(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(THEIRS, tmp_path_factory.mktemp("proton39"))


@pytest.fixture(scope="module")
def proton_36(tmp_path_factory: pytest.TempPathFactory, triton_36: str) -> Path:  # noqa: F811
    return played(THEIRS, tmp_path_factory.mktemp("proton36"), triton_36)


def measured(node: Node) -> dict[str, Any]:
    """What a tree has measured: name to metrics and children, without nodes that have neither."""
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
    """What is below the root, whose own keys say what metrics there are, and the devices."""
    path = folder / delivery / str(version) / f"{case}.hatchet"
    if not path.exists():
        return {}, {}
    root, devices = json.loads(path.read_text())
    return measured(root)["children"], devices


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("release", ["3.9", "3.6"])
def test_the_same_stream_gives_the_same_tree(
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
