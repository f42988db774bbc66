//! Trace-event JSON: the parts that the writers of its dialects, Kineto and Chrome trace, share.
//!
//! [`TraceWriter`] writes the rows of a run to the text of a file. [`Tracks`] maps rows to process
//! and thread ids. [`rows`] and [`activity`] write the rows that are the same in all dialects.

pub(crate) mod activity;
mod metadata;
pub(crate) mod rows;
mod steps;
mod tracks;

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;

use marey_model::json::Object;
use marey_model::table::Table;
use marey_model::table::stored::{
    ASYNC_SPANS, COLLECTIVES, DEVICES, FLOWS, GPU_ACTIVITIES, INSTANTS, MEMORY_EVENTS, METADATA,
    METRICS, SPANS, STEPS,
};
use marey_model::trace_json::Document;

use marey_store::row::{
    AsyncSpan, Collective, CollectiveState, Flow, GpuActivity, Instant, MemoryEvent, Metric, Row,
    Span,
};
use marey_store::{ProcessRow, Reader, StoreError};
use serde_json::value::RawValue;

pub(crate) use self::metadata::{RunMetadata, device_properties};
pub(crate) use self::steps::Steps;
pub(crate) use self::tracks::{Track, Tracks};
use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;

/// A run that is being written.
pub(crate) struct TraceWriter<'r, 'o> {
    pub(crate) reader: &'r Reader<'r>,
    pub(crate) tracks: &'r Tracks,
    pub(crate) document: Document<'o>,
    /// The time that is zero in the file, in nanoseconds since 1970.
    pub(crate) base_nanos: i64,
}

/// The members that all events have.
pub(crate) struct Event<'a> {
    pub(crate) phase: &'a str,
    pub(crate) category: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) track: Track,
    pub(crate) time_nanos: i64,
    pub(crate) duration_nanos: Option<i64>,
}

impl TraceWriter<'_, '_> {
    /// Writes an event. `fill` adds further members.
    pub(crate) fn add(&mut self, event: &Event, fill: impl FnOnce(&mut Object)) -> io::Result<()> {
        let base_nanos = i128::from(self.base_nanos);
        self.document.event(|object| {
            object.text("ph", event.phase);
            if let Some(category) = event.category {
                object.text("cat", category);
            }
            object.text("name", event.name);
            event.track.write(object);
            object.micros("ts", i128::from(event.time_nanos) - base_nanos);
            if let Some(nanos) = event.duration_nanos {
                object.micros("dur", nanos.into());
            }
            fill(object);
        })
    }

    /// Writes a metadata event of a process or thread.
    pub(crate) fn describe(
        &mut self,
        name: &str,
        track: Track,
        args: impl FnOnce(&mut Object),
    ) -> io::Result<()> {
        self.document.event(|event| {
            event.text("ph", "M");
            event.text("name", name);
            track.write(event);
            event.object("args", args);
        })
    }

    /// Writes the name and rank of a process, and its id in the operating system if the file has
    /// another one.
    pub(crate) fn name_process(&mut self, process: &ProcessRow, name: &str) -> io::Result<()> {
        let track = self.tracks.process(process.id);
        self.describe("process_name", track, |args| {
            args.text("name", name);
            if track.pid != process.pid {
                args.value("os_id", process.pid);
            }
            write_optional(args, "rank", process.rank);
        })
    }
}

/// Adds a member that has a value.
pub(crate) fn write_optional(object: &mut Object, key: &'static str, value: Option<impl Display>) {
    if let Some(value) = value {
        object.value(key, value);
    }
}

/// Adds the object `args` with the members of the JSON object `overrides`, and those that `fill`
/// adds unless `overrides` has them.
pub(crate) fn write_args(event: &mut Object, overrides: &str, fill: impl FnOnce(&mut Object)) {
    event.object_without("args", &|key| has_member(overrides, key), |args| {
        fill(args);
        args.members(overrides);
    });
}

/// Whether a JSON object has a member.
fn has_member(object: &str, key: &str) -> bool {
    let is_quoted = |(position, _): (usize, &str)| {
        object[..position].ends_with('"') && object[position + key.len()..].starts_with('"')
    };
    // Few objects contain the quoted key, and only these are parsed.
    object.match_indices(key).any(is_quoted)
        && serde_json::from_str::<HashMap<String, &RawValue>>(object)
            .is_ok_and(|members| members.contains_key(key))
}

/// Whether a span has arguments in the file.
pub(crate) fn has_args(span: &Span) -> bool {
    let numbers = [span.external_id, span.correlation_id];
    span.is_open || span.args.text_id.is_some() || numbers.iter().any(Option::is_some)
}

/// Proton's categories. They state only that an event is a span, so the kind replaces them.
pub(crate) const PROTON_CATEGORIES: [&str; 2] = ["scope", "metric"];

/// The upper limit of times relative to a base. Readers treat larger numbers as times since 1970.
pub(crate) const MAX_RELATIVE_NANOS: i64 = 1_000_000_000_000_000_000;

/// Returns the first and last time of the processes, in nanoseconds since 1970.
pub(crate) fn time_range_nanos(reader: &Reader) -> (i64, i64) {
    let time_ranges = reader.processes().map(|process| (process.start_nanos, process.end_nanos));
    // A process without events has no times.
    let with_events = time_ranges.filter(|range| *range != (0, 0));
    with_events
        .reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))
        .unwrap_or_default()
}

/// Fails if the reader sees no rows that become events.
pub(crate) fn check_events(reader: &Reader, format: Format) -> Result<(), ExportError> {
    let has_events = has_rows::<Span>(reader)?
        || has_rows::<GpuActivity>(reader)?
        || has_rows::<AsyncSpan>(reader)?
        || has_rows::<Instant>(reader)?
        || has_rows::<Flow>(reader)?
        || has_rows::<Metric>(reader)?
        || has_rows::<MemoryEvent>(reader)?;
    has_events.then_some(()).ok_or(ExportError::NoData { format, missing: "no events" })
}

fn has_rows<R: Row>(reader: &Reader) -> Result<bool, StoreError> {
    Ok(reader.rows::<R>()?.next().transpose()?.is_some())
}

/// Returns the number of ranks besides the first.
pub(crate) fn other_ranks(reader: &Reader) -> u64 {
    let ranks: HashSet<i64> = reader.processes().filter_map(|process| process.rank).collect();
    ranks.len().saturating_sub(1) as u64
}

/// The tables that trace events can hold.
const WRITTEN_TABLES: [&Table; 11] = [
    &SPANS,
    &ASYNC_SPANS,
    &GPU_ACTIVITIES,
    &INSTANTS,
    &FLOWS,
    &METRICS,
    &STEPS,
    &COLLECTIVES,
    &MEMORY_EVENTS,
    &DEVICES,
    &METADATA,
];

/// Counts the rows that trace events cannot hold.
pub(crate) fn leave_out(reader: &Reader, left_out: &mut LeftOut) -> Result<(), StoreError> {
    *left_out.entry("ranks").or_default() += other_ranks(reader);
    leave_out_tables_except(&WRITTEN_TABLES, reader, left_out)?;
    for row in reader.rows::<Collective>()? {
        // A collective on a stream is written as arguments of its activity, and the duration of a
        // call is that of its span, which has the arguments; neither is lost.
        let row = row?;
        let is_call = row.state == CollectiveState::Scheduled && row.duration_nanos.is_some();
        *left_out.entry("collectives").or_default() += u64::from(row.stream.is_none() && !is_call);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use marey_model::json::object;

    #[test]
    fn overrides_replace_members() {
        let mut text = Vec::new();
        object(&mut text, |object| {
            let overrides = r#"{"b":"device","stream":[{"c":1}]}"#;
            write_args(object, overrides, |args| {
                args.value("device", 1);
                args.value("stream", 2);
                args.value("c", 3);
                args.text("b", "4");
            });
            object.value("b", 5);
        });
        let expected = r#"{"args":{"device":1,"c":3,"b":"device","stream":[{"c":1}]},"b":5}"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
