"""Exported Perfetto traces, parsed with the published schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from programs import marey_stdout

pb: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
unknown_fields: Any = pytest.importorskip("google.protobuf.unknown_fields")

WALL_NANOS = 1_700_000_000_000_000_000
BOOTTIME, REALTIME = 6, 1

ARGS = {
    "Input Dims": [[4, 128], [128, 8], []],
    "nested": {"deep": {"er": [1, 2.5, "x", None, True]}, "empty": {}},
    "text": 'quotes " and \\ and \n and é',
    "most": 2**64 - 1,
    "least": -(2**63),
}


def span(name: str, start: float, duration: float, tid: int = 7, **more: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 42, "tid": tid}
    return {**event, "ts": start, "dur": duration, **more}


def kernel(name: str, start: float, duration: float, correlation: int) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": correlation, "grid": [2, 1, 1]}
    return span(name, start, duration, 7, pid=0, cat="kernel", args=args)


TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "a device"}],
    "baseTimeNanoseconds": WALL_NANOS,
    "distributedInfo": {"rank": 3, "world_size": 8},
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 42, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 42, "tid": 7, "args": {"name": "main"}},
        span("aten::linear", 100, 80),
        span("aten::mm", 100, 40, args=ARGS),
        span("touching", 140, 0),
        span("cudaLaunchKernel", 110, 10, cat="cuda_runtime", args={"correlation": 5, "cbid": 211}),
        span("cudaGraphLaunch", 150, 10, cat="cuda_runtime", args={"correlation": 6}),
        kernel("gemm", 130, 30, 5),
        kernel("crosses gemm", 150, 30, 6),
        kernel("after", 190, 10, 6),
        {"ph": "C", "name": "queue", "pid": 42, "ts": 105, "args": {"value": 3}},
        {"ph": "C", "name": "load", "pid": 42, "ts": 106.5, "args": {"value": 0.5}},
        {"ph": "i", "name": "mark", "pid": 42, "tid": 7, "ts": 120, "s": "t", "args": {"n": 1}},
        {"ph": "b", "cat": "rpc", "name": "request", "id": 1, "pid": 42, "tid": 7, "ts": 101},
        {"ph": "b", "cat": "rpc", "name": "request", "id": 2, "pid": 42, "tid": 7, "ts": 102},
        {"ph": "e", "cat": "rpc", "name": "request", "id": 1, "pid": 42, "tid": 7, "ts": 103},
        {"ph": "e", "cat": "rpc", "name": "request", "id": 2, "pid": 42, "tid": 7, "ts": 104},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 9, "pid": 42, "tid": 7, "ts": 101},
        {
            "ph": "f",
            "cat": "fwdbwd",
            "name": "fwdbwd",
            "id": 9,
            "pid": 42,
            "tid": 7,
            "ts": 151,
            "bp": "e",
        },
    ],
}


class Slice(NamedTuple):
    """A slice; times are in nanoseconds since 1970."""

    path: tuple[str, ...]
    track: int
    start_nanos: int
    end_nanos: int
    event: Any


class Trace:
    """A trace with the interned data of its sequence."""

    def __init__(self, content: bytes) -> None:
        self.message = pb.Trace.FromString(content)
        self.packets = list(self.message.packet)
        self.tracks: dict[int, Any] = {}
        self.interned: dict[str, dict[int, Any]] = {}
        for packet in self.packets:
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self.tracks
                assert track.parent_uuid == 0 or track.parent_uuid in self.tracks
                self.tracks[track.uuid] = track
            if packet.HasField("track_event"):
                assert packet.track_event.track_uuid in self.tracks
            for field, entries in packet.interned_data.ListFields():
                known = self.interned.setdefault(field.name, {})
                for entry in entries:
                    assert entry.iid > 0
                    assert entry.iid not in known
                    known[entry.iid] = entry

    def nanos(self, packet: Any) -> int:
        [snapshot] = [p.clock_snapshot for p in self.packets if p.HasField("clock_snapshot")]
        clocks = {clock.clock_id: clock.timestamp for clock in snapshot.clocks}
        return int(packet.timestamp - clocks[BOOTTIME] + clocks[REALTIME])

    def name(self, event: Any) -> str:
        return str(event.name or self.interned["event_names"][event.name_iid].name)

    def events(self) -> Iterator[tuple[int, Any]]:
        """Returns all events by time, events of one time in file order."""
        packets = [packet for packet in self.packets if packet.HasField("track_event")]
        for packet in sorted(packets, key=lambda packet: int(packet.timestamp)):
            yield self.nanos(packet), packet.track_event

    def of_type(self, kind: int) -> list[tuple[int, Any]]:
        return [(nanos, event) for nanos, event in self.events() if event.type == kind]

    def slices(self) -> dict[str, Slice]:
        """Returns the slices by name; names must be unique."""
        stacks: dict[int, list[tuple[int, Any]]] = {}
        slices = []
        for nanos, event in self.events():
            stack = stacks.setdefault(event.track_uuid, [])
            if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append((nanos, event))
            elif event.type == pb.TrackEvent.TYPE_SLICE_END:
                path = tuple(self.name(event) for _, event in stack)
                start, begun = stack.pop()
                slices.append(Slice(path, begun.track_uuid, start, nanos, begun))
        assert not any(stacks.values())
        return {each.path[-1]: each for each in slices}

    def annotations(self, event: Any) -> dict[str, Any]:
        return {self.key(each): self.value(each) for each in event.debug_annotations}

    def key(self, annotation: Any) -> str:
        names = self.interned["debug_annotation_names"]
        return str(annotation.name or names[annotation.name_iid].name)

    def value(self, annotation: Any) -> Any:
        if annotation.dict_entries:
            return {self.key(each): self.value(each) for each in annotation.dict_entries}
        if annotation.array_values:
            return [self.value(each) for each in annotation.array_values]
        kind = annotation.WhichOneof("value")
        if kind == "nested_value":
            is_dict = annotation.nested_value.nested_type == pb.DebugAnnotation.NestedValue.DICT
            return {} if is_dict else []
        if kind == "legacy_json_value":
            return json.loads(annotation.legacy_json_value)
        return getattr(annotation, kind)

    def stack(self, event: Any) -> list[str]:
        frames = [
            self.interned["frames"][iid]
            for iid in self.interned["callstacks"][event.callstack_iid].frame_ids
        ]
        assert all(frame.mapping_id in self.interned["mappings"] for frame in frames)
        names = self.interned["function_names"]
        return [names[frame.function_name_id].str.decode() for frame in frames]

    def counters(self) -> dict[str, list[tuple[int, float]]]:
        counters: dict[str, list[tuple[int, float]]] = {}
        for nanos, event in self.of_type(pb.TrackEvent.TYPE_COUNTER):
            track = self.tracks[event.track_uuid]
            assert track.HasField("counter")
            value = getattr(event, event.WhichOneof("counter_value_field"))
            counters.setdefault(track.name, []).append((nanos - WALL_NANOS, value))
        return counters


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("perfetto")
    source, run, out = folder / "in.json", folder / "run.marey", folder / "out.pftrace"
    source.write_text(json.dumps(TRACE))
    marey_stdout("import", source, "-o", run)
    marey_stdout("export", run, "--format", "perfetto", "-o", out)
    return Trace(out.read_bytes())


def without_marks(annotations: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in annotations.items() if name != "marey"}


def test_the_schema_knows_every_field(trace: Trace) -> None:
    waiting = [trace.message]
    while waiting:
        message = waiting.pop()
        assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend(value if field.is_repeated else [value])


def test_packets_are_one_sequence_with_cleared_state(trace: Trace) -> None:
    cleared = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    needed = pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
    assert {packet.trusted_packet_sequence_id for packet in trace.packets} == {1}
    assert [packet.sequence_flags == cleared for packet in trace.packets].index(True) == 0
    assert all(p.sequence_flags == needed for p in trace.packets if p.HasField("track_event"))


def test_slices_nest_and_keep_their_times(trace: Trace) -> None:
    slices = trace.slices()
    assert slices["aten::mm"].path == ("aten::linear", "aten::mm")
    assert slices["cudaLaunchKernel"].path == ("aten::linear", "aten::mm", "cudaLaunchKernel")
    assert slices["touching"].path == ("aten::linear", "touching")
    for name, start, end in [("aten::mm", 100, 140), ("touching", 140, 140), ("gemm", 130, 160)]:
        times = (slices[name].start_nanos - WALL_NANOS, slices[name].end_nanos - WALL_NANOS)
        assert times == (start * 1000, end * 1000)


def test_tracks_are_named_and_belong_to_their_process(trace: Trace) -> None:
    slices = trace.slices()
    main = trace.tracks[slices["aten::mm"].track]
    assert (main.thread.pid, main.thread.tid, main.thread.thread_name) == (42, 7, "main")
    stream = trace.tracks[slices["gemm"].track]
    assert stream.name == "GPU 0 stream 7"
    process = trace.tracks[stream.parent_uuid].process
    assert (process.pid, process.process_name) == (42, "python")
    assert "rank 3" in process.process_labels


def test_overlapping_slices_are_on_separate_tracks(trace: Trace) -> None:
    slices = trace.slices()
    gemm, crossing = slices["gemm"], slices["crosses gemm"]
    assert gemm.track != crossing.track
    assert trace.tracks[gemm.track].name == trace.tracks[crossing.track].name


def test_arguments_are_debug_annotations(trace: Trace) -> None:
    annotations = trace.annotations(trace.slices()["aten::mm"].event)
    assert without_marks(annotations) == ARGS


def test_flows_connect_launches_with_their_activities(trace: Trace) -> None:
    slices = trace.slices()
    launch, gemm = slices["cudaLaunchKernel"].event, slices["gemm"].event
    assert list(launch.flow_ids) == list(gemm.terminating_flow_ids) != []
    assert (launch.correlation_id, gemm.correlation_id) == (5, 5)
    first, last = slices["crosses gemm"].event, slices["after"].event
    graph = slices["cudaGraphLaunch"].event
    assert graph.flow_ids == first.flow_ids == last.terminating_flow_ids
    assert graph.flow_ids != launch.flow_ids


def test_other_flows_are_exported(trace: Trace) -> None:
    instants = trace.of_type(pb.TrackEvent.TYPE_INSTANT)
    points = [event for _, event in instants if trace.name(event) == "fwdbwd"]
    assert list(points[0].flow_ids) == list(points[1].terminating_flow_ids) != []


def test_kernels_have_the_stack_of_their_launch(trace: Trace) -> None:
    gemm = trace.slices()["gemm"].event
    assert trace.stack(gemm) == ["aten::linear", "aten::mm"]
    marks = trace.annotations(gemm)["marey"]
    assert (marks["activity"], marks["stream"], marks["grid"]) == ("kernel", 7, [2, 1, 1])


def test_counters_keep_their_type(trace: Trace) -> None:
    counters = trace.counters()
    assert counters == {"queue": [(105_000, 3)], "load": [(106_500, 0.5)]}
    assert isinstance(counters["queue"][0][1], int)


def test_instants_and_categories_are_exported(trace: Trace) -> None:
    instants = trace.of_type(pb.TrackEvent.TYPE_INSTANT)
    [(nanos, mark)] = [each for each in instants if trace.name(each[1]) == "mark"]
    assert nanos - WALL_NANOS == 120_000
    assert without_marks(trace.annotations(mark)) == {"n": 1}
    [category] = trace.slices()["aten::mm"].event.category_iids
    assert trace.interned["event_categories"][category].name == "cpu_op"
