//! Merges several runs into one, such as the runs of the ranks of a distributed job.
//!
//! Equal texts, contexts and arguments are unified. Processes and threads get new ids. All other
//! tables are copied part by part, and the ids in columns that
//! [refer](marey_model::table::Column::refers) to another table are replaced. Small parts are
//! merged ([`crate::small_parts`]).

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::UInt32Type;
use marey_model::context::NodeKind;
use marey_model::table::stored::{self, ARGS, CONTEXTS, PROCESSES, STRINGS, THREADS};
use marey_model::table::{Column, Table, Target};

use crate::arg_texts::ArgTexts;
use crate::names::{self, Names};
use crate::parts::{self, LazyPart, Parts};
use crate::read::Batches;
use crate::{Manifest, Part, Run, StoreError};

/// Merges runs into a new run in the folder `out`. Uncollected spools are left out.
pub fn merge(runs: &[Run], out: &Path) -> Result<(), StoreError> {
    let mut merger = Merger::new(out);
    runs.iter().try_for_each(|run| merger.add(run))?;
    merger.finish()
}

/// Merges runs one after the other, so that only one needs to be open at a time.
#[derive(Debug)]
pub struct Merger {
    parts: Parts,
    names: Names,
    args: ArgTexts,
    manifest: Manifest,
}

/// The new ids of a run's rows, by old id.
struct NewIds {
    strings: Vec<u32>,
    contexts: Vec<u32>,
    args: Vec<u32>,
    processes: OffsetIds,
    threads: OffsetIds,
}

/// Ids of rows that are appended in order: each grows by the same offset.
#[derive(Clone, Copy)]
struct OffsetIds {
    offset: u32,
    /// The number of rows in the run.
    count: u32,
}

impl Merger {
    /// Begins a run in a folder. [`Self::finish`] makes it a run.
    pub fn new(out: &Path) -> Self {
        Self {
            parts: Parts::merging_small(out, 0),
            names: Names::new(),
            args: ArgTexts::default(),
            manifest: Manifest::new(),
        }
    }

    /// Adds the collected rows of a run.
    pub fn add(&mut self, run: &Run) -> Result<(), StoreError> {
        let ids = self.assign_ids(run)?;
        for table in stored::ALL {
            if [&STRINGS, &CONTEXTS, &ARGS].iter().all(|unified| unified.name != table.name) {
                for part in run.parts(table) {
                    self.copy_part(run, part, table, &ids)?;
                }
            }
        }
        let (run_manifest, merged_manifest) = (run.manifest(), &mut self.manifest);
        let next_ids = &mut merged_manifest.next;
        let processes = next_ids.processes.checked_add(run_manifest.next.processes);
        let threads = next_ids.threads.checked_add(run_manifest.next.threads);
        (next_ids.processes, next_ids.threads) =
            processes.zip(threads).ok_or_else(|| unknown_ids(run, "manifest.json"))?;
        for process in &run_manifest.processes {
            let id = process.id + ids.processes.offset; // no overflow: below `next_ids.processes`
            merged_manifest.processes.push(crate::ProcessEntry { id, ..process.clone() });
        }
        for (cause, count) in &run_manifest.losses {
            let sum = merged_manifest.losses.entry(cause.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        merged_manifest.world_size = merged_manifest.world_size.max(run_manifest.world_size);
        Ok(())
    }

    fn assign_ids(&mut self, run: &Run) -> Result<NewIds, StoreError> {
        let strings = run.read(&STRINGS)?;
        check_ids(run, &STRINGS, &strings)?;
        let texts = strings.column(1).as_string::<i32>().iter();
        let strings: Vec<u32> =
            texts.map(|text| self.names.text_id(text.unwrap_or_default())).collect();
        let contexts = self.merge_contexts(run, &strings)?;
        let Manifest { next: merged_next, .. } = self.manifest;
        let run_next = run.manifest().next;
        Ok(NewIds {
            args: self.merge_args(run)?,
            strings,
            contexts,
            processes: OffsetIds { offset: merged_next.processes, count: run_next.processes },
            threads: OffsetIds { offset: merged_next.threads, count: run_next.threads },
        })
    }

    fn merge_contexts(&mut self, run: &Run, strings: &[u32]) -> Result<Vec<u32>, StoreError> {
        let rows = run.read(&CONTEXTS)?;
        check_ids(run, &CONTEXTS, &rows)?;
        let column = |name: &str| rows.column(CONTEXTS.position(name).expect("declared"));
        let parent_ids = column("parent_id").as_primitive::<UInt32Type>();
        let kinds = column("kind").as_string::<i32>();
        let name_ids = column("name_id").as_primitive::<UInt32Type>();
        let mut contexts = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let kind = NodeKind::ALL.into_iter().find(|kind| kind.as_str() == kinds.value(row));
            let name_id = strings.get(name_ids.value(row) as usize);
            let parent_id =
                parent_ids.is_valid(row).then(|| contexts.get(parent_ids.value(row) as usize));
            contexts.push(match (kind, name_id, parent_id) {
                (Some(NodeKind::Root), Some(_), None) => names::ROOT,
                (Some(kind), Some(&name_id), Some(Some(&parent_id))) => {
                    self.names.context_id(parent_id, kind, name_id)
                }
                _ => return Err(unknown_ids(run, "tables/contexts")),
            });
        }
        Ok(contexts)
    }

    fn merge_args(&mut self, run: &Run) -> Result<Vec<u32>, StoreError> {
        let mut ids = Vec::new();
        for part in run.parts(&ARGS) {
            for batch in Batches::open(run.path(), part, &ARGS)? {
                let batch = batch?;
                let old_ids = batch.column(0).as_primitive::<UInt32Type>().values();
                for (text, &id) in batch.column(1).as_string::<i32>().iter().zip(old_ids) {
                    if id as usize != ids.len() {
                        return Err(unknown_ids(run, part.name()));
                    }
                    ids.push(self.args.id(text.unwrap_or_default(), &mut self.parts)?);
                }
            }
        }
        Ok(ids)
    }

    fn copy_part(
        &mut self,
        run: &Run,
        part: &Part,
        table: &'static Table,
        ids: &NewIds,
    ) -> Result<(), StoreError> {
        let mut new_part = LazyPart::new(table);
        for batch in Batches::open(run.path(), part, table)? {
            let batch = batch?;
            let columns = table.columns.iter().zip(batch.columns());
            let columns = columns.map(|(column, array)| ids.replace_ids(table, column, array));
            let columns: Option<Vec<_>> = columns.collect();
            new_part
                .write(columns.ok_or_else(|| unknown_ids(run, part.name()))?, &mut self.parts)?;
        }
        new_part.finish(None, &mut self.parts)
    }

    /// Publishes the run.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let parts = &mut self.parts;
        let next_args_id = self.args.next_id();
        self.args.finish(parts)?;
        self.names.write_texts(0, parts)?;
        parts::write(&CONTEXTS, self.names.context_columns(0), None, parts)?;
        parts.write_small_parts()?;
        let next_ids = &mut self.manifest.next;
        next_ids.strings = self.names.text_count();
        next_ids.contexts = self.names.context_count();
        next_ids.args = next_args_id;
        next_ids.part = self.parts.next_number();
        for (part, owner_id) in &self.parts.written {
            self.manifest.list(part, *owner_id);
        }
        let written_parts = self.parts.written.into_iter().map(|(part, _)| part).collect();
        self.manifest.publish(&self.parts.run, written_parts)
    }
}

impl NewIds {
    /// Returns a column with new ids, or `None` if an old id has no row in the run.
    fn replace_ids(&self, table: &Table, column: &Column, array: &ArrayRef) -> Option<ArrayRef> {
        let is_id_of = |owner: &Table| table.name == owner.name && column.name == "id";
        let target = if is_id_of(&PROCESSES) {
            Some(Target::Processes)
        } else if is_id_of(&THREADS) {
            Some(Target::Threads)
        } else {
            column.target
        };
        let Some(target) = target else { return Some(Arc::clone(array)) };
        let old_ids = array.as_primitive::<UInt32Type>();
        let new_id = |id: u32| match target {
            Target::Strings => self.strings.get(id as usize).copied(),
            Target::Contexts => self.contexts.get(id as usize).copied(),
            Target::Args => self.args.get(id as usize).copied(),
            Target::Processes => self.processes.new_id(id),
            Target::Threads => self.threads.new_id(id),
        };
        let new_ids = old_ids.iter().map(|id| match id {
            Some(id) => new_id(id).map(Some),
            None => Some(None),
        });
        Some(Arc::new(new_ids.collect::<Option<UInt32Array>>()?))
    }
}

impl OffsetIds {
    /// Returns the new id of a row, `None` if the run has no such row.
    fn new_id(self, id: u32) -> Option<u32> {
        if id < self.count { id.checked_add(self.offset) } else { None }
    }
}

/// Checks that the ids of a table are the positions of its rows, which lookups rely on.
fn check_ids(run: &Run, table: &Table, rows: &RecordBatch) -> Result<(), StoreError> {
    let ids = rows.column(0).as_primitive::<UInt32Type>().values();
    let are_positions = ids.iter().zip(0..).all(|(&id, position)| id == position);
    let part = || format!("tables/{}", table.name);
    if are_positions { Ok(()) } else { Err(unknown_ids(run, &part())) }
}

fn unknown_ids(run: &Run, part: &str) -> StoreError {
    StoreError::part(run.path(), part, "it refers to ids that have no row in the run")
}
