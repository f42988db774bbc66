"""Device activities in the profile of a C++ program, on the double of NVIDIA's libraries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import marey
import pytest
from cpp_programs import Report, Trace, compile_program, run_case
from replay import environment

PROGRAMS = Path(__file__).parent / "programs"
SCRIPT = """clock real
launch gemm grid 4,2 block 128 registers 32 duration 500 stream 13
copy to-device 4096 duration 90
synchronize stream stream 13
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("devices") / "devices"
    return compile_program(path, PROGRAMS / "devices.cpp")


def profile(program: Path, *arguments: str) -> Report:
    return Report(run_case(program, *arguments, **environment(Path("lib"), SCRIPT))[-1])


def test_kernels_and_copies_are_linked_to_their_scopes(program: Path) -> None:
    report = profile(program)
    assert report.warnings == []
    kernel, operator = report["gemm"], report["aten::mm"]
    call = report["cuLaunchKernel"]
    assert kernel["linked_id"] == call["linked_id"] == operator["id"]
    assert kernel["id"] == call["id"] > 0
    assert (kernel["device"], kernel["device_index"], kernel["stream"]) == (1, 0, 13)
    assert (kernel["sizes"], kernel["registers"]) == ([4, 2, 1, 128, 1, 1], 32)
    assert kernel["duration_ns"] == 500
    assert operator["start_us"] <= call["start_us"] <= kernel["start_us"]
    (copy,) = [event for event in report.events if event["category"] == ["gpu_memcpy"]]
    assert (copy["bytes"], copy["duration_ns"], copy["device"]) == (4096, 90, 1)
    assert [event for event in report.events if event["category"] == ["cuda_sync"]] == []


def test_synchronisations_are_events_on_request(program: Path) -> None:
    report = profile(program, "sync")
    wait = report["Stream Sync"]
    assert (wait["category"], wait["stream"]) == (["cuda_sync"], 13)
    assert Trace().scopes["Stream Sync"]["cat"] == "cuda_sync"


def test_kernels_are_recorded_without_the_metrics_that_are_refused(program: Path) -> None:
    report = profile(program, "metrics")
    metric, per_kernel = report.warnings
    assert "`ncu --metrics sm__cycles_active.avg`" in metric
    assert "only the times of each kernel" in per_kernel
    assert report["gemm"]["duration_ns"] == 500
    assert Trace().scopes["gemm"]["args"].keys().isdisjoint({"sm__cycles_active.avg"})


def test_the_seventieth_profile_of_a_process_has_its_kernels(program: Path) -> None:
    report = profile(program, "late")
    assert report.warnings == []
    assert [event["name"] for event in report.events].count("gemm") == 1


def test_the_trace_links_calls_to_activities(program: Path) -> None:
    report = profile(program)
    trace = Trace()
    kernel, call = trace.scopes["gemm"], trace.scopes["cuLaunchKernel"]
    assert (kernel["pid"], kernel["tid"], kernel["cat"]) == (0, 13, "kernel")
    assert kernel["args"]["correlation"] == call["args"]["correlation"]
    assert kernel["args"]["External id"] == trace.args("aten::mm")["External id"]
    assert (kernel["args"]["grid"], kernel["args"]["block"]) == ([4, 2, 1], [128, 1, 1])
    flows = [event for event in trace.events if event.get("cat") == "ac2g"]
    phases = Counter((flow["id"], flow["ph"]) for flow in flows)
    assert phases[(report["gemm"]["id"], "s")] == phases[(report["gemm"]["id"], "f")] == 1


def test_marey_imports_the_trace(program: Path) -> None:
    profile(program)
    with marey.open("trace.json") as run:
        activities = run.sql("SELECT name, kind, stream FROM gpu_activities ORDER BY name").rows()
        spans = dict(run.sql("SELECT name, kind FROM spans").rows())
    assert [(name, kind) for name, kind, _ in activities] == [
        ("Memcpy HtoD (Pinned -> Device)", "memcpy"),
        ("gemm", "kernel"),
    ]
    assert spans["aten::mm"] == "operator"
    assert {"step", "cuLaunchKernel"} <= set(spans)
