//! The second pass over a spool: its spans, marks, values and counters.

use std::collections::{BTreeMap, HashMap};

use marey_model::context::NodeKind;
use marey_model::spool::{self, Activity, Frame, SessionEvent, Span, Value};

use super::activities::Shapes;
use super::clock::Clock;
use super::inside::Inside;
use super::outline::Outline;
use super::rows::{SpanRow, ValueRow};
use super::sessions::{Sessions, bit};
use crate::StoreError;
use crate::rollup::{NO_PLACE, Rollup, Summand, Whole};
use crate::row::{self, GpuActivity};
use crate::sort::{Room, Sorter};

/// The spans, values and counters of a spool so far.
#[derive(Debug)]
pub(super) struct Events<'a> {
    outline: &'a Outline,
    clock: &'a Clock,
    process: u32,
    /// The line of the clock that the last moment was on.
    line: usize,
    sessions: Sessions,
    stamps: Stamps,
    /// Scopes that are open on each thread as far as the spool has told, outermost first.
    open: BTreeMap<u32, Vec<(u32, i64)>>,
    /// Time that waits for the span of each place.
    inside: Vec<Inside>,
    /// How often spans may have been lost: those that were open when a session turned, and others.
    turn: u64,
    wholes: Vec<Whole>,
    rollup: Rollup,
    spans: Sorter<SpanRow>,
    /// Spans of marks, which take no time.
    marks: Sorter<SpanRow>,
    values: Sorter<ValueRow>,
    /// Of the next spans of each thread: which are launches.
    launches: BTreeMap<u32, Vec<(u32, u32)>>,
    shapes: Shapes,
    activities: Sorter<GpuActivity>,
    counters: Sorter<row::Counter>,
}

/// What is to be written of the spans, values and counters.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) stamps: Vec<Stamp>,
    /// By place.
    pub(super) wholes: Vec<Whole>,
    pub(super) rollup: Rollup,
    pub(super) spans: Sorter<SpanRow>,
    /// Spans of marks, which take no time.
    pub(super) marks: Sorter<SpanRow>,
    pub(super) values: Sorter<ValueRow>,
    pub(super) activities: Sorter<GpuActivity>,
    /// Texts of the activities' arguments, by the numbers that their rows have.
    pub(super) arg_texts: Vec<String>,
    pub(super) counters: Sorter<row::Counter>,
}

/// What many spans have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) sessions: u64,
    pub(super) phase: u32,
    pub(super) is_open: bool,
}

#[derive(Debug, Default)]
struct Stamps {
    all: Vec<Stamp>,
    numbers: HashMap<Stamp, u32>,
}

impl Stamps {
    fn number(&mut self, stamp: Stamp) -> u32 {
        *self.numbers.entry(stamp).or_insert_with(|| {
            self.all.push(stamp);
            self.all.len() as u32 - 1
        })
    }
}

impl<'a> Events<'a> {
    /// Those of the spool of a process with this outline.
    pub(super) fn new(outline: &'a Outline, clock: &'a Clock, process: u32, room: &Room) -> Self {
        let places = outline.places.len();
        Self {
            outline,
            clock,
            process,
            line: 0,
            sessions: Sessions::default(),
            stamps: Stamps::default(),
            open: BTreeMap::new(),
            inside: vec![Inside::default(); places],
            turn: 0,
            wholes: vec![Whole::default(); places],
            rollup: Rollup::new(places, outline.events),
            spans: Sorter::new(room),
            marks: Sorter::new(room),
            values: Sorter::new(room),
            launches: BTreeMap::new(),
            shapes: Shapes::default(),
            activities: Sorter::new(room),
            counters: Sorter::new(room),
        }
    }

    /// Takes a frame in.
    pub(super) fn add(&mut self, frame: Frame) -> Result<(), StoreError> {
        match frame {
            Frame::Spans { thread, sessions, spans } => self.add_spans(thread, sessions, &spans),
            Frame::Values { thread, sessions, values } => self.add_values(thread, sessions, values),
            Frame::Counters(counters) => self.add_counters(&counters),
            Frame::Launches { thread, launches } => {
                self.launches.insert(thread, launches);
                Ok(())
            }
            Frame::Shapes { first, shapes } => {
                self.shapes.extend(first, &shapes, self.outline, self.process);
                Ok(())
            }
            Frame::Activities { activities, .. } => self.add_activities(&activities),
            Frame::Open { thread, spans } => {
                self.open.insert(thread, spans);
                Ok(())
            }
            Frame::Session { session, event, name, time_nanos } => {
                if event == SessionEvent::Finalized {
                    self.add_open(bit(session), time_nanos)?;
                }
                self.sessions.turn(session, event, &name, time_nanos);
                self.turn += 1;
                Ok(())
            }
            Frame::Losses(_) => {
                self.turn += 1;
                Ok(())
            }
            // The outline has them.
            Frame::Process(_)
            | Frame::Clock { .. }
            | Frame::Strings { .. }
            | Frame::Thread { .. }
            | Frame::Nodes { .. }
            | Frame::Device(_)
            | Frame::Note { .. }
            | Frame::Overhead(_)
            | Frame::End => Ok(()),
        }
    }

    /// The spool has ended: what is open, is open at its last moment.
    pub(super) fn finish(mut self) -> Result<Gathered, StoreError> {
        if let Some(last_nanos) = self.outline.last_nanos {
            self.add_open(u64::MAX, last_nanos)?;
        }
        let Self { stamps, wholes, rollup, spans, marks, values, counters, .. } = self;
        let (stamps, activities) = (stamps.all, self.activities);
        let arg_texts = self.shapes.into_texts();
        Ok(Gathered {
            stamps,
            wholes,
            rollup,
            spans,
            marks,
            values,
            activities,
            arg_texts,
            counters,
        })
    }

    fn add_spans(&mut self, thread: u32, sessions: u64, spans: &[Span]) -> Result<(), StoreError> {
        let Some(places) = self.outline.threads.get(&thread).map(|thread| &thread.places) else {
            return Ok(());
        };
        let stamp = self.stamp(sessions, false);
        if let Some(open) = self.open.get_mut(&thread) {
            for span in spans {
                forget_open(open, span);
            }
        }
        let launches = self.launches.remove(&thread).unwrap_or_default();
        let mut launches = launches.into_iter().peekable();
        for (at, span) in (0..).zip(spans) {
            let launch = launches.next_if(|&(launch, _)| launch == at);
            let correlation = launch.map_or(0, |(_, correlation)| correlation);
            let Some(&place) = places.get(span.node) else { continue };
            let (start_nanos, duration_nanos) = self.extent(span.start_nanos, span.end_nanos);
            if self.outline.places[place as usize].kind == NodeKind::Mark {
                let (duration_nanos, children_nanos) = (0, 0);
                let row = SpanRow {
                    start_nanos,
                    duration_nanos,
                    children_nanos,
                    place,
                    stamp,
                    correlation,
                };
                self.marks.push(&row)?;
                continue;
            }
            let inside_nanos = self.inside[place as usize].take(start_nanos);
            let children_nanos = inside_nanos.min(duration_nanos);
            let parent = self.outline.places[place as usize].parent;
            if parent != NO_PLACE {
                self.inside[parent as usize].add(self.turn, start_nanos, duration_nanos);
            }
            let row =
                SpanRow { start_nanos, duration_nanos, children_nanos, place, stamp, correlation };
            self.sum_up(&row);
            self.spans.push(&row)?;
        }
        Ok(())
    }

    fn add_activities(&mut self, activities: &[Activity]) -> Result<(), StoreError> {
        for activity in activities {
            let Some(row) = self.shapes.of(activity) else { continue };
            let context_id = activity.launch.and_then(|(thread, node)| {
                let place = *self.outline.threads.get(&thread)?.places.get(node)?;
                Some(self.outline.places[place as usize].context)
            });
            let start_nanos = self.clock.unix_nanos(activity.start_nanos, &mut self.line);
            // Of the device's own clock, to which the recorder's says nothing.
            let duration_nanos = i64::try_from(activity.duration_nanos).unwrap_or(i64::MAX);
            let row = GpuActivity { start_nanos, duration_nanos, context_id, ..row };
            self.activities.push(&row)?;
        }
        Ok(())
    }

    /// Adds what is open at a moment and belongs to one of these sessions. For other sessions it may
    /// go on, so it is not charged to anything around it but what is open too, nor summed up: it will
    /// be with the last of them.
    fn add_open(&mut self, sessions: u64, until_nanos: i64) -> Result<(), StoreError> {
        for (thread, scopes) in self.open.clone() {
            let Some(thread) = self.outline.threads.get(&thread) else { continue };
            let mut inner = (NO_PLACE, 0);
            for (node, start_nanos) in scopes.into_iter().rev() {
                let seen = self.sessions.recording_at(sessions, start_nanos);
                let Some(&place) = thread.places.get(node).filter(|_| seen != 0) else { continue };
                let is_last = self.sessions.recording_at(!sessions, start_nanos) == 0;
                let (start_nanos, duration_nanos) = self.extent(start_nanos, until_nanos);
                let open_inside_nanos = if inner.0 == place { inner.1 } else { 0 };
                let inside_nanos = self.inside[place as usize]
                    .since(start_nanos)
                    .saturating_add(open_inside_nanos);
                let children_nanos = inside_nanos.min(duration_nanos);
                let stamp = self.stamp(seen, true);
                let row = SpanRow {
                    start_nanos,
                    duration_nanos,
                    children_nanos,
                    place,
                    stamp,
                    correlation: 0,
                };
                if is_last {
                    self.sum_up(&row);
                }
                self.spans.push(&row)?;
                inner = (self.outline.places[place as usize].parent, duration_nanos);
            }
        }
        Ok(())
    }

    fn sum_up(&mut self, row: &SpanRow) {
        let SpanRow { start_nanos, duration_nanos, children_nanos, place, .. } = *row;
        let parent = self.outline.places[place as usize].parent;
        self.wholes[place as usize].add(duration_nanos, children_nanos);
        self.rollup.add(&Summand { place, parent, start_nanos, duration_nanos, children_nanos });
    }

    fn add_values(
        &mut self,
        thread: u32,
        sessions: u64,
        values: Vec<Value>,
    ) -> Result<(), StoreError> {
        let Some(places) = self.outline.threads.get(&thread).map(|thread| &thread.places) else {
            return Ok(());
        };
        let stamp = self.stamp(sessions, false);
        for Value { node, time_nanos, metric, value } in values {
            let (Some(&place), Some(&name)) = (places.get(node), self.outline.texts.get(metric))
            else {
                continue;
            };
            let time_nanos = self.clock.unix_nanos(time_nanos, &mut self.line);
            self.values.push(&ValueRow { time_nanos, place, stamp, name, value })?;
        }
        Ok(())
    }

    fn add_counters(&mut self, counters: &[spool::Counter]) -> Result<(), StoreError> {
        for &spool::Counter { time_nanos, name, device, value } in counters {
            let Some(&name_id) = self.outline.texts.get(name) else { continue };
            let time_nanos = self.clock.unix_nanos(time_nanos, &mut self.line);
            let process_id = self.process;
            self.counters.push(&row::Counter { time_nanos, process_id, device, name_id, value })?;
        }
        Ok(())
    }

    fn stamp(&mut self, sessions: u64, is_open: bool) -> u32 {
        let phase = self.sessions.phase(sessions);
        self.stamps.number(Stamp { sessions, phase, is_open })
    }

    /// Start and duration on the clock of the tables.
    fn extent(&mut self, start_nanos: i64, end_nanos: i64) -> (i64, i64) {
        let start_nanos = self.clock.unix_nanos(start_nanos, &mut self.line);
        let end_nanos = self.clock.unix_nanos(end_nanos, &mut self.line);
        (start_nanos, end_nanos.saturating_sub(start_nanos).max(0))
    }
}

/// A scope that has ended is open no more.
fn forget_open(open: &mut Vec<(u32, i64)>, span: &Span) {
    // Those on a stack began in this order.
    if open.last().is_some_and(|&(_, start_nanos)| start_nanos >= span.start_nanos) {
        open.retain(|&scope| scope != (span.node, span.start_nanos));
    }
}
