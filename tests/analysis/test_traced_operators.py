"""The view `traced_operators`: the arguments of torch.profiler's events as columns."""

from __future__ import annotations

from typing import Any

from analyses import documented_rows, make_run

ARGUMENTS: dict[str, Any] = {
    "External id": 3,
    "Record function id": 7,
    "Sequence number": 5,
    "Fwd thread id": 1,
    "Input Dims": [[2, 4], []],
    "Input type": ["float", "Scalar"],
    "Input Strides": [[4, 1], []],
    "Concrete Inputs": ["", "2"],
    "Call stack": "train.py(3): train;",
    "flops": 16,
    "grid": "g",
}


def event(name: str, category: str, begin: float, end: float, **arguments: Any) -> dict[str, Any]:
    """Returns an event; times in microseconds."""
    head = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
    return {**head, "ts": begin, "dur": end - begin, "args": arguments}


def test_each_argument_of_an_operator_is_a_column() -> None:
    run = make_run(
        [
            event("nn.Module: Outer_0", "python_function", 0, 100),
            event("nn.Module: Inner_0", "python_function", 10, 60),
            event("aten::mul", "cpu_op", 20, 50, **ARGUMENTS),
            event("aten::empty", "cpu_op", 30, 40, **{"Record function id": 8}),
            event("aten::mul.Tensor", "cpu_op", 62, 66, **{**ARGUMENTS, "flops": None}),
            event(
                "aten::add",
                "cpu_op",
                70,
                80,
                **{"Record function id": 10, "Module Hierarchy": "A.B"},
            ),
            event("range", "user_annotation", 85, 90, **{"Record function id": 9}),
        ],
    )
    found = documented_rows(run, "traced_operators", "SELECT * FROM {} ORDER BY start_nanos")
    assert [row["name"] for row in found] == [
        "aten::mul",
        "aten::empty",
        "aten::mul.Tensor",
        "aten::add",
    ]
    assert [row["module"] for row in found] == [
        "nn.Module: Inner_0",
        "nn.Module: Inner_0",
        "nn.Module: Outer_0",
        "A.B",
    ]
    multiplied = found[0]
    assert (multiplied["duration_nanos"], multiplied["self_nanos"]) == (30_000, 20_000)
    assert multiplied["call_stack"] == "train.py(3): train;"
    assert multiplied["input_dims"] == "[[2, 4], []]"
    assert multiplied["input_types"] == '["float", "Scalar"]'
    assert multiplied["input_strides"] == "[[4, 1], []]"
    assert multiplied["concrete_inputs"] == '["", "2"]'
    numbers = ("flops", "record_function_id", "sequence", "forward_thread")
    assert [multiplied[name] for name in numbers] == [16, 7, 5, 1]
    assert '"grid":"g"' in multiplied["args"]
    assert [found[1][name] for name in numbers] == [None, 8, None, None]
    # Without PyTorch's figure it is that of `op_flops`: one for each element of the result.
    assert found[2]["flops"] == 8
