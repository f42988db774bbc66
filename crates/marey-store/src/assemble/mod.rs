//! Assembles the tables of a run from the events of foreign files, such as the traces of other
//! profilers.
//!
//! An importer adds events in any order. The [`Assembler`] sorts them, in temporary files if memory
//! is short ([`crate::sort`]). It nests the slices of each thread ([`nest`]), finds the operator
//! that launched each activity ([`launches`]) and computes sums. At the end it publishes the run
//! atomically ([`finish`]).

mod files;
mod finish;
mod launches;
mod nest;
mod node_sums;
mod plain_rows;
mod points;
mod processes;
mod sampled;
mod span_queue;

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;

use hashbrown::HashMap;
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use smallvec::SmallVec;

pub use self::files::TemporaryFiles;
pub use self::finish::Assembled;
pub use self::nest::Slice;
pub use self::plain_rows::ProcessGroup;
pub use self::processes::NewProcess;
pub use self::sampled::Sampled;

use self::launches::LaunchIds;
use self::plain_rows::PlainRows;
use self::points::Points;
use self::processes::NewThread;
use self::sampled::SampledSum;
use crate::StoreError;
use crate::arg_texts::ArgTexts;
use crate::names::{self, Names};
use crate::parts::{Durability, Parts};
use crate::row::{
    Args, AsyncSpan, Collective, Device, Flow, GpuActivity, Instant, MemoryBlock, MemoryEvent,
    Metadata, Metric, Sample,
};
use crate::sort::Sorter;

/// Builds a run from the events of foreign files.
#[derive(Debug)]
pub struct Assembler {
    parts: Parts,
    files: TemporaryFiles,
    names: Names,
    args: ArgTexts,
    processes: Vec<NewProcess>,
    /// The first and last timestamp of each process.
    extents: Vec<Option<(i64, i64)>>,
    threads: Vec<NewThread>,
    losses: BTreeMap<(u32, LossCause), u64>,
    base_nanos: i64,
    sampled: Sampled,
    /// The sums of the samples that the flame graph shows, by thread and context.
    sampled_sums: HashMap<(u32, u32), SampledSum>,
    /// The threads that are made up for samples without a thread, by process.
    sampled_threads: HashMap<u32, u32>,
    /// The ids of calls and operators that activities refer to.
    launch_ids: LaunchIds,
    slices: Sorter<Slice>,
    /// The memory events that get their context nodes from the slices around them.
    memory_points: Points,
    gpu_activities: Sorter<GpuActivity>,
    plain_rows: PlainRows,
}

impl Assembler {
    /// The context of the root, the parent of all outermost contexts.
    pub const ROOT: u32 = names::ROOT;

    /// Begins a run in an empty folder. [`Self::finish`] makes it a run.
    pub fn new(folder: &Path) -> Self {
        Self::from_parts(Parts::new(folder, 0, Durability::Unsynced), TemporaryFiles::new(folder))
    }

    /// Begins a temporary run, which exists while it is open ([`Self::open`]). Its files are
    /// temporary files in `folder`. It is written faster than a durable run and takes more space.
    pub fn temporary(folder: &Path) -> Self {
        Self::temporary_in(&TemporaryFiles::new(folder))
    }

    /// Begins a temporary run in files that many runs share.
    pub fn temporary_in(files: &TemporaryFiles) -> Self {
        let parts = Parts::temporary(&files.folder, files.pool.clone());
        Self::from_parts(parts, files.clone())
    }

    fn from_parts(parts: Parts, files: TemporaryFiles) -> Self {
        let spill_file = &files.spill_file;
        Self {
            slices: Sorter::new(spill_file),
            memory_points: Points::default(),
            gpu_activities: Sorter::new(spill_file),
            plain_rows: PlainRows::new(spill_file),
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
            launch_ids: LaunchIds::default(),
        }
    }

    /// Returns the id of a text.
    pub fn text_id(&mut self, text: &str) -> u32 {
        self.names.text_id(text)
    }

    /// Returns the text of an id from [`Self::text_id`].
    ///
    /// # Panics
    ///
    /// If the id is not from [`Self::text_id`].
    pub fn text_of(&self, id: u32) -> &str {
        self.names.text_of(id)
    }

    /// Returns the id of a context below `parent_id`. [`Self::ROOT`] is the parent of the outermost
    /// contexts.
    pub fn context_id(&mut self, parent_id: u32, kind: NodeKind, name_id: u32) -> u32 {
        self.names.context_id(parent_id, kind, name_id)
    }

    /// Stores the text of an event's arguments. Returns the arguments in the form that rows have.
    pub fn args(&mut self, new_args: &mut NewArgs) -> Result<Args, StoreError> {
        if new_args.is_empty() {
            return Ok(Args::default());
        }
        let Self { args, parts, .. } = self;
        let text_id = new_args.with_template(|text| args.id(text, parts))?;
        Ok(Args { text_id: Some(text_id), numbers: SmallVec::from_slice(new_args.numbers()) })
    }

    /// Adds a process. Returns its id.
    pub fn add_process(&mut self, process: NewProcess) -> u32 {
        self.processes.push(process);
        self.extents.push(None);
        self.processes.len() as u32 - 1
    }

    /// Returns a process, to add to it.
    ///
    /// # Panics
    ///
    /// If the id is not from [`Self::add_process`].
    pub fn process_mut(&mut self, process_id: u32) -> &mut NewProcess {
        &mut self.processes[process_id as usize]
    }

    /// Sets for all processes whether their recording ended properly.
    pub fn set_complete(&mut self, is_complete: bool) {
        for process in &mut self.processes {
            process.is_complete = is_complete;
        }
    }

    /// Returns the rank of the first process that has one.
    pub fn rank(&self) -> Option<u32> {
        self.processes.iter().find_map(|process| process.rank)
    }

    /// Adds a thread. Returns its id. `os_id` is negative for a thread whose system id is unknown.
    pub fn add_thread(&mut self, process_id: u32, os_id: i64, name: &str) -> u32 {
        self.threads.push(NewThread { process_id, os_id, name: name.to_owned() });
        self.threads.len() as u32 - 1
    }

    /// Renames a thread.
    pub fn rename_thread(&mut self, thread_id: u32, name: &str) {
        name.clone_into(&mut self.threads[thread_id as usize].name);
    }

    /// Counts a loss of a process.
    pub fn lose(&mut self, process_id: u32, cause: LossCause, count: u64) {
        let sum = self.losses.entry((process_id, cause)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Selects the samples that the flame graph shows, from the next sample on.
    pub fn show_samples(&mut self, sampled: Sampled) {
        self.sampled = sampled;
    }

    /// Adds a slice of a thread.
    pub fn add_slice(&mut self, slice: &Slice) -> Result<(), StoreError> {
        let process_id = self.threads[slice.thread_id as usize].process_id;
        self.extend(process_id, slice.start_nanos, slice.duration_nanos);
        self.slices.push(slice)
    }

    /// Adds an async span, which is not on the stack of a thread.
    pub fn add_async_span(&mut self, row: &AsyncSpan) -> Result<(), StoreError> {
        self.extend(row.process_id, row.start_nanos, row.duration_nanos);
        self.plain_rows.async_spans.push(row)
    }

    /// Adds an instant.
    pub fn add_instant(&mut self, row: &Instant) -> Result<(), StoreError> {
        self.extend(row.process_id, row.time_nanos, 0);
        self.plain_rows.instants.push(row)
    }

    /// Adds a point of a flow.
    pub fn add_flow(&mut self, row: &Flow) -> Result<(), StoreError> {
        self.plain_rows.flows.push(row)
    }

    /// Adds a counter value.
    pub fn add_metric(&mut self, row: &Metric) -> Result<(), StoreError> {
        let process_id = self.threads[row.thread_id as usize].process_id;
        self.extend(process_id, row.time_nanos, 0);
        self.plain_rows.metrics.push(row)
    }

    /// Adds a sample: a value with a call stack.
    pub fn add_sample(&mut self, row: &Sample) -> Result<(), StoreError> {
        if let Some(nanos) = row.time_nanos {
            self.extend(row.process_id, nanos, 0);
        }
        self.add_to_sampled_sums(row);
        self.plain_rows.samples.push(row)
    }

    /// Adds an activity. If it has no context node, it gets the node of the call with its
    /// `correlation_id`, or of the operator with its `external_id`.
    pub fn add_gpu_activity(&mut self, row: &GpuActivity) -> Result<(), StoreError> {
        self.extend(row.process_id, row.start_nanos, row.duration_nanos);
        self.launch_ids.add(row);
        self.gpu_activities.push(row)
    }

    /// Adds a collective.
    pub fn add_collective(&mut self, row: &Collective) -> Result<(), StoreError> {
        self.extend(row.process_id, row.start_nanos, row.duration_nanos.unwrap_or(0));
        self.plain_rows.collectives.push(row)
    }

    /// Sets the properties of a process group, given by the id of its name. They complete its
    /// collectives.
    pub fn set_process_group(&mut self, name_id: u32, group: ProcessGroup) {
        self.plain_rows.groups.insert(name_id, group);
    }

    /// Returns the known properties of a process group.
    pub fn process_group(&self, name_id: u32) -> ProcessGroup {
        self.plain_rows.groups.get(&name_id).copied().unwrap_or_default()
    }

    /// Adds an event of an allocator. If it has a thread and no context node, it gets the node of
    /// the innermost slice around it.
    pub fn add_memory_event(&mut self, row: &MemoryEvent) -> Result<(), StoreError> {
        self.extend(row.process_id, row.time_nanos, 0);
        if let (Some(thread_id), None) = (row.thread_id, row.context_id) {
            self.memory_points.add(row.time_nanos, thread_id);
        }
        self.plain_rows.memory_events.push(row)
    }

    /// Adds a memory block of a snapshot.
    pub fn add_memory_block(&mut self, row: &MemoryBlock) -> Result<(), StoreError> {
        self.plain_rows.memory_blocks.push(row)
    }

    /// Adds a device.
    pub fn add_device(&mut self, row: &Device) -> Result<(), StoreError> {
        self.plain_rows.devices.push(row)
    }

    /// Adds a metadata entry.
    pub fn add_metadata(&mut self, row: &Metadata) -> Result<(), StoreError> {
        self.plain_rows.metadata.push(row)
    }

    /// Returns the number of events that were added so far.
    pub fn event_count(&self) -> u64 {
        self.slices.row_count() + self.gpu_activities.row_count() + self.plain_rows.event_count()
    }

    /// Spills all rows to temporary files until [`Self::finish`] reads them back. Names, contexts,
    /// threads and launches stay in memory.
    pub fn spill(&mut self) -> Result<(), StoreError> {
        let next_arg_texts = ArgTexts::with_first_id(self.args.next_id());
        mem::replace(&mut self.args, next_arg_texts).finish(&mut self.parts)?;
        self.slices.spill()?;
        self.gpu_activities.spill()?;
        self.plain_rows.spill()
    }

    /// Sets the time in nanoseconds since 1970 that is added to all timestamps. It may be set last,
    /// because files may state it last.
    pub fn set_base_nanos(&mut self, base_nanos: i64) {
        self.base_nanos = base_nanos;
    }

    /// Returns the first and last timestamp that was added for a process, before the base is added.
    pub fn extent_nanos(&self, process_id: u32) -> Option<(i64, i64)> {
        self.extents[process_id as usize]
    }

    /// Extends the recorded time of a process, which may be longer than the time of its events.
    pub fn extend(&mut self, process_id: u32, start_nanos: i64, duration_nanos: i64) {
        let end_nanos = start_nanos.saturating_add(duration_nanos);
        let extent = &mut self.extents[process_id as usize];
        *extent = Some(match *extent {
            Some((first_nanos, last_nanos)) => {
                (first_nanos.min(start_nanos), last_nanos.max(end_nanos))
            }
            None => (start_nanos, end_nanos),
        });
    }
}
