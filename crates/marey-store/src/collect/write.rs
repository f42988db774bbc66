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
use crate::row::{self, Field, GpuActivity, MemoryEvent, Row};
use crate::sort::{Sorter, SpillFile};
use crate::sums::{self, NodeInfo};

/// Bits of a flow's id below the process, which makes ids unique in the run. JSON readers keep 53.
const FLOW_ID_BITS: u32 = 40;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 14;

/// Everything that the rows of a spool refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct References<'a> {
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
    rows: SpoolRows,
    references: References,
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
        readings,
    } = rows;
    let rows = [
        spans.rows(),
        marks.rows(),
        values.rows(),
        activities.rows(),
        autograd.rows(),
        counters.rows(),
        readings.rows(),
    ];
    meter.begin_writing(rows.into_iter().sum());
    let start_nanos = references.start_nanos;
    let node_info = |node| {
        let Node { context, name, .. } = references.node(node);
        NodeInfo { thread: references.thread(node), context, name, start_nanos }
    };
    sums::write(&totals, rollup, node_info, references.owner, parts)?;
    drop(totals);
    write_spans(spans, &stamps, references, parts, meter)?;
    write_instants(marks, references, parts, meter)?;
    write_metrics(values, &stamps, references, parts, meter)?;
    let arg_text_ids: Vec<u32> =
        arg_texts.iter().map(|text| args.id(text, parts)).collect::<Result<_, _>>()?;
    write_activities(activities, &arg_text_ids, references, parts, meter)?;
    write_flows(autograd, references, parts, meter)?;
    write_counters(counters, references, parts, meter)?;
    write_readings(readings, references, parts, meter)
}

/// Writes spans by start, and the training steps among them.
fn write_spans(
    spans: Sorter<SpanRow>,
    stamps: &[Stamp],
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let (mut part, mut steps) = (LazyPart::new(&stored::SPANS), LazyPart::new(&stored::STEPS));
    let mut step_count = 0;
    spans.finish(BATCH_ROWS, |rows| {
        part.write(span_columns(rows, stamps, references), parts)?;
        let is_step = |row: &&SpanRow| references.node(row.node).kind == NodeKind::Step;
        let new_steps: Vec<SpanRow> = rows.iter().filter(is_step).copied().collect();
        steps.write(step_columns(&new_steps, step_count, references), parts)?;
        step_count += new_steps.len() as u32;
        meter.add_written(rows.len() as u64);
        Ok(())
    })?;
    part.finish(references.owner, parts)?;
    steps.finish(references.owner, parts)
}

fn span_columns(rows: &[SpanRow], stamps: &[Stamp], references: References) -> Vec<ArrayRef> {
    let nodes = rows.iter().map(|row| references.node(row.node));
    let stamps = rows.iter().map(|row| stamps[row.stamp as usize]);
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ints(rows.iter().map(|row| row.duration_nanos)),
        ints(rows.iter().map(|row| row.children_nanos)),
        ids(rows.iter().map(|row| references.thread(row.node))),
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

/// Returns the columns of steps, numbered from `first_number` on.
fn step_columns(rows: &[SpanRow], first_number: u32, references: References) -> Vec<ArrayRef> {
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ints(rows.iter().map(|row| row.duration_nanos)),
        ids(rows.iter().map(|_| references.process)),
        ids(rows.iter().map(|row| references.thread(row.node))),
        ids(rows.iter().map(|row| references.node(row.node).context)),
        ids((first_number..).take(rows.len())),
    ]
}

/// Writes marks by time.
fn write_instants(
    marks: Sorter<SpanRow>,
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::INSTANTS);
    marks.finish(BATCH_ROWS, |rows| {
        part.write(instant_columns(rows, references), parts)?;
        meter.add_written(rows.len() as u64);
        Ok(())
    })?;
    part.finish(references.owner, parts)
}

fn instant_columns(rows: &[SpanRow], references: References) -> Vec<ArrayRef> {
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ids(rows.iter().map(|_| references.process)),
        ids(rows.iter().map(|row| references.thread(row.node))),
        texts(rows.iter().map(|_| "thread")),
        ids(rows.iter().map(|row| references.node(row.node).name)),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::new_list(DataType::Int64, true)),
    ]
}

/// Writes values by time.
fn write_metrics(
    values: Sorter<ValueRow>,
    stamps: &[Stamp],
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(&stored::METRICS);
    values.finish(BATCH_ROWS, |rows| {
        part.write(metric_columns(rows, stamps, references), parts)?;
        meter.add_written(rows.len() as u64);
        Ok(())
    })?;
    part.finish(references.owner, parts)
}

fn metric_columns(rows: &[ValueRow], stamps: &[Stamp], references: References) -> Vec<ArrayRef> {
    let stamps = rows.iter().map(|row| stamps[row.stamp as usize]);
    let mut values = <MetricValue as Field>::Columns::default();
    for row in rows {
        row.value.append(&mut values);
    }
    let mut columns = vec![
        ints(rows.iter().map(|row| row.time_nanos)),
        ids(rows.iter().map(|row| references.thread(row.node))),
        ids(rows.iter().map(|row| references.node(row.node).context)),
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
    arg_text_ids: &[u32],
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    write_rows(activities, references.owner, parts, |rows| {
        for row in rows.iter_mut() {
            let position = row.args.text_id;
            row.args.text_id =
                position.and_then(|position| arg_text_ids.get(position as usize).copied());
        }
        meter.add_written(rows.len() as u64);
    })
}

/// Writes the links of autograd by time.
fn write_flows(
    autograd: Autograd,
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    meter.add_written(autograd.rows());
    let mut points = Sorter::new(&SpillFile::new(&parts.run));
    let first_flow_id = u64::from(references.process) << FLOW_ID_BITS;
    autograd.for_each_point(
        references.threads,
        references.autograd_name,
        first_flow_id,
        |point| points.push(point),
    )?;
    write_rows(points, references.owner, parts, |_| ())
}

/// Writes counters by time.
fn write_counters(
    counters: Sorter<row::Counter>,
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    write_rows(counters, references.owner, parts, |rows| meter.add_written(rows.len() as u64))
}

/// Writes readings of memory by time.
fn write_readings(
    readings: Sorter<MemoryEvent>,
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    write_rows(readings, references.owner, parts, |rows| {
        for row in rows.iter_mut() {
            row.thread_id = row.thread_id.map(|position| references.threads[position as usize]);
        }
        meter.add_written(rows.len() as u64);
    })
}

/// Writes rows in order. `prepare` may complete the rows of a batch before they are written.
fn write_rows<R: Row>(
    rows: Sorter<R>,
    owner: Option<u32>,
    parts: &mut Parts,
    mut prepare: impl FnMut(&mut [R]),
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(R::TABLE);
    let mut columns = R::Columns::default();
    rows.finish(BATCH_ROWS, |rows| {
        prepare(rows);
        for row in rows.iter() {
            row.append(&mut columns);
        }
        part.write(R::finish(&mut columns), parts)
    })?;
    part.finish(owner, parts)
}

impl References<'_> {
    fn node(&self, node: u32) -> Node {
        self.nodes[node as usize]
    }

    fn thread(&self, node: u32) -> u32 {
        self.threads[self.node(node).thread as usize]
    }
}
