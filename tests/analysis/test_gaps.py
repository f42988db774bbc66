"""The view `gpu_gaps`: compared with HTA and with hand-computed values."""

from __future__ import annotations

from pathlib import Path

import marey
import pytest
from analyses import (
    HTA_WARNINGS,
    documented_rows,
    host_span,
    hta,
    kernel,
    launch,
    make_run,
    open_run,
    recorded_run,
    recorded_trace,
    rows,
    values,
    write,
)

pytestmark = HTA_WARNINGS

Causes = dict[tuple[int, str], float]


def causes(run: marey.run.Run) -> Causes:
    """Returns nanoseconds of gaps by stream and cause, where HTA has them too.

    HTA drops kernels launched before the trace, which come first on a stream.
    """
    query = "SELECT stream, min(start_nanos) AS start_nanos FROM {} GROUP BY 1"
    first = {row["stream"]: row["start_nanos"] for row in rows(run, "launches", query)}
    found: Causes = {}
    for row in rows(run, "gpu_gaps"):
        if row["start_nanos"] >= first[row["stream"]]:
            key = (row["stream"], row["cause"])
            found[key] = found.get(key, 0) + row["gap_nanos"]
    return found


def causes_of_hta(path: Path) -> Causes:
    frame = hta(path).get_idle_time_breakdown(
        ranks=[0], consecutive_kernel_delay=30, visualize=False
    )[0]
    return {
        (row["stream"], row["idle_category"].replace("_", " ")): 1000 * row["idle_time"]
        for row in frame.to_dict("records")
        if row["idle_time"]
    }


@pytest.mark.parametrize("name", ["a100-nccl", "critical-path-alexnet"])
def test_causes_match_hta(name: str) -> None:
    run = recorded_run(name)
    documented_rows(run, "gpu_gaps")
    theirs = causes_of_hta(recorded_trace(name))
    assert {cause for _, cause in theirs} >= {"host wait", "kernel wait"}
    # HTA's sums are of floats of microseconds.
    assert causes(run) == pytest.approx(theirs, rel=1e-9, abs=10)


@pytest.mark.parametrize("name", ["a100-nccl", "critical-path-alexnet"])
def test_host_span_is_the_innermost_span(name: str) -> None:
    run = recorded_run(name)
    waits = rows(run, "gpu_gaps", "SELECT * FROM {} WHERE cause = 'host wait' ORDER BY start_nanos")
    spans = rows(run, "spans", "SELECT * FROM {} WHERE duration_nanos > 0")
    checked = 0
    for gap in waits[:: max(1, len(waits) // 100)]:
        at = gap["start_nanos"]
        best = max(
            (
                span
                for span in spans
                if span["thread_id"] == gap["thread_id"]
                and span["start_nanos"] <= at < span["end_nanos"]
            ),
            key=lambda span: span["depth"],
            default={"path": None, "name": None},
        )
        assert (gap["host_path"], gap["host_span"]) == (best["path"], best["name"])
        checked += best["name"] is not None
    assert checked > 20


def test_gaps_match_hand_computed_values() -> None:
    events = [
        host_span("first", 0, 5),
        host_span("step", 10, 400),
        host_span("read", 90, 60),
        host_span("inner", 95, 10),
        host_span("parse", 105, 30),
        host_span("late", 480, 40),
        host_span("nothing", 500, 0),
        launch(1, 1, 2),
        kernel(1, 5, 95),
        # 100 to 165; launched at 160, so the host was late: "inner" ran at 100.
        launch(2, 160, 2),
        kernel(2, 165, 5),
        # 170 to 199; launched just as it began.
        launch(3, 170, 2),
        kernel(3, 199, 1),
        # 200 to 230: with 30 us too long for a wait of a kernel.
        launch(4, 172, 2),
        kernel(4, 230, 70),
        # Inside kernel 4, so no gap. HTA adds -50.
        launch(5, 174, 2),
        kernel(5, 250, 10),
        # 300 to 305, from the end of kernel 4. HTA has 260 to 305.
        launch(6, 176, 2),
        kernel(6, 305, 5),
        # It touches the one before: no gap.
        kernel(7, 310, 2),
        # 312 to 322; its launch is unknown, so the cause comes of the length, as in HTA.
        kernel(8, 322, 98),
        # 420 to 440; at 420 "step" is over.
        launch(9, 430, 2),
        kernel(9, 440, 60),
        # 500 to 511; "nothing" has no length, so "late" it is.
        launch(10, 510, 2),
        kernel(10, 511, 0),
        # Another stream, fed by another thread: 20 to 100, when "ended" ends and "sleep" starts.
        launch(20, 0, 1, tid=2),
        kernel(20, 10, 10, stream=9),
        host_span("sleep", 20, 50, tid=2),
        host_span("ended", 15, 5, tid=2),
        # At 100, of no interest: it is on another thread than "inner".
        host_span("beside", 96, 8, tid=2),
        launch(21, 90, 1, tid=2),
        kernel(21, 100, 1, stream=9),
        # Waits and annotations do not fill gaps.
        kernel(30, 20, 70, stream=9, name="Stream Sync", category="cuda_sync"),
        kernel(0, 0, 600, stream=9, name="note", category="gpu_user_annotation"),
    ]
    run = make_run(events)
    ours = documented_rows(run, "gpu_gaps", "SELECT * FROM {} ORDER BY stream, start_nanos")
    names = ("previous_name", "next_name", "host_span", "host_path")
    assert values(ours, "start_nanos", "end_nanos", "cause", "host_nanos", *names) == [
        (100_000, 165_000, "host wait", 60_000, "k1", "k2", "inner", "step/read/inner"),
        (170_000, 199_000, "kernel wait", 0, "k2", "k3", None, None),
        (200_000, 230_000, "other", 0, "k3", "k4", None, None),
        (300_000, 305_000, "kernel wait", 0, "k4", "k6", None, None),
        (312_000, 322_000, "kernel wait", None, "k7", "k8", None, None),
        (420_000, 440_000, "host wait", 10_000, "k8", "k9", None, None),
        (500_000, 511_000, "host wait", 10_000, "k9", "k10", "late", "late"),
        (20_000, 100_000, "host wait", 70_000, "k20", "k21", "sleep", "sleep"),
    ]
    assert all(row["gap_nanos"] == row["end_nanos"] - row["start_nanos"] for row in ours)
    launches = values(ours, "launch_name")
    assert launches == ["cudaLaunchKernel"] * 4 + [None] + ["cudaLaunchKernel"] * 3


def test_gaps_between_overlapping_activities_differ_from_hta() -> None:
    # Kernel 2 ends inside kernel 1. HTA takes the one that began last for the one that ended last,
    # so it counts 15 - 100 = -85 of kernel wait and then 110 - 20 = 90 of host wait, though the
    # stream was idle for 10 us and the launch at 50 came well before it ran dry at 100.
    events = [
        launch(1, 0),
        kernel(1, 10, 90),
        launch(2, 2),
        kernel(2, 15, 5),
        launch(3, 50),
        kernel(3, 110, 5),
    ]
    path = write(Path("trace.json").absolute(), events, rank=0)
    assert causes(open_run(path)) == {(7, "kernel wait"): 10_000}
    assert causes_of_hta(path) == {(7, "kernel wait"): -85_000, (7, "host wait"): 90_000}


def test_gaps_of_ranks_and_devices_are_not_mixed() -> None:
    run = make_run(
        [
            launch(1, 0, 5),
            kernel(1, 10, 10),
            launch(2, 1, 5),
            kernel(2, 50, 10),
            kernel(3, 30, 1, device=1),
        ],
        [launch(1, 0, 5), kernel(1, 10, 10), launch(2, 25, 5), kernel(2, 70, 10)],
    )
    assert rows(run, "gpu_gaps", "SELECT rank, device, gap_nanos, cause FROM {} ORDER BY rank") == [
        {"rank": 0, "device": 0, "gap_nanos": 30_000, "cause": "other"},
        {"rank": 1, "device": 0, "gap_nanos": 50_000, "cause": "host wait"},
    ]


def test_runs_without_devices_have_no_gaps() -> None:
    assert rows(recorded_run("cpu-only-gloo"), "gpu_gaps") == []


def test_gaps_of_unknown_launches() -> None:
    run = make_run([kernel(1, 0, 5), kernel(2, 9, 5)])
    query = "SELECT gap_nanos, cause, launch_name, host_span FROM {}"
    assert rows(run, "gpu_gaps", query) == [
        {"gap_nanos": 4_000, "cause": "kernel wait", "launch_name": None, "host_span": None}
    ]


def test_gaps_before_1970_are_between_their_kernels() -> None:
    # Of a moment and a name one number is made for a running maximum; the sign must not matter.
    run = make_run([kernel(1, -100, 5), kernel(2, -50, 5), kernel(3, 10, 1)])
    query = "SELECT previous_name, next_name, gap_nanos FROM {} ORDER BY start_nanos"
    assert run.sql(query.format("gpu_gaps")).rows() == [
        ("k1", "k2", 45_000),
        ("k2", "k3", 55_000),
    ]
