"""The view `rank_arrivals`: waits between ranks, from host spans alone."""

from __future__ import annotations

from analyses import Event, documented_rows, host_span, make_run, rows, step, values_by
from rank_traces import STEP_MICROS, host_traces

VIEW = "rank_arrivals"


def test_the_view_matches_hand_computed_values() -> None:
    # Rank 2 is the last twice, by 3000 and 2000; rank 1 once, by 400.
    run = make_run(*host_traces((0, 0, 3000), (0, 1000, 3000), (0, 500, 100)))
    ours = documented_rows(run, VIEW)
    assert {(row["name"], row["path"], row["kind"]) for row in ours} == {
        ("backward", "step/backward", "operator")
    }
    assert values_by("rank", ours, "last_count", "delay_nanos", "wait_nanos") == {
        0: (0, 0, 6_500_000),
        1: (1, 400_000, 5_000_000),
        2: (2, 5_000_000, 400_000),
    }
    assert {(row["rank_count"], row["count"], row["waited_count"]) for row in ours} == {(3, 3, 3)}


def test_a_rank_arrives_when_it_leaves_the_last_span_inside() -> None:
    run = make_run(*host_traces((0, 0, 3000), (0, 0, 3000), max_inside=3000))
    found = values_by("rank", rows(run, VIEW), "last_count", "delay_nanos")
    assert found == {0: (0, 0), 1: (0, 0), 2: (2, 6_000_000)}


def test_spans_that_end_at_different_times_are_no_wait() -> None:
    # The ranks do not wait: the late one also ends late.
    traces: list[list[Event]] = [[], []]
    for events, late in zip(traces, (0, 3000), strict=True):
        for number in range(3):
            start = STEP_MICROS * number + late
            events += [step(number, start, 600), host_span("work", start, 500)]
    assert rows(make_run(*traces), VIEW) == []


def test_spans_are_matched_by_step_number() -> None:
    # The recording of rank 0 lacks the first step: what others did then is matched with nothing.
    traces = host_traces((0, 3000), (0, 3000), (0, 3000))
    traces[0] = [event for event in traces[0] if event["ts"] >= STEP_MICROS]
    found = rows(make_run(*traces), VIEW)
    assert values_by("rank", found, "count", "delay_nanos") == {0: (2, 0), 1: (2, 6_000_000)}


def test_a_single_rank_has_no_rows() -> None:
    assert rows(make_run(*host_traces((3000,), (3000,))), VIEW) == []
