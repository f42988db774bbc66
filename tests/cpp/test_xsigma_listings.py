"""The listings of XSigma's guide compile unchanged and show what its text says they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import HEADERS, Report, Trace, compile_program, run_case

PROGRAMS = Path(__file__).parent / "programs"
OF_ALL_SCOPES = {"External id", "Record function id", "Ev Idx"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("xsigma") / "listings"
    folder = f"-I{HEADERS / 'marey' / 'xsigma'}"
    return compile_program(path, PROGRAMS / "listings.cpp", options=(folder,))


def test_the_quick_start_writes_shapes_modules_and_stack(program: Path) -> None:
    run_case(program, "quick_start")
    args = Trace().args("aten::matmul")
    assert args["Input Dims"] == [[2, 3], [3, 4]]
    assert args["Input type"] == ["float", "float"]
    assert args["Module Hierarchy"] == "model.encoder"
    assert args["Call stack"] == "forward;encode"
    assert args["Record function id"] > 0


def test_counters_are_in_the_trace_or_refused_by_name(program: Path) -> None:
    (line,) = run_case(program, "performance_counters")
    report, args = Report(line), Trace().args("aten::matmul")
    requested = {"cache_misses", "cache_references", "instructions", "cycles", "branch_misses"}
    # A virtual machine, or a restriction of the system, refuses some.
    refused = {name for name in requested for each in report.warnings if f"`{name}`" in each}
    assert len(refused) == len(report.warnings)
    assert requested & set(args) == requested - refused
    if "instructions" not in refused:
        assert args["instructions"] > 0


def test_use_case_1_the_shapes_of_the_call_that_fails(program: Path) -> None:
    run_case(program, "shape_mismatch")
    assert Trace("debug_shapes.json").args("aten::matmul")["Input Dims"] == [[2, 3], [4, 5]]


def test_use_case_2_strides_show_a_tensor_that_is_not_contiguous(program: Path) -> None:
    assert run_case(program, "memory_layout") == ["0"]
    trace = Trace()
    add, mul = trace.args("aten::add"), trace.args("aten::mul")
    assert add["Input Dims"] == [[2, 3], [2, 3]]
    assert add["Input Strides"] == [[3, 1], [3, 1]]
    assert add["Concrete Inputs"][0] == "tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"
    assert mul["Input Dims"][1] == [2, 3]
    assert mul["Input Strides"][1] == [1, 2]
    assert mul["Concrete Inputs"][1] == "tensor([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])"


def test_use_case_3_a_backward_operator_finds_its_forward_operator(program: Path) -> None:
    run_case(program, "forward_and_backward")
    trace = Trace("training_trace.json")
    forward, backward = trace.scopes["aten::conv2d"], trace.scopes["ConvolutionBackward0"]
    assert forward["args"]["Sequence number"] == backward["args"]["Sequence number"] == 42
    assert backward["args"]["Fwd thread id"] == forward["tid"] != backward["tid"]


def test_use_case_4_a_custom_operation_has_all_metadata(program: Path) -> None:
    lines = run_case(program, "custom_metadata")
    trace = Trace()
    operation = trace.scopes["my_custom_operation"]
    assert operation["cat"] == "user_annotation"
    assert operation["args"]["Call stack"] == "step"
    assert operation["args"]["Module Hierarchy"] == "model"
    assert operation["args"]["Input Dims"] == [[2, 3]]
    assert lines[0] == "Event: step"
    assert lines[3] == "Event: my_custom_operation"
    assert lines[5] == f"  Thread: {operation['tid']}"
    assert lines[4].startswith("  Duration: ")
    assert lines[4].endswith(" us")


def test_the_production_settings_record_names_and_times_alone(program: Path) -> None:
    run_case(program, "production")
    assert set(Trace().args("aten::matmul")) == OF_ALL_SCOPES


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ("development", set()),
        ("debugging", {"Input Strides", "Concrete Inputs", "page_faults"}),
    ],
)
def test_further_settings_record_their_metadata(
    program: Path, settings: str, more: set[str]
) -> None:
    run_case(program, settings)
    verbose = {"Input Dims", "Input type", "Module Hierarchy", "Call stack"}
    assert set(Trace().args("aten::matmul")) == OF_ALL_SCOPES | verbose | more
