"""Single device activities: every kind and field, and their launches."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from gpu_programs import kernels, read_chrome_trace, read_kernels, record, run
from profiles import tree
from trace_files import run_rows

SHAPE = "grid 4,2 block 128,2 cluster 2 registers 40 shared 1024 static-shared 16 local 8"

EVERY_KIND = """
    part kinds {
        launch "void gemm<float>(int)" duration 500 stream 13 {shape}
        copy to-device 4096 from pageable to device blocking duration 90
        copy to-host 64 duration 10
        set 512 value 7 duration 20
        copy on-device 8 peer 1 duration 4
        synchronize stream stream 13
        synchronize device
        overhead buffer-flush 500
    }
    part capture {
        capture step {
            launch first duration 100
            copy on-device 64 duration 9
            set 32 value 0 duration 3
        }
        instantiate step
    }
    part replay {
        graph step
    }
"""

PROGRAM = """
    session = marey.start("profile", backend="cupti", data="trace")
    with marey.scope("step"):
        double.play("kinds")
    with marey.scope("capture"):
        double.play("capture")
    for _ in range(2):
        with marey.scope("replay"):
            double.play("replay")
    marey.finalize(session, output_format="{format}")
"""


def record_every_kind(settings: str = "clock real", output_format: str = "marey") -> None:
    script = EVERY_KIND.replace("{shape}", SHAPE)
    run(PROGRAM.format(format=output_format), f"{settings}\n{script}")


def rows(query: str, path: str = "profile.marey") -> list[tuple[Any, ...]]:
    return run_rows(path, query)


def activity(name: str, columns: str) -> tuple[Any, ...]:
    (row,) = rows(f"SELECT {columns} FROM gpu_activities WHERE name LIKE '{name}'")
    return row


def args(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(activity(name, "args")[0])
    return read


@pytest.mark.parametrize("version", [26, 28, 130_001, 130_500])
def test_every_kind_has_every_field_of_its_record(version: int) -> None:
    record_every_kind(f"version {version}\nclock real")
    common = "kind, device, stream, path, duration_nanos"
    assert activity("void gemm%", f"{common}, grid, block, registers, shared_bytes") == (
        *("kernel", 0, 13, "step", 500),
        *("4,2,1", "128,2,1", 40, 1040),
    )
    assert args("void gemm%") == {
        "context": 1,
        "static_shared_bytes": 16,
        "dynamic_shared_bytes": 1024,
        "shared_executed_bytes": 1040,
        "local_thread_bytes": 8,
        "cluster_x": 2,
        "cluster_y": 1,
        "cluster_z": 1,
    }
    assert activity("Memcpy HtoD (Pageable -> Device)", f"{common}, bytes") == (
        *("memcpy", 0, 7, "step", 90),
        4096,
    )
    assert args("Memcpy HtoD%") == {"context": 1, "source_kind": 1, "target_kind": 3}
    assert activity("Memcpy DtoH (Device -> Pinned)", "bytes, duration_nanos") == (64, 10)
    set_here = rows(
        f"SELECT {common}, bytes, args FROM gpu_activities "
        "WHERE name = 'Memset (Device)' AND graph_node_id IS NULL"
    )
    assert [row[:-1] for row in set_here] == [("memset", 0, 7, "step", 20, 512)]
    assert json.loads(set_here[0][-1]) == {"context": 1, "value": 7, "target_kind": 3}
    assert activity("Memcpy PtoP (Device -> Device)", f"{common}, bytes") == (
        *("memcpy", 0, 7, "step", 4),
        8,
    )
    assert args("Memcpy PtoP%") == {
        "context": 1,
        "source_device": 0,
        "target_device": 1,
        "source_context": 1,
        "target_context": 2,
        "source_kind": 3,
        "target_kind": 3,
        "flags": 1,
    }
    assert args("Memcpy DtoH%")["flags"] == 1
    assert activity("Stream Synchronize", "kind, stream, path") == ("sync", 13, "step")
    assert activity("Context Synchronize", "kind, stream, path") == ("sync", 2**32 - 1, "step")
    assert activity("Overhead: %", "name, duration_nanos, path") == (
        *("Overhead: flush of activity buffers", 500),
        None,
    )


def test_mareys_own_waits_are_not_recorded() -> None:
    run(
        """
        session = marey.start("profile", backend="cupti", data="trace")
        double.launch("kernel", 5)
        marey.finalize(session, output_format="marey")
        assert double.calls("cuCtxSynchronize") > 0
        """,
        "clock real",
    )
    assert rows("SELECT name FROM gpu_activities") == [("kernel",)]
    assert rows("SELECT name FROM spans") == [("cuLaunchKernel",)]


def test_graph_kernels_have_node_id_launch_and_capture() -> None:
    record_every_kind()
    found = rows(
        "SELECT name, kind, path, duration_nanos, bytes, graph_node_id FROM gpu_activities "
        "WHERE graph_node_id IS NOT NULL ORDER BY start_nanos"
    )
    first = ("first", "kernel", "replay/<captured_at>/capture", 100, None)
    copy = ("Memcpy DtoD (Device -> Device)", "memcpy", "replay/<captured_at>/capture", 9, 64)
    fill = ("Memset (Device)", "memset", "replay/<captured_at>/capture", 3, 32)
    assert [row[:-1] for row in found] == [first, copy, fill] * 2
    assert len({row[-1] for row in found}) == 3
    graphs = rows(
        "SELECT DISTINCT arg(args, 'graph') FROM gpu_activities WHERE graph_node_id IS NOT NULL"
    )
    assert len(graphs) == 1
    assert graphs[0][0] is not None


def test_a_launch_is_a_span_with_the_correlation_id() -> None:
    record_every_kind()
    joined = rows(
        "SELECT s.name, s.path, s.kind, a.name FROM spans s JOIN gpu_activities a "
        "ON s.correlation_id = a.correlation_id ORDER BY a.start_nanos, a.name"
    )
    assert [(call, path, name.split()[0]) for call, path, _, name in joined] == [
        ("cuLaunchKernel", "step/cuLaunchKernel", "void"),
        ("cuMemcpyHtoD_v2", "step/cuMemcpyHtoD_v2", "Memcpy"),
        ("cuMemcpyDtoHAsync_v2", "step/cuMemcpyDtoHAsync_v2", "Memcpy"),
        ("cuMemsetD32Async", "step/cuMemsetD32Async", "Memset"),
        ("cuMemcpyDtoDAsync_v2", "step/cuMemcpyDtoDAsync_v2", "Memcpy"),
        ("cuStreamSynchronize", "step/cuStreamSynchronize", "Stream"),
        ("cuCtxSynchronize", "step/cuCtxSynchronize", "Context"),
        *[
            ("cuGraphLaunch", "replay/cuGraphLaunch", "first"),
            ("cuGraphLaunch", "replay/cuGraphLaunch", "Memcpy"),
            ("cuGraphLaunch", "replay/cuGraphLaunch", "Memset"),
        ]
        * 2,
    ]
    assert {kind for _, _, kind, _ in joined} == {"runtime"}


@pytest.mark.parametrize(
    "clock",
    ["real", "real offset 3600000000000", "real offset -5000000 drift 50", "real drift -50"],
)
def test_device_times_are_on_the_host_clock(clock: str) -> None:
    record_every_kind(f"clock {clock}")
    late = rows(
        "SELECT a.start_nanos - s.start_nanos FROM spans s JOIN gpu_activities a "
        "ON s.correlation_id = a.correlation_id"
    )
    # A kernel starts in its launch; both clocks are read within a microsecond or two, unless the
    # thread has to wait in between.
    assert all(-20_000 < nanos < 1_000_000_000 for (nanos,) in late), late
    assert median(nanos for (nanos,) in late) < 5_000_000, late
    ((outside,),) = rows(
        "SELECT count(*) FROM spans s JOIN spans l ON l.path LIKE s.path || '/cu%' "
        "WHERE s.kind = 'scope' AND s.name <> 'replay' "
        "AND (l.start_nanos < s.start_nanos OR l.end_nanos > s.end_nanos)"
    )
    assert outside == 0


def test_an_activity_without_times_follows_the_one_before_it() -> None:
    run(
        """
        session = marey.start("profile", backend="cupti", data="trace")
        double.run()
        marey.finalize(session, output_format="marey")
        """,
        """
        clock real
        launch timed duration 100
        launch untimed untimed
        copy to-device 64 backwards duration 40
        """,
    )
    kinds = rows("SELECT kind, duration_nanos FROM gpu_activities ORDER BY start_nanos, kind, name")
    assert kinds == [("kernel", 100), ("kernel", 0), ("memcpy", 0)]
    ((start_nanos,), (same_nanos,)) = rows(
        "SELECT start_nanos FROM gpu_activities WHERE kind = 'kernel' ORDER BY name"
    )
    assert start_nanos == same_nanos
    assert rows("SELECT cause, count FROM losses WHERE count > 0") == [("device_times_missing", 2)]


def test_the_run_names_its_devices_and_its_libcupti() -> None:
    record_every_kind()
    ((number, kind, told),) = rows("SELECT device, type, properties FROM devices")
    assert (number, kind) == (0, "CUDA")
    assert json.loads(told)["num_sms"] == 132
    ((note,),) = rows("SELECT value FROM metadata WHERE key = 'gpu'")
    assert "CUPTI 130001" in note


def test_a_trace_has_the_sums_of_a_tree() -> None:
    run(
        """
        first = marey.start("tree", backend="cupti")
        second = marey.start("trace", backend="cupti", data="trace")
        for step in range(20):
            with marey.scope("step"):
                double.launch("first", 3, times=50)
                with marey.scope("inner"):
                    double.launch("second", 5, stream=13, times=70)
        marey.finalize(first)
        marey.finalize(second, output_format="marey")
        """,
        "delivery worker",
    )
    sums = rows(
        "SELECT path || '/' || name, count(*), sum(duration_nanos) FROM gpu_activities "
        "WHERE kind = 'kernel' GROUP BY 1",
        "trace.marey",
    )
    assert {path: (count, nanos) for path, count, nanos in sums} == kernels(tree("tree.hatchet"))
    assert read_kernels("tree.hatchet") == {
        "step/first": (1_000, 3_000),
        "step/inner/second": (1_400, 7_000),
    }


# Chrome traces


def test_a_chrome_trace_has_a_lane_for_each_stream_and_arrows_from_launches() -> None:
    record_every_kind(output_format="chrome_trace")
    events = read_chrome_trace("profile.chrome_trace")["traceEvents"]
    lanes = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    device = [
        event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    assert {(lanes[event["tid"]], event["name"].split()[0]) for event in device} == {
        ("GPU Stream 13", "void"),
        ("GPU Stream 7", "Memcpy"),
        ("GPU Stream 7", "Memset"),
        ("GPU Stream 7", "first"),
    }
    gemm = next(event for event in device if event["name"].startswith("void"))
    assert gemm["args"]["call_stack"] == ["ROOT", "step", "void gemm<float>(int)"]
    assert gemm["dur"] == 0.5
    calls = {
        event["name"]: event
        for event in events
        if event["ph"] == "X" and event["args"].get("kind") == "runtime"
    }
    for event in device:
        (end,) = (
            flow
            for flow in events
            if flow["ph"] == "f"
            and (flow["tid"], flow["ts"]) == (event["tid"], event["ts"])
            and flow["id"] == event["args"]["correlation"]
        )
        (start,) = (flow for flow in events if flow["ph"] == "s" and flow["id"] == end["id"])
        call = "cuGraphLaunch" if "<captured_at>" in event["args"]["call_stack"] else None
        assert start["tid"] == 0
        assert call is None or calls[call]["tid"] == start["tid"]
    starts = [flow["id"] for flow in events if flow["ph"] == "s"]
    assert len(starts) == len(set(starts))


def test_streams_of_two_devices_have_lanes_of_their_own() -> None:
    record(
        "double.run()",
        "devices 2\nclock real\nlaunch kernel duration 3\nlaunch kernel duration 5 device 1",
        data="trace",
    )
    events = read_chrome_trace("profile.chrome_trace")["traceEvents"]
    lanes = {
        event["args"]["name"]
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"].startswith("GPU")
    }
    assert lanes == {"GPU Stream 7", "GPU Stream 7 (device 1)"}


def test_each_phase_has_the_kernels_that_it_launched() -> None:
    record(
        """
        double.launch("first", 3)
        marey.data.advance_phase(session)
        double.launch("second", 5)
        """,
        "clock real",
        data="trace",
        mode="periodic_flushing",
    )
    for phase, name in enumerate(("first", "second")):
        events = read_chrome_trace(f"profile.part_{phase}.chrome_trace")["traceEvents"]
        assert [event["name"] for event in events if event.get("cat") == "kernel"] == [name]


def test_kernels_of_an_inactive_session_are_not_in_its_trace() -> None:
    run(
        """
        first = marey.start("first", backend="cupti", data="trace")
        second = marey.start("second", backend="cupti", data="trace")
        double.launch("both", 3)
        marey.deactivate(first)
        double.launch("one", 3)
        marey.activate(first)
        marey.finalize()
        """,
        "clock real",
    )
    for session, expected in (("first", ["both"]), ("second", ["both", "one"])):
        events = read_chrome_trace(f"{session}.chrome_trace")["traceEvents"]
        found = [event["name"] for event in events if event.get("cat") == "kernel"]
        assert sorted(found) == expected


def test_memory_does_not_grow_with_the_trace() -> None:
    out = run(
        """
        import resource

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

        session = marey.start("profile", backend="cupti", data="trace")
        peaks = []
        for _ in range(4):
            for _ in range(10):
                double.launch("kernel", 3, times=10_000)
            peaks.append(peak())
        marey.finalize(session, output_format="marey")
        print(peaks[0], peaks[-1])
        """,
        "delivery worker",
        MAREY_GPU_BUFFER_BYTES=str(16 << 20),
    )
    early, late = map(int, out.split())
    assert late < early + 40, "MiB; three hundred thousand records are 60"
    assert Path("profile.marey").is_dir()
