//! Traces to runs, a packet at a time.
//!
//! Packets of several sequences lie between each other. What a sequence has interned and its defaults
//! are a [`Sequence`]; where events belong [`Tracks`] knows, and [`Clocks`] puts their times on one
//! clock. Slices are paired on each track in the order of the file, in which each thread's own
//! packets are in the order of time.

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
use self::open::{Open, Stack};
use self::sequence::Sequence;
use self::tracks::Tracks;
use super::message::{BOOTTIME, MONOTONIC, NEEDS_STATE, STATE_CLEARED, TracePacket};
use super::packets::{PacketError, Packets};
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;

/// Reads a trace.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let mut reader = Reader {
        sequences: HashMap::new(),
        clocks: Clocks::default(),
        events: Events {
            import,
            tracks: Tracks::default(),
            open: BTreeMap::new(),
            begun: 0,
            flows: HashSet::new(),
            shows_samples: false,
            offset: 0,
        },
        has_read_packet: false,
    };
    let end = reader.packets(input);
    reader.events.end_all()?;
    end
}

/// Reads packets.
struct Reader<'i> {
    /// Those that something is known of.
    sequences: HashMap<u32, Box<Sequence>>,
    clocks: Clocks,
    events: Events<'i>,
    has_read_packet: bool,
}

/// Makes rows of events.
struct Events<'i> {
    import: &'i mut Import,
    tracks: Tracks,
    /// Slices that are open.
    open: BTreeMap<Stack, Vec<Open>>,
    /// Slices that began so far.
    begun: u64,
    /// Flows that began and did not end.
    flows: HashSet<u64>,
    /// Whether it was said which samples a flame graph shows.
    shows_samples: bool,
    /// Bytes before the packet that is read.
    offset: u64,
}

impl Events<'_> {
    /// Counts something that is left out.
    fn lose(&mut self, loss: LossCause, cause: impl std::fmt::Display) {
        self.import.lose(loss, 1, self.offset, cause);
    }
}

impl Reader<'_> {
    fn packets(&mut self, input: &mut Input) -> Result<(), ReaderError> {
        let mut packets = Packets::new(input);
        let mut bytes = Vec::new();
        loop {
            self.events.offset = packets.offset();
            match packets.next(&mut bytes) {
                Ok(true) => self.packet(&bytes, false)?,
                Ok(false) => break,
                Err(PacketError::Io(error)) => return Err(error.into()),
                Err(PacketError::Content(offset, cause)) => {
                    return Err(ReaderError::at(offset, cause));
                }
            }
        }
        if self.events.offset > 0 && !self.has_read_packet {
            return Err(ReaderError::at(0, "no packet can be read"));
        }
        Ok(())
    }

    fn packet(&mut self, bytes: &[u8], is_of_compressed: bool) -> Result<(), ReaderError> {
        let Ok(mut packet) = TracePacket::decode(bytes) else {
            self.events.lose(LossCause::Unreadable, "a packet that is no protobuf message");
            return Ok(());
        };
        self.has_read_packet = true;
        if let Some(compressed) = packet.compressed_packets.take() {
            if is_of_compressed {
                self.events.lose(LossCause::Unreadable, "compressed packets in compressed packets");
                return Ok(());
            }
            return self.compressed(&compressed);
        }
        for (loss, cause) in kinds::left_out(bytes) {
            self.events.lose(loss, cause);
        }
        let sequence_id = packet.sequence_id.unwrap_or(0);
        let mut sequence = self.sequences.remove(&sequence_id).unwrap_or_default();
        let read = self.content(packet, sequence_id, &mut sequence);
        if *sequence != Sequence::default() {
            self.sequences.insert(sequence_id, sequence);
        }
        read
    }

    /// Packets that were compressed together.
    fn compressed(&mut self, compressed: &[u8]) -> Result<(), ReaderError> {
        let mut packets = Packets::new(ZlibDecoder::new(compressed));
        let mut bytes = Vec::new();
        loop {
            match packets.next(&mut bytes) {
                Ok(true) => self.packet(&bytes, true)?,
                Ok(false) => return Ok(()),
                Err(PacketError::Content(_, cause)) => {
                    let cause = format!("among compressed packets: {cause}");
                    self.events.lose(LossCause::Unreadable, cause);
                    return Ok(());
                }
                // The bytes lie in memory, so this is what the decoder says.
                Err(PacketError::Io(error)) => {
                    let cause = format!("compressed packets are damaged: {error}");
                    self.events.lose(LossCause::Unreadable, cause);
                    return Ok(());
                }
            }
        }
    }

    fn content(
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
        if flags & STATE_CLEARED != 0 || packet.incremental_state_cleared == Some(true) {
            *sequence = Sequence::beginning();
        }
        if flags & NEEDS_STATE != 0 && !sequence.has_state {
            events.lose(
                LossCause::Unreadable,
                "a packet that refers to one which is not in the file",
            );
            return Ok(());
        }
        if let Some(snapshot) = &packet.clock_snapshot {
            clocks.add(sequence_id, snapshot);
        }
        if let Some(defaults) = packet.defaults {
            sequence.defaults = Some(Box::new(defaults));
        }
        if let Some(interned) = packet.interned_data {
            sequence.intern(interned, &mut events.import.run);
        }
        if let Some(process) = &packet.process_descriptor {
            events.tracks.describe_process(process, events.import);
        }
        if let Some(thread) = &packet.thread_descriptor {
            sequence.thread = events.tracks.describe_thread(thread, None, events.import);
            sequence.reference_us = thread.reference_timestamp_us.unwrap_or(0);
        }
        if let Some(track) = packet.track_descriptor {
            let early = events.tracks.describe(track, events.import);
            if early > 0 {
                let cause = "an event on a track that is described later, which is of no process";
                events.import.lose(LossCause::Unsupported, early, events.offset, cause);
            }
        }
        let clock =
            packet.timestamp_clock_id.or_else(|| sequence.defaults.as_ref()?.timestamp_clock_id);
        let clock = clock.unwrap_or(BOOTTIME);
        let time_nanos = match packet.timestamp {
            Some(timestamp) => clocks.nanos(sequence_id, clock, timestamp),
            None => None,
        };
        if time_nanos.is_none() && packet.timestamp.is_some() {
            let cause =
                format!("the time of a packet is on clock {clock}, which nothing is known of");
            let has_event = packet.track_event.is_some() || packet.perf_sample.is_some();
            if has_event {
                events.lose(LossCause::Unreadable, cause);
                return Ok(());
            }
        }
        if let Some(event) = packet.track_event {
            let own_us = sequence.own_time_us(&event);
            let own = own_us.and_then(|us| {
                clocks.nanos(sequence_id, MONOTONIC, u64::try_from(us.saturating_mul(1000)).ok()?)
            });
            match own.or(time_nanos) {
                Some(nanos) => events.track_event(sequence, nanos, &event)?,
                None => events.lose(LossCause::Unreadable, "an event without a time"),
            }
        }
        if let Some(sample) = packet.perf_sample {
            events.perf_sample(sequence, time_nanos, &sample)?;
        }
        if let Some(profile) = packet.streaming_profile_packet {
            let start_nanos = time_nanos.or_else(|| {
                let micros = u64::try_from(sequence.reference_us).ok()?;
                clocks.nanos(sequence_id, MONOTONIC, micros.saturating_mul(1000))
            });
            events.profile(sequence, start_nanos, &profile)?;
        }
        Ok(())
    }
}
