//! Imports Perfetto traces into runs, packet by packet.
//!
//! Packets of several sequences are interleaved. A [`Sequence`] holds the interned data and the
//! defaults of one sequence. [`Tracks`] maps events to processes and threads, and [`Clocks`]
//! converts their timestamps. The begin and end of slices are paired on each track in the order of
//! the file, in which the packets of each thread are sorted by time.

mod annotations;
mod clocks;
mod event;
mod kinds;
mod legacy;
mod open;
mod sample;
mod sequence;
mod tracks;

use std::collections::{BTreeMap, HashMap, HashSet};

use flate2::read::ZlibDecoder;
use marey_model::loss::LossCause;
use prost::Message;

use self::clocks::Clocks;
use self::open::{OpenSlice, StackKey};
use self::sequence::Sequence;
use self::tracks::Tracks;
use super::message::{
    CLOCK_BOOTTIME, CLOCK_MONOTONIC, FLAG_NEEDS_STATE, FLAG_STATE_CLEARED, TracePacket,
};
use super::packets::{PacketError, Packets};
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;

/// Reads a trace.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let mut reader = Reader {
        sequences: HashMap::new(),
        clocks: Clocks::default(),
        events: EventConverter {
            import,
            tracks: Tracks::default(),
            open_slices: BTreeMap::new(),
            slice_count: 0,
            open_flows: HashSet::new(),
            has_selected_samples: false,
            offset: 0,
        },
        has_packets: false,
    };
    let result = reader.read_packets(input);
    reader.events.finish_all_slices()?;
    result
}

/// Reader of packets.
struct Reader<'i> {
    /// The sequences with state.
    sequences: HashMap<u32, Box<Sequence>>,
    clocks: Clocks,
    events: EventConverter<'i>,
    has_packets: bool,
}

/// Converts events to rows.
struct EventConverter<'i> {
    import: &'i mut Import,
    tracks: Tracks,
    open_slices: BTreeMap<StackKey, Vec<OpenSlice>>,
    /// Number of slices that have begun.
    slice_count: u64,
    /// Flows that have begun and not ended.
    open_flows: HashSet<u64>,
    /// Whether the samples for flame graphs have been selected.
    has_selected_samples: bool,
    /// Byte offset of the current packet.
    offset: u64,
}

impl EventConverter<'_> {
    /// Counts an event that is left out.
    fn lose(&mut self, loss: LossCause, cause: impl std::fmt::Display) {
        self.import.lose(loss, 1, self.offset, cause);
    }
}

impl Reader<'_> {
    fn read_packets(&mut self, input: &mut Input) -> Result<(), ReaderError> {
        let mut packets = Packets::new(input);
        let mut bytes = Vec::new();
        loop {
            self.events.offset = packets.offset();
            match packets.next(&mut bytes) {
                Ok(true) => self.read_packet(&bytes, false)?,
                Ok(false) => break,
                Err(PacketError::Io(error)) => return Err(error.into()),
                Err(PacketError::Content(offset, cause)) => {
                    return Err(ReaderError::content(offset, cause));
                }
            }
        }
        if self.events.offset > 0 && !self.has_packets {
            return Err(ReaderError::content(0, "no packet can be read"));
        }
        Ok(())
    }

    fn read_packet(&mut self, bytes: &[u8], is_compressed: bool) -> Result<(), ReaderError> {
        let Ok(mut packet) = TracePacket::decode(bytes) else {
            self.events.lose(LossCause::Unreadable, "a packet that is not a protobuf message");
            return Ok(());
        };
        self.has_packets = true;
        if let Some(compressed) = packet.compressed_packets.take() {
            if is_compressed {
                self.events.lose(LossCause::Unreadable, "compressed packets in compressed packets");
                return Ok(());
            }
            return self.read_compressed(&compressed);
        }
        for (loss, cause) in kinds::losses(bytes) {
            self.events.lose(loss, cause);
        }
        let sequence_id = packet.sequence_id.unwrap_or(0);
        let mut sequence = self.sequences.remove(&sequence_id).unwrap_or_default();
        let result = self.convert_packet(packet, sequence_id, &mut sequence);
        if *sequence != Sequence::default() {
            self.sequences.insert(sequence_id, sequence);
        }
        result
    }

    /// Reads a batch of compressed packets.
    fn read_compressed(&mut self, compressed: &[u8]) -> Result<(), ReaderError> {
        let mut packets = Packets::new(ZlibDecoder::new(compressed));
        let mut bytes = Vec::new();
        loop {
            match packets.next(&mut bytes) {
                Ok(true) => self.read_packet(&bytes, true)?,
                Ok(false) => return Ok(()),
                Err(PacketError::Content(_, cause)) => {
                    let cause = format!("in compressed packets: {cause}");
                    self.events.lose(LossCause::Unreadable, cause);
                    return Ok(());
                }
                // The bytes are in memory, so the error is one of the decoder.
                Err(PacketError::Io(error)) => {
                    let cause = format!("compressed packets are damaged: {error}");
                    self.events.lose(LossCause::Unreadable, cause);
                    return Ok(());
                }
            }
        }
    }

    fn convert_packet(
        &mut self,
        packet: TracePacket,
        sequence_id: u32,
        sequence: &mut Sequence,
    ) -> Result<(), ReaderError> {
        let Self { clocks, events, .. } = self;
        let flags = packet.sequence_flags.unwrap_or(0);
        if packet.previous_packet_dropped.is_some_and(|dropped| dropped > 0) {
            sequence.has_state = false;
        }
        if flags & FLAG_STATE_CLEARED != 0 || packet.incremental_state_cleared == Some(true) {
            *sequence = Sequence::with_state();
        }
        if flags & FLAG_NEEDS_STATE != 0 && !sequence.has_state {
            events.lose(LossCause::Unreadable, "a packet that refers to a lost packet");
            return Ok(());
        }
        if let Some(snapshot) = &packet.clock_snapshot {
            clocks.add_snapshot(sequence_id, snapshot);
        }
        if let Some(defaults) = packet.defaults {
            sequence.defaults = Some(Box::new(defaults));
        }
        if let Some(interned) = packet.interned_data {
            sequence.intern(interned, &mut events.import.run);
        }
        if let Some(process) = &packet.process_descriptor {
            events.tracks.add_process(process, events.import);
        }
        if let Some(thread) = &packet.thread_descriptor {
            sequence.thread_id = events.tracks.add_thread(thread, None, events.import);
            sequence.reference_us = thread.reference_timestamp_us.unwrap_or(0);
        }
        if let Some(track) = packet.track_descriptor {
            let early_events = events.tracks.add_track(track, events.import);
            if early_events > 0 {
                let cause = "an event on a track without a process that is described later";
                events.import.lose(LossCause::Unsupported, early_events, events.offset, cause);
            }
        }
        let clock_id =
            packet.timestamp_clock_id.or_else(|| sequence.defaults.as_ref()?.timestamp_clock_id);
        let clock_id = clock_id.unwrap_or(CLOCK_BOOTTIME);
        let time_nanos = match packet.timestamp {
            Some(timestamp) => clocks.nanos(sequence_id, clock_id, timestamp),
            None => None,
        };
        if time_nanos.is_none() && packet.timestamp.is_some() {
            let cause = format!("the time of a packet is on the unknown clock {clock_id}");
            let has_event = packet.track_event.is_some() || packet.perf_sample.is_some();
            if has_event {
                events.lose(LossCause::Unreadable, cause);
                return Ok(());
            }
        }
        if let Some(event) = packet.track_event {
            let event_us = sequence.event_time_us(&event);
            let event_nanos = event_us.and_then(|us| {
                clocks.nanos(
                    sequence_id,
                    CLOCK_MONOTONIC,
                    u64::try_from(us.saturating_mul(1000)).ok()?,
                )
            });
            match event_nanos.or(time_nanos) {
                Some(nanos) => events.add_track_event(sequence, nanos, &event)?,
                None => events.lose(LossCause::Unreadable, "an event without a time"),
            }
        }
        if let Some(sample) = packet.perf_sample {
            events.add_perf_sample(sequence, time_nanos, &sample)?;
        }
        if let Some(profile) = packet.streaming_profile_packet {
            let start_nanos = time_nanos.or_else(|| {
                let micros = u64::try_from(sequence.reference_us).ok()?;
                clocks.nanos(sequence_id, CLOCK_MONOTONIC, micros.saturating_mul(1000))
            });
            events.add_profile(sequence, start_nanos, &profile)?;
        }
        Ok(())
    }
}
