//! Assembly: from the events of foreign files to the tables of a run.
//!
//! An importer says what it reads, in any order; the [`Assembler`] sorts it, in files where there is
//! much ([`crate::sort`]), nests the slices of each thread ([`nest`]), finds out which operator
//! launched which activity of a device, sums up, and writes the run at one stroke.

mod files;
mod launches;
mod leaving;
mod nest;
mod others;
mod places;
mod processes;

use std::collections::BTreeMap;
use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use hashbrown::HashMap;
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::table::stored;
use smallvec::SmallVec;

pub use self::files::BriefFiles;
use self::launches::{Launches, Named};
use self::nest::Nested;
pub use self::nest::Slice;
use self::others::Others;
pub use self::others::ProcessGroup;
pub use self::processes::NewProcess;
use self::processes::{NewThread, loss_columns, process_columns, shifted, thread_columns};
use crate::arg_texts::ArgTexts;
use crate::names::{self, Names};
use crate::parts::{self, Lifetime, Parts, RowPart};
use crate::row::{
    Args, AsyncSpan, Bytes, Collective, Damaged, Device, Flow, GpuActivity, Instant, MemoryBlock,
    MemoryEvent, Metadata, Metric, Row, Sample, Span,
};
use crate::sort::{Sortable, Sorter};
use crate::{Manifest, Run, StoreError};

/// Spans that go to who writes them at a time: few enough to stay in a cache.
const BATCH_ROWS: usize = 1 << 9;

/// Batches of spans that wait for who writes them.
const MAX_WAITING: usize = 3;

/// Makes a run of the events of foreign files.
#[derive(Debug)]
pub struct Assembler {
    parts: Parts,
    files: BriefFiles,
    names: Names,
    args: ArgTexts,
    processes: Vec<NewProcess>,
    /// The first and the last moment of each process, in nanoseconds since 1970.
    extents: Vec<Option<(i64, i64)>>,
    threads: Vec<NewThread>,
    losses: BTreeMap<(u32, LossCause), u64>,
    base_nanos: i64,
    sampled: Sampled,
    /// Count and nanoseconds of the samples that a flame graph shows, by thread and context.
    sampled_sums: HashMap<(u32, u32), (f64, f64)>,
    /// The threads of samples that are of none, by process.
    sampled_threads: HashMap<u32, u32>,
    /// Calls and operators that activities of devices name.
    named: Named,
    slices: Sorter<Slice>,
    gpu_activities: Sorter<GpuActivity>,
    others: Others,
}

/// Which samples a flame graph shows: the names of values, as ids of texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    /// How often a stack was seen; without, each row that has a time is one.
    pub count_name_id: Option<u32>,
    /// The time in nanoseconds that a stack stands for.
    pub nanos_name_id: Option<u32>,
    /// Whether counts are of calls of the innermost, which are none of those around it.
    pub counts_calls: bool,
}

/// What an assembly did.
#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// Rows of events in the run.
    pub events: u64,
    /// What was lost, by cause.
    pub losses: BTreeMap<LossCause, u64>,
}

impl<R: Row> Sortable for R {
    type Key = i64;

    fn key(&self) -> i64 {
        self.start_nanos()
    }

    fn put(&self, out: &mut Vec<u8>) {
        Row::put(self, out);
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        Row::take(input)
    }
}

impl Assembler {
    /// The context of every root, whose children are the outermost ones.
    pub const ROOT: u32 = names::ROOT;

    /// Begins a run in an empty folder, which is no run before [`Self::finish`].
    pub fn new(folder: &Path) -> Self {
        Self::of_parts(Parts::new(folder, 0, Lifetime::Kept), BriefFiles::new(folder))
    }

    /// Begins a run that lasts as long as somebody has it open ([`Self::open`]). It is in files without
    /// names, which are made in `folder`; it is written sooner than others, and takes more room.
    pub fn brief(folder: &Path) -> Self {
        Self::brief_in(&BriefFiles::new(folder))
    }

    /// Begins such a run in files that others use too, of which there may be a thousand.
    pub fn brief_in(files: &BriefFiles) -> Self {
        let parts = Parts::brief(&files.folder, files.scratches.clone());
        Self::of_parts(parts, files.clone())
    }

    fn of_parts(parts: Parts, files: BriefFiles) -> Self {
        let room = &files.room;
        Self {
            slices: Sorter::new(room),
            gpu_activities: Sorter::new(room),
            others: Others::new(room),
            parts,
            files,
            names: Names::new(),
            args: ArgTexts::default(),
            processes: Vec::new(),
            extents: Vec::new(),
            threads: Vec::new(),
            losses: BTreeMap::new(),
            base_nanos: 0,
            sampled: Sampled::default(),
            sampled_sums: HashMap::new(),
            sampled_threads: HashMap::new(),
            named: Named::default(),
        }
    }

    /// The id of a text.
    pub fn text(&mut self, text: &str) -> u32 {
        self.names.text(text)
    }

    /// Returns the text of an id from [`Self::text`].
    ///
    /// # Panics
    ///
    /// Where the id is not from there.
    pub fn text_of(&self, id: u32) -> &str {
        self.names.text_of(id)
    }

    /// The id of a context below another one, [`Self::ROOT`] for the outermost.
    pub fn context(&mut self, parent: u32, kind: NodeKind, name_id: u32) -> u32 {
        self.names.context(parent, kind, name_id)
    }

    /// The arguments of an event, of which the text is stored.
    pub fn args(&mut self, new: &mut NewArgs) -> Result<Args, StoreError> {
        if new.is_empty() {
            return Ok(Args::default());
        }
        let Self { args, parts, .. } = self;
        let text_id = new.with_template(|text| args.id(text, parts))?;
        Ok(Args { text_id: Some(text_id), numbers: SmallVec::from_slice(new.numbers()) })
    }

    /// A process more; its id.
    pub fn process(&mut self, process: NewProcess) -> u32 {
        self.processes.push(process);
        self.extents.push(None);
        self.processes.len() as u32 - 1
    }

    /// What is known of a process so far, to add to it.
    ///
    /// # Panics
    ///
    /// Where the id is not from [`Self::process`].
    pub fn process_mut(&mut self, process: u32) -> &mut NewProcess {
        &mut self.processes[process as usize]
    }

    /// Says of all processes whether their recording was ended properly.
    pub fn set_complete(&mut self, is_complete: bool) {
        for process in &mut self.processes {
            process.is_complete = is_complete;
        }
    }

    /// The rank of the first process that has one.
    pub fn rank(&self) -> Option<u32> {
        self.processes.iter().find_map(|process| process.rank)
    }

    /// A thread more; its id. `os_id` is its id in the system; one that only the file has is below 0.
    pub fn thread(&mut self, process: u32, os_id: i64, name: &str) -> u32 {
        self.threads.push(NewThread { process, os_id, name: name.to_owned() });
        self.threads.len() as u32 - 1
    }

    /// Gives a thread another name.
    pub fn rename_thread(&mut self, thread: u32, name: &str) {
        name.clone_into(&mut self.threads[thread as usize].name);
    }

    /// Counts what a process lost.
    pub fn lose(&mut self, process: u32, cause: LossCause, count: u64) {
        let sum = self.losses.entry((process, cause)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Says which of the samples that follow a flame graph shows.
    pub fn show_samples(&mut self, sampled: Sampled) {
        self.sampled = sampled;
    }

    /// Adds a slice of a thread.
    pub fn add_slice(&mut self, slice: &Slice) -> Result<(), StoreError> {
        let process = self.threads[slice.thread_id as usize].process;
        self.extend(process, slice.start_nanos, slice.duration_nanos);
        self.slices.push(slice)
    }

    /// Adds a span beside the stacks of threads.
    pub fn add_async_span(&mut self, row: &AsyncSpan) -> Result<(), StoreError> {
        self.extend(row.process_id, row.start_nanos, row.duration_nanos);
        self.others.async_spans.push(row)
    }

    /// Adds an instant.
    pub fn add_instant(&mut self, row: &Instant) -> Result<(), StoreError> {
        self.extend(row.process_id, row.time_nanos, 0);
        self.others.instants.push(row)
    }

    /// Adds a point of a flow.
    pub fn add_flow(&mut self, row: &Flow) -> Result<(), StoreError> {
        self.others.flows.push(row)
    }

    /// Adds a value of a counter.
    pub fn add_metric(&mut self, row: &Metric) -> Result<(), StoreError> {
        let process = self.threads[row.thread_id as usize].process;
        self.extend(process, row.time_nanos, 0);
        self.others.metrics.push(row)
    }

    /// Adds a value of a call stack.
    pub fn add_sample(&mut self, row: &Sample) -> Result<(), StoreError> {
        if let Some(nanos) = row.time_nanos {
            self.extend(row.process_id, nanos, 0);
        }
        self.sum_up(row);
        self.others.samples.push(row)
    }

    /// Adds what a device did. Without a context it gets that of the call that has its
    /// `correlation_id`, or of the operator that has its `external_id`.
    pub fn add_gpu_activity(&mut self, row: &GpuActivity) -> Result<(), StoreError> {
        self.extend(row.process_id, row.start_nanos, row.duration_nanos);
        self.named.add(row);
        self.gpu_activities.push(row)
    }

    /// Adds a collective.
    pub fn add_collective(&mut self, row: &Collective) -> Result<(), StoreError> {
        self.extend(row.process_id, row.start_nanos, row.duration_nanos.unwrap_or(0));
        self.others.collectives.push(row)
    }

    /// Notes what the file says of a process group, by the id of its name: its collectives get what
    /// they do not say themselves.
    pub fn set_process_group(&mut self, name_id: u32, group: ProcessGroup) {
        self.others.groups.insert(name_id, group);
    }

    /// Returns what the file says of a process group.
    pub fn process_group(&self, name_id: u32) -> ProcessGroup {
        self.others.groups.get(&name_id).copied().unwrap_or_default()
    }

    /// Adds what an allocator did.
    pub fn add_memory_event(&mut self, row: &MemoryEvent) -> Result<(), StoreError> {
        self.extend(row.process_id, row.time_nanos, 0);
        self.others.memory_events.push(row)
    }

    /// Adds a block of memory.
    pub fn add_memory_block(&mut self, row: &MemoryBlock) -> Result<(), StoreError> {
        self.others.memory_blocks.push(row)
    }

    /// Adds a device.
    pub fn add_device(&mut self, row: &Device) -> Result<(), StoreError> {
        self.others.devices.push(row)
    }

    /// Adds what the file says of itself.
    pub fn add_metadata(&mut self, row: &Metadata) -> Result<(), StoreError> {
        self.others.metadata.push(row)
    }

    /// Events that were added so far.
    pub fn events(&self) -> u64 {
        self.slices.rows() + self.gpu_activities.rows() + self.others.events()
    }

    /// Has all rows that were added in files, while [`Self::finish`] must wait. What stays in memory are
    /// names, contexts, threads, and where things were launched.
    pub fn rest(&mut self) -> Result<(), StoreError> {
        let next_args = ArgTexts::starting_at(self.args.next());
        mem::replace(&mut self.args, next_args).finish(&mut self.parts)?;
        self.slices.rest()?;
        self.gpu_activities.rest()?;
        self.others.rest()
    }

    /// Says what all moments are counted from, in nanoseconds since 1970; a file may say so last.
    pub fn set_base_nanos(&mut self, base_nanos: i64) {
        self.base_nanos = base_nanos;
    }

    /// The first and the last moment of what was added of a process, if it has one.
    pub fn extent_nanos(&self, process: u32) -> Option<(i64, i64)> {
        self.extents[process as usize]
    }

    /// Makes the folder a run. `shift_nanos` is added to every moment: what aligns the clock of the
    /// file with those of other ranks. The run may still be in the system's cache: what it was made of
    /// must not go.
    ///
    /// # Panics
    ///
    /// If the run is a brief one ([`Self::brief`]), which is in no folder.
    pub fn finish(mut self, shift_nanos: Option<i64>) -> Result<Assembled, StoreError> {
        assert!(!self.parts.is_brief(), "a brief run is opened, not finished");
        let (assembled, manifest) = self.write(shift_nanos)?;
        let written = self.parts.written.into_iter().map(|(part, _)| part).collect();
        manifest.publish_as(&self.parts.run, written, false)?;
        Ok(assembled)
    }

    /// Opens the run, of which nothing has a name. It has the path of what it was made of, for messages.
    pub fn open(
        mut self,
        shift_nanos: Option<i64>,
        path: &Path,
    ) -> Result<(Run, Assembled), StoreError> {
        let (assembled, manifest) = self.write(shift_nanos)?;
        let parts = self.parts.written.iter().map(|(part, _)| part);
        Ok((Run::of_parts(path, manifest, parts)?, assembled))
    }

    /// Writes all tables, and says what they are.
    fn write(&mut self, shift_nanos: Option<i64>) -> Result<(Assembled, Manifest), StoreError> {
        let shift = self.base_nanos.saturating_add(shift_nanos.unwrap_or(0));
        let events = self.events();
        let next_args = self.args.next();
        self.write_events(shift)?;
        let parts = &mut self.parts;
        let threads = thread_columns(&self.threads);
        parts::write(&stored::THREADS, threads, None, parts)?;
        let extents = shifted(&self.extents, shift);
        let about = process_columns(&self.processes, &extents, shift_nanos);
        parts::write(&stored::PROCESSES, about, None, parts)?;
        parts::write(&stored::LOSSES, loss_columns(&self.losses), None, parts)?;

        let mut assembled = Assembled { events, losses: BTreeMap::new() };
        for (&(_, cause), &count) in &self.losses {
            let sum: &mut u64 = assembled.losses.entry(cause).or_default();
            *sum = sum.saturating_add(count);
        }
        let mut manifest = Manifest::new();
        manifest.next.strings = self.names.text_count();
        manifest.next.contexts = self.names.context_count();
        manifest.next.threads = self.threads.len() as u32;
        manifest.next.processes = self.processes.len() as u32;
        manifest.next.args = next_args;
        manifest.next.part = self.parts.next();
        let processes = self.processes.iter().zip(&extents).zip(0..);
        manifest.processes =
            processes.map(|((process, &extent), id)| process.entry(id, extent)).collect();
        manifest.losses =
            assembled.losses.iter().map(|(cause, &n)| (cause.as_str().to_owned(), n)).collect();
        for (part, process) in &self.parts.written {
            manifest.list(part, *process);
        }
        Ok((assembled, manifest))
    }

    /// Nests the slices while their spans are written, then writes the rest on both threads.
    fn write_events(&mut self, shift: i64) -> Result<(), StoreError> {
        let room = self.files.room.clone();
        let others = mem::replace(&mut self.others, Others::new(&room));
        let activities = mem::replace(&mut self.gpu_activities, Sorter::new(&room));
        let mut parts = self.parts.beside();
        let beside = &mut parts;
        let unmatched = thread::scope(|scope| {
            let (left, batches) = sync_channel(MAX_WAITING);
            let (nested, launches) = sync_channel(1);
            let writing = scope.spawn(move || {
                write_spans(batches, beside)?;
                // Without them, nesting has failed, and says why.
                let launches = launches.recv().unwrap_or_default();
                write_gpu_activities(activities, &launches, shift, beside)
            });
            let Nested { late, steps, places, launches } = self.nest(shift, left)?;
            drop(nested.send(launches)); // who takes them may have failed, and says why
            write(late, 0, &mut self.parts)?;
            write(steps, 0, &mut self.parts)?;
            self.write_texts()?;
            self.write_sums(places, shift)?;
            others.write(shift, &mut self.parts)?;
            writing.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        for (process, count) in unmatched {
            self.lose(process, LossCause::UnmatchedActivity, count);
        }
        self.parts.written.extend(parts.written);
        Ok(())
    }

    fn write_texts(&mut self) -> Result<(), StoreError> {
        let Self { args, names, parts, .. } = self;
        mem::take(args).finish(parts)?;
        names.write_texts(0, parts)?;
        parts::write(&stored::CONTEXTS, names.context_columns(0), None, parts)
    }

    /// Adds a sample to what a flame graph shows, if it is of that.
    fn sum_up(&mut self, sample: &Sample) {
        let Sampled { count_name_id, nanos_name_id, .. } = self.sampled;
        let is_count = count_name_id == Some(sample.name_id);
        let is_nanos = nanos_name_id == Some(sample.name_id);
        let value = match sample.value {
            MetricValue::Int(value) => value as f64,
            MetricValue::Float(value) if value.is_finite() => value,
            _ => return,
        };
        if !is_count && !is_nanos {
            return;
        }
        let process = sample.process_id;
        let threads = &mut self.threads;
        let thread = sample.thread_id.unwrap_or_else(|| {
            *self.sampled_threads.entry(process).or_insert_with(|| {
                threads.push(NewThread { process, os_id: 0, name: String::new() });
                threads.len() as u32 - 1
            })
        });
        let sums = self.sampled_sums.entry((thread, sample.context_id)).or_default();
        if is_count {
            sums.0 += value;
        }
        if is_nanos {
            sums.1 += value;
            sums.0 += if count_name_id.is_none() { 1.0 } else { 0.0 };
        }
    }

    /// Says that a process was recorded at this time too, whatever events it has.
    pub fn extend(&mut self, process: u32, start_nanos: i64, duration_nanos: i64) {
        let end_nanos = start_nanos.saturating_add(duration_nanos);
        let extent = &mut self.extents[process as usize];
        *extent = Some(match *extent {
            Some((first, last)) => (first.min(start_nanos), last.max(end_nanos)),
            None => (start_nanos, end_nanos),
        });
    }
}

/// Writes spans as they come.
fn write_spans(batches: Receiver<Vec<Span>>, parts: &mut Parts) -> Result<(), StoreError> {
    let mut part = RowPart::new(0);
    for spans in batches {
        spans.iter().try_for_each(|span| part.push(span, parts))?;
    }
    part.finish(parts)
}

/// Writes what devices did, below what launched it; by process, how much of it nothing is known to have
/// launched.
fn write_gpu_activities(
    activities: Sorter<GpuActivity>,
    launches: &Launches,
    shift: i64,
    parts: &mut Parts,
) -> Result<BTreeMap<u32, u64>, StoreError> {
    let mut part = RowPart::new(shift);
    let mut unmatched = BTreeMap::new();
    activities.for_each(|mut row| {
        row.context_id = row.context_id.or_else(|| launches.context(&row));
        if row.context_id.is_none() && row.correlation_id.is_some() {
            *unmatched.entry(row.process_id).or_default() += 1;
        }
        part.push(&row, parts)
    })?;
    part.finish(parts)?;
    Ok(unmatched)
}

/// Writes rows as they are sorted.
fn write<R: Row>(rows: Sorter<R>, shift: i64, parts: &mut Parts) -> Result<(), StoreError> {
    let mut part = RowPart::new(shift);
    rows.for_each(|row| part.push(&row, parts))?;
    part.finish(parts)
}
