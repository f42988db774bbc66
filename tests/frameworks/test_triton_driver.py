"""Launches through Triton's own driver on the double of NVIDIA's libraries, in two releases."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from profiles import counts, find, metrics, tree
from programs import run_program
from replay import environment

KERNEL = """
import marey
from triton_add import Array, add_kernel, use_driver

def describe(grid, kernel, args):
    size = args["size"]
    return {"name": f"add_{size}_{kernel.num_warps}", "bytes": 8 * size, "grid": grid}

add, driver = add_kernel(describe), use_driver()
# 3.6 asks PyTorch, which needs more of CUDA than the double has.
driver.get_current_device = lambda: 0
driver.get_current_stream = lambda device: 0
driver.get_device_capability = lambda device: (9, 0)
x, y = Array(256), Array(256)
"""


def run(source: str, script: str, triton_path: str) -> str:
    """Runs a program with the kernel above; returns its output."""
    env = environment(Path("lib"), script)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [triton_path, env["PYTHONPATH"]]))
    done = run_program(KERNEL + textwrap.dedent(source), **env, TRITON_DEFAULT_FP_FUSION="1")
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_launches_are_operators(triton_path: str) -> None:
    run(
        """
        marey.start("x", hook="triton")
        with marey.scope("step"):
            for _ in range(3):
                add[(2,)](x, y, 256, BLOCK=128)
        marey.finalize()
        """,
        "kernel add duration 250",
        triton_path,
    )
    root = tree("x.hatchet")
    assert counts(root) == {"step": 1, "step/add_256_4": 3}
    values = metrics(find(root, "step/add_256_4"))
    assert {key: value for key, value in values.items() if not key.startswith("gpu_")} == {
        "bytes": 3 * 8 * 256,
        "count": 3,
        "time (ns)": 3 * 250,
        "device_id": "0",
        "device_type": "CUDA",
    }


def test_a_launch_that_the_driver_refuses_leaves_its_operator(
    triton_path: str,
) -> None:
    said = run(
        """
        marey.start("x", hook="triton")
        with marey.scope("failing"):
            try:
                add[(2,)](x, y, 256, BLOCK=128)
            except RuntimeError as error:
                print(error)
            with marey.scope("after it"):
                pass
        marey.finalize()
        """,
        "fail cuLaunchKernelEx 701",
        triton_path,
    )
    assert "Triton Error [CUDA]" in said
    root = tree("x.hatchet")
    assert counts(root) == {"failing": 1, "failing/add_256_4": 1, "failing/after it": 1}
