//! Exports runs as Perfetto traces.
//!
//! Each kind of row has a track and an event type:
//!
//! | rows | track | form |
//! |---|---|---|
//! | spans | their thread | slices |
//! | device activities | their stream | slices with the call stack of the launch |
//! | async spans | one of their name | slices |
//! | instants | their thread or process | instants |
//! | flow points | their thread | instants with a flow id |
//! | metric values | a counter below their thread | counters |
//! | device counters | a counter of the device below their process | counters |
//! | samples | `samples` below their thread | instants with a call stack and its weight |
//! | events of allocators | `memory` and the device | instants, and counters of the sums |
//!
//! Samples are track events, because a `PerfSample` can hold neither floats nor the name of the
//! value. If slices overlap without nesting, the later one goes to an additional track.

mod annotations;
mod packets;
mod rows;
mod tracks;

use std::collections::HashMap;
use std::io::Write;

use marey_model::metric::MetricValue;
use marey_model::table::Table;
use marey_model::table::stored::{
    ASYNC_SPANS, COUNTERS, FLOWS, GPU_ACTIVITIES, INSTANTS, MEMORY_EVENTS, METRICS, SAMPLES, SPANS,
    STEPS,
};
use marey_store::row::{
    AsyncSpan, Counter, Flow, GpuActivity, Instant, MemoryEvent, Metric, Row, Sample, Span, Step,
};
use marey_store::{Reader, StoreError};

use self::packets::Packets;
use self::tracks::Tracks;
use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;

/// The tables that the format can hold.
const WRITTEN_TABLES: [&Table; 10] = [
    &SPANS,
    &ASYNC_SPANS,
    &GPU_ACTIVITIES,
    &INSTANTS,
    &FLOWS,
    &METRICS,
    &COUNTERS,
    &SAMPLES,
    &STEPS,
    &MEMORY_EVENTS,
];

/// Writes a run as a trace.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let Some(first_nanos) = first_nanos(reader)? else {
        let missing = "no events";
        return Err(ExportError::NoData { format: Format::Perfetto, missing });
    };
    let packets = Packets::begin(reader, out, first_nanos)?;
    let mut writer = Writer {
        reader,
        packets,
        tracks: Tracks::default(),
        launches: launches_by_correlation(reader)?,
        steps: step_numbers(reader)?,
    };
    writer.tracks.declare_all(&mut writer.packets)?;
    reader.spans_by_thread()?.for_each(|span| writer.write_span(span))?;
    writer.tracks.end_all(&mut writer.packets)?;
    for row in reader.rows::<GpuActivity>()? {
        writer.write_activity(&row?)?;
    }
    for row in reader.rows::<AsyncSpan>()? {
        writer.write_async_span(&row?)?;
    }
    writer.tracks.end_all(&mut writer.packets)?;
    for row in reader.rows::<Instant>()? {
        writer.write_instant(&row?)?;
    }
    for row in reader.rows::<Flow>()? {
        writer.write_flow(&row?)?;
    }
    for row in reader.rows::<Metric>()? {
        let row = row?;
        match row.value {
            MetricValue::Int(_) | MetricValue::Float(_) => writer.write_metric(&row)?,
            _ => *left_out.entry("values that are not numbers").or_default() += 1,
        }
    }
    for row in reader.rows::<Counter>()? {
        writer.write_counter(&row?)?;
    }
    for row in reader.rows::<Sample>()? {
        let row = row?;
        match row.value {
            MetricValue::Int(_) | MetricValue::Float(_) => writer.write_sample(&row)?,
            _ => *left_out.entry("values that are not numbers").or_default() += 1,
        }
    }
    for row in reader.rows::<MemoryEvent>()? {
        writer.write_memory_event(&row?)?;
    }
    leave_out_tables_except(&WRITTEN_TABLES, reader, left_out)?;
    Ok(())
}

/// Writes the rows of a run.
struct Writer<'a> {
    reader: &'a Reader<'a>,
    packets: Packets<'a>,
    tracks: Tracks,
    /// Launches by process and correlation id.
    launches: HashMap<(u32, u64), Launch>,
    /// Numbers of training steps, by thread, start and context.
    steps: HashMap<(u32, i64, u32), u32>,
}

/// The activities of a correlation id.
#[derive(Debug, Default)]
struct Launch {
    /// Number of activities that were not written yet.
    unwritten_activities: u64,
    /// Whether the start of the flow was written.
    has_flow_start: bool,
}

fn launches_by_correlation(reader: &Reader) -> Result<HashMap<(u32, u64), Launch>, StoreError> {
    let mut launches: HashMap<_, Launch> = HashMap::new();
    for row in reader.rows::<GpuActivity>()? {
        let row = row?;
        if let Some(correlation_id) = row.correlation_id {
            launches.entry((row.process_id, correlation_id)).or_default().unwritten_activities += 1;
        }
    }
    Ok(launches)
}

fn step_numbers(reader: &Reader) -> Result<HashMap<(u32, i64, u32), u32>, StoreError> {
    let number = |step: Step| ((step.thread_id, step.start_nanos, step.context_id), step.number);
    reader.rows::<Step>()?.map(|row| row.map(number)).collect()
}

/// Returns the first time in the run, in nanoseconds since 1970. `None` if there are no events.
fn first_nanos(reader: &Reader) -> Result<Option<i64>, StoreError> {
    let mut first = [
        first_row_nanos::<Span>(reader)?,
        first_row_nanos::<GpuActivity>(reader)?,
        first_row_nanos::<AsyncSpan>(reader)?,
        first_row_nanos::<Instant>(reader)?,
        first_row_nanos::<Flow>(reader)?,
        first_row_nanos::<Metric>(reader)?,
        first_row_nanos::<Counter>(reader)?,
        first_row_nanos::<MemoryEvent>(reader)?,
        None,
    ];
    // Samples are not sorted and may have no time.
    let mut has_samples = false;
    for row in reader.rows::<Sample>()? {
        first[8] = [first[8], row?.time_nanos].into_iter().flatten().min();
        has_samples = true;
    }
    Ok(first.into_iter().flatten().min().or(has_samples.then_some(0)))
}

fn first_row_nanos<R: Row>(reader: &Reader) -> Result<Option<i64>, StoreError> {
    Ok(reader.rows::<R>()?.next().transpose()?.map(|row| row.start_nanos()))
}
