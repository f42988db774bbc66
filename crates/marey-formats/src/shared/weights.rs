//! Computes the weights of call stacks, for formats without a time axis: collapsed stacks, flame
//! graphs, pprof and others.
//!
//! The run of a sampling profiler has values by stack. In other runs the weight of a stack is the
//! self time of its innermost span. A run without spans has device times by the stack that launched
//! the work, with the kernel as the innermost frame.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use marey_model::metric::MetricValue;
use marey_model::table::Table;
use marey_model::table::stored::{GPU_ACTIVITIES, ROLLUPS, SAMPLES, SPANS};
use marey_store::row::{ActivityKind, Field, GpuActivity, Sample, Span};
use marey_store::{Reader, StoreError};

use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;

/// The weights of the stacks of a run.
#[derive(Debug)]
pub(crate) struct Weights {
    /// The name of the weight, such as time or samples.
    pub(crate) name: String,
    /// The unit as the run has it. It may be empty.
    pub(crate) unit: String,
    /// The exclusive weight of each stack.
    pub(crate) by_stack: BTreeMap<Stack, Sum>,
    source: WeightSource,
    /// Number of samples that measure something else than the weight.
    pub(crate) other_value_count: u64,
}

/// The table that the weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeightSource {
    Samples,
    Spans,
    Activities,
}

impl Weights {
    /// Counts the rows that the weights leave out.
    pub(crate) fn leave_out(
        &self,
        reader: &Reader,
        left_out: &mut LeftOut,
    ) -> Result<(), StoreError> {
        let written: &[&Table] = match self.source {
            WeightSource::Samples => &[&SAMPLES],
            WeightSource::Spans => &[&SAMPLES, &SPANS],
            WeightSource::Activities => &[&SAMPLES, &SPANS, &GPU_ACTIVITIES],
        };
        *left_out.entry("values of other kinds").or_default() += self.other_value_count;
        leave_out_tables_except(written, reader, left_out)
    }
}

/// A call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stack {
    /// The innermost context, or the root for an empty stack.
    pub(crate) context_id: u32,
    /// The name of the kernel that the context launched, if the weight is device time.
    pub(crate) kernel_id: Option<u32>,
}

/// A stack of a process, and of a thread unless it ends on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StackKey {
    pub(crate) process_id: u32,
    pub(crate) thread_id: Option<u32>,
    pub(crate) stack: Stack,
}

/// The times of a stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StackTimes {
    /// Number of spans that began.
    pub(crate) count: i64,
    /// Time of spans without the spans directly inside them.
    pub(crate) self_nanos: i64,
    /// Device time.
    pub(crate) device_nanos: i64,
}

/// A sum that stays an integer as long as its summands are integers and it fits into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sum {
    Int(i64),
    Float(f64),
}

impl Sum {
    /// Returns the value if it is a single number.
    pub(crate) fn from_metric(value: &MetricValue) -> Option<Self> {
        match value {
            MetricValue::Int(value) => Some(Self::Int(*value)),
            MetricValue::Float(value) => Some(Self::Float(*value)),
            MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) => None,
        }
    }

    pub(crate) const fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Int(a), Self::Int(b)) if a.checked_add(b).is_some() => Self::Int(a + b),
            (a, b) => Self::Float(a.as_f64() + b.as_f64()),
        };
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

/// Returns the weights of the stacks of a run: its sampled values if it has any, or else times.
pub(crate) fn stack_weights(reader: &Reader, format: Format) -> Result<Weights, ExportError> {
    if let Some(name_id) = select_sample_name(reader)? {
        return weights_from_samples(reader, name_id);
    }
    let times = times_by_stack(reader)?;
    let has_spans = times.values().any(|times| times.count > 0);
    let (source, name, nanos): (_, _, fn(&StackTimes) -> i64) = if has_spans {
        (WeightSource::Spans, "time", |times| times.self_nanos)
    } else {
        (WeightSource::Activities, "gpu_time", |times| times.device_nanos)
    };
    let mut by_stack = BTreeMap::new();
    for (stack_key, times) in times.iter().filter(|(_, times)| nanos(times) != 0) {
        let sum = by_stack.entry(stack_key.stack).or_insert(Sum::Int(0));
        sum.add(Sum::Int(nanos(times)));
    }
    if by_stack.is_empty() {
        let missing = "no samples, no time in spans and none of devices";
        return Err(ExportError::NoData { format, missing });
    }
    let other_value_count = reader.count(&SAMPLES)?;
    let (name, unit) = (name.to_owned(), "nanoseconds".to_owned());
    Ok(Weights { name, unit, by_stack, source, other_value_count })
}

/// Returns the names of the values by stack that are numbers, in order of their first row.
pub(crate) fn numeric_sample_names(reader: &Reader) -> Result<Vec<u32>, StoreError> {
    let (mut name_ids, mut seen_name_ids) = (Vec::new(), HashSet::new());
    for sample in reader.rows::<Sample>()? {
        let sample = sample?;
        if Sum::from_metric(&sample.value).is_some() && seen_name_ids.insert(sample.name_id) {
            name_ids.push(sample.name_id);
        }
    }
    Ok(name_ids)
}

/// Splits a name such as `cpu (ns)` into name and unit. The unit is empty if there is none.
pub(crate) fn split_unit(name: &str) -> (&str, &str) {
    let parts = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    parts.unwrap_or((name, ""))
}

/// Whether a unit is the nanosecond.
pub(crate) fn is_nanosecond_unit(unit: &str) -> bool {
    matches!(unit, "nanoseconds" | "nanosecond" | "ns")
}

/// Returns the times of each stack, from spans and device activities.
pub(crate) fn times_by_stack(
    reader: &Reader,
) -> Result<BTreeMap<StackKey, StackTimes>, StoreError> {
    let selection = reader.selection();
    let is_unbounded = (selection.from_nanos, selection.until_nanos) == (i64::MIN, i64::MAX);
    let mut times =
        if is_unbounded { times_from_rollup(reader)? } else { times_from_spans(reader)? };
    for activity in reader.rows::<GpuActivity>()? {
        let activity = activity?;
        // Annotations enclose kernels, which count already, and waits are no work.
        if matches!(activity.kind, ActivityKind::Annotation | ActivityKind::Sync) {
            continue;
        }
        let stack = Stack {
            context_id: activity.context_id.unwrap_or(0),
            kernel_id: Some(activity.name_id),
        };
        let stack_key = StackKey { process_id: activity.process_id, thread_id: None, stack };
        let nanos = selected_nanos(reader, activity.start_nanos, activity.duration_nanos);
        let sum = &mut times.entry(stack_key).or_default().device_nanos;
        *sum = sum.saturating_add(nanos);
    }
    Ok(times)
}

/// The names of exclusive times in `.hatchet` files, which have other metrics too.
const SELF_TIMES: [&str; 2] = ["wall_self (ns)", "time (ns)"];

/// Returns the name of the samples to use as the weight. This is a self time, or else the first
/// name in nanoseconds, or else the first name.
fn select_sample_name(reader: &Reader) -> Result<Option<u32>, StoreError> {
    let names = numeric_sample_names(reader)?;
    let self_time = names.iter().find(|name| SELF_TIMES.contains(&reader.text(**name)));
    let is_time = |name: &&u32| is_nanosecond_unit(split_unit(reader.text(**name)).1);
    Ok(self_time.or_else(|| names.iter().find(is_time)).or_else(|| names.first()).copied())
}

/// Returns the weights from the samples of one name.
fn weights_from_samples(reader: &Reader, name_id: u32) -> Result<Weights, ExportError> {
    let mut by_stack = BTreeMap::new();
    let mut other_value_count = 0;
    for sample in reader.rows::<Sample>()? {
        let sample = sample?;
        match Sum::from_metric(&sample.value).filter(|_| sample.name_id == name_id) {
            Some(value) => {
                let stack = Stack { context_id: sample.context_id, kernel_id: None };
                by_stack.entry(stack).or_insert(Sum::Int(0)).add(value);
            }
            None => other_value_count += 1,
        }
    }
    let (name, unit) = split_unit(reader.text(name_id));
    let (name, unit) = (name.to_owned(), unit.to_owned());
    Ok(Weights { name, unit, by_stack, source: WeightSource::Samples, other_value_count })
}

/// Returns the times of the entire recording from the rollup, as in the view `flame`.
fn times_from_rollup(reader: &Reader) -> Result<BTreeMap<StackKey, StackTimes>, StoreError> {
    let batch = reader.run().read(&ROLLUPS)?;
    let columns = |name| {
        let index = ROLLUPS.position(name).expect("declared");
        &batch.columns()[index..]
    };
    let (buckets, threads) = (columns("bucket_nanos"), columns("thread_id"));
    let (contexts, counts) = (columns("context_id"), columns("count"));
    let self_times = columns("self_nanos");
    let mut times: BTreeMap<StackKey, StackTimes> = BTreeMap::new();
    for row in (0..batch.num_rows()).filter(|&row| i64::read(buckets, row) == 0) {
        if let Some(stack_key) =
            stack_key(reader, u32::read(threads, row), u32::read(contexts, row))
        {
            let sums = times.entry(stack_key).or_default();
            sums.count = sums.count.saturating_add(i64::read(counts, row));
            sums.self_nanos = sums.self_nanos.saturating_add(i64::read(self_times, row));
        }
    }
    Ok(times)
}

/// Returns the times in a selection, which has only parts of some spans.
fn times_from_spans(reader: &Reader) -> Result<BTreeMap<StackKey, StackTimes>, StoreError> {
    let mut totals: HashMap<(u32, u32), (i64, i64)> = HashMap::new();
    for span in reader.rows::<Span>()? {
        let span = span?;
        let (count, nanos) = totals.entry((span.thread_id, span.context_id)).or_default();
        *count = count.saturating_add(1);
        let nanos_inside = selected_nanos(reader, span.start_nanos, span.duration_nanos);
        *nanos = nanos.saturating_add(nanos_inside);
    }
    // `Span::self_nanos` also counts time outside of the selection, so the self time is computed
    // here. The contexts of a span's direct children are children of its context.
    let mut child_nanos: HashMap<(u32, u32), i64> = HashMap::new();
    for (&(thread, context), &(_, nanos)) in &totals {
        if let Some(parent) = reader.context(context).parent {
            let sum = child_nanos.entry((thread, parent)).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }
    let times = totals.into_iter().filter_map(|((thread, context), (count, nanos))| {
        let nanos_in_children = child_nanos.get(&(thread, context)).copied().unwrap_or(0);
        let self_nanos = nanos.saturating_sub(nanos_in_children).max(0);
        let times = StackTimes { count, self_nanos, device_nanos: 0 };
        Some((stack_key(reader, thread, context)?, times))
    });
    Ok(times.collect())
}

/// Returns the key of a thread's context, unless the selection excludes its process.
fn stack_key(reader: &Reader, thread: u32, context_id: u32) -> Option<StackKey> {
    let process_id = reader.thread(thread)?.process_id;
    let processes = &reader.selection().processes;
    if processes.as_ref().is_some_and(|processes| !processes.contains(&process_id)) {
        return None;
    }
    let stack = Stack { context_id, kernel_id: None };
    Some(StackKey { process_id, thread_id: Some(thread), stack })
}

/// Returns the number of nanoseconds of an interval that lie in the selection.
fn selected_nanos(reader: &Reader, start_nanos: i64, duration_nanos: i64) -> i64 {
    let selection = reader.selection();
    let end_nanos = start_nanos.saturating_add(duration_nanos).min(selection.until_nanos);
    end_nanos.saturating_sub(start_nanos.max(selection.from_nanos)).max(0)
}
