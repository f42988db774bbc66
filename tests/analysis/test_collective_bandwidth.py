"""The view `collective_bandwidth`: bandwidths as nccl-tests defines them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from analyses import Event, host_span, kernel, make_run, recorded_run
from analyses import rows as view


def collective(
    name: str, start: float, duration: float, given: int, got: int, **more: Any
) -> Event:
    args = {
        "Collective name": name,
        "dtype": more.pop("dtype", "Float"),
        "In msg nelems": given,
        "Out msg nelems": got,
        "Group size": more.pop("ranks", 4),
        "Process Group Name": "0",
    }
    number = more.pop("number", 1)
    return kernel(number, start, duration, name="ncclDevKernel_Any(ncclWork*)", **args, **more)


@pytest.mark.parametrize(
    ("name", "given", "got", "size", "factor"),
    [
        ("allreduce", 1000, 1000, 4000, 1.5),
        ("allreduce_coalesced", 1000, 1000, 4000, 1.5),
        ("_allgather_base", 250, 1000, 4000, 0.75),
        ("all_gather", 250, 1000, 4000, 0.75),
        ("allgather_into_tensor_coalesced", 250, 1000, 4000, 0.75),
        ("_reduce_scatter_base", 1000, 250, 4000, 0.75),
        ("reduce_scatter", 1000, 250, 4000, 0.75),
        ("reduce_scatter_tensor_coalesced", 1000, 250, 4000, 0.75),
        ("all_to_all", 1000, 1000, 4000, 0.75),
        ("all_to_allv", 1000, 1200, 4800, 0.75),
        ("gather", 250, 1000, 4000, 0.75),
        ("scatter", 1000, 250, 4000, 0.75),
        ("broadcast", 1000, 1000, 4000, 1),
        ("reduce", 1000, 1000, 4000, 1),
        ("send", 1000, 1000, 4000, 1),
        ("recv", 1000, 1000, 4000, 1),
        ("mystery", 1000, 1000, 4000, None),
    ],
)
def test_factors_are_those_of_nccl_tests(
    name: str, given: int, got: int, size: int, factor: float | None
) -> None:
    run = make_run([collective(name, 0, 2, given, got)])
    (row,) = view(run, "collective_bandwidth")
    assert (row["name"], row["bytes"], row["bus_factor"]) == (name, size, factor)
    assert math.isclose(row["algorithm_bytes_per_second"], size / 2e-6)
    if factor is None:
        assert row["bus_bytes_per_second"] is None
    else:
        assert math.isclose(row["bus_bytes_per_second"], factor * size / 2e-6)


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("Float", 4), ("Half", 2), ("BFloat16", 2), ("Long", 8), ("Byte", 1), ("Float8_e4m3fn", 1)],
)
def test_types_have_their_widths(dtype: str, width: int) -> None:
    (row,) = view(
        make_run([collective("broadcast", 0, 1, 6, 6, dtype=dtype)]),
        "collective_bandwidth",
    )
    assert (row["dtype"], row["bytes"]) == (dtype, 6 * width)


def test_messages_of_one_size_are_summed_up() -> None:
    events = [
        collective("allreduce", 0, 2, 1000, 1000),
        collective("allreduce", 10, 6, 1000, 1000, number=2),
        collective("allreduce", 20, 1, 500, 500, number=3),
        # Takes no time: no bandwidth.
        collective("allreduce", 30, 0, 300, 300, number=4),
        # Moves no bytes, or an unknown number.
        collective("barrier", 40, 5, 1, 1, number=5),
        collective("allreduce", 50, 5, 7, 7, dtype="Mystery", number=6),
        # Alone in its group: nothing to move.
        collective("allreduce", 60, 5, 7, 7, ranks=1, number=7),
    ]
    found = {row["bytes"]: row for row in view(make_run(events), "collective_bandwidth")}
    assert sorted(found) == [28, 1200, 2000, 4000]
    row = found[4000]
    assert (row["count"], row["total_nanos"]) == (2, 8000)
    assert (row["min_nanos"], row["mean_nanos"], row["max_nanos"]) == (2000, 4000, 6000)
    assert math.isclose(row["algorithm_bytes_per_second"], 8000 / 8e-6)
    assert math.isclose(row["max_bus_bytes_per_second"], 1.5 * 4000 / 2e-6)
    assert found[1200]["algorithm_bytes_per_second"] is None
    assert found[28]["bus_bytes_per_second"] == 0


def test_ranks_have_their_own_rows() -> None:
    events = [[collective("allreduce", 0, time, 1000, 1000)] for time in (2, 4)]
    found = view(make_run(*events), "collective_bandwidth")
    speeds = {row["rank"]: row["algorithm_bytes_per_second"] for row in found}
    assert sorted(speeds) == [0, 1]
    assert math.isclose(speeds[0], 2e9)
    assert math.isclose(speeds[1], 1e9)


def test_recorded_collectives_match_known_bandwidths() -> None:
    found = view(recorded_run("a100-nccl"), "collective_bandwidth")
    assert {row["name"] for row in found} == {"allreduce", "broadcast"}
    # With two ranks the bus transfers exactly the message.
    assert all(row["bus_factor"] == 1 for row in found)
    row = max(found, key=lambda row: int(row["bytes"]))
    assert (row["bytes"], row["count"], row["total_nanos"]) == (31_502_336, 3, 11_081_355)
    assert math.isclose(row["bus_bytes_per_second"], 3 * 31_502_336 / 11_081_355e-9)
    # No sizes, and no devices.
    assert view(recorded_run("critical-path-alexnet"), "collective_bandwidth") == []
    assert view(recorded_run("cpu-only-gloo"), "collective_bandwidth") == []


def test_the_duration_of_a_call_is_no_bandwidth() -> None:
    event = collective("allreduce", 0, 2, 1000, 1000)
    call = host_span("record_param_comms", 0, 2, **event["args"])
    run = make_run([call])
    (row,) = view(run, "collectives")
    assert (row["state"], row["device"], row["duration_nanos"]) == ("scheduled", None, 2000)
    assert view(run, "collective_bandwidth") == []
