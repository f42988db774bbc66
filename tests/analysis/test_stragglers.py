"""The view `stragglers`: compared with hand-computed values and HTA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marey
import pytest
from analyses import (
    HTA_WARNINGS,
    Event,
    documented_rows,
    gpu_span,
    host_span,
    hta,
    launch,
    make_run,
    open_run,
    recorded_run,
    rows,
    step,
    values_by,
)

pytestmark = HTA_WARNINGS

VIEW = "stragglers"

# The number of a collective, and when each rank begins it.
Collective = tuple[int | None, tuple[float | None, ...]]

# Rank 1 is late twice, rank 2 once.
LATE: list[Collective] = [
    (1, (1100, 1300, 1150)),
    (2, (2100, 2140, 2200)),
    (3, (3050, 3500, 3050)),
]


def collective(
    sequence: int | None,
    start: float,
    end: float,
    *,
    group: str = "0",
    size: int = 3,
    kind: str = "allreduce",
    name: str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    **more: Any,
) -> Event:
    said: dict[str, Any] = {
        "Collective name": kind,
        "Process Group Name": group,
        "Group size": size,
        "dtype": "Float",
    }
    if sequence is not None:
        said["Seq"] = sequence
    return gpu_span(name, start, end - start, **said, **more)


def ranks(*collectives: Collective, **more: Any) -> list[list[Event]]:
    """Makes traces of three ranks. A collective ends 10 us after the last rank has begun it."""
    traces = []
    for rank in range(3):
        # HTA counts a kernel to the step that it was launched in.
        events = [step(number, 1000 * number, 990) for number in range(1, 4)]
        for correlation, (sequence, starts) in enumerate(collectives, 1):
            start = starts[rank]
            if start is not None:
                end = max(start for start in starts if start is not None) + 10
                events.append(launch(correlation, start - 5))
                events.append(collective(sequence, start, end, correlation=correlation, **more))
        traces.append(events)
    return traces


def test_the_view_matches_hand_computed_values() -> None:
    run = make_run(*ranks(*LATE))
    ours = documented_rows(run, VIEW)
    counts = ("count", "complete_count", "last_count")
    times = ("delay_nanos", "mean_late_nanos", "max_late_nanos", "wait_nanos")
    assert values_by("rank", ours, *counts, *times) == {
        0: (3, 3, 0, 0, 0, 0, 1000 * (200 + 100 + 450)),
        # 150 after rank 2, then 450 after both; late by 200, 40 and 450; waits 60 for rank 2.
        1: (3, 3, 2, 600_000, pytest.approx(230_000), 450_000, 60_000),
        2: (3, 3, 1, 60_000, pytest.approx(50_000), 100_000, 1000 * (150 + 450)),
    }
    assert values_by("rank", ours, "last_percent") == pytest.approx({0: 0, 1: 200 / 3, 2: 100 / 3})
    assert {(row["process_group"], row["group_size"]) for row in ours} == {("0", 3)}


def test_clock_offsets_make_no_straggler() -> None:
    # The import puts clocks so that collectives end together; HTA compares clocks of hosts as they
    # are.
    traces = ranks(*LATE)
    for event in traces[0]:
        event["ts"] += 5000
    found = rows(make_run(*traces), VIEW)
    assert values_by("rank", found, "last_count") == {0: 0, 1: 2, 2: 1}


def test_unmatched_collectives_are_ignored() -> None:
    # Rank 2 lacks the first, which two have of three; all have the second. Without numbers nothing
    # is matched, since files may begin in the middle of a job; nor what one rank alone has.
    run = make_run(
        *ranks(
            (1, (100, 150, None)),
            (2, (300, 300, 340)),
            (None, (500, 600, 700)),
            (7, (800, None, None)),
        ),
    )
    found = values_by("rank", rows(run, VIEW), "count", "complete_count", "last_count")
    assert found == {0: (2, 1, 0), 1: (2, 1, 1), 2: (1, 1, 1)}


def pairs(**said: str) -> list[list[Event]]:
    """Makes traces of four ranks: 0 and 1 have a group `1`, 2 and 3 another group of that name."""
    traces = []
    for rank in range(4):
        members = "[0, 1]" if rank < 2 else "[2, 3]"
        more = {key: value.format(members) for key, value in said.items()}
        # Of each pair the second is late, by 50 or by 300.
        late = 0 if rank % 2 == 0 else 50 if rank < 2 else 300
        start, end = (100, 200) if rank < 2 else (500, 900)
        kernel = collective(1, start + late, end, group="1", size=2, **more)
        traces.append([host_span("op", 0, 1), kernel])
    return traces


def test_groups_of_one_name_with_other_ranks_are_distinct() -> None:
    run = make_run(*pairs(**{"Process Group Ranks": "{}"}))
    ours = documented_rows(run, VIEW)
    assert values_by("rank", ours, "group_ranks", "count", "delay_nanos") == {
        0: ("0-1", 1, 0),
        1: ("0-1", 1, 50_000),
        2: ("2-3", 1, 0),
        3: ("2-3", 1, 300_000),
    }


def test_ambiguous_groups_are_counted_and_not_matched() -> None:
    run = make_run(*pairs())
    ours = documented_rows(run, VIEW)
    found = values_by("rank", ours, "count", "ambiguous_count", "delay_nanos", "wait_nanos")
    assert found == dict.fromkeys(range(4), (0, 1, 0, 0))
    assert {row["last_percent"] for row in ours} == {None}
    [(lost,)] = run.sql(
        "SELECT sum(count) FROM losses WHERE cause = 'ambiguous_collectives'"
    ).rows()
    assert lost == 4


def test_groups_kinds_and_ties_are_distinguished() -> None:
    run = make_run(
        *[
            [
                host_span("op", 0, 1),
                collective(1, 100, 200, size=2),  # both at the same time, so none is late
                # The same number in another group, and of another kind: others.
                collective(1, 300 + late, 400, size=2, group="tp"),
                collective(1, 500 + late, 600, size=2, kind="broadcast"),
                # Several kernels of one number: the first counts.
                collective(2, 700, 710, size=2),
                collective(2, 720 + late, 790, size=2),
                collective(9, 800 + late, 900, size=2, kind="send"),
            ]
            for late in (0, 20)
        ],
    )
    keys = ("process_group", "rank")
    assert values_by(keys, rows(run, VIEW), "count", "last_count", "delay_nanos") == {
        ("0", 0): (3, 0, 0),
        ("0", 1): (3, 1, 20_000),
        ("tp", 0): (1, 0, 0),
        ("tp", 1): (1, 1, 20_000),
    }


def test_stragglers_match_hta() -> None:
    # Where HTA works (one clock, kernels by the old name, one stream), the rank that it puts first.
    run = make_run(*ranks(*LATE, name="ncclKernel_AllReduce_RING_LL_Sum_float"))
    worst = max(rows(run, VIEW), key=lambda row: row["delay_nanos"])
    theirs = hta(*[Path.cwd() / f"rank{rank}.json" for rank in range(3)])
    assert theirs.get_potential_stragglers(num_candidates=1) == [worst["rank"]] == [1]


def test_new_nccl_kernel_names_are_recognised() -> None:
    # It looks for names that begin with ncclKernel, finds none, and takes the maximum of nothing.
    run = make_run(*ranks(*LATE))
    assert len(rows(run, VIEW)) == 3
    theirs = hta(*[Path.cwd() / f"rank{rank}.json" for rank in range(3)])
    with pytest.raises(ValueError, match="empty"):
        theirs.get_potential_stragglers(num_candidates=1)


def recorded(rank: int, number: int, state: str) -> dict[str, Any]:
    """Returns a flight recorder's entry of a collective."""
    asked = 1_700_000_000_000_000_000 + 1000 * number
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "is_p2p": False,
        "time_created_ns": asked + (700 * rank if state == "scheduled" else 0),
        "time_discovered_started_ns": 0 if state == "scheduled" else asked + 100 * rank,
        "time_discovered_completed_ns": asked + 900 if state == "completed" else 0,
        "retired": state == "completed",
        "state": state,
        "timeout_ms": 1,
        "frames": [],
        "input_sizes": [[1]],
        "output_sizes": [[1]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
    }


def test_collectives_that_never_began_are_ignored() -> None:
    # Of what was only scheduled, the time is when it was asked for, not when it began: no lateness.
    paths = []
    for rank in range(2):
        states = enumerate(("completed", "started", "scheduled"), 1)
        entries = [recorded(rank, number, state) for number, state in states]
        path = Path(f"nccl_trace_rank_{rank}.json")
        dump = {"version": "2.9", "pg_config": {}, "pg_status": {}, "entries": entries}
        path.write_text(json.dumps(dump))
        paths.append(path)
    marey.import_files(paths, "job.marey")
    answer = rows(open_run(Path("job.marey")), VIEW)
    assert values_by("rank", answer, "count", "last_count") == {0: (2, 0), 1: (2, 2)}


def test_runs_without_collectives_have_no_rows() -> None:
    assert rows(recorded_run("cpu-only-gloo"), VIEW) == []
    assert rows(recorded_run("a100-nccl"), VIEW) == []  # one rank, and no numbers
