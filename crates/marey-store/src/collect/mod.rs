//! Collection: from the spools of a run to its tables.
//!
//! Each spool is read twice ([`spool`]): once for what must be known first (clocks, names, threads:
//! [`outline`]), once for its spans and values ([`events`]). These are sorted by time, in a file
//! where there are many ([`crate::sort`]), so memory does not grow with the length of a recording. What is
//! written becomes part of the run at one stroke, after which the spool goes. Small spools that are whole
//! share their parts ([`crate::gather`]), which are never taken apart; one that may grow has its own.

mod about;
mod activities;
mod clock;
mod events;
mod inside;
mod meter;
mod outline;
mod rows;
mod sessions;
mod spool;
mod uncollected;
mod write;

pub use self::meter::Progress;
pub use self::uncollected::needs_collecting;

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt32Type};
use marey_model::run::SPOOL;
use marey_model::spool::SpoolError;
use marey_model::table::stored;

use self::meter::Meter;
use self::spool::{Ids, Source, Taken};
use self::uncollected::{Spool, Spools, spools};
use crate::arg_texts::ArgTexts;
use crate::environment::keeps_spools;
use crate::names::Names;
use crate::parts::{self, Parts};
use crate::{CollectedSpool, Lock, Manifest, Run, StoreError, own};

/// Spools are published together until they are this long, so that a run of many small ones is not
/// listed over and over.
const PUBLISH_BYTES: u64 = 64 << 20;

/// What a collection did.
#[derive(Debug, Default)]
pub struct Collected {
    /// Spools that were read.
    pub spools: u32,
    /// Spans and values in them.
    pub events: u64,
    /// Their bytes, as far as they were read.
    pub bytes: u64,
    /// Bytes at their ends that could not be read: frames that were not written whole, and all that
    /// follows a frame that contradicts the ones before it.
    pub torn_bytes: u64,
    /// The spools of which a frame contradicts the ones before it. They are kept.
    pub broken: Vec<BrokenSpool>,
}

/// A spool that could be read only in part, though no process died while it wrote it.
#[derive(Debug)]
pub struct BrokenSpool {
    /// Its file name.
    pub name: String,
    /// Bytes that could not be read.
    pub lost_bytes: u64,
    /// Why reading ended.
    pub reason: SpoolError,
}

/// Opens a run, and collects it first if that is needed. Where nothing can be written, what was
/// collected before is opened, if something was; [`Run::uncollected_bytes`] tells what it lacks.
pub fn open(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Run, StoreError> {
    if needs_collecting(path)? {
        match collect(path, progress) {
            Err(error @ StoreError::ReadOnly { .. }) => return open_as_it_is(path, error),
            collected => collected?,
        };
    }
    Run::open(path)
}

/// Opens a run that cannot be collected, for a reason that counts if it never was.
fn open_as_it_is(path: &Path, reason: StoreError) -> Result<Run, StoreError> {
    match Run::open(path) {
        Err(StoreError::Uncollected { .. }) => Err(reason),
        run => {
            let mut run = run?;
            run.uncollected_bytes = uncollected::bytes(path, run.manifest())?;
            Ok(run)
        }
    }
}

/// Brings every spool of a run that has not been collected whole into its tables.
///
/// A spool whose process still records is collected as far as it goes, and anew the next time. One
/// that is complete, or whose process is gone, is removed afterwards, unless `MAREY_KEEP_SPOOL` says
/// otherwise. Waits for another process that collects the same run.
pub fn collect(run: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Collected, StoreError> {
    if !run.join(SPOOL).is_dir() {
        // Collected long ago, or no run at all.
        return Run::open(run).map(|_| Collected::default());
    }
    own::check(run)?;
    let _lock = Lock::collecting(run)?;
    let mut collector = Collector::new(run)?;
    let Spools { uncollected, done } = spools(run, &collector.manifest)?;
    collector.removable = done;
    let total_bytes = uncollected.iter().map(|spool| spool.source.len_bytes).sum();
    let mut meter = Meter::new(total_bytes, progress);
    for spool in uncollected {
        collector.take(spool, &mut meter)?;
        if collector.waiting_bytes >= PUBLISH_BYTES {
            collector.publish()?;
        }
    }
    collector.publish()?;
    Ok(collector.collected)
}

/// A run that is being collected.
struct Collector {
    manifest: Manifest,
    names: Names,
    args: ArgTexts,
    /// What was lost, by process.
    losses: BTreeMap<u32, Vec<(String, u64)>>,
    /// Ids of the threads of each process, in the order in which they came.
    threads: BTreeMap<u32, Vec<u32>>,
    parts: Parts,
    collected: Collected,
    /// Bytes of spools that are not published yet.
    waiting_bytes: u64,
    /// Spools that go once they are published.
    removable: Vec<Source>,
}

impl Collector {
    fn new(path: &Path) -> Result<Self, StoreError> {
        let manifest = Manifest::read(path)?;
        let is_first = manifest.is_none();
        let manifest = manifest.unwrap_or_else(Manifest::new);
        let mut collector = Self {
            parts: Parts::gathering(path, manifest.next.part),
            args: ArgTexts::starting_at(manifest.next.args),
            manifest,
            names: Names::new(),
            losses: BTreeMap::new(),
            threads: BTreeMap::new(),
            collected: Collected::default(),
            waiting_bytes: 0,
            removable: Vec::new(),
        };
        if !is_first {
            collector.read(&Run::open(path)?)?;
        }
        Ok(collector)
    }

    /// Takes over what earlier collections have written.
    fn read(&mut self, run: &Run) -> Result<(), StoreError> {
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

    /// Collects a spool, in place of what was collected of it before.
    fn take(&mut self, spool: Spool, meter: &mut Meter) -> Result<(), StoreError> {
        let Spool { name, source, process_id, is_over, .. } = spool;
        let next = &mut self.manifest.next;
        let process = process_id.unwrap_or(next.processes);
        next.processes = next.processes.max(process + 1);
        let threads = self.threads.remove(&process).unwrap_or_default();
        let mut ids = Ids { process, threads, next_thread: next.threads };
        let Self { names, args, parts, .. } = self;
        let taken = spool::collect(&source, is_over, &mut ids, names, args, parts, meter)?;
        self.manifest.next.threads = ids.next_thread;

        let is_whole = taken.is_whole;
        self.waiting_bytes += source.len_bytes;
        let torn_bytes = source.len_bytes - taken.read_bytes;
        if is_whole && taken.broken.is_none() {
            self.removable.push(source);
        }
        self.list(&name, &taken, torn_bytes, is_whole);
        self.count(name, taken, torn_bytes);
        Ok(())
    }

    fn list(&mut self, name: &str, taken: &Taken, torn_bytes: u64, is_whole: bool) {
        let id = taken.process.id;
        let manifest = &mut self.manifest;
        manifest.unlist(id);
        manifest.processes.retain(|process| process.id != id);
        manifest.processes.push(taken.process.clone());
        manifest.processes.sort_by_key(|process| process.id);
        // Of a name that is used again, the older spool is gone.
        manifest.spools.retain(|spool| spool.name != name);
        manifest.spools.push(CollectedSpool {
            name: name.to_owned(),
            bytes: taken.read_bytes,
            torn_bytes,
            is_whole,
            process_id: id,
        });
        let losses = taken.losses.iter().map(|&(cause, count)| (cause.to_owned(), count));
        self.losses.insert(id, losses.collect());
    }

    fn count(&mut self, name: String, taken: Taken, torn_bytes: u64) {
        self.collected.spools += 1;
        self.collected.events += taken.events;
        self.collected.bytes += taken.read_bytes;
        self.collected.torn_bytes += torn_bytes;
        if let Some(reason) = taken.broken {
            self.collected.broken.push(BrokenSpool { name, lost_bytes: torn_bytes, reason });
        }
    }

    /// Makes what was collected part of the run, and removes what is in its tables now.
    fn publish(&mut self) -> Result<(), StoreError> {
        let run = self.parts.run.clone();
        let next = self.manifest.next;
        self.names.write_texts(next.strings, &mut self.parts)?;
        let contexts = self.names.context_columns(next.contexts);
        parts::write(&stored::CONTEXTS, contexts, None, &mut self.parts)?;
        let next_args = self.args.next();
        let args = std::mem::replace(&mut self.args, ArgTexts::starting_at(next_args));
        args.finish(&mut self.parts)?;
        self.parts.write_gathered()?;

        let manifest = &mut self.manifest;
        manifest.next.strings = self.names.text_count();
        manifest.next.contexts = self.names.context_count();
        manifest.next.args = next_args;
        manifest.next.part = self.parts.next();
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

        self.waiting_bytes = 0;
        let removable = std::mem::take(&mut self.removable);
        if !keeps_spools() {
            removable.iter().try_for_each(uncollected::remove)?;
        }
        Ok(())
    }
}
