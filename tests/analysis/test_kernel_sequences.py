"""The view `kernel_sequences`: compared with HTA and with hand-computed values."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from analyses import (
    HTA_WARNINGS,
    Event,
    documented_rows,
    gpu_span,
    host_span,
    hta,
    kernel,
    launch,
    make_run,
    recorded_run,
    recorded_trace,
    rows,
    step,
    values,
)

pytestmark = HTA_WARNINGS

VIEW = "kernel_sequences"

# By operator, sequence and its length: calls, time on the device, time on the host.
Sums = dict[tuple[str, str, int], tuple[int, int, int]]


def add(sums: Sums, key: tuple[str, str, int], count: int, device: int, host: int) -> None:
    before = sums.get(key, (0, 0, 0))
    sums[key] = (before[0] + count, before[1] + device, before[2] + host)


def shortened(names: list[str]) -> str:
    more = [f"… {len(names) - 10} more"] if len(names) > 10 else []
    return " -> ".join(names[:10] + more)


@pytest.fixture(scope="module")
def analysis() -> Any:
    """HTA without writing its files, which takes most of its time."""
    kernels = pytest.importorskip("hta.analyzers.cuda_kernel_analysis")
    analysis = hta(recorded_trace("a100-nccl"))
    with pytest.MonkeyPatch.context() as patch:
        overlay = "_overlay_frequent_patterns_with_trace"
        patch.setattr(kernels.CudaKernelAnalysis, overlay, lambda *_: {})
        patch.setattr(analysis.t, "write_raw_trace", lambda *_: None)
        yield analysis


@pytest.mark.parametrize(
    ("part", "sequences"),
    [("aten::conv2d", 6), ("ConvolutionBackward0", 18), ("evaluate_function", 19)],
)
def test_sequences_match_hta(analysis: Any, tmp_path: Path, part: str, sequences: int) -> None:
    # HTA takes the operators whose name contains a text, but only those of the least depth. Exact
    # but for float sums. Its depth of what the backward thread does is one more in this trace, as
    # it puts that thread under an annotation of the main one: it makes no difference within a
    # thread.
    expected: Sums = {}
    for row in analysis.get_frequent_cuda_kernel_sequences(part, str(tmp_path)).to_dict("records"):
        operator, *names = row["pattern"].split("|")
        assert 3 <= len(names) <= 64
        add(
            expected,
            (operator, shortened(names), len(names)),
            row["count"],
            round(1000 * row["GPU kernel duration (us)"]),
            round(1000 * row["CPU op duration (us)"]),
        )
    run = recorded_run("a100-nccl")
    documented_rows(run, VIEW)
    found: Sums = {}
    for row in rows(
        run,
        VIEW,
        f"SELECT * FROM {{}} WHERE strpos(name, '{part}') > 0 AND depth = ("
        f"SELECT min(depth) FROM spans WHERE strpos(name, '{part}') > 0)",
    ):
        key = row["name"], row["sequence"], row["length"]
        add(found, key, row["count"], row["total_nanos"], row["operator_nanos"])
    assert found == expected
    assert len(expected) == sequences


def call(name: str, start: int, numbers: list[int], **more: Any) -> list[Event]:
    """Makes an operator of 100 us that launches kernels `k1` and so on; each runs 5 us."""
    events = [host_span(name, start, 100, **more)]
    for place, number in enumerate(numbers):
        correlation = start + place
        events.append(launch(correlation, start + 10 + place, **more))
        begins = start + 200 + 10 * place
        events.append(kernel(correlation, begins, 5, name=f"k{number}"))
    return events


def found(run: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(values(documented_rows(run, VIEW), *columns), key=str)


def test_the_view_matches_hand_computed_values() -> None:
    run = make_run(
        [
            *call("op", 1000, [1, 2, 3]),
            *call("op", 2000, [1, 2, 3]),
            *call("op", 3000, [1, 3, 2]),  # another order
            *call("short", 4000, [1, 2]),  # fewer than three
        ],
    )
    (first, second) = rows(run, VIEW, "SELECT * FROM {} ORDER BY count DESC")
    assert (first["name"], first["kind"]) == ("op", "operator")
    assert (first["path"], first["depth"]) == ("op", 1)
    assert (first["sequence"], first["length"], first["count"]) == ("k1 -> k2 -> k3", 3, 2)
    assert (first["total_nanos"], first["operator_nanos"]) == (30_000, 200_000)
    assert (first["mean_nanos"], first["mean_operator_nanos"]) == (15_000, 100_000)
    assert (second["sequence"], second["count"]) == ("k1 -> k3 -> k2", 1)


def test_sequences_are_in_the_order_of_the_device() -> None:
    # Launched first, but on a stream that begins late; copies and fills count, waits do not.
    run = make_run(
        [
            host_span("op", 0, 100),
            launch(1, 10),
            launch(2, 20),
            launch(3, 30, name="cudaMemcpyAsync"),
            launch(4, 40, name="cudaStreamWaitEvent"),
            kernel(1, 300, 5),
            kernel(2, 200, 0, stream=8),
            gpu_span("Memcpy", 250, 7, category="gpu_memcpy", stream=9, correlation=3, bytes=1),
            gpu_span("Stream Wait Event", 240, 9, category="cuda_sync", correlation=4),
        ],
    )
    assert found(run, "sequence", "total_nanos") == [("k2 -> Memcpy -> k1", 12_000)]


def test_only_launches_inside_an_operator_belong_to_it() -> None:
    events = [
        host_span("before", 0, 100),
        host_span("outer", 100, 100),
        host_span("inner", 110, 50),
        host_span("empty", 120, 0),  # no length: nothing is inside it
        host_span("after", 200, 100),
        host_span("elsewhere", 50, 500, tid=200),  # another thread
        host_span("nothing", 600, 100),
        *[launch(number, 109 + number) for number in range(1, 4)],
        launch(4, 170),
        launch(5, 200),  # the moment at which one ends and another begins: of the other
        launch(6, 210),
        launch(7, 299),
        launch(8, 300),  # after the end
        # cudaLaunchKernel with cuLaunchKernel inside it: one launch.
        launch(1, 110, 0.5, name="cuLaunchKernel"),
        *[kernel(number, 1000 + 10 * number, 5) for number in range(1, 9)],
        kernel(99, 2000, 5),  # of no launch
    ]
    assert found(make_run(events), "name", "sequence") == [
        ("after", "k5 -> k6 -> k7"),
        ("inner", "k1 -> k2 -> k3"),
        ("outer", "k1 -> k2 -> k3 -> k4"),
    ]


def test_nested_operators_of_one_name_count_once() -> None:
    # Around the second inner one is one that launches too much for a row: it is not outermost
    wide = [launch(number, 2000 + number, 0.5) for number in range(100, 200)]
    run = make_run(
        [
            *call("to", 1000, [1, 2, 3]),
            host_span("to", 1005, 50),
            host_span("to", 2000, 900),
            *wide,
            host_span("to", 2300, 10),
            *[launch(number, 2300 + number) for number in range(4, 7)],
            # The same, and not inside anything.
            host_span("to", 3000, 10),
            *[launch(number, 3000 + number) for number in range(7, 10)],
            *[kernel(number, 5000 + number, 1, name="k") for number in range(4, 200)],
        ],
    )
    assert found(run, "path", "is_outermost", "sequence", "count") == [
        ("to", True, "k -> k -> k", 1),
        ("to", True, "k1 -> k2 -> k3", 1),
        ("to/to", False, "k -> k -> k", 1),
        ("to/to", False, "k1 -> k2 -> k3", 1),
    ]


def test_sequences_of_more_than_64_kernels_are_skipped() -> None:
    run = make_run(
        [
            *call("ten", 1000, list(range(10))),
            *call("most", 2000, list(range(64))),
            *call("too many", 3000, list(range(65))),
            # The same first ten names and the same length, and another end: another sequence.
            *call("most", 4000, [*range(63), 99]),
        ],
    )
    ten = " -> ".join(f"k{number}" for number in range(10))
    assert found(run, "name", "length", "sequence") == [
        ("most", 64, f"{ten} -> … 54 more"),
        ("most", 64, f"{ten} -> … 54 more"),
        ("ten", 10, ten),
    ]


def test_sequences_of_places_and_ranks_are_not_mixed() -> None:
    # A row for each place and rank; numbers of launches mean nothing in another process. Steps and
    # calls of the runtime are no operators.
    traces = []
    for rank in range(2):
        pid = 100 + rank
        events = [
            step(1, 900, 3000, pid=pid),
            host_span("forward", 950, 1000, category="user_annotation", pid=pid),
            *call("op", 1000, [1, 2, 3 + rank], pid=pid),
            *call("op", 2000, [1, 2, 3 + rank], pid=pid),
        ]
        traces.append(events)
    assert found(make_run(*traces), "rank", "path", "kind", "depth", "sequence") == [
        (0, "step/forward", "scope", 2, "k1 -> k2 -> k3"),
        (0, "step/forward/op", "operator", 3, "k1 -> k2 -> k3"),
        (0, "step/op", "operator", 2, "k1 -> k2 -> k3"),
        (1, "step/forward", "scope", 2, "k1 -> k2 -> k4"),
        (1, "step/forward/op", "operator", 3, "k1 -> k2 -> k4"),
        (1, "step/op", "operator", 2, "k1 -> k2 -> k4"),
    ]


def test_deeply_nested_operators_are_supported() -> None:
    # 1,000 operators, each inside the one before: all around 3 launches, the outermost 100 around
    # more, from 100 down. The outermost 40 have more than 64.
    depth = 1000
    events = [host_span("op", place, 10_000 - 2 * place) for place in range(depth)]
    events += [launch(number, 5000 + number, 0.5) for number in range(1, 4)]
    events += [launch(number, 9895 + number, 0.5) for number in range(4, 101)]
    events += [kernel(number, 20_000 + number, 1, name="k") for number in range(1, 101)]
    run = make_run(events)
    began = time.monotonic()
    answer = rows(run, VIEW, "SELECT count, length FROM {} ORDER BY length DESC")
    assert time.monotonic() - began < 5
    assert len(answer) == sum(row["count"] for row in answer) == depth - 40
    assert [answer[0]["length"], answer[-1]["length"]] == [64, 3]


def test_empty_runs_have_no_rows() -> None:
    assert rows(recorded_run("cpu-only-gloo"), VIEW) == []
    alone = [kernel(number, 10 * number, 5) for number in range(5)]
    assert rows(make_run(alone), VIEW) == []
