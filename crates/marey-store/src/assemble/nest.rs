//! Nesting: from slices of threads to spans in the calling-context tree.
//!
//! Slices come by their start, longer ones first. One is inside another of its thread if it lies
//! within it; where two overlap and neither holds the other, the earlier one is over for what
//! follows. So every slice is looked at twice, whatever the file says.
//!
//! Spans leave by their start, too, once they are over: so few wait for that, and nobody sorts them
//! again. Those that the others would have to wait for too long leave later, by themselves.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::SyncSender;

use hashbrown::HashMap;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;

use super::Assembler;
use super::launches::Launches;
use super::leaving::{Begun, Leaving};
use super::places::Places;
use super::processes::NewThread;
use crate::StoreError;
use crate::names::{self, Names};
use crate::rollup::{NO_PLACE, Summand};
use crate::row::{Args, Bytes, Damaged, Field, Span, Step};
use crate::sort::{Sortable, Sorter};

/// Slices inside each other beyond so many lie beside the innermost one. Files that are nested deeper
/// are not read as trees either.
const MAX_DEPTH: usize = 10_000;

/// Something that was entered and left on a thread, as an importer knows it: what is around it is
/// found out from the times.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its thread.
    pub thread_id: u32,
    /// When it was entered, in nanoseconds since 1970.
    pub start_nanos: i64,
    /// How long it was open, in nanoseconds.
    pub duration_nanos: i64,
    /// Which of two is around the other if they have the same times: the one with less.
    pub order: u64,
    /// What it is.
    pub kind: NodeKind,
    /// Its name.
    pub name_id: u32,
    /// The number of a training step, if it is one and is known.
    pub step: Option<u32>,
    /// Whether its end is unknown.
    pub is_open: bool,
    /// The category that the file gives it.
    pub category_id: Option<u32>,
    /// The number that it shares with what it launched.
    pub correlation_id: Option<u64>,
    /// The number by which what it launched names it.
    pub external_id: Option<u64>,
    /// What else is known of it.
    pub args: Args,
}

impl Slice {
    fn end_nanos(&self) -> i64 {
        self.start_nanos.saturating_add(self.duration_nanos)
    }
}

impl Sortable for Slice {
    type Key = (i64, Reverse<i64>, u64);

    fn key(&self) -> Self::Key {
        (self.start_nanos, Reverse(self.duration_nanos), self.order)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.thread_id.put(out);
        self.start_nanos.put(out);
        self.duration_nanos.put(out);
        self.order.put(out);
        out.push(self.kind as u8);
        self.name_id.put(out);
        self.step.put(out);
        self.is_open.put(out);
        self.category_id.put(out);
        self.correlation_id.put(out);
        self.external_id.put(out);
        self.args.put(out);
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        Ok(Self {
            thread_id: Field::take(input)?,
            start_nanos: Field::take(input)?,
            duration_nanos: Field::take(input)?,
            order: Field::take(input)?,
            kind: NodeKind::from_u8(input.byte()?),
            name_id: Field::take(input)?,
            step: Field::take(input)?,
            is_open: Field::take(input)?,
            category_id: Field::take(input)?,
            correlation_id: Field::take(input)?,
            external_id: Field::take(input)?,
            args: Field::take(input)?,
        })
    }
}

/// A slice that may have others inside it yet.
struct Open {
    /// How many began before it.
    number: u64,
    kind: NodeKind,
    step: Option<u32>,
    start_nanos: i64,
    duration_nanos: i64,
    context: u32,
    place: u32,
    children_nanos: i64,
    /// Its span, if the others did not wait for it.
    span: Option<Box<Span>>,
}

impl Open {
    fn end_nanos(&self) -> i64 {
        self.start_nanos.saturating_add(self.duration_nanos)
    }

    /// Whether a slice of its thread that comes after it lies within it. What begins where another ends
    /// follows it.
    fn is_around(&self, slice: &Slice) -> bool {
        self.end_nanos() >= slice.end_nanos() && self.end_nanos() > slice.start_nanos
    }
}

/// The slices that are open, and what became of the others.
struct Nest<'a> {
    names: &'a mut Names,
    threads: &'a [NewThread],
    /// Those that are open, by thread.
    open: Vec<Vec<Open>>,
    spans: Leaving,
    steps: Sorter<Step>,
    /// By process, the number that its next step has if the file does not say it.
    next_steps: HashMap<u32, u32>,
    places: Places,
    launches: Launches,
    /// Slices beyond the limit of depth, by process.
    too_deep: BTreeMap<u32, u64>,
}

impl Nest<'_> {
    fn add(&mut self, slice: Slice) -> Result<(), StoreError> {
        let thread = slice.thread_id as usize;
        while self.open[thread].last().is_some_and(|open| !open.is_around(&slice)) {
            self.close_one(thread)?;
        }
        if self.open[thread].len() == MAX_DEPTH {
            *self.too_deep.entry(self.threads[thread].process).or_default() += 1;
            self.close_one(thread)?;
        }
        let parent = self.open[thread].last().map_or(names::ROOT, |open| open.context);
        let context = self.names.context(parent, slice.kind, slice.name_id);
        let process = self.threads[thread].process;
        if let Some(correlation) = slice.correlation_id {
            self.launches.add_call(process, correlation, parent);
        } else if let Some(external) = slice.external_id {
            self.launches.add_operator(process, external, context);
        }
        let place = self.places.id(slice.thread_id, context, slice.name_id);
        if let Some(first) = self.spans.held_up() {
            self.wait_no_more(first, slice.start_nanos)?;
        }
        let Slice { kind, step, start_nanos, duration_nanos, .. } = slice;
        let number = self.spans.begin(span(slice, context));
        self.open[thread].push(Open {
            number,
            kind,
            step,
            start_nanos,
            duration_nanos,
            context,
            place,
            children_nanos: 0,
            span: None,
        });
        Ok(())
    }

    /// Has the others wait no more for the first of those that are not known to be over, now that it is
    /// this late: if nothing comes on its thread any more that could be inside it, it is over.
    fn wait_no_more(&mut self, first: Begun, now_nanos: i64) -> Result<(), StoreError> {
        let thread = first.thread as usize;
        let at = self.open[thread].partition_point(|open| open.number < first.number);
        if self.open[thread][at].end_nanos() <= now_nanos {
            while self.open[thread].len() > at {
                self.close_one(thread)?; // what is inside it goes before
            }
            self.open[thread].shrink_to_fit(); // there may be many threads, each of one slice
        } else {
            self.open[thread][at].span = self.spans.take_first().map(Box::new);
        }
        Ok(())
    }

    fn close_one(&mut self, thread: usize) -> Result<(), StoreError> {
        let Some(open) = self.open[thread].pop() else { return Ok(()) };
        let Open { place, start_nanos, duration_nanos, .. } = open;
        let children_nanos = open.children_nanos.min(duration_nanos);
        let mut parent = NO_PLACE;
        if let Some(around) = self.open[thread].last_mut() {
            around.children_nanos = around.children_nanos.saturating_add(duration_nanos);
            parent = around.place;
        }
        let ended = Summand { place, parent, start_nanos, duration_nanos, children_nanos };
        self.places.add(&ended);
        if open.kind == NodeKind::Step {
            let step = self.step(&open, thread);
            self.steps.push(&step)?;
        }
        match open.span {
            None => self.spans.end(open.number, children_nanos),
            Some(span) => self.spans.end_late(&Span { children_nanos, ..*span })?,
        }
        Ok(())
    }

    /// A step that has no number is the one after the last of its process.
    fn step(&mut self, open: &Open, thread: usize) -> Step {
        let process_id = self.threads[thread].process;
        let next = self.next_steps.entry(process_id).or_default();
        let number = open.step.unwrap_or(*next);
        *next = number.saturating_add(1);
        let Open { start_nanos, duration_nanos, context: context_id, .. } = *open;
        let thread_id = thread as u32;
        Step { start_nanos, duration_nanos, process_id, thread_id, context_id, number }
    }
}

/// A slice that has just begun.
fn span(slice: Slice, context_id: u32) -> Span {
    Span {
        start_nanos: slice.start_nanos,
        duration_nanos: slice.duration_nanos,
        children_nanos: 0,
        thread_id: slice.thread_id,
        context_id,
        name_id: slice.name_id,
        sessions: 0,
        phase: 0,
        is_open: slice.is_open,
        category_id: slice.category_id,
        correlation_id: slice.correlation_id,
        external_id: slice.external_id,
        args: slice.args,
    }
}

/// What became of the slices.
pub(super) struct Nested {
    /// Spans that did not leave with the others.
    pub(super) late: Sorter<Span>,
    pub(super) steps: Sorter<Step>,
    pub(super) places: Places,
    pub(super) launches: Launches,
}

impl Assembler {
    /// Nests the slices, gives spans away, and says what was launched where.
    pub(super) fn nest(
        &mut self,
        shift: i64,
        left: SyncSender<Vec<Span>>,
    ) -> Result<Nested, StoreError> {
        let room = self.files.room.clone();
        let slices = mem::replace(&mut self.slices, Sorter::new(&room));
        let mut nest = Nest {
            names: &mut self.names,
            threads: &self.threads,
            open: self.threads.iter().map(|_| Vec::new()).collect(),
            spans: Leaving::new(left, &room),
            steps: Sorter::new(&room),
            next_steps: HashMap::new(),
            places: Places::new(slices.rows()),
            launches: Launches::new(mem::take(&mut self.named)),
            too_deep: BTreeMap::new(),
        };
        slices.for_each(|mut slice| {
            slice.start_nanos = slice.start_nanos.saturating_add(shift);
            nest.add(slice)
        })?;
        for thread in 0..nest.open.len() {
            while !nest.open[thread].is_empty() {
                nest.close_one(thread)?;
            }
        }
        nest.launches.sort();
        let Nest { steps, places, launches, too_deep, spans, .. } = nest;
        let late = spans.finish();
        for (process, count) in too_deep {
            self.lose(process, LossCause::Unsupported, count);
        }
        Ok(Nested { late, steps, places, launches })
    }
}
