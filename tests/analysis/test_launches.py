"""The views of launches and queues: compared with HTA and with hand-computed values."""

from __future__ import annotations

from typing import Any

import pytest
from analyses import (
    HTA_WARNINGS,
    documented_rows,
    host_span,
    hta,
    kernel,
    launch,
    make_run,
    pick_columns,
    recorded_run,
    recorded_trace,
    rows,
    values,
    values_by,
)

pytestmark = HTA_WARNINGS

VIEWS = ("launches", "queue_length", "queue_summary")

# HTA calculates with floats of microseconds: to a nanosecond.
ROUNDING_MICROS = 0.002


@pytest.mark.parametrize("name", ["a100-nccl", "critical-path-alexnet"])
def test_launches_match_hta(name: str) -> None:
    theirs = hta(recorded_trace(name)).get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    run = recorded_run(name)
    ours = documented_rows(run, "launches")
    # HTA knows cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync and cudaMemsetAsync only: it
    # is blind to launches of graphs, by drivers and on AMD's devices. There are none of these here.
    by_correlation = {row["correlation_id"]: row for row in ours}
    assert len(theirs) == len(ours) == len(by_correlation) > 90
    for row in theirs.to_dict("records"):
        mine = by_correlation[row["correlation"]]
        micros = {
            "cpu_duration": mine["launch_duration_nanos"] / 1000,
            "gpu_duration": mine["duration_nanos"] / 1000,
            "launch_delay": mine["launch_delay_nanos"] / 1000,
        }
        assert pick_columns(row, micros) == pytest.approx(micros, rel=0, abs=ROUNDING_MICROS)


def test_launches_on_amd_are_recognised() -> None:
    query = "SELECT launch_name, count(*) AS n FROM {} GROUP BY 1"
    counts = rows(recorded_run("mi250-rocm"), "launches", query)
    assert values_by("launch_name", counts, "n") == {
        "hipLaunchKernel": 12,
        "hipMemcpyWithStream": 2,
        "hipExtModuleLaunchKernel": 2,
    }


def test_launches_match_hand_computed_values() -> None:
    events = [
        host_span("aten::mm", 0, 40),
        launch(1, 10, 5),
        kernel(1, 100, 20),
        # Begun before the call returned: a delay of 0.
        launch(2, 20, 10),
        kernel(2, 25, 4, stream=9),
        launch(3, 50, 8, name="cudaGraphLaunch"),
        kernel(3, 130, 3),
        kernel(3, 140, 3),
        kernel(3, 60, 3, stream=9),
        # It launched nothing that is in the trace.
        launch(4, 60, 1),
        # It was launched before the trace.
        kernel(5, 200, 1),
        # No duration at all.
        launch(6, 70, 0),
        kernel(6, 210, 0),
        # A driver's call in a runtime's, with its number: the outer one is the launch.
        launch(7, 80, 10),
        host_span("cuLaunchKernel", 82, 5, category="cuda_driver", correlation=7),
        kernel(7, 220, 1),
        # A wait is no launch, though it has a number.
        launch(8, 95, 100, name="cudaStreamSynchronize"),
        kernel(8, 96, 90, name="Stream Sync", category="cuda_sync"),
    ]
    run = make_run(events)
    ours = documented_rows(run, "launches", "SELECT * FROM {} ORDER BY correlation_id, start_nanos")
    times = ("launch_duration_nanos", "duration_nanos", "launch_delay_nanos", "queue_nanos")
    found = values(ours, "correlation_id", "launch_name", "name", "stream", *times, "launched")
    assert found == [
        (1, "cudaLaunchKernel", "k1", 7, 5000, 20_000, 85_000, 90_000, 1),
        (2, "cudaLaunchKernel", "k2", 9, 10_000, 4000, 0, 5000, 1),
        (3, "cudaGraphLaunch", "k3", 9, 8000, 3000, 2000, 10_000, 3),
        (3, "cudaGraphLaunch", "k3", 7, 8000, 3000, 72_000, 80_000, 3),
        (3, "cudaGraphLaunch", "k3", 7, 8000, 3000, 82_000, 90_000, 3),
        (6, "cudaLaunchKernel", "k6", 7, 0, 0, 140_000, 140_000, 1),
        (7, "cudaLaunchKernel", "k7", 7, 10_000, 1000, 130_000, 140_000, 1),
    ]
    assert ours[0]["path"] == "aten::mm"
    assert ours[0]["start_nanos"] - ours[0]["launch_start_nanos"] == 90_000
    assert all(row["end_nanos"] == row["start_nanos"] + row["duration_nanos"] for row in ours)


def test_launches_of_ranks_are_not_mixed() -> None:
    # The same correlation in two processes. HTA reads one rank at a time; a run has them all.
    run = make_run(
        [launch(1, 0, 5), kernel(1, 10, 1)],
        [launch(1, 0, 5), kernel(1, 30, 1)],
    )
    assert rows(run, "launches", "SELECT rank, launch_delay_nanos FROM {} ORDER BY rank") == [
        {"rank": 0, "launch_delay_nanos": 5_000},
        {"rank": 1, "launch_delay_nanos": 25_000},
    ]


def changes_of_hta(series: Any) -> list[tuple[float, int]]:
    """Returns the last length at each time, because HTA sorts events of one time unstably."""
    last = series.groupby("ts").queue_length.last()
    changed = last[last.ne(last.shift(fill_value=0))]
    return [(float(time), int(length)) for time, length in changed.items()]


@pytest.mark.parametrize("name", ["a100-nccl", "critical-path-alexnet"])
def test_queues_match_hta(name: str) -> None:
    series = hta(recorded_trace(name)).get_queue_length_time_series(ranks=[0])[0]
    run = recorded_run(name)
    ours = documented_rows(run, "queue_length", "SELECT * FROM {} ORDER BY time_nanos")
    documented_rows(run, "queue_summary")
    assert {row["stream"] for row in ours} <= set(series.stream)
    checked = 0
    for stream in set(series.stream):
        theirs = changes_of_hta(series[series.stream == stream])
        mine = [row for row in ours if row["stream"] == stream]
        assert [row["length"] for row in mine] == [length for _, length in theirs]
        since_first = [(row["time_nanos"] - mine[0]["time_nanos"]) / 1000 for row in mine]
        theirs_since_first = [time - theirs[0][0] for time, _ in theirs]
        assert since_first == pytest.approx(theirs_since_first, rel=0, abs=ROUNDING_MICROS)
        checked += len(theirs)
    assert checked > 100


@pytest.mark.parametrize(("limit", "full_streams"), [(1, 2), (2, 2), (5, 1)])
def test_the_time_of_full_queues_of_every_stream(limit: int, full_streams: int) -> None:
    # HTA writes its result of a rank once a stream, so only the last stream that was full is left.
    # It agrees if it is given one stream at a time.
    analysis = hta(recorded_trace("critical-path-alexnet"))
    series = analysis.get_queue_length_time_series(ranks=[0])[0]
    query = f"SELECT stream, sum(duration_nanos) AS n FROM {{}} WHERE length >= {limit} GROUP BY 1"
    full = rows(recorded_run("critical-path-alexnet"), "queue_length", query)
    ours = {row["stream"]: row["n"] for row in full}
    assert len(ours) == full_streams
    for stream in sorted(set(series.stream)):
        alone = {0: series[series.stream == stream]}
        theirs = analysis.get_time_spent_blocked_on_full_queue(alone, limit)
        assert ours.get(stream, 0) == pytest.approx(
            1000 * theirs.duration_at_max_queue_length.sum()
        )
    assert len(analysis.get_time_spent_blocked_on_full_queue({0: series}, limit)) == 1


def test_queues_match_hand_computed_values() -> None:
    events = [
        # Kernel 1 begins as launch 3 does: no change.
        launch(1, 0, 2),
        launch(2, 10, 2),
        launch(3, 20, 2),
        kernel(1, 20, 5),
        kernel(2, 40, 5),
        kernel(3, 60, 5),
        launch(4, 5, 2),
        kernel(4, 105, 5, stream=9),
        # It never waited: no row.
        launch(5, 100, 2),
        kernel(5, 100, 5, stream=11),
        # Launched before the trace, and a launch of nothing that is here: neither is counted.
        kernel(6, 500, 1),
        launch(7, 600, 1),
        # Clocks that disagree: never below 0.
        launch(8, 700, 2),
        kernel(8, 695, 1, device=1),
        # A graph is one entry of a queue on each stream, until its first activity there begins.
        launch(9, 1000, 9, name="cudaGraphLaunch"),
        kernel(9, 1010, 1, device=1),
        kernel(9, 1020, 1, device=1),
        kernel(9, 1030, 1, device=1, stream=8),
        launch(10, 2000, 50, name="cudaStreamSynchronize"),
        kernel(10, 2010, 40, name="Stream Sync", category="cuda_sync"),
    ]
    run = make_run(events)
    ours = documented_rows(
        run, "queue_length", "SELECT * FROM {} ORDER BY device, stream, time_nanos"
    )
    columns = ("device", "stream", "time_nanos", "change", "length", "duration_nanos")
    assert values(ours, *columns) == [
        (0, 7, 0, 1, 1, 10_000),
        (0, 7, 10_000, 1, 2, 30_000),
        (0, 7, 40_000, -1, 1, 20_000),
        (0, 7, 60_000, -1, 0, None),
        (0, 9, 5_000, 1, 1, 100_000),
        (0, 9, 105_000, -1, 0, None),
        (1, 7, 1_000_000, 1, 1, 10_000),
        (1, 7, 1_010_000, -1, 0, None),
        (1, 8, 1_000_000, 1, 1, 30_000),
        (1, 8, 1_030_000, -1, 0, None),
    ]
    summaries = documented_rows(run, "queue_summary", "SELECT * FROM {} ORDER BY device, stream")
    # Stream 7: (1 * 10 + 2 * 30 + 1 * 20) / 60. HTA's mean is of lengths after launches and begins,
    # however long each of them lasts.
    lengths, times = ("max_length", "mean_length"), ("duration_nanos", "queued_nanos", "full_nanos")
    assert values(summaries, "device", "stream", *lengths, *times, "full_percent") == [
        (0, 7, 2, pytest.approx(1.5), 60_000, 60_000, 0, 0),
        (0, 9, 1, 1, 100_000, 100_000, 0, 0),
        (1, 7, 1, 1, 10_000, 10_000, 0, 0),
        (1, 8, 1, 1, 30_000, 30_000, 0, 0),
    ]


def test_a_full_queue_is_counted_on_each_stream() -> None:
    # 1025 launches, then their 1025 kernels from 2000 us on, one each microsecond, on two streams.
    # 1024 or more wait from 1023 us, that of launch 1024, to 2001 us, that of kernel 2; none does
    # from 3024 us, that of the last kernel. HTA would tell of the second stream only.
    events = []
    for stream, start in ((7, 0), (8, 10_000)):
        for n in range(1025):
            number = start + n + 1
            events.append(launch(number, start + n, 0.5))
            events.append(kernel(number, start + 2000 + n, 0.5, stream=stream))
    summaries = rows(make_run(events), "queue_summary", "SELECT * FROM {} ORDER BY stream")
    expected = {
        "max_length": 1025,
        "full_nanos": 978_000,
        "queued_nanos": 3_024_000,
        "duration_nanos": 3_024_000,
    }
    assert [row["stream"] for row in summaries] == [7, 8]
    for row in summaries:
        assert pick_columns(row, expected) == expected
        assert row["full_percent"] == pytest.approx(100 * 978 / 3024)


def test_queues_become_empty() -> None:
    # Two waited for 10 us each; between them nothing did, for 80 us.
    events = [launch(1, 0), kernel(1, 10, 1), launch(2, 90), kernel(2, 100, 1)]
    (summary,) = rows(make_run(events), "queue_summary")
    expected = {"max_length": 1, "mean_length": 0.2, "duration_nanos": 100_000}
    assert pick_columns(summary, expected) == pytest.approx(expected)
    assert summary["queued_nanos"] == 20_000


def test_queues_of_ranks_are_not_mixed() -> None:
    run = make_run(
        [launch(1, 0, 5), kernel(1, 10, 1)],
        [launch(1, 3, 5), kernel(1, 33, 1)],
    )
    query = "SELECT rank, max_length, duration_nanos FROM {} ORDER BY rank"
    assert rows(run, "queue_summary", query) == [
        {"rank": 0, "max_length": 1, "duration_nanos": 10_000},
        {"rank": 1, "max_length": 1, "duration_nanos": 30_000},
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_runs_without_launches_have_no_queues(view: str) -> None:
    assert rows(recorded_run("cpu-only-gloo"), view) == []
    assert rows(make_run([kernel(1, 0, 5)]), view) == []
