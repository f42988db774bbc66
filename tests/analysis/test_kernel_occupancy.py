"""The view `kernel_occupancy`: compared with Kineto's estimate and with hand-computed values."""

from __future__ import annotations

import math

import pytest
from analysed_devices import A100, MI250, P100, RTX_4090, V100, Properties, run_on, shaped
from analyses import kernel, make_run, recorded_run, rows
from analyses import rows as view


@pytest.mark.parametrize("name", ["a100-nccl", "critical-path-alexnet"])
def test_occupancy_matches_kinetos_estimate(name: str) -> None:
    run = recorded_run(name)
    ours = {
        (row["name"], row["block"], row["registers"], row["shared_bytes"], row["device"]): row
        for row in view(run, "kernel_occupancy")
    }
    recorded = rows(
        run,
        "kernels",
        "SELECT name, block, registers, shared_bytes, device, sum(duration_nanos) AS nanos, "
        "count(*) AS count, "
        "sum(duration_nanos * CAST(arg(args, 'est. achieved occupancy %') AS DOUBLE)) AS percents "
        "FROM {} GROUP BY name, block, registers, shared_bytes, device",
    )
    assert len(recorded) == len(ours) > 10
    checked = 0
    for row in recorded:
        key = tuple(row[column] for column in list(row)[:5])
        assert (ours[key]["total_nanos"], ours[key]["count"]) == (row["nanos"], row["count"])
        if row["shared_bytes"] > 48 * 1024:
            # Kineto asks NVIDIA's calculator with the limit for static shared memory, is refused,
            # and writes 0: of tensor cores' kernels, and of NCCL's.
            assert row["percents"] == 0
            assert ours[key]["achieved_percent"] > 0
            continue
        checked += 1
        # What is recorded is rounded to whole percents.
        assert math.isclose(
            row["percents"] / row["nanos"], ours[key]["achieved_percent"], abs_tol=0.51
        )
    assert checked > 10


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "limited_by"),
    [
        (A100, 1024, 32, 0, 2, None),
        # 40 registers of 32 threads are 5 units of 256: a quarter of 64 Ki has room for 12 warps,
        # four quarters for 48, and these for 3 blocks of 16.
        (A100, 512, 40, 0, 3, "registers"),
        # The calculator gives 33 registers 5 units, too.
        (A100, 512, 33, 0, 3, "registers"),
        # 40 KiB and 1 KiB: 4 blocks in 164 KiB.
        (A100, 128, 16, 40 * 1024, 4, "shared memory"),
        (V100, 128, 16, 33 * 1024, 2, "shared memory"),
        # 32 blocks of one warp, of 64.
        (A100, 32, 16, 0, 32, "blocks"),
        (RTX_4090, 32, 16, 0, 24, "blocks"),
        (dict(RTX_4090, computeMinor=6), 32, 16, 0, 16, "blocks"),
        (dict(V100, computeMinor=5, maxThreadsPerMultiprocessor=1024), 32, 16, 0, 16, "blocks"),
        # 48 warps: one block of 32.
        (RTX_4090, 1024, 16, 0, 1, "warps"),
        # A warp that is not full takes as much as one that is.
        (A100, 33, 16, 0, 32, None),
        # 1 KiB of each block is the system's from 8.0 on only.
        (A100, 256, 16, 20 * 1024, 7, "shared memory"),
        (P100, 256, 16, 12 * 1024, 8, None),
    ],
)
def test_limited_by_names_the_limit_of_a_kernel(
    device: Properties,
    threads: int,
    registers: int,
    shared: int,
    blocks: int,
    limited_by: str | None,
) -> None:
    event = shaped(1, 0, 10, 100_000, threads, registers=registers, shared=shared)
    (row,) = view(run_on([event], device), "kernel_occupancy")
    assert (row["active_blocks"], row["limited_by"]) == (blocks, limited_by)
    warps = -(-threads // 32)
    percent = 100 * blocks * warps * 32 / device["maxThreadsPerMultiprocessor"]
    assert math.isclose(row["theoretical_percent"], percent)
    assert math.isclose(row["achieved_percent"], percent)
    assert math.isclose(row["waves"], 100_000 / device["numSms"] / blocks)


def test_small_grids_limit_occupancy() -> None:
    # 8 blocks of 256 threads are room for on each of 108: 54 blocks are half a block for each.
    events = [shaped(1, 0, 30, 54, 256, name="k"), shaped(2, 40, 10, 864, 256, name="k")]
    (row,) = view(run_on(events, A100), "kernel_occupancy")
    assert (row["count"], row["total_nanos"], row["limited_by"]) == (2, 40_000, "grid")
    assert math.isclose(row["achieved_percent"], (30 * 6.25 + 10 * 100) / 40, rel_tol=1e-6)
    assert math.isclose(row["waves"], (30 / 16 + 10) / 40, rel_tol=1e-6)
    # Of half of the time or less it is not what limits.
    events[0]["dur"] = 10
    (row,) = view(run_on(events, A100), "kernel_occupancy")
    assert (row["limited_by"], row["theoretical_percent"]) == (None, 100)


def test_each_device_and_shape_has_a_row() -> None:
    events = [
        shaped(1, 0, 0, 1000, 512, name="k"),
        shaped(2, 10, 5, 1000, 512, name="k", device=1),
        shaped(3, 20, 5, 1000, 256, name="k"),
        shaped(4, 30, 5, 1000, 256, name="k", device=2),
    ]
    found = view(run_on(events, A100, RTX_4090), "kernel_occupancy")
    picked = [(row["device"], row["block"], row["theoretical_percent"]) for row in found]
    # Nothing is known of the third device.
    assert sorted(picked, key=str) == [
        (0, "256,1,1", 100),
        (0, "512,1,1", 100),
        (1, "512,1,1", 100),
        (2, "256,1,1", None),
    ]
    # The calculator is NVIDIA's.
    (row,) = view(run_on(events[:1], MI250), "kernel_occupancy")
    assert row["theoretical_percent"] is row["achieved_percent"] is row["limited_by"] is None


def test_launches_without_shapes_have_no_rows() -> None:
    assert view(make_run([kernel(1, 0, 10)]), "kernel_occupancy") == []
    assert view(recorded_run("mi250-rocm"), "kernel_occupancy") == []
    assert view(recorded_run("cpu-only-gloo"), "kernel_occupancy") == []
