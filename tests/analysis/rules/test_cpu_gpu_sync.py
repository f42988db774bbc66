"""The rule `cpu_gpu_sync`: the host waits for the device."""

from __future__ import annotations

import pytest
from analyses import Event, gpu_span, host_span, kernel, launch, make_run, recorded_run, step
from rules import check_no_findings_without_data, findings_of, severities

RULE = "cpu_gpu_sync"


def call(name: str, start: float, duration: float, correlation: int | None = None) -> Event:
    """Makes a call of the runtime."""
    args = {} if correlation is None else {"correlation": correlation}
    return host_span(name, start, duration, category="cuda_runtime", **args)


def copy(correlation: int, start: float, duration: float, name: str) -> Event:
    """Makes a copy."""
    return gpu_span(name, start, duration, category="gpu_memcpy", correlation=correlation, bytes=4)


PAGEABLE = "Memcpy DtoH (Device -> Pageable)"
PINNED = "Memcpy DtoH (Device -> Pinned)"

# Each of two steps waits 150 µs in item(), and 40 µs for an event; the device is busy for 600 µs
# of 1,000.
WAITS: list[Event] = [
    event
    for number, begin in enumerate((0, 500))
    for event in [
        step(number, begin, 500),
        launch(10 * number + 1, begin + 10),
        kernel(10 * number + 1, begin + 20, 299),
        host_span("aten::item", begin + 100, 170),
        call("cudaMemcpyAsync", begin + 110, 110, 10 * number + 2),
        copy(10 * number + 2, begin + 319, 1, PAGEABLE),
        call("cudaStreamSynchronize", begin + 220, 40),
        call("cudaStreamWaitEvent", begin + 300, 50),
        call("cudaEventSynchronize", begin + 360, 40),
    ]
]


def test_waits_are_attributed_to_operators() -> None:
    item, event = findings_of(make_run(WAITS), RULE)
    assert (item["subject"], item["severity"]) == ("step/aten::item", "high")
    assert item["impact_nanos"] == 150_000
    assert item["impact_percent"] == pytest.approx(30)
    assert item["gain_nanos"] == 150_000
    assert (item["call"], item["syncs_per_step"]) == ("cudaMemcpyAsync", 2)
    assert item["longest_nanos"] == 110_000
    assert item["total_sync_percent"] == pytest.approx(38)
    assert (event["subject"], event["impact_nanos"], event["severity"]) == ("step", 40_000, "low")


def test_the_gain_is_limited_by_the_idle_time() -> None:
    busy = [launch(99, 5), kernel(99, 0, 900, stream=8)]
    item, event = findings_of(make_run([*WAITS, *busy]), RULE)
    assert (item["impact_nanos"], item["gain_nanos"]) == (150_000, 50_000)
    assert event["gain_nanos"] == 40_000


@pytest.mark.parametrize(
    ("name", "copied", "waits"),
    [
        ("cudaMemcpyAsync", PAGEABLE, True),
        ("cudaMemcpyAsync", PINNED, False),
        ("cudaMemcpy", PINNED, True),
        ("cudaMemcpy", "Memcpy DtoD (Device -> Device)", False),
        ("hipMemcpyWithStream", "Memcpy DtoH (Device -> Host)", True),
        ("hipMemcpyAsync", "Memcpy DtoH (Device -> Host)", False),
        ("cudaMemcpyAsync", "Memcpy DtoD (Device -> Device)", False),
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", False),
        ("hipStreamSynchronize", None, True),
        ("cuCtxSynchronize", None, True),
        ("hipStreamWaitEvent", None, False),
        ("cudaStreamWaitEvent", None, False),
    ],
)
def test_calls_that_count_as_waits(name: str, copied: str | None, waits: bool) -> None:
    events = [step(0, 0, 100), call(name, 10, 50, 1)]
    if copied is not None:
        events.append(copy(1, 20, 2, copied))
    assert [row["impact_nanos"] for row in findings_of(make_run(events), RULE)] == (
        [50_000] if waits else []
    )


def test_the_profilers_own_last_wait_is_ignored() -> None:
    end = call("cudaDeviceSynchronize", 1001, 500)
    after = call("cudaStreamSynchronize", 1600, 500)
    assert len(findings_of(make_run([*WAITS, end, after]), RULE)) == 2
    # Without steps: the one in the middle counts.
    middle = call("cudaDeviceSynchronize", 100, 100)
    run = make_run([launch(1, 0), kernel(1, 5, 190), middle, end])
    (row,) = findings_of(run, RULE)
    assert (row["subject"], row["impact_nanos"]) == ("cudaDeviceSynchronize", 100_000)


def test_time_before_the_first_step_is_ignored() -> None:
    wait = "cudaStreamSynchronize"
    (row,) = findings_of(
        make_run([call(wait, 0, 90), step(0, 100, 900), call(wait, 200, 60)]),
        "cpu_gpu_sync",
    )
    assert (row["impact_nanos"], row["subject"]) == (60_000, "step")


def test_thresholds_decide_about_findings_and_severity() -> None:
    run = make_run(WAITS)
    assert severities(run, RULE, high_percent=30.0) == ["medium", "low"]
    assert severities(run, RULE, medium_percent=7.0) == ["high", "medium"]
    assert severities(run, RULE, min_percent=9.0) == ["high"]
    assert severities(run, RULE, min_percent=31.0) == []


def test_findings_of_recorded_traces() -> None:
    # A step that does little but wait for an event and for is_nonzero().
    event, item = findings_of(recorded_run("cuda-event-sync"), RULE)
    assert (event["subject"], event["call"]) == ("step", "cudaEventSynchronize")
    assert (event["impact_nanos"], event["syncs_per_step"]) == (42_000, 2)
    assert item["subject"] == "step/aten::is_nonzero/aten::item/aten::_local_scalar_dense"
    assert item["impact_nanos"] == 35_000  # of the copy, and of the stream after it
    # 24 waits for events take 79 µs in all; and a profiler's own.
    assert findings_of(recorded_run("a100-nccl"), RULE) == []
    assert findings_of(recorded_run("mi250-rocm"), RULE, min_percent=0.0) == []
    assert findings_of(recorded_run("triton-kernel-args"), RULE) == []


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
