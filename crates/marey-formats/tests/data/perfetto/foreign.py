"""Writes `foreign.pftrace` with the published schema's own Python bindings (pip: perfetto)."""

from __future__ import annotations

import sys
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

REALTIME, BOOTTIME, LOCAL = 1, 6, 64
WALL = 1_700_000_000_000_000_000

trace = pb.Trace()


def packet(sequence: int = 1, **fields: object) -> pb.TracePacket:
    return trace.packet.add(trusted_packet_sequence_id=sequence, **fields)


def event(time: int, kind: str, sequence: int = 1, **fields: object) -> pb.TrackEvent:
    made = packet(sequence, timestamp=time, sequence_flags=2).track_event
    made.MergeFrom(pb.TrackEvent(type=pb.TrackEvent.Type.Value(f"TYPE_{kind}"), **fields))
    return made


# The clock of the trace, the wall clock, and one of the sequence in microseconds from the last one.
first = packet(sequence_flags=1, previous_packet_dropped=1, first_packet_on_sequence=True)
clocks = first.clock_snapshot.clocks
clocks.add(clock_id=BOOTTIME, timestamp=1000)
clocks.add(clock_id=REALTIME, timestamp=WALL)
packet(synchronization_marker=b"marker")

process = packet().track_descriptor
process.uuid = 10
process.process.pid, process.process.process_name = 123, "trainer"
process.process.cmdline.extend(["python", "train.py"])
process.process.process_labels.append("rank 3")
thread = packet().track_descriptor
thread.uuid, thread.parent_uuid = 11, 10
thread.thread.pid, thread.thread.tid, thread.thread.thread_name = 123, 124, "main"
packet().track_descriptor.MergeFrom(
    pb.TrackDescriptor(uuid=12, parent_uuid=10, static_name="requests")
)
counter = packet().track_descriptor
counter.uuid, counter.parent_uuid, counter.name = 13, 10, "heap"
counter.counter.unit = pb.CounterDescriptor.UNIT_SIZE_BYTES
counter.counter.unit_multiplier = 1024
packet().track_descriptor.MergeFrom(
    pb.TrackDescriptor(
        uuid=14, parent_uuid=11, name="steps", counter=pb.CounterDescriptor(is_incremental=True)
    )
)
packet().track_descriptor.MergeFrom(pb.TrackDescriptor(uuid=15, parent_uuid=11, name="below"))

interned = packet(sequence_flags=2).interned_data
interned.event_names.add(iid=1, name="forward")
interned.event_categories.add(iid=1, name="cpu_op")
interned.debug_annotation_names.add(iid=1, name="shape")
interned.debug_annotation_string_values.add(iid=1, str=b"float32")
interned.source_locations.add(iid=1, file_name="a.cc", function_name="f", line_number=7)
interned.function_names.add(iid=1, str=b"main")
interned.function_names.add(iid=2, str=b"work")
interned.mapping_paths.add(iid=1, str=b"lib.so")
interned.source_paths.add(iid=1, str=b"w.py")
interned.mappings.add(iid=1, path_string_ids=[1])
interned.frames.add(iid=1, function_name_id=1, mapping_id=1, rel_pc=1)
interned.frames.add(iid=2, function_name_id=2, source_path_iid=1, line_number=3)
interned.frames.add(iid=3, mapping_id=1, rel_pc=0xABC)
interned.callstacks.add(iid=1, frame_ids=[1, 2])
interned.callstacks.add(iid=2, frame_ids=[1, 3])
defaults = packet().trace_packet_defaults.track_event_defaults
defaults.track_uuid = 11
defaults.extra_counter_track_uuids.append(13)

begun = event(
    2000, "SLICE_BEGIN", name_iid=1, category_iids=[1], categories=["extra"], source_location_iid=1
)
begun.flow_ids.append(77)
begun.extra_counter_values.append(3)
shape = begun.debug_annotations.add(name_iid=1)
shape.array_values.add(uint_value=2)
shape.array_values.add(int_value=-3)
inner = shape.array_values.add()
inner.dict_entries.add(name="deep", double_value=1.5)
inner.dict_entries.add(name="none")
begun.debug_annotations.add(name="dtype", string_value_iid=1)
begun.debug_annotations.add(name="at", pointer_value=0xFF)
begun.debug_annotations.add(name="big", uint_value=2**64 - 1)
begun.debug_annotations.add(name="nan", double_value=float("nan"))
begun.debug_annotations.add(name="yes", bool_value=True)
begun.debug_annotations.add(name="json", legacy_json_value='{"a": [1, null]}')
begun.debug_annotations.add(name="no json", legacy_json_value="{a")
older = begun.debug_annotations.add(name="older").nested_value
older.nested_type = pb.DebugAnnotation.NestedValue.DICT
older.dict_keys.append("list")
values = older.dict_values.add(nested_type=pb.DebugAnnotation.NestedValue.ARRAY)
values.array_values.add(int_value=1)
values.array_values.add(string_value="x")
event(2500, "SLICE_BEGIN", name="matmul", callstack_iid=1)
matmul_end = event(3000, "SLICE_END", terminating_flow_ids=[77])
matmul_end.debug_annotations.add(name="flops", int_value=9)
event(3500, "INSTANT", name="mark", callstack_iid=2, callstack_weight=2.5)
event(4000, "SLICE_END")

event(2100, "SLICE_BEGIN", track_uuid=12, name="request", correlation_id=5)
event(2200, "INSTANT", track_uuid=12, name="byte")
event(2900, "SLICE_END", track_uuid=12)
event(2300, "INSTANT", track_uuid=10, name="of the process")
event(2400, "INSTANT", track_uuid=0, name="of all")
event(2450, "INSTANT", track_uuid=15, name="below a thread")
event(2000, "COUNTER", track_uuid=13, counter_value=1)
event(3000, "COUNTER", track_uuid=13, double_counter_value=0.5)
event(2000, "COUNTER", track_uuid=14, counter_value=5)
event(3000, "COUNTER", track_uuid=14, counter_value=-2)
packet(
    timestamp=3100, perf_sample=pb.PerfSample(pid=123, tid=124, callstack_iid=2, timebase_count=9)
)

# A sequence with a clock of its own, and a thread in the older way.
second = packet(2, sequence_flags=1)
second.clock_snapshot.clocks.add(
    clock_id=LOCAL, timestamp=5, is_incremental=True, unit_multiplier_ns=1000
)
second.clock_snapshot.clocks.add(clock_id=BOOTTIME, timestamp=6000)
packet(2).trace_packet_defaults.timestamp_clock_id = LOCAL
packet(2).thread_descriptor.MergeFrom(
    pb.ThreadDescriptor(pid=123, tid=200, thread_name="old", reference_timestamp_us=20)
)
event(1, "SLICE_BEGIN", 2, name="local")
event(2, "SLICE_END", 2)
legacy = [
    ("X", {"duration_us": 4}),
    ("i", {"instant_event_scope": 2}),
    ("b", {"unscoped_id": 0x1F, "id_scope": "rpc"}),
    ("e", {"unscoped_id": 0x1F, "id_scope": "rpc"}),
    ("s", {"unscoped_id": 6}),
    ("f", {"unscoped_id": 6, "bind_to_enclosing": True}),
    ("B", {"bind_id": 8, "flow_direction": pb.TrackEvent.LegacyEvent.FLOW_OUT}),
    ("E", {}),
    ("n", {"unscoped_id": 0x1F}),
    ("O", {}),
]
for letter, fields in legacy:
    made = packet(2, timestamp=1, sequence_flags=2).track_event
    made.name = f"legacy {letter}"
    made.legacy_event.MergeFrom(pb.TrackEvent.LegacyEvent(phase=ord(letter), **fields))
sums = packet(2, timestamp=1).track_event
sums.name = "sums"
sums.legacy_event.phase = ord("C")
sums.debug_annotations.add(name="a", int_value=1)
sums.debug_annotations.add(name="b", double_value=2.5)
packet(2).track_event.MergeFrom(
    pb.TrackEvent(type=pb.TrackEvent.TYPE_INSTANT, name="by difference", timestamp_delta_us=5)
)
stacks = packet(2).interned_data
stacks.function_names.add(iid=1, str=b"idle")
stacks.mappings.add(iid=1)
stacks.frames.add(iid=1, function_name_id=1, mapping_id=1)
stacks.callstacks.add(iid=4, frame_ids=[1])
packet(2).streaming_profile_packet.MergeFrom(
    pb.StreamingProfilePacket(callstack_iid=[4, 4, 9], timestamp_delta_us=[1, 2, 3])
)

# What others have and a run does not.
packet().ftrace_events.cpu = 0
packet().process_tree.processes.add(pid=1)
event(5000, "INSTANT", name="typed").log_message.body_iid = 1
event(5100, "SLICE_END")
event(5200, "SLICE_BEGIN", name="never ends")

# Packets that were compressed together.
packed = pb.Trace()
made = packed.packet.add(trusted_packet_sequence_id=3, sequence_flags=1, timestamp=7000)
made.track_event.MergeFrom(
    pb.TrackEvent(type=pb.TrackEvent.TYPE_INSTANT, name="packed", track_uuid=11)
)
packet(3).compressed_packets = zlib.compress(packed.SerializeToString())

# A packet that refers to what was dropped.
packet(4, previous_packet_dropped=1)
event(8000, "INSTANT", 4, name="lost")

sys.stdout.buffer.write(trace.SerializeToString())
