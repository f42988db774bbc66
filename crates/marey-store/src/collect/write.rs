//! Writes the events of a spool, and the sums of its spans.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::table::stored;

use super::autograd::Autograd;
use super::events::{SpoolRows, Stamp};
use super::meter::Meter;
use super::outline::Node;
use super::rows::{SpanRow, ValueRow};
use crate::StoreError;
use crate::arg_texts::ArgTexts;
use crate::columns::{bits, flags, ids, ints, maybe_bits, texts};
use crate::parts::{LazyPart, Parts};
use crate::row::{self, Field, Flow, GpuActivity, Row};
use crate::sort::{Sorter, SpillFile};
use crate::sums::{self, NodeInfo};

/// Bits of a flow's id below the process, which makes ids unique in the run. JSON readers keep 53.
const FLOW_ID_BITS: u32 = 40;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 14;

/// What rows of a spool refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refs<'a> {
    pub(super) process: u32,
    /// The process, if its rows may be replaced by another collection.
    pub(super) owner: Option<u32>,
    /// The start of its recording, on the clock of the tables.
    pub(super) start_nanos: i64,
    /// Ids of its threads, by position.
    pub(super) threads: &'a [u32],
    pub(super) nodes: &'a [Node],
    /// Name and category of links of autograd.
    pub(super) autograd_name: u32,
}

/// Writes all events of a spool.
pub(super) fn write(
    gathered: SpoolRows,
    refs: Refs,
    args: &mut ArgTexts,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let SpoolRows {
        stamps,
        totals,
        rollup,
        spans,
        marks,
        values,
        activities,
        autograd,
        arg_texts,
        counters,
    } = gathered;
    let rows = [
        spans.rows(),
        marks.rows(),
        values.rows(),
        activities.rows(),
        autograd.rows(),
        counters.rows(),
    ];
    meter.begin_writing(rows.into_iter().sum());
    let start_nanos = refs.start_nanos;
    let node_info = |node| {
        let Node { context, name, .. } = refs.node(node);
        NodeInfo { thread: refs.thread(node), context, name, start_nanos }
    };
    sums::write(&totals, rollup, node_info, refs.owner, parts)?;
    drop(totals);
    write_spans(spans, &stamps, refs, parts, meter)?;
    write_instants(marks, refs, parts, meter)?;
    write_metrics(values, &stamps, refs, parts, meter)?;
    let arg_ids: Vec<u32> =
        arg_texts.iter().map(|text| args.id(text, parts)).collect::<Result<_, _>>()?;
    write_activities(activities, &arg_ids, refs, parts, meter)?;
    write_flows(autograd, refs, parts, meter)?;
    write_counters(counters, refs, parts, meter)
}

/// Writes spans by start, and the training steps among them.
fn write_spans(
    spans: Sorter<SpanRow>,
    stamps: &[Stamp],
    refs: Refs,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let (mut part, mut steps) = (LazyPart::new(&stored::SPANS), LazyPart::new(&stored::STEPS));
    let mut step_count = 0;
    spans.finish(BATCH_ROWS, |rows| {
        part.write(span_columns(rows, stamps, refs), parts)?;
        let is_step = |row: &&SpanRow| refs.node(row.node).kind == NodeKind::Step;
        let new_steps: Vec<SpanRow> = rows.iter().filter(is_step).copied().collect();
        steps.write(step_columns(&new_steps, step_count, refs), parts)?;
        step_count += new_steps.len() as u32;
        meter.wrote(rows.len() as u64);
        Ok(())
    })?;
    part.finish(refs.owner, parts)?;
    steps.finish(refs.owner, parts)
}

fn span_columns(rows: &[SpanRow], stamps: &[Stamp], refs: Refs) -> Vec<ArrayRef> {
    let nodes = rows.iter().map(|row| refs.node(row.node));
    let stamps = rows.iter().map(|row| stamps[row.stamp as usize]);
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ints(rows.iter().map(|row| row.duration_nanos)),
        ints(rows.iter().map(|row| row.children_nanos)),
        ids(rows.iter().map(|row| refs.thread(row.node))),
        ids(nodes.clone().map(|node| node.context)),
        ids(nodes.map(|node| node.name)),
        bits(stamps.clone().map(|stamp| stamp.sessions)),
        ids(stamps.clone().map(|stamp| stamp.phase)),
        flags(stamps.map(|stamp| stamp.is_open)),
        nulls(rows.len(), &DataType::UInt32),
        maybe_bits(rows.iter().map(|row| (row.correlation != 0).then(|| row.correlation.into()))),
        nulls(rows.len(), &DataType::UInt64),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::new_list(DataType::Int64, true)),
    ]
}

/// Returns a column that only imported spans fill.
fn nulls(rows: usize, data_type: &DataType) -> ArrayRef {
    new_null_array(data_type, rows)
}

/// Returns the columns of steps, numbered from `earlier` on.
fn step_columns(rows: &[SpanRow], earlier: u32, refs: Refs) -> Vec<ArrayRef> {
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ints(rows.iter().map(|row| row.duration_nanos)),
        ids(rows.iter().map(|_| refs.process)),
        ids(rows.iter().map(|row| refs.thread(row.node))),
        ids(rows.iter().map(|row| refs.node(row.node).context)),
        ids((earlier..).take(rows.len())),
    ]
}

/// Writes marks by time.
fn write_instants(
    marks: Sorter<SpanRow>,
    refs: Refs,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::INSTANTS);
    marks.finish(BATCH_ROWS, |rows| {
        part.write(instant_columns(rows, refs), parts)?;
        meter.wrote(rows.len() as u64);
        Ok(())
    })?;
    part.finish(refs.owner, parts)
}

fn instant_columns(rows: &[SpanRow], refs: Refs) -> Vec<ArrayRef> {
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ids(rows.iter().map(|_| refs.process)),
        ids(rows.iter().map(|row| refs.thread(row.node))),
        texts(rows.iter().map(|_| "thread")),
        ids(rows.iter().map(|row| refs.node(row.node).name)),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::new_list(DataType::Int64, true)),
    ]
}

/// Writes values by time.
fn write_metrics(
    values: Sorter<ValueRow>,
    stamps: &[Stamp],
    refs: Refs,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::METRICS);
    values.finish(BATCH_ROWS, |rows| {
        part.write(metric_columns(rows, stamps, refs), parts)?;
        meter.wrote(rows.len() as u64);
        Ok(())
    })?;
    part.finish(refs.owner, parts)
}

fn metric_columns(rows: &[ValueRow], stamps: &[Stamp], refs: Refs) -> Vec<ArrayRef> {
    let stamps = rows.iter().map(|row| stamps[row.stamp as usize]);
    let mut values = <MetricValue as Field>::Columns::default();
    for row in rows {
        row.value.append(&mut values);
    }
    let mut columns = vec![
        ints(rows.iter().map(|row| row.time_nanos)),
        ids(rows.iter().map(|row| refs.thread(row.node))),
        ids(rows.iter().map(|row| refs.node(row.node).context)),
        ids(rows.iter().map(|row| row.name)),
        bits(stamps.clone().map(|stamp| stamp.sessions)),
        ids(stamps.map(|stamp| stamp.phase)),
    ];
    MetricValue::finish(&mut values, &mut columns);
    columns
}

/// Writes activities by start.
fn write_activities(
    activities: Sorter<GpuActivity>,
    arg_ids: &[u32],
    refs: Refs,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::GPU_ACTIVITIES);
    let mut columns = <GpuActivity as Row>::Columns::default();
    activities.finish(BATCH_ROWS, |rows| {
        for row in rows.iter_mut() {
            let number = row.args.text_id;
            row.args.text_id = number.and_then(|number| arg_ids.get(number as usize).copied());
            row.append(&mut columns);
        }
        part.write(GpuActivity::finish(&mut columns), parts)?;
        meter.wrote(rows.len() as u64);
        Ok(())
    })?;
    part.finish(refs.owner, parts)
}

/// Writes the links of autograd by time.
fn write_flows(
    autograd: Autograd,
    refs: Refs,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    meter.wrote(autograd.rows());
    let mut points = Sorter::new(&SpillFile::new(&parts.run));
    let first_flow_id = u64::from(refs.process) << FLOW_ID_BITS;
    autograd.links(refs.threads, refs.autograd_name, first_flow_id, |point| points.push(point))?;
    let mut part = LazyPart::new(&stored::FLOWS);
    let mut columns = <Flow as Row>::Columns::default();
    points.finish(BATCH_ROWS, |rows| {
        for row in rows.iter() {
            row.append(&mut columns);
        }
        part.write(Flow::finish(&mut columns), parts)
    })?;
    part.finish(refs.owner, parts)
}

/// Writes counters by time.
fn write_counters(
    counters: Sorter<row::Counter>,
    refs: Refs,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::COUNTERS);
    let mut columns = <row::Counter as Row>::Columns::default();
    counters.finish(BATCH_ROWS, |rows| {
        for row in rows.iter() {
            row.append(&mut columns);
        }
        part.write(row::Counter::finish(&mut columns), parts)?;
        meter.wrote(rows.len() as u64);
        Ok(())
    })?;
    part.finish(refs.owner, parts)
}

impl Refs<'_> {
    fn node(&self, node: u32) -> Node {
        self.nodes[node as usize]
    }

    fn thread(&self, node: u32) -> u32 {
        self.threads[self.node(node).thread as usize]
    }
}
