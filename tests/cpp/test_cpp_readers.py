"""The trace of a C++ program in the programs that read it: HTA, and marey's importer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import marey
import pytest
from cpp_programs import SOURCES, Trace, compile_program, run_case
from programs import inside, marey_stdout
from replay import environment

SCRIPT = """clock real
launch gemm grid 4,2 block 128 registers 32 duration 5000 stream 13
copy to-device 4096 duration 90
"""
# Arguments of an event that PyTorch documents, and a performance counter under its own name.
KEYS = {
    "Record function id",
    "Module Hierarchy",
    "Call stack",
    "Input Dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "page_faults",
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the trace of rank 3."""
    folder = tmp_path_factory.mktemp("training")
    program = compile_program(folder / "training", SOURCES / "programs" / "training.cpp")
    (folder / "trace").mkdir()
    double = environment(folder / "lib", SCRIPT)
    with inside(folder / "trace"):
        run_case(program, RANK="3", WORLD_SIZE="8", **double)
    return folder / "trace"


def test_every_key_of_the_metadata_reference_is_in_the_file(trace: Path) -> None:
    content = Trace(str(trace / "trace.json")).content
    args = {event["name"]: event.get("args", {}) for event in content["traceEvents"]}
    assert args["aten::conv2d"].keys() >= KEYS
    assert KEYS | {"Sequence number", "flops"} <= args["aten::mm"].keys()
    assert {"Fwd thread id", "Sequence number"} <= args["MmBackward0"].keys()
    assert (args["aten::conv2d"]["stride"], args["aten::conv2d"]["groups"]) == ("[1, 1]", "1")
    assert args["aten::conv2d"]["Module Hierarchy"] == "model.encoder"
    assert args["aten::mm"]["Call stack"] == "ProfilerStep#2;forward"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_hta_reads_steps_shapes_and_launches(trace: Path) -> None:
    analysis = pytest.importorskip("hta.trace_analysis")
    ParserConfig = pytest.importorskip("hta.configs.parser_config").ParserConfig
    config = ParserConfig.get_default_cfg()
    config.add_args([*ParserConfig.ARGS_INPUT_SHAPE, *ParserConfig.ARGS_COMPLETE])
    before = ParserConfig.get_default_cfg()
    ParserConfig.set_default_cfg(config)
    try:
        read = analysis.TraceAnalysis(trace_dir=str(trace), include_last_profiler_step=True)
    finally:
        ParserConfig.set_default_cfg(before)
    assert list(read.t.traces) == [3]
    assert read.t.get_iterations(3) == [1, 2]
    names = read.t.symbol_table.sym_table
    events = read.t.get_trace(3)
    events = events.assign(name=[names[name] for name in events["name"]])
    assert Counter(events["name"])["gemm"] == 2
    [first, second] = events[events["name"] == "aten::mm"].itertuples()
    assert (first.input_dims, first.input_type) == ([[2, 3], [3, 4]], ["float", "float"])
    assert (first.sequence, second.sequence) == (1, 2)
    backward = events[events["name"] == "MmBackward0"]
    assert set(backward["fwd_thread_id"]) == {first.tid}
    launches = events[(events["name"] == "gemm")]["index_correlation"]
    assert [events.loc[launch, "name"] for launch in launches] == ["cuLaunchKernel"] * 2
    kernels = read.get_gpu_kernel_breakdown(visualize=False)[1]
    [gemm] = kernels[kernels["name"] == "gemm"]["sum (us)"]
    assert gemm == pytest.approx(10, abs=4), "HTA rounds starts and ends to microseconds"


def test_marey_imports_and_analyses_it(trace: Path) -> None:
    marey_stdout("import", trace / "trace.json", "-o", "run.marey")
    with marey.open("run.marey") as run:
        spans: list[tuple[Any, ...]] = run.sql(
            "SELECT name, kind, args FROM spans ORDER BY start_nanos"
        ).rows()
        steps = run.sql("SELECT number FROM steps ORDER BY number").rows()
        launches = run.sql("SELECT name, launch_name, path FROM launches").rows()
    kinds = {name: kind for name, kind, _ in spans}
    assert (kinds["aten::mm"], kinds["forward"]) == ("operator", "operator")
    assert steps == [(1,), (2,)]
    args = {name: json.loads(args or "{}") for name, _, args in spans}
    assert args["aten::mm"]["Input Dims"] == [[2, 3], [3, 4]]
    assert args["aten::mm"]["Input type"] == ["float", "float"]
    assert args["aten::conv2d"]["Module Hierarchy"] == "model.encoder"
    assert args["aten::conv2d"]["groups"] == "1"
    path = "step/forward/aten::mm"
    copy = "Memcpy HtoD (Pinned -> Device)"
    assert sorted(launches) == [
        *[(copy, "cuMemcpyHtoDAsync_v2", path)] * 2,
        *[("gemm", "cuLaunchKernel", path)] * 2,
    ]
    assert "gemm" in marey_stdout("analyze", "run.marey")
