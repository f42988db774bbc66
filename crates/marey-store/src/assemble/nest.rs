//! Nesting: from slices of threads to spans in the calling-context tree.
//!
//! The slices of a thread come by their start, longer ones first. One is inside another if it lies
//! within it; where two overlap and neither holds the other, the earlier one is over for what
//! follows. So every slice is looked at twice, whatever the file says.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::mem;
use std::sync::mpsc::SyncSender;

use hashbrown::{HashMap, HashSet};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;

use super::{Assembler, BATCH_ROWS, NewThread, shifted};
use crate::StoreError;
use crate::names::{self, Names};
use crate::parts::Parts;
use crate::rollup::{NO_PLACE, Rollup, Summand, Whole};
use crate::row::{Args, Field, GpuActivity, Span, Step};
use crate::sort::{Sortable, Sorter};
use crate::sums::{self, Whose};

/// Slices inside each other beyond so many lie beside the innermost one. Files that are nested deeper
/// are not read as trees either.
const MAX_DEPTH: usize = 10_000;

/// Contexts of samples, times threads, that a flame graph shows at most: a file may name a deep stack
/// on many threads in a few bytes.
const MAX_SAMPLED_PLACES: usize = 1 << 20;

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

    /// Whether one that comes after it lies within it. What begins where another ends follows it.
    fn is_around(&self, other: &Self) -> bool {
        self.thread_id == other.thread_id
            && self.end_nanos() >= other.end_nanos()
            && self.end_nanos() > other.start_nanos
    }
}

impl Sortable for Slice {
    type Key = (u32, i64, Reverse<i64>, u64);

    fn key(&self) -> Self::Key {
        (self.thread_id, self.start_nanos, Reverse(self.duration_nanos), self.order)
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

    fn take(input: &mut impl Read) -> io::Result<Self> {
        Ok(Self {
            thread_id: Field::take(input)?,
            start_nanos: Field::take(input)?,
            duration_nanos: Field::take(input)?,
            order: Field::take(input)?,
            kind: NodeKind::from_u8(crate::row::byte(input)?),
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

/// Where things were launched, by process.
#[derive(Debug, Default)]
pub(super) struct Launches {
    by_correlation: HashMap<(u32, u64), u32>,
    by_external: HashMap<(u32, u64), u32>,
}

impl Launches {
    pub(super) fn context(&self, activity: &GpuActivity) -> Option<u32> {
        let process = activity.process_id;
        let launch = |ids: &HashMap<_, u32>, id: Option<u64>| ids.get(&(process, id?)).copied();
        launch(&self.by_correlation, activity.correlation_id)
            .or_else(|| launch(&self.by_external, activity.external_id))
    }
}

/// A slice that may have others inside it yet.
struct Open {
    slice: Slice,
    context: u32,
    place: u32,
    children_nanos: i64,
}

/// The slices of a thread that are open, and what became of the others.
struct Nest<'a> {
    names: &'a mut Names,
    threads: &'a [NewThread],
    open: Vec<Open>,
    /// Those that are over, on their way to who sorts them.
    spans: Vec<Span>,
    closed: SyncSender<Vec<Span>>,
    steps: Sorter<Step>,
    /// By process, the number that its next step has if the file does not say it.
    next_steps: HashMap<u32, u32>,
    sums: PlaceSums,
    launches: Launches,
    /// Operators that activities of devices name.
    wanted: HashSet<(u32, u64)>,
    /// Slices beyond the limit of depth, by process.
    too_deep: BTreeMap<u32, u64>,
}

/// Sums by place: a thread and a context.
#[derive(Debug)]
struct PlaceSums {
    ids: HashMap<(u32, u32), u32>,
    /// Thread, context and name of each.
    places: Vec<[u32; 3]>,
    wholes: Vec<Whole>,
    rollup: Rollup,
}

impl PlaceSums {
    fn new(events: u64) -> Self {
        let rollup = Rollup::new(0, events);
        Self { ids: HashMap::new(), places: Vec::new(), wholes: Vec::new(), rollup }
    }

    fn add(&mut self, span: &Summand) {
        self.wholes[span.place as usize].add(span.duration_nanos, span.children_nanos);
        self.rollup.add(span);
    }

    fn place(&mut self, thread: u32, context: u32, name: u32) -> u32 {
        let next = self.places.len() as u32;
        let place = *self.ids.entry((thread, context)).or_insert(next);
        if place == next {
            self.places.push([thread, context, name]);
            self.wholes.push(Whole::default());
            self.rollup.add_place();
        }
        place
    }
}

impl Nest<'_> {
    fn add(&mut self, slice: Slice) -> Result<(), StoreError> {
        while self.open.last().is_some_and(|open| !open.slice.is_around(&slice)) {
            self.close_one()?;
        }
        if self.open.len() == MAX_DEPTH {
            *self.too_deep.entry(self.process(&slice)).or_default() += 1;
            self.close_one()?;
        }
        let parent = self.open.last().map_or(names::ROOT, |open| open.context);
        let context = self.names.context(parent, slice.kind, slice.name_id);
        let process = self.process(&slice);
        if let Some(correlation) = slice.correlation_id {
            self.launches.by_correlation.insert((process, correlation), parent);
        } else if let Some(external) = slice.external_id
            && self.wanted.contains(&(process, external))
        {
            self.launches.by_external.insert((process, external), context);
        }
        let place = self.sums.place(slice.thread_id, context, slice.name_id);
        self.open.push(Open { slice, context, place, children_nanos: 0 });
        Ok(())
    }

    fn close_one(&mut self) -> Result<(), StoreError> {
        let Some(Open { slice, context, place, children_nanos }) = self.open.pop() else {
            return Ok(());
        };
        let Slice { start_nanos, duration_nanos, .. } = slice;
        let children_nanos = children_nanos.min(duration_nanos);
        let mut parent = NO_PLACE;
        if let Some(around) = self.open.last_mut() {
            around.children_nanos = around.children_nanos.saturating_add(duration_nanos);
            parent = around.place;
        }
        self.sums.add(&Summand { place, parent, start_nanos, duration_nanos, children_nanos });
        if slice.kind == NodeKind::Step {
            let step = self.step(&slice, context);
            self.steps.push(&step)?;
        }
        self.spans.push(Span {
            start_nanos,
            duration_nanos,
            children_nanos,
            thread_id: slice.thread_id,
            context_id: context,
            name_id: slice.name_id,
            sessions: 0,
            phase: 0,
            is_open: slice.is_open,
            category_id: slice.category_id,
            correlation_id: slice.correlation_id,
            external_id: slice.external_id,
            args: slice.args,
        });
        if self.spans.len() == BATCH_ROWS {
            self.send_spans();
        }
        Ok(())
    }

    fn send_spans(&mut self) {
        let spans = mem::replace(&mut self.spans, Vec::with_capacity(BATCH_ROWS));
        // Who sorts them may have failed, and says why.
        drop(self.closed.send(spans));
    }

    /// A step that has no number is the one after the last of its process.
    fn step(&mut self, slice: &Slice, context_id: u32) -> Step {
        let process_id = self.process(slice);
        let next = self.next_steps.entry(process_id).or_default();
        let number = slice.step.unwrap_or(*next);
        *next = number.saturating_add(1);
        let Slice { start_nanos, duration_nanos, thread_id, .. } = *slice;
        Step { start_nanos, duration_nanos, process_id, thread_id, context_id, number }
    }

    fn process(&self, slice: &Slice) -> u32 {
        self.threads[slice.thread_id as usize].process
    }
}

/// What became of the slices.
pub(super) struct Nested {
    pub(super) steps: Sorter<Step>,
    pub(super) sums: Summed,
    pub(super) launches: Launches,
}

/// What they add up to.
pub(super) struct Summed {
    sums: PlaceSums,
    /// When the recording of each thread's process began.
    thread_starts: Vec<i64>,
}

impl Summed {
    pub(super) fn write(self, parts: &mut Parts) -> Result<(), StoreError> {
        let PlaceSums { places, wholes, rollup, .. } = self.sums;
        let whose = |place: u32| {
            let [thread, context, name] = places[place as usize];
            Whose { thread, context, name, start_nanos: self.thread_starts[thread as usize] }
        };
        sums::write(&wholes, rollup, whose, None, parts)
    }
}

impl Assembler {
    /// Nests the slices, gives spans away as they are over, and says what was launched where.
    pub(super) fn nest(
        &mut self,
        shift: i64,
        closed: SyncSender<Vec<Span>>,
    ) -> Result<Nested, StoreError> {
        let folder = self.parts.run.clone();
        let slices = mem::replace(&mut self.slices, Sorter::new(&folder));
        let mut nest = Nest {
            names: &mut self.names,
            threads: &self.threads,
            open: Vec::new(),
            spans: Vec::with_capacity(BATCH_ROWS),
            closed,
            steps: Sorter::new(&folder),
            next_steps: HashMap::new(),
            sums: PlaceSums::new(slices.rows()),
            launches: Launches::default(),
            wanted: mem::take(&mut self.wanted),
            too_deep: BTreeMap::new(),
        };
        slices.finish(BATCH_ROWS, |slices| {
            slices.iter_mut().try_for_each(|slice| {
                let start_nanos = slice.start_nanos.saturating_add(shift);
                let args = mem::take(&mut slice.args);
                nest.add(Slice { start_nanos, args, ..*slice })
            })
        })?;
        while !nest.open.is_empty() {
            nest.close_one()?;
        }
        nest.send_spans();
        let Nest { steps, mut sums, launches, too_deep, .. } = nest;
        for (process, count) in too_deep {
            self.lose(process, LossCause::Unsupported, count);
        }
        self.add_samples(&mut sums);
        let starts = shifted(&self.extents, shift);
        let start = |thread: &NewThread| starts[thread.process as usize].0;
        let thread_starts = self.threads.iter().map(start).collect();
        Ok(Nested { steps, sums: Summed { sums, thread_starts }, launches })
    }

    /// Adds what samples say: each counts in all contexts around it too, but for calls.
    fn add_samples(&mut self, sums: &mut PlaceSums) {
        // A context has a larger number than the one around it, so each is complete when it is its turn.
        let mut waiting = BTreeMap::new();
        for ((thread, context), (count, nanos)) in mem::take(&mut self.sampled_sums) {
            waiting.insert((context, thread), [count, nanos, nanos]);
        }
        while let Some(((context, thread), [count, nanos, self_nanos])) = waiting.pop_last() {
            let Some(parent) = self.names.parent(context) else { continue };
            if sums.places.len() >= MAX_SAMPLED_PLACES {
                let process = self.threads[thread as usize].process;
                self.lose(process, LossCause::Unsupported, 1);
                continue;
            }
            let place = sums.place(thread, context, self.names.name(context));
            let sums = &mut sums.wholes[place as usize].sums;
            sums.count = sums.count.saturating_add(count.round() as i64);
            let (nanos_here, inside_nanos) =
                (nanos.round() as i64, (nanos - self_nanos).round() as i64);
            sums.add(nanos_here, inside_nanos);
            let around = waiting.entry((parent, thread)).or_insert([0.0; 3]);
            around[0] += if self.sampled.counts_calls { 0.0 } else { count };
            around[1] += nanos;
        }
    }
}
