//! Writes packets on a single sequence, and interns the names, categories and stacks in them.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use marey_model::context::NodeKind;
use marey_store::Reader;
use prost::Message;
use prost::encoding::{WireType, encode_key};

use super::annotations::InternedKeys;
use crate::perfetto::message::{
    CLOCK_BOOTTIME, CLOCK_REALTIME, Callstack, Clock, ClockSnapshot, FLAG_NEEDS_STATE,
    FLAG_STATE_CLEARED, Frame, InternedData, InternedName, InternedString, Mapping, TRACE_PACKET,
    TracePacket, TrackDescriptor, TrackEvent,
};

/// The id of the sequence.
const SEQUENCE_ID: u32 = 1;

/// The mapping of all frames, which older versions of Perfetto require.
const MAPPING_IID: u64 = 1;

/// Writes packets.
pub(super) struct Packets<'a> {
    pub(super) reader: &'a Reader<'a>,
    out: &'a mut dyn Write,
    packet_bytes: Vec<u8>,
    /// The time that is zero in the trace, in nanoseconds since 1970.
    base_nanos: i64,
    pub(super) keys: InternedKeys,
    /// Interned data for the next packet.
    interned: InternedData,
    names: HashSet<u32>,
    categories: HashSet<u32>,
    functions: HashSet<u32>,
    frames: HashMap<(u32, NodeKind), u64>,
    stacks: HashSet<u32>,
}

impl<'a> Packets<'a> {
    /// Begins a trace whose times count from `base_nanos` since 1970.
    pub(super) fn begin(
        reader: &'a Reader<'a>,
        out: &'a mut dyn Write,
        base_nanos: i64,
    ) -> io::Result<Self> {
        let mut packets = Self {
            reader,
            out,
            packet_bytes: Vec::new(),
            base_nanos,
            keys: InternedKeys::default(),
            interned: InternedData {
                mappings: vec![Mapping { iid: Some(MAPPING_IID), ..Mapping::default() }],
                ..InternedData::default()
            },
            names: HashSet::new(),
            categories: HashSet::new(),
            functions: HashSet::new(),
            frames: HashMap::new(),
            stacks: HashSet::new(),
        };
        // A clock has no negative times. For a base before 1970, the boot clock is ahead instead.
        let unix_nanos = u64::try_from(base_nanos).unwrap_or(0);
        let boot_nanos = if base_nanos < 0 { base_nanos.unsigned_abs() } else { 0 };
        let clock = |id, nanos| Clock { id: Some(id), timestamp: Some(nanos), ..Clock::default() };
        let clocks = vec![clock(CLOCK_BOOTTIME, boot_nanos), clock(CLOCK_REALTIME, unix_nanos)];
        packets.write(TracePacket {
            clock_snapshot: Some(ClockSnapshot { clocks }),
            sequence_flags: Some(FLAG_STATE_CLEARED),
            ..TracePacket::default()
        })?;
        Ok(packets)
    }

    /// Declares a track.
    pub(super) fn write_track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    /// Writes an event at a time in nanoseconds since 1970.
    pub(super) fn write_event(&mut self, time_nanos: i64, event: TrackEvent) -> io::Result<()> {
        let nanos = i128::from(time_nanos) - i128::from(self.base_nanos);
        let mut interned = std::mem::take(&mut self.interned);
        interned.debug_annotation_names = self.keys.take_new_names();
        self.write(TracePacket {
            timestamp: Some(u64::try_from(nanos).unwrap_or(0)),
            track_event: Some(event),
            interned_data: (interned != InternedData::default()).then_some(interned),
            sequence_flags: Some(FLAG_NEEDS_STATE),
            ..TracePacket::default()
        })
    }

    /// Interns the name of an event.
    pub(super) fn intern_name(&mut self, name_id: u32) -> u64 {
        let iid = u64::from(name_id) + 1;
        if self.names.insert(name_id) {
            let name = self.reader.text(name_id).to_owned();
            self.interned.event_names.push(InternedName { iid: Some(iid), name: Some(name) });
        }
        iid
    }

    /// Interns the category of an event.
    pub(super) fn intern_category(&mut self, category_id: u32) -> u64 {
        let iid = u64::from(category_id) + 1;
        if self.categories.insert(category_id) {
            let name = self.reader.text(category_id).to_owned();
            self.interned.event_categories.push(InternedName { iid: Some(iid), name: Some(name) });
        }
        iid
    }

    /// Interns a call stack. Returns `None` for the root.
    pub(super) fn intern_stack(&mut self, context_id: u32) -> Option<u64> {
        let path = self.reader.path(context_id);
        if path.is_empty() {
            return None;
        }
        let iid = u64::from(context_id) + 1;
        if self.stacks.insert(context_id) {
            let frame_ids = path.into_iter().map(|context| self.intern_frame(context)).collect();
            self.interned.callstacks.push(Callstack { iid: Some(iid), frame_ids });
        }
        Some(iid)
    }

    fn intern_frame(&mut self, context_id: u32) -> u64 {
        let context = self.reader.context(context_id);
        let next = self.frames.len() as u64 + 1;
        let iid = *self.frames.entry((context.name_id, context.kind)).or_insert(next);
        if iid == next {
            let function = u64::from(context.name_id) + 1;
            if self.functions.insert(context.name_id) {
                let text = self.reader.text(context.name_id).as_bytes().to_vec();
                let name = InternedString { iid: Some(function), text: Some(text) };
                self.interned.function_names.push(name);
            }
            let is_frame = context.kind == NodeKind::Frame;
            self.interned.frames.push(Frame {
                iid: Some(iid),
                function_name_id: Some(function),
                mapping_id: Some(MAPPING_IID),
                kind: (!is_frame).then(|| context.kind.as_str().to_owned()),
                ..Frame::default()
            });
        }
        iid
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { sequence_id: Some(SEQUENCE_ID), ..packet };
        self.packet_bytes.clear();
        encode_key(TRACE_PACKET, WireType::LengthDelimited, &mut self.packet_bytes);
        packet
            .encode_length_delimited(&mut self.packet_bytes)
            .expect("writing to a `Vec` cannot fail");
        self.out.write_all(&self.packet_bytes)
    }
}
