"""The view `step_memory`: memory that is allocated at the end of steps."""

from __future__ import annotations

from typing import Any

from analyses import Event, host_span, make_run, memory_event, recorded_run, step, values, values_by
from analyses import rows as viewed

VIEW = "step_memory"


def sums(*events: Event) -> list[tuple[Any, ...]]:
    found = viewed(make_run(list(events)), VIEW)
    found.sort(key=lambda row: (row["device_type"], row["device"] or 0, row["start_nanos"]))
    sizes = ("allocated_bytes", "peak_bytes", "reserved_bytes", "change_bytes")
    return values(found, "number", "device", *sizes)


def test_the_view_matches_hand_computed_values() -> None:
    events = [
        memory_event(50, 10),
        step(0, 100, 100),
        memory_event(110, 30),
        memory_event(120, 20),
        memory_event(210, 90),  # between steps
        step(1, 300, 100),
        memory_event(350, 40),
        step(2, 400, 100),  # nothing happens
        step(3, 500, 0),
        memory_event(600, 1000),  # after all
    ]
    assert sums(*events) == [
        (0, 0, 20, 30, 40, 10),
        (1, 0, 40, 90, 80, -50),
        (2, 0, 40, 40, 80, 0),
        (3, 0, 40, 40, 80, 0),
    ]


def test_a_peak_changes_from_what_was_allocated_when_the_step_began() -> None:
    events = [
        step(0, 100, 100),
        memory_event(110, 30),
        step(1, 200, 100),
        memory_event(250, 75),
        memory_event(260, 10),
        step(2, 300, 100),  # nothing happens: the peak is what was allocated at its beginning
        step(3, 400, 0),
        step(4, 500, 100),
        memory_event(510, 4),
    ]
    found = viewed(make_run(events), VIEW, "SELECT peak_change_bytes FROM {} ORDER BY number")
    assert [row["peak_change_bytes"] for row in found] == [None, 45, 0, 0, 0]


def test_an_event_between_two_steps_belongs_to_the_second() -> None:
    events = [step(0, 100, 100), memory_event(100, 10), step(1, 200, 100), memory_event(200, 20)]
    assert sums(*events) == [(0, 0, 10, 10, 20, None), (1, 0, 20, 20, 40, 10)]


def test_memories_are_not_mixed() -> None:
    events = [
        step(0, 100, 100),
        memory_event(110, 10),
        memory_event(120, 20, device=1),
        memory_event(130, 5, device=-1, kind=0),
        step(1, 200, 100),
        memory_event(210, 11),
    ]
    assert sums(*events) == [
        (0, None, 5, 5, 10, None),
        (1, None, 5, 5, 10, 0),
        (0, 0, 10, 10, 20, None),
        (1, 0, 11, 11, 22, 1),
        (0, 1, 20, 20, 40, None),
        (1, 1, 20, 20, 40, 0),
    ]


def test_processes_are_not_mixed() -> None:
    run = make_run(
        [step(0, 100, 100), memory_event(110, 10)],
        [step(0, 100, 100), memory_event(110, 20)],
    )
    assert values_by("rank", viewed(run, VIEW), "allocated_bytes") == {0: 10, 1: 20}


def test_steps_of_two_threads_are_supported() -> None:
    # They overlap: each has what was allocated when it ended, and its own peak.
    events = [
        step(0, 100, 200),
        step(1, 150, 100, tid=101),
        step(2, 260, 40, tid=101),
        memory_event(110, 50),
        memory_event(140, 10),
        memory_event(200, 20),
        memory_event(280, 30),
    ]
    assert sums(*events) == [
        (0, 0, 30, 50, 60, None),
        (1, 0, 20, 20, 40, 10),
        (2, 0, 30, 30, 60, 10),
    ]


def test_runs_without_allocator_events_have_no_rows() -> None:
    # No steps; no events; no event before the first step ends; no event with a total.
    assert viewed(make_run([host_span("op", 0, 1), memory_event(5, 10)]), VIEW) == []
    assert viewed(make_run([step(0, 0, 10)]), VIEW) == []
    assert viewed(make_run([step(0, 0, 10), memory_event(10, 5)]), VIEW) == []
    event = memory_event(5, 0)
    del event["args"]["Total Allocated"]
    assert viewed(make_run([step(0, 0, 10), event]), VIEW) == []
    assert viewed(recorded_run("a100-nccl"), VIEW) == []
