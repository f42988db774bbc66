"""The views `autograd_calls` and `module_times`: compared with the arguments of torch.profiler's
events, and with hand-computed values."""

from __future__ import annotations

from typing import Any

from analyses import documented_rows, make_run, recorded_run, values

Event = dict[str, Any]


def test_nodes_are_linked_to_operators_with_their_sequence_number() -> None:
    run = recorded_run("a100-nccl")
    arrows = run.sql(
        "SELECT count(*) FROM flows WHERE category = 'fwdbwd' AND point = 'start'"
    ).rows()
    pairs = run.sql(
        """
        SELECT arg(f.args, 'Sequence number'), arg(b.args, 'Sequence number')
        FROM autograd_calls AS a
        JOIN spans AS f ON f.thread_id = a.forward_thread_id
            AND f.start_nanos = a.forward_start_nanos AND f.context_id = a.forward_context
        JOIN spans AS b ON b.thread_id = a.thread_id
            AND b.start_nanos = a.start_nanos AND b.context_id = a.context_id
        """
    ).rows()
    assert [(len(pairs),)] == arrows
    assert all(forward == backward is not None for forward, backward in pairs)


def module(name: str, begin: float, end: float) -> Event:
    """Returns a call of a module; times in microseconds."""
    return span(f"nn.Module: {name}", "python_function", begin, end)


def span(name: str, category: str, begin: float, end: float, thread: int = 1) -> Event:
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread}
    return {**event, "ts": begin, "dur": end - begin}


def arrow(number: int, begin: float, end: float, thread: int = 1) -> list[Event]:
    """Returns an arrow from a forward operator of thread 1 to a node of a thread."""
    head = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 1}
    return [
        {**head, "ph": "s", "tid": 1, "ts": begin},
        {**head, "ph": "f", "bp": "e", "tid": thread, "ts": end},
    ]


EVENTS = [
    module("Outer_0", 0, 100),
    module("Inner_0", 10, 60),
    # Both begin at the same time, as in files that round; the arrow means the inner one.
    span("aten::linear", "cpu_op", 20, 50),
    span("aten::addmm", "cpu_op", 20, 40),
    span("aten::relu", "cpu_op", 70, 80),
    span("autograd::engine::evaluate_function: ReluBackward0", "cpu_op", 200, 215, 2),
    span("ReluBackward0", "cpu_op", 200, 210, 2),
    span("AddmmBackward0", "cpu_op", 220, 250, 2),
    *arrow(1, 70, 200, 2),
    *arrow(2, 20, 220, 2),
    # The forward operator of this node is not in the file.
    span("MulBackward0", "cpu_op", 300, 310, 2),
    *arrow(3, 5, 300, 2),
]


def test_backward_counts_for_the_modules_of_its_forward_operator() -> None:
    run = make_run(EVENTS)
    calls = documented_rows(run, "autograd_calls", "SELECT * FROM {} ORDER BY start_nanos")
    assert values(calls, "name", "forward_name") == [
        ("ReluBackward0", "aten::relu"),
        ("AddmmBackward0", "aten::addmm"),
    ]
    modules = documented_rows(run, "module_times", "SELECT * FROM {} ORDER BY depth")
    columns = ("calls", "forward_nanos", "backward_calls", "backward_nanos", "total_nanos")
    assert values(modules, *columns) == [
        (1, 100_000, 2, 40_000, 140_000),
        (1, 50_000, 1, 30_000, 80_000),
    ]


def test_the_table_of_probing_has_the_backward_part_of_each_module() -> None:
    run = make_run(EVENTS)
    found = run.sql(
        "SELECT step, seq, module, stage, allocated, round(duration * 1e6) "
        "FROM python.torch_trace ORDER BY seq"
    ).rows()
    outer, inner = (row[2] for row in found[:2])
    assert outer != inner
    assert found == [
        (None, 0, outer, "forward", None, 100),
        (None, 1, inner, "forward", None, 50),
        (None, 2, outer, "backward", None, 40),
        (None, 3, inner, "backward", None, 30),
    ]
