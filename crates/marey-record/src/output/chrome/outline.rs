//! The first pass over a spool: what must be known before the first event is written.

use super::into_io;
use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{Frame, Reader, SessionEvent};
use std::io;
use std::ops::Range;

/// What a trace says about itself, and which events belong to it.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) process: Process,
    pub(super) losses: Vec<(LossCause, u64)>,
    /// Bytes at the spool's end that are no whole frame.
    pub(super) torn_bytes: u64,
    /// The moment that is zero in the trace: the start of the session, in all of its phases.
    pub(super) base_nanos: i64,
    /// The same moment since 1970, unless the spool has no clock.
    pub(super) base_unix_nanos: Option<i64>,
    /// When an event must have ended to belong to the trace.
    pub(super) window: Range<i64>,
    /// When the session was recording; in order.
    recording: Vec<Range<i64>>,
    /// The last moment of which the spool tells.
    pub(super) last_nanos: i64,
    /// A number above those of all threads.
    pub(super) free_lane: u64,
}

impl Outline {
    /// Takes in counts that the spool may not know, by cause the larger one.
    pub(super) fn add_losses(&mut self, losses: &[(LossCause, u64)]) {
        for &(cause, count) in losses.iter().filter(|(_, count)| *count > 0) {
            match self.losses.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, known)) => *known = count.max(*known),
                None => self.losses.push((cause, count)),
            }
        }
    }

    /// Reads a spool to its end.
    pub(super) fn read<R: io::Read>(
        mut spool: Reader<R>,
        session: u32,
        phase: Option<u32>,
    ) -> io::Result<Self> {
        let mut pass = Pass::new(session, phase);
        for frame in &mut spool {
            pass.add(frame.map_err(into_io)?);
        }
        Ok(pass.finish(spool.torn().map_or(0, |torn| torn.lost_bytes)))
    }

    /// Whether the session was recording at this moment.
    pub(super) fn was_recording(&self, time_nanos: i64) -> bool {
        let next = self.recording.partition_point(|range| range.start <= time_nanos);
        let range = next.checked_sub(1).and_then(|at| self.recording.get(at));
        range.is_some_and(|range| range.contains(&time_nanos))
    }

    /// Whether scopes that are open at the end of the spool belong to the trace.
    pub(super) fn has_the_end(&self) -> bool {
        !self.window.is_empty() && self.window.end == ALWAYS.end
    }
}

const ALWAYS: Range<i64> = i64::MIN..i64::MAX;
const NEVER: Range<i64> = i64::MAX..i64::MAX;

#[derive(Clone, Copy)]
struct Clock {
    monotonic_nanos: i64,
    unix_nanos: i64,
}

struct Pass {
    session: u32,
    asked_phase: Option<u32>,
    /// The session's phase at this point of the spool.
    phase: u32,
    started_nanos: Option<i64>,
    finalized_nanos: Option<i64>,
    first_clock: Option<Clock>,
    /// The last pair before the session started.
    start_clock: Option<Clock>,
    last_clock: Option<Clock>,
    outline: Outline,
}

impl Pass {
    fn new(session: u32, asked_phase: Option<u32>) -> Self {
        let is_asked = asked_phase.is_none_or(|phase| phase == 0);
        Self {
            session,
            asked_phase,
            phase: 0,
            started_nanos: None,
            finalized_nanos: None,
            first_clock: None,
            start_clock: None,
            last_clock: None,
            outline: Outline {
                process: Process::default(),
                losses: Vec::new(),
                torn_bytes: 0,
                base_nanos: 0,
                base_unix_nanos: None,
                window: if is_asked { ALWAYS } else { NEVER },
                recording: vec![ALWAYS],
                last_nanos: i64::MIN,
                free_lane: 0,
            },
        }
    }

    fn add(&mut self, frame: Frame) {
        match frame {
            Frame::Process(process) => self.outline.process = process,
            Frame::Clock { monotonic_nanos, unix_nanos } => {
                let clock = Clock { monotonic_nanos, unix_nanos };
                self.first_clock.get_or_insert(clock);
                self.last_clock = Some(clock);
                self.reach([monotonic_nanos]);
            }
            Frame::Thread { thread, .. } => {
                self.outline.free_lane = self.outline.free_lane.max(u64::from(thread) + 1);
            }
            Frame::Spans { spans, .. } => self.reach(spans.iter().map(|span| span.end_nanos)),
            Frame::Values { values, .. } => {
                self.reach(values.iter().map(|value| value.time_nanos));
            }
            Frame::Open { spans, .. } => self.reach(spans.iter().map(|&(_, start)| start)),
            Frame::Session { session, event, time_nanos, .. } => {
                self.reach([time_nanos]);
                if session == self.session {
                    self.turn(event, time_nanos);
                }
            }
            Frame::Losses(losses) => self.outline.losses = losses,
            Frame::Strings { .. } | Frame::Nodes { .. } | Frame::End => {}
        }
    }

    fn reach(&mut self, times_nanos: impl IntoIterator<Item = i64>) {
        let last_nanos = self.outline.last_nanos;
        self.outline.last_nanos = times_nanos.into_iter().fold(last_nanos, i64::max);
    }

    fn turn(&mut self, event: SessionEvent, time_nanos: i64) {
        let from_now = time_nanos..ALWAYS.end;
        match event {
            // An earlier session may have had the same number: nothing of it counts.
            SessionEvent::Started => {
                self.phase = 0;
                self.started_nanos = Some(time_nanos);
                self.finalized_nanos = None;
                self.start_clock = self.last_clock;
                let is_asked = self.asked_phase.is_none_or(|phase| phase == 0);
                self.outline.window = if is_asked { from_now.clone() } else { NEVER };
                self.outline.recording = vec![from_now];
            }
            SessionEvent::Activated => {
                self.pause(time_nanos);
                self.outline.recording.push(from_now);
            }
            SessionEvent::Deactivated => self.pause(time_nanos),
            SessionEvent::Phase(phase) => {
                if self.asked_phase == Some(phase) {
                    self.outline.window = from_now;
                } else if self.asked_phase == Some(self.phase) {
                    self.outline.window.end = time_nanos;
                }
                self.phase = phase;
            }
            SessionEvent::Finalized => {
                self.pause(time_nanos);
                self.finalized_nanos = Some(time_nanos);
            }
        }
    }

    fn pause(&mut self, time_nanos: i64) {
        if let Some(range) = self.outline.recording.last_mut() {
            range.end = range.end.min(time_nanos);
        }
    }

    fn finish(mut self, torn_bytes: u64) -> Outline {
        let clock = self.start_clock.or(self.first_clock);
        let clock_nanos = clock.map_or(0, |clock| clock.monotonic_nanos);
        let base_nanos = self.started_nanos.unwrap_or(clock_nanos);
        self.outline.base_nanos = base_nanos;
        self.outline.base_unix_nanos = clock
            .map(|clock| clock.unix_nanos.saturating_add(base_nanos.saturating_sub(clock_nanos)));
        if let Some(finalized_nanos) = self.finalized_nanos {
            self.outline.last_nanos = self.outline.last_nanos.min(finalized_nanos);
        }
        self.outline.torn_bytes = torn_bytes;
        self.outline
    }
}
