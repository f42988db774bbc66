//! What call stacks weigh: what files without an axis of time are made of.
//!
//! A run of a sampling profiler has values by stack. In any other the weight of a stack is the time
//! that its innermost span has for itself; without spans, the time of devices by where it was
//! launched, with the name of the kernel as the innermost frame.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use marey_model::metric::MetricValue;
use marey_model::table::{Table, stored};
use marey_store::row::{ActivityKind, Field, GpuActivity, Sample, Span};
use marey_store::{Reader, StoreError};

use crate::Format;
use crate::export::{ExportError, LeftOut, leave_out_table};

/// The weights of a run.
#[derive(Debug)]
pub(crate) struct Weights {
    /// What is weighed: time, samples.
    pub(crate) name: String,
    /// Its unit as the run has it; may be empty.
    pub(crate) unit: String,
    /// By stack, for itself alone.
    pub(crate) by_stack: BTreeMap<Stack, Sum>,
    source: Source,
    /// Values by stack that are of another kind than what is weighed.
    other_values: u64,
}

/// What the weights of a run are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Samples,
    Spans,
    Activities,
}

impl Weights {
    /// Counts what the weights have no place for.
    pub(crate) fn leave_out(&self, reader: &Reader, left_out: &mut LeftOut) {
        leave_out(reader, left_out);
        if self.source == Source::Samples {
            leave_out_table(reader, &stored::SPANS, "spans", left_out);
        }
        if self.source != Source::Activities {
            leave_out_table(reader, &stored::GPU_ACTIVITIES, "activities of devices", left_out);
        }
        *left_out.entry("values of other kinds").or_default() += self.other_values;
    }
}

/// A call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stack {
    /// Its context; the root for one without frames.
    pub(crate) context_id: u32,
    /// The name of the kernel that this context launched, if the weight is that of a device.
    pub(crate) kernel_id: Option<u32>,
}

/// A stack of a process, and of a thread unless it ends on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) process_id: u32,
    pub(crate) thread_id: Option<u32>,
    pub(crate) stack: Stack,
}

/// What happened at a place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Spans that began.
    pub(crate) count: i64,
    /// Time without spans directly inside.
    pub(crate) self_nanos: i64,
    /// Time of devices.
    pub(crate) device_nanos: i64,
}

/// A sum, whole as long as what it is of is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sum {
    Whole(i64),
    Real(f64),
}

impl Sum {
    /// The value, if it is one number.
    pub(crate) fn of(value: &MetricValue) -> Option<Self> {
        match value {
            MetricValue::Int(value) => Some(Self::Whole(*value)),
            MetricValue::Float(value) => Some(Self::Real(*value)),
            MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) => None,
        }
    }

    pub(crate) const fn as_f64(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Whole(a), Self::Whole(b)) if a.checked_add(b).is_some() => Self::Whole(a + b),
            (a, b) => Self::Real(a.as_f64() + b.as_f64()),
        };
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
        }
    }
}

/// What the stacks of a run weigh: of values by stack the first whose unit is nanoseconds, otherwise
/// the first one.
pub(crate) fn weights(reader: &Reader, format: Format) -> Result<Weights, ExportError> {
    if let Some(name_id) = shown_value(reader)? {
        return sampled(reader, name_id);
    }
    let times = times(reader)?;
    let has_spans = times.values().any(|times| times.count > 0);
    let (source, name, nanos): (_, _, fn(&Times) -> i64) = if has_spans {
        (Source::Spans, "time", |times| times.self_nanos)
    } else {
        (Source::Activities, "gpu_time", |times| times.device_nanos)
    };
    let mut by_stack = BTreeMap::new();
    for (place, times) in times.iter().filter(|(_, times)| nanos(times) != 0) {
        let sum = by_stack.entry(place.stack).or_insert(Sum::Whole(0));
        sum.add(Sum::Whole(nanos(times)));
    }
    if by_stack.is_empty() {
        let missing = "no samples, no time in spans and none of devices";
        return Err(ExportError::Nothing { format, missing });
    }
    let other_values = rows(reader, &stored::SAMPLES);
    let (name, unit) = (name.to_owned(), "nanoseconds".to_owned());
    Ok(Weights { name, unit, by_stack, source, other_values })
}

/// The names of the values by stack that are numbers, in the order in which they come.
pub(crate) fn sampled_names(reader: &Reader) -> Result<Vec<u32>, StoreError> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for sample in reader.rows::<Sample>()? {
        let sample = sample?;
        if Sum::of(&sample.value).is_some() && seen.insert(sample.name_id) {
            names.push(sample.name_id);
        }
    }
    Ok(names)
}

/// A name such as `cpu (ns)` without its unit, and the unit; empty if there is none.
pub(crate) fn name_and_unit(name: &str) -> (&str, &str) {
    let parts = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    parts.unwrap_or((name, ""))
}

/// Whether a unit is the nanosecond.
pub(crate) fn is_nanos(unit: &str) -> bool {
    matches!(unit, "nanoseconds" | "nanosecond" | "ns")
}

/// What happened where: all that a profile of spans and activities of devices has.
pub(crate) fn times(reader: &Reader) -> Result<BTreeMap<Place, Times>, StoreError> {
    let window = reader.window();
    let is_all_time = (window.from_nanos, window.until_nanos) == (i64::MIN, i64::MAX);
    let mut times = if is_all_time { rolled_up(reader)? } else { of_spans(reader)? };
    for activity in reader.rows::<GpuActivity>()? {
        let activity = activity?;
        // Annotations are around kernels, and who waits does nothing.
        if matches!(activity.kind, ActivityKind::Annotation | ActivityKind::Sync) {
            continue;
        }
        let stack = Stack {
            context_id: activity.context_id.unwrap_or(0),
            kernel_id: Some(activity.name_id),
        };
        let place = Place { process_id: activity.process_id, thread_id: None, stack };
        let nanos = nanos_inside(reader, activity.start_nanos, activity.duration_nanos);
        let sum = &mut times.entry(place).or_default().device_nanos;
        *sum = sum.saturating_add(nanos);
    }
    Ok(times)
}

/// Counts the rows of tables that never have a place where only stacks and weights have one.
pub(crate) fn leave_out(reader: &Reader, left_out: &mut LeftOut) {
    let tables: [(&Table, &str); 10] = [
        (&stored::ASYNC_SPANS, "spans beside threads"),
        (&stored::INSTANTS, "instants"),
        (&stored::FLOWS, "points of flows"),
        (&stored::METRICS, "values of metrics"),
        (&stored::COUNTERS, "values of counters"),
        (&stored::STEPS, "numbers of steps"),
        (&stored::COLLECTIVES, "collectives"),
        (&stored::MEMORY_EVENTS, "events of memory"),
        (&stored::MEMORY_SNAPSHOTS, "blocks of memory"),
        (&stored::DEVICES, "devices"),
    ];
    for (table, name) in tables {
        leave_out_table(reader, table, name, left_out);
    }
}

fn rows(reader: &Reader, table: &Table) -> u64 {
    reader.run().parts(table).iter().map(marey_store::Part::rows).sum()
}

/// Times of a context alone in `.hatchet` files, which have others beside them.
const OWN_TIMES: [&str; 2] = ["wall_self (ns)", "time (ns)"];

fn shown_value(reader: &Reader) -> Result<Option<u32>, StoreError> {
    let names = sampled_names(reader)?;
    let own = names.iter().find(|name| OWN_TIMES.contains(&reader.text(**name)));
    let is_time = |name: &&u32| is_nanos(name_and_unit(reader.text(**name)).1);
    Ok(own.or_else(|| names.iter().find(is_time)).or_else(|| names.first()).copied())
}

/// The weights by the values of a name.
fn sampled(reader: &Reader, name_id: u32) -> Result<Weights, ExportError> {
    let mut by_stack = BTreeMap::new();
    let mut other_values = 0;
    for sample in reader.rows::<Sample>()? {
        let sample = sample?;
        match Sum::of(&sample.value).filter(|_| sample.name_id == name_id) {
            Some(value) => {
                let stack = Stack { context_id: sample.context_id, kernel_id: None };
                by_stack.entry(stack).or_insert(Sum::Whole(0)).add(value);
            }
            None => other_values += 1,
        }
    }
    let (name, unit) = name_and_unit(reader.text(name_id));
    let (name, unit) = (name.to_owned(), unit.to_owned());
    Ok(Weights { name, unit, by_stack, source: Source::Samples, other_values })
}

/// Of the whole recording: the sums that the view `flame` shows too.
fn rolled_up(reader: &Reader) -> Result<BTreeMap<Place, Times>, StoreError> {
    let batch = reader.run().read(&stored::ROLLUPS)?;
    let columns = |name| {
        let at = stored::ROLLUPS.position(name).expect("declared");
        &batch.columns()[at..]
    };
    let (buckets, threads) = (columns("bucket_nanos"), columns("thread_id"));
    let (contexts, counts) = (columns("context_id"), columns("count"));
    let selves = columns("self_nanos");
    let mut times: BTreeMap<Place, Times> = BTreeMap::new();
    for row in (0..batch.num_rows()).filter(|&row| i64::read(buckets, row) == 0) {
        if let Some(place) = place(reader, u32::read(threads, row), u32::read(contexts, row)) {
            let sums = times.entry(place).or_default();
            sums.count = sums.count.saturating_add(i64::read(counts, row));
            sums.self_nanos = sums.self_nanos.saturating_add(i64::read(selves, row));
        }
    }
    Ok(times)
}

/// Of a stretch of time: what of the spans lies in it.
fn of_spans(reader: &Reader) -> Result<BTreeMap<Place, Times>, StoreError> {
    let mut totals: HashMap<(u32, u32), (i64, i64)> = HashMap::new();
    for span in reader.rows::<Span>()? {
        let span = span?;
        let (count, nanos) = totals.entry((span.thread_id, span.context_id)).or_default();
        *count = count.saturating_add(1);
        let inside = nanos_inside(reader, span.start_nanos, span.duration_nanos);
        *nanos = nanos.saturating_add(inside);
    }
    // What is directly inside a span has a context directly below that of the span.
    let mut children: HashMap<(u32, u32), i64> = HashMap::new();
    for (&(thread, context), &(_, nanos)) in &totals {
        if let Some(parent) = reader.context(context).parent {
            let sum = children.entry((thread, parent)).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }
    let times = totals.into_iter().filter_map(|((thread, context), (count, nanos))| {
        let inside = children.get(&(thread, context)).copied().unwrap_or(0);
        let self_nanos = nanos.saturating_sub(inside).max(0);
        let times = Times { count, self_nanos, device_nanos: 0 };
        Some((place(reader, thread, context)?, times))
    });
    Ok(times.collect())
}

/// A context of a thread, if that is wanted.
fn place(reader: &Reader, thread: u32, context: u32) -> Option<Place> {
    let process_id = reader.thread(thread)?.process_id;
    let wanted = &reader.window().processes;
    if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&process_id)) {
        return None;
    }
    let stack = Stack { context_id: context, kernel_id: None };
    Some(Place { process_id, thread_id: Some(thread), stack })
}

/// How much of it lies in the window.
fn nanos_inside(reader: &Reader, start_nanos: i64, duration_nanos: i64) -> i64 {
    let window = reader.window();
    let end_nanos = start_nanos.saturating_add(duration_nanos).min(window.until_nanos);
    end_nanos.saturating_sub(start_nanos.max(window.from_nanos)).max(0)
}
