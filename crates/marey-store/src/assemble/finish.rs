//! The end of an assembly: nests the slices, writes all tables, and publishes or opens the run.

use std::collections::BTreeMap;
use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use marey_model::loss::LossCause;
use marey_model::table::stored;

use super::Assembler;
use super::launches::Launches;
use super::nest::Nested;
use super::plain_rows::PlainRows;
use super::processes::{loss_columns, process_columns, shift_extents, thread_columns};
use crate::parts::{self, Parts, RowPart};
use crate::row::{GpuActivity, Row, Span};
use crate::sort::Sorter;
use crate::{Manifest, Run, StoreError};

/// Number of batches that may wait for the writing thread.
const MAX_WAITING_BATCHES: usize = 3;

/// The result of an assembly.
#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// Event rows in the run.
    pub events: u64,
    /// Losses by cause.
    pub losses: BTreeMap<LossCause, u64>,
}

impl Assembler {
    /// Publishes the run. `shift_nanos`, the alignment with other ranks, is added to every
    /// timestamp. The files are not fsynced, so the source must be kept.
    ///
    /// # Panics
    ///
    /// If the run is a temporary one ([`Self::temporary`]), which has no folder.
    pub fn finish(mut self, shift_nanos: Option<i64>) -> Result<Assembled, StoreError> {
        assert!(!self.parts.is_temporary(), "a temporary run is opened, not finished");
        let (assembled, manifest) = self.write_tables(shift_nanos)?;
        let written = self.parts.written.into_iter().map(|(part, _)| part).collect();
        manifest.publish_with(&self.parts.run, written, false)?;
        Ok(assembled)
    }

    /// Opens a temporary run. Messages call it `path`, the path of its source.
    pub fn open(
        mut self,
        shift_nanos: Option<i64>,
        path: &Path,
    ) -> Result<(Run, Assembled), StoreError> {
        let (assembled, manifest) = self.write_tables(shift_nanos)?;
        let parts = self.parts.written.iter().map(|(part, _)| part);
        Ok((Run::from_parts(path, manifest, parts)?, assembled))
    }

    /// Writes all tables. Returns the manifest that lists them.
    fn write_tables(
        &mut self,
        shift_nanos: Option<i64>,
    ) -> Result<(Assembled, Manifest), StoreError> {
        let total_shift_nanos = self.base_nanos.saturating_add(shift_nanos.unwrap_or(0));
        let events = self.event_count();
        let next_args_id = self.args.next_id();
        self.write_events(total_shift_nanos)?;
        let parts = &mut self.parts;
        let threads = thread_columns(&self.threads);
        parts::write(&stored::THREADS, threads, None, parts)?;
        let extents = shift_extents(&self.extents, total_shift_nanos);
        let columns = process_columns(&self.processes, &extents, shift_nanos);
        parts::write(&stored::PROCESSES, columns, None, parts)?;
        parts::write(&stored::LOSSES, loss_columns(&self.losses), None, parts)?;
        let losses = self.losses_by_cause();
        let manifest = self.manifest(&extents, &losses, next_args_id);
        Ok((Assembled { events, losses }, manifest))
    }

    /// Returns the losses of all processes.
    fn losses_by_cause(&self) -> BTreeMap<LossCause, u64> {
        let mut losses = BTreeMap::new();
        for (&(_, cause), &count) in &self.losses {
            let sum: &mut u64 = losses.entry(cause).or_default();
            *sum = sum.saturating_add(count);
        }
        losses
    }

    /// Returns the manifest that lists the written parts.
    fn manifest(
        &self,
        extents_nanos: &[(i64, i64)],
        losses: &BTreeMap<LossCause, u64>,
        next_args_id: u32,
    ) -> Manifest {
        let mut manifest = Manifest::new();
        manifest.next.strings = self.names.text_count();
        manifest.next.contexts = self.names.context_count();
        manifest.next.threads = self.threads.len() as u32;
        manifest.next.processes = self.processes.len() as u32;
        manifest.next.args = next_args_id;
        manifest.next.part = self.parts.next_number();
        let processes = self.processes.iter().zip(extents_nanos).zip(0..);
        manifest.processes =
            processes.map(|((process, &extent), id)| process.entry(id, extent)).collect();
        manifest.losses =
            losses.iter().map(|(cause, &count)| (cause.as_str().to_owned(), count)).collect();
        for (part, owner_id) in &self.parts.written {
            manifest.list(part, *owner_id);
        }
        manifest
    }

    /// Nests the slices while a second thread writes their spans. Then both threads write the rest.
    fn write_events(&mut self, shift_nanos: i64) -> Result<(), StoreError> {
        let spill_file = self.files.spill_file.clone();
        let plain_rows = mem::replace(&mut self.plain_rows, PlainRows::new(&spill_file));
        let activities = mem::replace(&mut self.gpu_activities, Sorter::new(&spill_file));
        let mut parts = self.parts.for_thread();
        let thread_parts = &mut parts;
        let unmatched_counts = thread::scope(|scope| {
            let (span_sender, batches) = sync_channel(MAX_WAITING_BATCHES);
            let (launches_sender, launches) = sync_channel(1);
            let writer_thread = scope.spawn(move || {
                write_spans(batches, thread_parts)?;
                // If no launches arrive, nesting has failed, and reports that itself.
                let launches = launches.recv().unwrap_or_default();
                write_gpu_activities(activities, &launches, shift_nanos, thread_parts)
            });
            let Nested { late_spans, steps, node_sums, launches, memory_points } =
                self.nest(shift_nanos, span_sender)?;
            drop(launches_sender.send(launches)); // the receiver hangs up only if it failed
            write_sorted(late_spans, 0, &mut self.parts)?;
            write_sorted(steps, 0, &mut self.parts)?;
            self.write_texts()?;
            self.write_sums(node_sums, shift_nanos)?;
            plain_rows.write(shift_nanos, memory_points, &mut self.parts)?;
            writer_thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        for (process_id, count) in unmatched_counts {
            self.lose(process_id, LossCause::UnmatchedActivity, count);
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
}

/// Writes spans as they arrive.
fn write_spans(batches: Receiver<Vec<Span>>, parts: &mut Parts) -> Result<(), StoreError> {
    let mut part = RowPart::new(0);
    for spans in batches {
        spans.iter().try_for_each(|span| part.push(span, parts))?;
    }
    part.finish(parts)
}

/// Writes activities with the contexts that launched them. Returns, for each process, the number of
/// activities that have a correlation id without a known launch.
fn write_gpu_activities(
    activities: Sorter<GpuActivity>,
    launches: &Launches,
    shift_nanos: i64,
    parts: &mut Parts,
) -> Result<BTreeMap<u32, u64>, StoreError> {
    let mut part = RowPart::new(shift_nanos);
    let mut unmatched_counts = BTreeMap::new();
    activities.for_each(|mut row| {
        row.context_id = row.context_id.or_else(|| launches.context(&row));
        if row.context_id.is_none() && row.correlation_id.is_some() {
            *unmatched_counts.entry(row.process_id).or_default() += 1;
        }
        part.push(&row, parts)
    })?;
    part.finish(parts)?;
    Ok(unmatched_counts)
}

/// Writes rows in sorted order.
pub(super) fn write_sorted<R: Row>(
    rows: Sorter<R>,
    shift_nanos: i64,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = RowPart::new(shift_nanos);
    rows.for_each(|row| part.push(&row, parts))?;
    part.finish(parts)
}
