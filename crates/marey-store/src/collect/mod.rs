//! Collects the spools of a run into its tables.
//!
//! Each spool is read twice ([`spool`]): first for clocks, names and threads ([`outline`]), then
//! for its events ([`events`]). It is read twice more for each of its [`windows`]. The events are
//! sorted by time, and spilled to a temporary file if they are many ([`crate::sort`]), so memory
//! does not grow with the length of a recording. The parts are published atomically, and then the
//! spool is removed. Small complete spools share parts ([`crate::small_parts`]), which are final. A
//! spool that may grow has parts of its own, so that a later collection can replace them.

mod activities;
mod autograd;
mod child_time;
mod clock;
mod events;
mod interned;
mod meter;
mod native_stacks;
mod outline;
mod process;
mod ring;
mod rows;
mod sessions;
mod spool;
mod threads;
mod uncollected;
mod windows;
mod write;

pub use self::meter::Progress;
pub use self::native_stacks::CodePlace;
pub use self::uncollected::needs_collecting;

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt32Type};
use marey_model::run::SPOOL;
use marey_model::spool::SpoolError;
use marey_model::table::stored;

use self::meter::Meter;
use self::spool::{SpoolFile, SpoolIds, SpoolInput, SpoolResult};
use self::uncollected::{Spools, UncollectedSpool, list_spools};
use crate::arg_texts::ArgTexts;
use crate::environment::keeps_spools;
use crate::names::Names;
use crate::parts::{self, Parts};
use crate::{CollectedSpool, Lock, Manifest, Run, StoreError, file_id};

/// Number of spool bytes that are published together, so that a run of many small spools does not
/// write its manifest once for each.
const PUBLISH_BYTES: u64 = 64 << 20;

/// The result of a collection.
#[derive(Debug, Default)]
pub struct Collected {
    /// Spools that were read.
    pub spools: u32,
    /// Events in them.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes that could not be read: torn frames at the ends of spools, and everything after a
    /// frame that contradicts an earlier one.
    pub torn_bytes: u64,
    /// Spools with a frame that contradicts an earlier one. These spools are kept.
    pub broken: Vec<BrokenSpool>,
}

/// A spool that is readable only in part, although its process did not die while it was writing.
#[derive(Debug)]
pub struct BrokenSpool {
    /// File name.
    pub name: String,
    /// Bytes that could not be read.
    pub lost_bytes: u64,
    /// The reason why reading stopped.
    pub reason: SpoolError,
}

/// Other files that a collection needs. A closure implements it too: the closure reads traces, and
/// names no machine code.
pub trait Sources {
    /// Imports the trace of a window of torch.profiler as a run of its own; fails with the reason.
    fn read_trace(&self, trace: &Path) -> Result<Run, String>;

    /// Returns the functions at a place of machine code, the outermost first: several if some are
    /// inlined, none if they are unknown.
    fn functions_at(&self, _place: &CodePlace) -> Vec<String> {
        Vec::new()
    }
}

impl<F: Fn(&Path) -> Result<Run, String>> Sources for F {
    fn read_trace(&self, trace: &Path) -> Result<Run, String> {
        self(trace)
    }
}

/// Opens a run, after collecting it if needed. If the filesystem is read-only, opens what an
/// earlier collection has written, if anything. [`Run::uncollected_bytes`] then returns the number
/// of bytes that are missing.
pub fn open(
    path: &Path,
    sources: &dyn Sources,
    progress: &mut dyn FnMut(Progress),
) -> Result<Run, StoreError> {
    if needs_collecting(path)? {
        match collect(path, sources, progress) {
            Err(error @ StoreError::ReadOnly { .. }) => return open_uncollected(path, error),
            collected => collected?,
        };
    }
    Run::open(path)
}

/// Opens the tables of a run that cannot be collected now. Fails with `reason` if it was never
/// collected.
fn open_uncollected(path: &Path, reason: StoreError) -> Result<Run, StoreError> {
    match Run::open(path) {
        Err(StoreError::Uncollected { .. }) => Err(reason),
        run => {
            let mut run = run?;
            run.uncollected_bytes = uncollected::uncollected_bytes(path, run.manifest())?;
            Ok(run)
        }
    }
}

/// Collects every spool of a run that its tables do not contain completely.
///
/// A spool that is still being recorded is collected up to its current end, and again the next
/// time. A spool that is complete, or whose process has ended, is removed afterwards unless
/// `MAREY_KEEP_SPOOL` is set. Waits while another process collects the same run.
pub fn collect(
    run: &Path,
    sources: &dyn Sources,
    progress: &mut dyn FnMut(Progress),
) -> Result<Collected, StoreError> {
    if !run.join(SPOOL).is_dir() {
        // The run was collected completely before, or this is not a run.
        return Run::open(run).map(|_| Collected::default());
    }
    file_id::reject_links(run)?;
    let _lock = Lock::collecting(run)?;
    let mut collector = Collector::new(run)?;
    let Spools { uncollected, collected } = list_spools(run, &collector.manifest)?;
    collector.removable = collected;
    let total_bytes = uncollected.iter().map(|spool| spool.file.len_bytes).sum();
    let mut meter = Meter::new(total_bytes, progress);
    for spool in uncollected {
        collector.collect_spool(spool, sources, &mut meter)?;
        if collector.unpublished_bytes >= PUBLISH_BYTES {
            collector.publish()?;
        }
    }
    collector.publish()?;
    Ok(collector.collected)
}

/// The state of a collection.
struct Collector {
    manifest: Manifest,
    names: Names,
    args: ArgTexts,
    /// Losses by process.
    losses: BTreeMap<u32, Vec<(String, u64)>>,
    /// Thread ids of each process, in the order of their appearance.
    threads: BTreeMap<u32, Vec<u32>>,
    parts: Parts,
    collected: Collected,
    /// Bytes of spools that are collected but not yet published.
    unpublished_bytes: u64,
    /// Spools to remove after the next publish.
    removable: Vec<SpoolFile>,
}

impl Collector {
    fn new(path: &Path) -> Result<Self, StoreError> {
        let manifest = Manifest::read(path)?;
        let is_first = manifest.is_none();
        let manifest = manifest.unwrap_or_else(Manifest::new);
        let mut collector = Self {
            parts: Parts::merging_small(path, manifest.next.part),
            args: ArgTexts::with_first_id(manifest.next.args),
            manifest,
            names: Names::new(),
            losses: BTreeMap::new(),
            threads: BTreeMap::new(),
            collected: Collected::default(),
            unpublished_bytes: 0,
            removable: Vec::new(),
        };
        if !is_first {
            collector.load(&Run::open(path)?)?;
        }
        Ok(collector)
    }

    /// Loads names, threads and losses of earlier collections.
    fn load(&mut self, run: &Run) -> Result<(), StoreError> {
        self.names = Names::read(run)?;
        let threads = run.read(&stored::THREADS)?;
        let ids = threads.column(0).as_primitive::<UInt32Type>().values().iter();
        let processes = threads.column(1).as_primitive::<UInt32Type>().values();
        for (&process, &id) in processes.iter().zip(ids) {
            self.threads.entry(process).or_default().push(id);
        }
        let losses = run.read(&stored::LOSSES)?;
        let processes = losses.column(0).as_primitive::<UInt32Type>().values();
        let causes = losses.column(1).as_string::<i32>();
        let counts = losses.column(2).as_primitive::<Int64Type>().values();
        for (row, &process) in processes.iter().enumerate() {
            let loss = (causes.value(row).to_owned(), counts[row].cast_unsigned());
            self.losses.entry(process).or_default().push(loss);
        }
        Ok(())
    }

    /// Collects a spool. Its rows replace those of an earlier collection of the same spool.
    fn collect_spool(
        &mut self,
        mut spool: UncollectedSpool,
        sources: &dyn Sources,
        meter: &mut Meter,
    ) -> Result<(), StoreError> {
        let mut input = SpoolInput::open(&self.parts.run, &mut spool)?;
        let next_ids = &mut self.manifest.next;
        let process_id = spool.process_id.unwrap_or(next_ids.processes);
        next_ids.processes = next_ids.processes.max(process_id + 1);
        let thread_ids = self.threads.remove(&process_id).unwrap_or_default();
        let mut ids = SpoolIds { process_id, thread_ids, next_thread_id: next_ids.threads };
        let Self { names, args, parts, .. } = self;
        let mut result =
            spool::collect((&spool, &mut input), sources, &mut ids, names, args, parts, meter)?;
        let UncollectedSpool { name, file: spool_file, .. } = spool;
        self.manifest.next.threads = ids.next_thread_id;

        let is_whole = result.is_whole;
        self.unpublished_bytes += input.file.len_bytes;
        let torn_bytes = spool_file.len_bytes - result.read_bytes;
        if is_whole && result.broken.is_none() {
            self.removable.append(&mut result.windows);
            self.removable.extend(input.older_segments);
            self.removable.push(spool_file);
        }
        self.update_manifest(&name, &result, torn_bytes, is_whole);
        self.update_counts(name, result, torn_bytes);
        Ok(())
    }

    fn update_manifest(
        &mut self,
        name: &str,
        result: &SpoolResult,
        torn_bytes: u64,
        is_whole: bool,
    ) {
        let process_id = result.process.id;
        let manifest = &mut self.manifest;
        manifest.unlist(process_id);
        manifest.processes.retain(|process| process.id != process_id);
        manifest.processes.push(result.process.clone());
        manifest.processes.sort_by_key(|process| process.id);
        // If the name was reused, the older spool of that name no longer exists.
        let key = ring::spool_key(name);
        manifest.spools.retain(|spool| ring::spool_key(&spool.name) != key);
        manifest.spools.push(CollectedSpool {
            name: name.to_owned(),
            bytes: result.read_bytes,
            torn_bytes,
            is_whole,
            process_id,
        });
        let losses = result.losses.iter().map(|&(cause, count)| (cause.to_owned(), count));
        self.losses.insert(process_id, losses.collect());
    }

    fn update_counts(&mut self, name: String, result: SpoolResult, torn_bytes: u64) {
        self.collected.spools += 1;
        self.collected.events += result.events;
        self.collected.bytes += result.read_bytes;
        self.collected.torn_bytes += torn_bytes;
        if let Some(reason) = result.broken {
            self.collected.broken.push(BrokenSpool { name, lost_bytes: torn_bytes, reason });
        }
    }

    /// Publishes what was collected, then removes the spools that the tables contain completely.
    fn publish(&mut self) -> Result<(), StoreError> {
        let run = self.parts.run.clone();
        let next_ids = self.manifest.next;
        self.names.write_texts(next_ids.strings, &mut self.parts)?;
        let contexts = self.names.context_columns(next_ids.contexts);
        parts::write(&stored::CONTEXTS, contexts, None, &mut self.parts)?;
        let next_args_id = self.args.next_id();
        let args = std::mem::replace(&mut self.args, ArgTexts::with_first_id(next_args_id));
        args.finish(&mut self.parts)?;
        self.parts.write_small_parts()?;

        let manifest = &mut self.manifest;
        manifest.next.strings = self.names.text_count();
        manifest.next.contexts = self.names.context_count();
        manifest.next.args = next_args_id;
        manifest.next.part = self.parts.next_number();
        manifest.losses.clear();
        for (cause, count) in self.losses.values().flatten() {
            let sum = manifest.losses.entry(cause.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        let written = std::mem::take(&mut self.parts.written);
        for (part, process) in &written {
            manifest.list(part, *process);
        }
        manifest.publish(&run, written.into_iter().map(|(part, _)| part).collect())?;

        self.unpublished_bytes = 0;
        let removable = std::mem::take(&mut self.removable);
        if !keeps_spools() {
            removable.iter().try_for_each(uncollected::remove_spool)?;
        }
        Ok(())
    }
}
