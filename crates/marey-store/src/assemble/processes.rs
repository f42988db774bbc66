//! Builds the tables of processes, threads and losses of an import.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, StringArray};
use marey_model::loss::LossCause;

use crate::ProcessEntry;
use crate::columns::{flags, ids, ints, maybe_ints, maybe_reals, saturating_i64, texts};

/// A process as an importer reads it.
#[derive(Clone, Debug, Default)]
pub struct NewProcess {
    /// System id, negative if the file has no real one.
    pub pid: i64,
    /// Rank in a distributed job.
    pub rank: Option<u32>,
    /// Host, empty if unknown.
    pub host: String,
    /// Command line, empty if unknown.
    pub argv: Vec<String>,
    /// Name in the file.
    pub name: Option<String>,
    /// Whether its recording ended properly.
    pub is_complete: bool,
}

/// A thread as an importer reads it.
#[derive(Clone, Debug)]
pub(super) struct NewThread {
    pub(super) process_id: u32,
    pub(super) os_id: i64,
    pub(super) name: String,
}

/// Returns the extents of all processes with a shift added. A process without events gets the
/// extent of all others together.
pub(super) fn shift_extents(
    extents_nanos: &[Option<(i64, i64)>],
    shift_nanos: i64,
) -> Vec<(i64, i64)> {
    let shift_extent = |(start_nanos, end_nanos): (i64, i64)| {
        (start_nanos.saturating_add(shift_nanos), end_nanos.saturating_add(shift_nanos))
    };
    let known_extents = extents_nanos.iter().flatten().copied().map(shift_extent);
    let whole_extent =
        known_extents.reduce(|whole, extent| (whole.0.min(extent.0), whole.1.max(extent.1)));
    let shifted = extents_nanos.iter().map(|extent| extent.map(shift_extent).or(whole_extent));
    shifted.map(Option::unwrap_or_default).collect()
}

impl NewProcess {
    pub(super) fn entry(&self, id: u32, extent_nanos: (i64, i64)) -> ProcessEntry {
        let (start_unix_nanos, end_unix_nanos) = extent_nanos;
        ProcessEntry {
            id,
            pid: self.pid.try_into().unwrap_or(0),
            rank: self.rank,
            host: self.host.clone(),
            argv: self.argv.clone(),
            start_unix_nanos,
            end_unix_nanos,
            clocks: Vec::new(),
            is_complete: self.is_complete,
            overhead: None,
        }
    }
}

pub(super) fn thread_columns(threads: &[NewThread]) -> Vec<ArrayRef> {
    let rows = threads.iter();
    vec![
        ids(0..threads.len() as u32),
        ids(rows.clone().map(|thread| thread.process_id)),
        ints(rows.clone().map(|thread| thread.os_id)),
        texts(rows.map(|thread| thread.name.as_str())),
    ]
}

pub(super) fn process_columns(
    processes: &[NewProcess],
    extents_nanos: &[(i64, i64)],
    shift_nanos: Option<i64>,
) -> Vec<ArrayRef> {
    let rows = processes.iter();
    let extents = extents_nanos.iter();
    let argvs: Vec<String> = rows
        .clone()
        .map(|process| serde_json::Value::from(process.argv.as_slice()).to_string())
        .collect();
    let names: StringArray = rows.clone().map(|process| process.name.as_deref()).collect();
    vec![
        ids(0..processes.len() as u32),
        ints(rows.clone().map(|process| process.pid)),
        maybe_ints(rows.clone().map(|process| process.rank.map(i64::from))),
        texts(rows.clone().map(|process| process.host.as_str())),
        texts(argvs.iter().map(String::as_str)),
        ints(extents.clone().map(|extent| extent.0)),
        ints(extents.map(|extent| extent.1)),
        flags(rows.clone().map(|process| process.is_complete)),
        ints(rows.clone().map(|_| 0)),
        maybe_reals(rows.clone().map(|_| None)),
        maybe_ints(rows.clone().map(|_| None)),
        maybe_ints(rows.clone().map(|_| None)),
        std::sync::Arc::new(names),
        maybe_ints(rows.map(|_| shift_nanos)),
    ]
}

pub(super) fn loss_columns(losses: &BTreeMap<(u32, LossCause), u64>) -> Vec<ArrayRef> {
    let rows = losses.iter();
    vec![
        ids(rows.clone().map(|row| row.0.0)),
        texts(rows.clone().map(|row| row.0.1.as_str())),
        ints(rows.map(|row| saturating_i64(*row.1))),
    ]
}
