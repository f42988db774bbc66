//! Trace-event JSON: what the writers of its dialects share.
//!
//! [`Document`] is the text of a file, [`Trace`] puts a run's rows on it: [`Places`] says where each
//! stands, [`rows`] and [`activity`] write what all dialects say alike.

mod about;
pub(crate) mod activity;
mod document;
mod places;
pub(crate) mod rows;
mod steps;

use std::collections::HashSet;
use std::io;

use marey_store::row::{
    AsyncSpan, Collective, Counter, Flow, GpuActivity, Instant, MemoryBlock, MemoryEvent, Metric,
    Row, Sample, Span,
};
use marey_store::{ProcessRow, Reader, StoreError};

pub(crate) use self::about::{About, device_properties};
pub(crate) use self::document::{Document, Object, object, quoted};
pub(crate) use self::places::{Place, Places};
pub(crate) use self::steps::Steps;
use crate::Format;
use crate::export::{ExportError, LeftOut};

/// A run on its way into a file.
pub(crate) struct Trace<'r, 'o> {
    pub(crate) reader: &'r Reader<'r>,
    pub(crate) places: &'r Places,
    pub(crate) document: Document<'o>,
    /// The moment that is zero in the file, in nanoseconds since 1970.
    pub(crate) base_nanos: i64,
}

/// An event, but for what only those of its phase have.
pub(crate) struct Event<'a> {
    pub(crate) phase: &'a str,
    pub(crate) category: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) place: Place,
    pub(crate) time_nanos: i64,
    pub(crate) duration_nanos: Option<i64>,
}

impl Trace<'_, '_> {
    /// Adds an event; `more` says the rest of it.
    pub(crate) fn add(&mut self, event: &Event, more: impl FnOnce(&mut Object)) -> io::Result<()> {
        let base_nanos = i128::from(self.base_nanos);
        self.document.event(event.phase, |object| {
            if let Some(category) = event.category {
                object.text("cat", category);
            }
            object.text("name", event.name);
            event.place.write(object);
            object.micros("ts", i128::from(event.time_nanos) - base_nanos);
            if let Some(nanos) = event.duration_nanos {
                object.micros("dur", nanos.into());
            }
            more(object);
        })
    }

    /// Says something of a process or thread.
    pub(crate) fn describe(
        &mut self,
        name: &str,
        place: Place,
        args: impl FnOnce(&mut Object),
    ) -> io::Result<()> {
        self.document.event("M", |event| {
            event.text("name", name);
            place.write(event);
            event.object("args", args);
        })
    }

    /// Writes a process's name, its rank, and its number in the system where the file has another one.
    pub(crate) fn name_process(&mut self, process: &ProcessRow, name: &str) -> io::Result<()> {
        let place = self.places.process(process.id);
        self.describe("process_name", place, |args| {
            args.text("name", name);
            if place.pid != process.pid {
                args.value("os_id", process.pid);
            }
            if let Some(rank) = process.rank {
                args.value("rank", rank);
            }
        })
    }
}

/// Whether a span says something of itself that is an argument in a file.
pub(crate) fn has_args(span: &Span) -> bool {
    let numbers = [span.external_id, span.correlation_id];
    span.is_open || span.args.text_id.is_some() || numbers.iter().any(Option::is_some)
}

/// Categories of Proton's, which say no more than that it is a span: kinds say it better.
pub(crate) const PROTON_CATEGORIES: [&str; 2] = ["scope", "metric"];

/// Times that are counted from a base are less: readers take later ones for times since 1970.
pub(crate) const MOST_NANOS: i64 = 1_000_000_000_000_000_000;

/// The first and the last moment of the processes, in nanoseconds since 1970.
pub(crate) fn extent_nanos(reader: &Reader) -> (i64, i64) {
    let extents = reader.processes().map(|process| (process.start_nanos, process.end_nanos));
    // A process without events has no times.
    let seen = extents.filter(|extent| *extent != (0, 0));
    seen.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))).unwrap_or_default()
}

/// That the reader sees something to make events of.
pub(crate) fn check_events(reader: &Reader, format: Format) -> Result<(), ExportError> {
    let has_events = has_rows::<Span>(reader)?
        || has_rows::<GpuActivity>(reader)?
        || has_rows::<AsyncSpan>(reader)?
        || has_rows::<Instant>(reader)?
        || has_rows::<Flow>(reader)?
        || has_rows::<Metric>(reader)?
        || has_rows::<MemoryEvent>(reader)?;
    has_events.then_some(()).ok_or(ExportError::Nothing { format, missing: "no events" })
}

fn has_rows<R: Row>(reader: &Reader) -> Result<bool, StoreError> {
    Ok(reader.rows::<R>()?.next().transpose()?.is_some())
}

/// How many ranks there are beside the first.
pub(crate) fn other_ranks(reader: &Reader) -> u64 {
    let ranks: HashSet<i64> = reader.processes().filter_map(|process| process.rank).collect();
    ranks.len().saturating_sub(1) as u64
}

/// Counts what trace events have no place for.
pub(crate) fn leave_out_tables(reader: &Reader, left_out: &mut LeftOut) -> Result<(), StoreError> {
    *left_out.entry("ranks").or_default() += other_ranks(reader);
    *left_out.entry("counters of devices").or_default() += row_count::<Counter>(reader)?;
    *left_out.entry("samples").or_default() += row_count::<Sample>(reader)?;
    *left_out.entry("blocks of memory").or_default() += row_count::<MemoryBlock>(reader)?;
    for row in reader.rows::<Collective>()? {
        // Those of a stream are told by the arguments of its activities.
        *left_out.entry("collectives").or_default() += u64::from(row?.stream.is_none());
    }
    Ok(())
}

fn row_count<R: Row>(reader: &Reader) -> Result<u64, StoreError> {
    reader.rows::<R>()?.try_fold(0, |count, row| row.map(|_| count + 1))
}
