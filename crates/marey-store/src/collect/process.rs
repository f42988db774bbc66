//! Writes the tables that describe a process: the process itself, its threads, sessions, phases,
//! losses, devices and metadata.

use marey_model::profile::Process;
use marey_model::table::stored;

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};

use super::clock::Clock;
use super::outline::Outline;
use crate::columns::{flags, ids, ints, maybe_ids, maybe_ints, maybe_reals, saturating_i64, texts};
use crate::parts::{self, Parts};
use crate::{ProcessEntry, StoreError};

/// Returns the process of a spool. If the first frame is torn, only `pid`, which comes from the
/// file name, is known.
pub(super) fn process_entry(
    outline: &Outline,
    clock: &Clock,
    pid: Option<u64>,
    id: u32,
) -> ProcessEntry {
    let unknown_process = || Process { pid: pid.unwrap_or_default(), ..Process::default() };
    let process = outline.process.clone().unwrap_or_else(unknown_process);
    let start_unix_nanos = process.start_unix_nanos.try_into().unwrap_or(i64::MAX);
    let last_unix_nanos = outline.last_nanos.map(|nanos| clock.unix_nanos(nanos, &mut 0));
    // JSON has only finite numbers.
    let overhead = outline.overhead.filter(|overhead| overhead.scope_nanos.is_finite());
    let first_and_last_clock = outline.clocks.first().into_iter().chain(outline.clocks.last());
    ProcessEntry {
        id,
        pid: process.pid.try_into().unwrap_or(u32::MAX),
        rank: process.rank.and_then(|rank| rank.try_into().ok()),
        host: process.host,
        argv: process.argv,
        start_unix_nanos,
        end_unix_nanos: last_unix_nanos.unwrap_or(start_unix_nanos),
        clocks: first_and_last_clock
            .map(|&(monotonic_nanos, unix_nanos)| [monotonic_nanos, unix_nanos])
            .collect(),
        is_complete: outline.is_complete,
        overhead: overhead.map(Into::into),
    }
}

/// Returns the losses of a process, by cause.
pub(super) fn losses(outline: &Outline) -> impl Iterator<Item = (&'static str, u64)> + Clone {
    let nonzero = outline.losses.iter().filter(|loss| loss.1 > 0);
    nonzero.map(|&(cause, count)| (cause.as_str(), count))
}

/// Writes the tables. `owner_id` is the process, if its rows may be replaced by another collection.
/// `thread_ids` has the ids of its threads by position.
pub(super) fn write(
    outline: &Outline,
    clock: &Clock,
    (process, owner_id): (&ProcessEntry, Option<u32>),
    thread_ids: &[u32],
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let process_id = process.id;
    let mut write = |table, columns| parts::write(table, columns, owner_id, parts);
    write(&stored::PROCESSES, process_columns(process, clock))?;
    write(&stored::THREADS, thread_columns(outline, thread_ids, process_id))?;
    write(&stored::SESSIONS, session_columns(outline, clock, process_id))?;
    write(&stored::PHASES, phase_columns(outline, clock, process_id))?;
    write(&stored::LOSSES, loss_columns(outline, process_id))?;
    write(&stored::DEVICES, device_columns(outline, process_id))?;
    write(&stored::METADATA, metadata_columns(outline, process_id))
}

fn device_columns(outline: &Outline, process_id: u32) -> Vec<ArrayRef> {
    let devices = outline.devices.values();
    vec![
        ids(devices.clone().map(|_| process_id)),
        ids(devices.clone().map(|device| device.number)),
        texts(devices.clone().map(|device| device.device_type.as_str())),
        texts(devices.clone().map(|device| device.name.as_str())),
        texts(devices.map(|device| device.properties.as_str())),
    ]
}

fn metadata_columns(outline: &Outline, process_id: u32) -> Vec<ArrayRef> {
    let notes = outline.notes.iter();
    vec![
        ids(notes.clone().map(|_| process_id)),
        maybe_ids(notes.clone().map(|_| None)),
        texts(notes.clone().map(|(key, _)| key.as_str())),
        texts(notes.map(|(_, value)| value.as_str())),
    ]
}

fn process_columns(process: &ProcessEntry, clock: &Clock) -> Vec<ArrayRef> {
    let argv = serde_json::Value::from(process.argv.as_slice()).to_string();
    let overhead = process.overhead;
    vec![
        ids([process.id].into_iter()),
        ints([process.pid.into()].into_iter()),
        maybe_ints([process.rank.map(i64::from)].into_iter()),
        texts([process.host.as_str()].into_iter()),
        texts([argv.as_str()].into_iter()),
        ints([process.start_unix_nanos].into_iter()),
        ints([process.end_unix_nanos].into_iter()),
        flags([process.is_complete].into_iter()),
        ints([clock.drift_nanos()].into_iter()),
        maybe_reals([overhead.map(|cost| cost.scope_nanos)].into_iter()),
        maybe_ints([overhead.map(|cost| saturating_i64(cost.recording_nanos))].into_iter()),
        maybe_ints([overhead.map(|cost| saturating_i64(cost.flushing_nanos))].into_iter()),
        Arc::new(StringArray::new_null(1)),
        maybe_ints([None].into_iter()),
    ]
}

fn thread_columns(outline: &Outline, ids_by_position: &[u32], process_id: u32) -> Vec<ArrayRef> {
    let mut threads: Vec<_> = outline.threads.iter().collect();
    threads.sort_unstable_by_key(|thread| thread.position);
    let rows = threads.iter();
    vec![
        ids(rows.clone().map(|thread| ids_by_position[thread.position as usize])),
        ids(rows.clone().map(|_| process_id)),
        ints(rows.clone().map(|thread| saturating_i64(thread.os_id))),
        texts(rows.map(|thread| thread.name.as_str())),
    ]
}

fn session_columns(outline: &Outline, clock: &Clock, process_id: u32) -> Vec<ArrayRef> {
    let sessions = outline.sessions.all().iter();
    let unix_nanos = |nanos| clock.unix_nanos(nanos, &mut 0);
    vec![
        ids(sessions.clone().map(|_| process_id)),
        ids(sessions.clone().map(|session| session.number)),
        texts(sessions.clone().map(|session| session.name.as_str())),
        ints(sessions.clone().map(|session| unix_nanos(session.start_nanos))),
        maybe_ints(sessions.map(|session| session.end_nanos.map(unix_nanos))),
    ]
}

/// A phase of a session, on the clock of the process.
struct PhaseRow {
    session: u32,
    phase: u32,
    start_nanos: i64,
    end_nanos: Option<i64>,
}

fn phase_columns(outline: &Outline, clock: &Clock, process_id: u32) -> Vec<ArrayRef> {
    let phases =
        outline.sessions.all().iter().flat_map(|session| {
            let ends = session.phases.iter().skip(1).map(|phase| Some(phase.1));
            let ends = ends.chain([session.end_nanos]);
            session.phases.iter().zip(ends).map(move |(&(phase, start_nanos), end_nanos)| {
                PhaseRow { session: session.number, phase, start_nanos, end_nanos }
            })
        });
    let phases: Vec<PhaseRow> = phases.collect();
    let rows = phases.iter();
    let unix_nanos = |nanos| clock.unix_nanos(nanos, &mut 0);
    vec![
        ids(rows.clone().map(|_| process_id)),
        ids(rows.clone().map(|row| row.session)),
        ids(rows.clone().map(|row| row.phase)),
        ints(rows.clone().map(|row| unix_nanos(row.start_nanos))),
        maybe_ints(rows.map(|row| row.end_nanos.map(unix_nanos))),
    ]
}

fn loss_columns(outline: &Outline, process_id: u32) -> Vec<ArrayRef> {
    let losses = losses(outline);
    vec![
        ids(losses.clone().map(|_| process_id)),
        texts(losses.clone().map(|(cause, _)| cause)),
        ints(losses.map(|(_, count)| saturating_i64(count))),
    ]
}
