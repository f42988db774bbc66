//! Nests the slices of threads into spans of the calling-context tree, for the assembly of a run.
//!
//! Slices are visited by start, longer ones first. A slice is nested in an open slice of its thread
//! if it lies within it. If two slices overlap only in part, the earlier one counts as ended. So
//! each slice is pushed and popped once, whatever the file contains.
//!
//! Spans are emitted by start too, once they have ended, so they need no second sort. A span that
//! would hold back too many others is emitted later, in a separate part ([`SpanQueue`]).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem;
use std::sync::mpsc::SyncSender;

use hashbrown::HashMap;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;

use super::Assembler;
use super::launches::Launches;
use super::node_sums::NodeSums;
use super::points::LocatedPoints;
use super::processes::NewThread;
use super::span_queue::{OpenSpan, SpanQueue};
use crate::StoreError;
use crate::names::{self, Names};
use crate::rollup::{NO_NODE, SpanTimes};
use crate::row::{Args, DamagedRow, Field, RowBytes, Span, Step};
use crate::sort::{Sortable, Sorter};

/// Greatest depth. A deeper slice ends the innermost one and becomes its sibling. The readers of
/// tree formats have the same limit.
const MAX_DEPTH: usize = 10_000;

/// An interval on a thread as an importer reads it. Its parent follows from its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Id of its thread.
    pub thread_id: u32,
    /// When it began, in nanoseconds since 1970.
    pub start_nanos: i64,
    /// Duration in nanoseconds.
    pub duration_nanos: i64,
    /// Order among slices with equal times: the one with the lower order is the parent.
    pub order: u64,
    /// Kind of its context node.
    pub kind: NodeKind,
    /// Id of its name.
    pub name_id: u32,
    /// Number, if it is a training step and the file has the number.
    pub step: Option<u32>,
    /// Whether its end is unknown.
    pub is_open: bool,
    /// Id of the category in the file.
    pub category_id: Option<u32>,
    /// Correlation id, shared with the activities it launched.
    pub correlation_id: Option<u64>,
    /// External correlation id, by which activities refer to it.
    pub external_id: Option<u64>,
    /// Arguments.
    pub args: Args,
}

impl Slice {
    /// Returns a slice that has ended, without optional fields.
    pub fn new(
        thread_id: u32,
        kind: NodeKind,
        name_id: u32,
        start_nanos: i64,
        duration_nanos: i64,
    ) -> Self {
        Self {
            thread_id,
            start_nanos,
            duration_nanos,
            order: 0,
            kind,
            name_id,
            step: None,
            is_open: false,
            category_id: None,
            correlation_id: None,
            external_id: None,
            args: Args::default(),
        }
    }

    fn end_nanos(&self) -> i64 {
        self.start_nanos.saturating_add(self.duration_nanos)
    }
}

impl Sortable for Slice {
    type Key = (i64, Reverse<i64>, u64);

    fn key(&self) -> Self::Key {
        (self.start_nanos, Reverse(self.duration_nanos), self.order)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.thread_id.encode(out);
        self.start_nanos.encode(out);
        self.duration_nanos.encode(out);
        self.order.encode(out);
        out.push(self.kind as u8);
        self.name_id.encode(out);
        self.step.encode(out);
        self.is_open.encode(out);
        self.category_id.encode(out);
        self.correlation_id.encode(out);
        self.external_id.encode(out);
        self.args.encode(out);
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        Ok(Self {
            thread_id: Field::decode(input)?,
            start_nanos: Field::decode(input)?,
            duration_nanos: Field::decode(input)?,
            order: Field::decode(input)?,
            kind: NodeKind::from_u8(input.byte()?),
            name_id: Field::decode(input)?,
            step: Field::decode(input)?,
            is_open: Field::decode(input)?,
            category_id: Field::decode(input)?,
            correlation_id: Field::decode(input)?,
            external_id: Field::decode(input)?,
            args: Field::decode(input)?,
        })
    }
}

/// A slice that may still get children.
struct OpenSlice {
    /// Number in the [`SpanQueue`].
    number: u64,
    kind: NodeKind,
    step: Option<u32>,
    start_nanos: i64,
    duration_nanos: i64,
    context_id: u32,
    node: u32,
    children_nanos: i64,
    /// Span, if the queue released it early.
    span: Option<Box<Span>>,
}

impl OpenSlice {
    fn end_nanos(&self) -> i64 {
        self.start_nanos.saturating_add(self.duration_nanos)
    }

    /// Whether a later slice of its thread lies within it. A slice that begins where this one ends
    /// is a sibling.
    fn encloses(&self, slice: &Slice) -> bool {
        self.end_nanos() >= slice.end_nanos() && self.end_nanos() > slice.start_nanos
    }
}

/// The state of nesting: open slices, and the results so far.
struct Nest<'a> {
    names: &'a mut Names,
    threads: &'a [NewThread],
    /// Open slices by thread, outermost first.
    open_slices: Vec<Vec<OpenSlice>>,
    spans: SpanQueue,
    steps: Sorter<Step>,
    /// The number of the next step of each process, for steps without a number in the file.
    next_steps: HashMap<u32, u32>,
    node_sums: NodeSums,
    launches: Launches,
    memory_points: LocatedPoints,
    /// The number of slices beyond [`MAX_DEPTH`], by process.
    too_deep_counts: BTreeMap<u32, u64>,
}

impl Nest<'_> {
    fn add(&mut self, slice: Slice) -> Result<(), StoreError> {
        self.locate_points(slice.start_nanos);
        let thread = slice.thread_id as usize;
        while self.open_slices[thread].last().is_some_and(|open| !open.encloses(&slice)) {
            self.close_innermost(thread)?;
        }
        if self.open_slices[thread].len() == MAX_DEPTH {
            *self.too_deep_counts.entry(self.threads[thread].process_id).or_default() += 1;
            self.close_innermost(thread)?;
        }
        let parent_id = self.open_slices[thread].last().map_or(names::ROOT, |open| open.context_id);
        let context_id = self.names.context_id(parent_id, slice.kind, slice.name_id);
        let process_id = self.threads[thread].process_id;
        if let Some(correlation_id) = slice.correlation_id {
            self.launches.add_call(process_id, correlation_id, parent_id);
        } else if let Some(external_id) = slice.external_id {
            self.launches.add_operator(process_id, external_id, context_id);
        }
        let node = self.node_sums.get_or_add_node(slice.thread_id, context_id, slice.name_id);
        if let Some(blocking_span) = self.spans.blocking_span() {
            self.release_blocking(blocking_span, slice.start_nanos)?;
        }
        let Slice { kind, step, start_nanos, duration_nanos, .. } = slice;
        let number = self.spans.begin(slice_to_span(slice, context_id));
        self.open_slices[thread].push(OpenSlice {
            number,
            kind,
            step,
            start_nanos,
            duration_nanos,
            context_id,
            node,
            children_nanos: 0,
            span: None,
        });
        Ok(())
    }

    /// Finds the context nodes of the points before a time. All slices that begin before that time
    /// must have been added.
    fn locate_points(&mut self, before_nanos: i64) {
        while let Some((time_nanos, thread)) = self.memory_points.next_before(before_nanos) {
            let mut open = self.open_slices[thread as usize].iter().rev();
            let innermost = open.find(|open| open.end_nanos() > time_nanos);
            self.memory_points.set_next(innermost.map_or(names::ROOT, |open| open.context_id));
        }
    }

    /// Lets other spans pass the one at the front of the queue. Ends that span if it can get no
    /// more children at `now_nanos`, otherwise takes it out of the queue.
    fn release_blocking(
        &mut self,
        blocking_span: OpenSpan,
        now_nanos: i64,
    ) -> Result<(), StoreError> {
        let thread = blocking_span.thread as usize;
        let index =
            self.open_slices[thread].partition_point(|open| open.number < blocking_span.number);
        if self.open_slices[thread][index].end_nanos() <= now_nanos {
            while self.open_slices[thread].len() > index {
                self.close_innermost(thread)?; // children end first
            }
            // There may be many threads with one slice each.
            self.open_slices[thread].shrink_to_fit();
        } else {
            self.open_slices[thread][index].span = self.spans.release_first().map(Box::new);
        }
        Ok(())
    }

    fn close_innermost(&mut self, thread: usize) -> Result<(), StoreError> {
        let Some(open) = self.open_slices[thread].pop() else { return Ok(()) };
        let OpenSlice { node, start_nanos, duration_nanos, .. } = open;
        let children_nanos = open.children_nanos.min(duration_nanos);
        let mut parent = NO_NODE;
        if let Some(parent_slice) = self.open_slices[thread].last_mut() {
            parent_slice.children_nanos =
                parent_slice.children_nanos.saturating_add(duration_nanos);
            parent = parent_slice.node;
        }
        let ended = SpanTimes { node, parent, start_nanos, duration_nanos, children_nanos };
        self.node_sums.add(&ended);
        if open.kind == NodeKind::Step {
            let step = self.create_step(&open, thread);
            self.steps.push(&step)?;
        }
        match open.span {
            None => self.spans.end(open.number, children_nanos),
            Some(span) => self.spans.end_late(&Span { children_nanos, ..*span })?,
        }
        Ok(())
    }

    /// Returns a step. If the file has no number for it, it follows the last step of its process.
    fn create_step(&mut self, open: &OpenSlice, thread: usize) -> Step {
        let process_id = self.threads[thread].process_id;
        let next_number = self.next_steps.entry(process_id).or_default();
        let number = open.step.unwrap_or(*next_number);
        *next_number = number.saturating_add(1);
        let OpenSlice { start_nanos, duration_nanos, context_id, .. } = *open;
        let thread_id = thread as u32;
        Step { start_nanos, duration_nanos, process_id, thread_id, context_id, number }
    }
}

/// Returns the span of a slice that begins. The time of its children is not known yet.
fn slice_to_span(slice: Slice, context_id: u32) -> Span {
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

/// The result of nesting.
pub(super) struct Nested {
    /// Spans that the queue released early.
    pub(super) late_spans: Sorter<Span>,
    pub(super) steps: Sorter<Step>,
    pub(super) node_sums: NodeSums,
    pub(super) launches: Launches,
    pub(super) memory_points: LocatedPoints,
}

impl Assembler {
    /// Nests the slices and sends their spans to the writing thread.
    pub(super) fn nest(
        &mut self,
        shift_nanos: i64,
        span_sender: SyncSender<Vec<Span>>,
    ) -> Result<Nested, StoreError> {
        let spill_file = self.files.spill_file.clone();
        let slices = mem::replace(&mut self.slices, Sorter::new(&spill_file));
        let mut nest = Nest {
            names: &mut self.names,
            threads: &self.threads,
            open_slices: self.threads.iter().map(|_| Vec::new()).collect(),
            spans: SpanQueue::new(span_sender, &spill_file),
            steps: Sorter::new(&spill_file),
            next_steps: HashMap::new(),
            node_sums: NodeSums::new(slices.row_count()),
            launches: Launches::new(mem::take(&mut self.launch_ids)),
            memory_points: mem::take(&mut self.memory_points).into_located(shift_nanos),
            too_deep_counts: BTreeMap::new(),
        };
        slices.for_each(|mut slice| {
            slice.start_nanos = slice.start_nanos.saturating_add(shift_nanos);
            nest.add(slice)
        })?;
        nest.locate_points(i64::MAX);
        for thread in 0..nest.open_slices.len() {
            while !nest.open_slices[thread].is_empty() {
                nest.close_innermost(thread)?;
            }
        }
        nest.launches.sort();
        let Nest { steps, node_sums, launches, memory_points, too_deep_counts, spans, .. } = nest;
        let late_spans = spans.finish();
        for (process_id, count) in too_deep_counts {
            self.lose(process_id, LossCause::Unsupported, count);
        }
        Ok(Nested { late_spans, steps, node_sums, launches, memory_points })
    }
}
