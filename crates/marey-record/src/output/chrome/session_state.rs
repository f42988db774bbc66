//! The state of the session and its process, gathered from the frames of the spool that were read
//! so far: start and end, activity, clocks and losses.

use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{SessionEvent, SpoolFrame};
use std::ops::Range;

/// The state of the session and its process.
#[derive(Debug)]
pub(super) struct SessionState {
    session: u32,
    pub(super) process: Process,
    losses: Vec<(LossCause, u64)>,
    first_clock: Option<ClockPair>,
    last_clock: Option<ClockPair>,
    /// The start of the session, and the last reading of the clocks before it.
    session_start: Option<(i64, Option<ClockPair>)>,
    finalized_nanos: Option<i64>,
    /// The intervals in which the session was active, in order.
    recording_ranges: Vec<Range<i64>>,
    last_nanos: i64,
}

#[derive(Clone, Copy, Debug)]
struct ClockPair {
    monotonic_nanos: i64,
    unix_nanos: i64,
}

const ALWAYS: Range<i64> = i64::MIN..i64::MAX;

impl SessionState {
    pub(super) fn new(session: u32) -> Self {
        Self {
            session,
            process: Process::default(),
            losses: Vec::new(),
            first_clock: None,
            last_clock: None,
            session_start: None,
            finalized_nanos: None,
            recording_ranges: vec![ALWAYS],
            last_nanos: i64::MIN,
        }
    }

    /// Returns the time that is zero in the traces of all phases: the start of the session.
    pub(super) fn base_nanos(&self) -> i64 {
        let clock_nanos = self.first_clock.map_or(0, |clock| clock.monotonic_nanos);
        self.session_start.map_or(clock_nanos, |(started_nanos, _)| started_nanos)
    }

    /// Returns the same time in nanoseconds since 1970, unless the spool has no clock.
    pub(super) fn base_unix_nanos(&self) -> Option<i64> {
        let clock = self.session_start.and_then(|(_, clock)| clock).or(self.first_clock)?;
        let since_clock_nanos = self.base_nanos().saturating_sub(clock.monotonic_nanos);
        Some(clock.unix_nanos.saturating_add(since_clock_nanos))
    }

    /// Whether the session has ended: later frames are not part of it.
    pub(super) const fn is_over(&self) -> bool {
        self.finalized_nanos.is_some()
    }

    /// Returns the latest timestamp of the session.
    pub(super) fn last_nanos(&self) -> i64 {
        self.finalized_nanos.map_or(self.last_nanos, |finalized| finalized.min(self.last_nanos))
    }

    /// Whether the session was active at this time.
    pub(super) fn was_recording(&self, time_nanos: i64) -> bool {
        let next_range = self.recording_ranges.partition_point(|range| range.start <= time_nanos);
        let range = next_range.checked_sub(1).and_then(|index| self.recording_ranges.get(index));
        range.is_some_and(|range| range.contains(&time_nanos))
    }

    /// Returns the losses by cause, each the larger of the spool's count and the given one.
    pub(super) fn losses_with(&self, others: &[(LossCause, u64)]) -> Vec<(LossCause, u64)> {
        let mut losses = self.losses.clone();
        for &(cause, count) in others.iter().filter(|(_, count)| *count > 0) {
            match losses.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, known)) => *known = count.max(*known),
                None => losses.push((cause, count)),
            }
        }
        losses
    }

    pub(super) fn add(&mut self, frame: &SpoolFrame) {
        match frame {
            SpoolFrame::Process(process) => self.process = process.clone(),
            &SpoolFrame::Clock { monotonic_nanos, unix_nanos } => {
                let clock = ClockPair { monotonic_nanos, unix_nanos };
                self.first_clock.get_or_insert(clock);
                self.last_clock = Some(clock);
                self.extend_to([monotonic_nanos]);
            }
            SpoolFrame::Spans { spans, .. } => {
                self.extend_to(spans.iter().map(|span| span.end_nanos));
            }
            SpoolFrame::Values { values, .. } => {
                self.extend_to(values.iter().map(|value| value.time_nanos));
            }
            SpoolFrame::Counters(counters) => {
                self.extend_to(counters.iter().map(|counter| counter.time_nanos));
            }
            SpoolFrame::Open { spans, .. } => self.extend_to(spans.iter().map(|&(_, start)| start)),
            &SpoolFrame::Session { session, event, time_nanos, .. } => {
                self.extend_to([time_nanos]);
                if session == self.session {
                    self.apply(event, time_nanos);
                }
            }
            SpoolFrame::Activities { activities, .. } => {
                self.extend_to(activities.iter().map(|activity| activity.start_nanos));
            }
            SpoolFrame::Losses(losses) => self.losses.clone_from(losses),
            SpoolFrame::Thread { .. }
            | SpoolFrame::Strings { .. }
            | SpoolFrame::Nodes { .. }
            | SpoolFrame::Launches { .. }
            | SpoolFrame::Autograd { .. }
            | SpoolFrame::SpanArgs { .. }
            | SpoolFrame::ArgsOfSpans { .. }
            | SpoolFrame::Shapes { .. }
            | SpoolFrame::Collectives(_)
            | SpoolFrame::Samples { .. }
            | SpoolFrame::Variables(_)
            | SpoolFrame::Device(_)
            | SpoolFrame::Note { .. }
            | SpoolFrame::Overhead(_)
            | SpoolFrame::End => {}
        }
    }

    fn extend_to(&mut self, times_nanos: impl IntoIterator<Item = i64>) {
        self.last_nanos = times_nanos.into_iter().fold(self.last_nanos, i64::max);
    }

    fn apply(&mut self, event: SessionEvent, time_nanos: i64) {
        let until_paused = time_nanos..ALWAYS.end;
        match event {
            // An earlier session may have had the same number: its state is discarded.
            SessionEvent::Started => {
                self.session_start = Some((time_nanos, self.last_clock));
                self.finalized_nanos = None;
                self.recording_ranges = vec![until_paused];
            }
            SessionEvent::Activated => {
                self.end_recording(time_nanos);
                self.recording_ranges.push(until_paused);
            }
            SessionEvent::Deactivated => self.end_recording(time_nanos),
            SessionEvent::Phase(_) => {}
            SessionEvent::Finalized => {
                self.end_recording(time_nanos);
                self.finalized_nanos = Some(time_nanos);
            }
        }
    }

    fn end_recording(&mut self, time_nanos: i64) {
        if let Some(range) = self.recording_ranges.last_mut() {
            range.end = range.end.min(time_nanos);
        }
    }
}
