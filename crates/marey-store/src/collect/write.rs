//! Writes the result of the second pass over a spool: its events, and the sums of its spans.
//! Positions of threads and texts become ids of the run.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::table::{Table, stored};

use super::autograd::Autograd;
use super::events::SpoolRows;
use super::meter::Meter;
use super::outline::OutlineNode;
use super::rows::{SpanRow, Stamp, ValueRow};
use super::windows::SpanDetail;
use crate::StoreError;
use crate::arg_texts::ArgTexts;
use crate::columns::{bits, flags, ids, ints, maybe_bits, maybe_ids, texts};
use crate::parts::{LazyPart, Parts};
use crate::row::{self, Args, Field, Row};
use crate::sort::{Sortable, Sorter, SpillFile};
use crate::sums::{self, NodeInfo};

/// Number of bits of a flow's id below the process, which makes ids unique in the run. Readers of
/// JSON keep 53 bits.
const FLOW_ID_BITS: u32 = 40;

/// The bit of a flow's id that distinguishes flows of windows from the recorder's.
const WINDOW_FLOWS: u64 = 1 << (FLOW_ID_BITS - 1);

/// Number of rows in a batch.
const BATCH_ROWS: usize = 1 << 14;

/// Everything that the rows of a spool refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct References<'a> {
    pub(super) process_id: u32,
    /// The process, if its rows may be replaced by another collection.
    pub(super) owner_id: Option<u32>,
    /// The start of its recording, on the clock of the tables.
    pub(super) start_nanos: i64,
    /// The ids of its threads, by position.
    pub(super) thread_ids: &'a [u32],
    pub(super) nodes: &'a [OutlineNode],
    /// The name and category of links between forward and backward.
    pub(super) autograd_name_id: u32,
}

/// Writes all events of a spool.
pub(super) fn write(
    rows: SpoolRows,
    references: References,
    args: &mut ArgTexts,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let SpoolRows { stamps, totals, rollup, sorted, flows, memory_events, details, arg_texts } =
        rows;
    meter.begin_writing(sorted.count());
    let start_nanos = references.start_nanos;
    let node_info = |node| {
        let OutlineNode { context_id, name_id, .. } = references.node(node);
        NodeInfo { thread_id: references.thread_id(node), context_id, name_id, start_nanos }
    };
    sums::write(&totals, rollup, node_info, references.owner_id, parts)?;
    drop(totals);
    let arg_text_ids: Vec<u32> =
        arg_texts.iter().map(|text| args.id(text, parts)).collect::<Result<_, _>>()?;
    let details = Details { details: &details, arg_text_ids: &arg_text_ids };
    write_spans(sorted.spans, &stamps, details, references, parts, meter)?;
    write_rows(&stored::INSTANTS, sorted.marks, references.owner_id, parts, |rows| {
        meter.add_written(rows.len() as u64);
        instant_columns(rows, references)
    })?;
    write_rows(&stored::METRICS, sorted.values, references.owner_id, parts, |rows| {
        meter.add_written(rows.len() as u64);
        metric_columns(rows, &stamps, references)
    })?;
    write_flows(sorted.autograd, flows, &arg_text_ids, references, parts, meter)?;
    write_memory_events(&memory_events, &arg_text_ids, references, parts)?;
    let thread_id = |position: Option<u32>| Some(references.thread_ids[position? as usize]);
    write_events(sorted.activities, references, parts, meter, |row| {
        row.args = with_text_id(&row.args, &arg_text_ids);
    })?;
    write_events(sorted.counters, references, parts, meter, |_| ())?;
    write_events(sorted.collectives, references, parts, meter, |_| ())?;
    write_events(sorted.samples, references, parts, meter, |row| {
        row.thread_id = thread_id(row.thread_id);
        row.args = with_text_id(&row.args, &arg_text_ids);
    })?;
    write_events(sorted.variables, references, parts, meter, |row| {
        row.thread_id = thread_id(row.thread_id);
    })?;
    write_events(sorted.readings, references, parts, meter, |row| {
        row.thread_id = thread_id(row.thread_id);
    })
}

/// Writes spans by start, and the training steps among them.
fn write_spans(
    spans: Sorter<SpanRow>,
    stamps: &[Stamp],
    details: Details,
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    let (mut part, mut steps) = (LazyPart::new(&stored::SPANS), LazyPart::new(&stored::STEPS));
    let mut step_count = 0;
    spans.for_each_batch(BATCH_ROWS, |rows| {
        part.write(span_columns(rows, stamps, details, references), parts)?;
        let is_step = |row: &&SpanRow| references.node(row.node).kind == NodeKind::Step;
        let new_steps: Vec<SpanRow> = rows.iter().filter(is_step).copied().collect();
        steps.write(step_columns(&new_steps, step_count, references), parts)?;
        step_count += new_steps.len() as u32;
        meter.add_written(rows.len() as u64);
        Ok(())
    })?;
    part.finish(references.owner_id, parts)?;
    steps.finish(references.owner_id, parts)
}

/// The columns that only some spans have, and the ids of argument texts by position.
#[derive(Clone, Copy, Debug)]
struct Details<'a> {
    details: &'a [SpanDetail],
    arg_text_ids: &'a [u32],
}

impl<'a> Details<'a> {
    fn of_row(self, row: &SpanRow) -> Option<&'a SpanDetail> {
        self.details.get((row.detail as usize).checked_sub(1)?)
    }

    /// Returns the columns `external_id`, `args_id` and `arg_numbers`.
    fn last_columns(self, rows: &[SpanRow]) -> Vec<ArrayRef> {
        if rows.iter().all(|row| row.detail == 0) {
            return vec![
                nulls(rows.len(), &DataType::UInt64),
                nulls(rows.len(), &DataType::UInt32),
                nulls(rows.len(), &DataType::new_list(DataType::Int64, true)),
            ];
        }
        let details = rows.iter().map(|row| self.of_row(row));
        let mut columns = vec![maybe_bits(
            details.clone().map(|detail| detail.and_then(|detail| detail.external_id)),
        )];
        let mut args = <Args as Field>::Columns::default();
        for detail in details {
            let args_with_id = detail.map(|detail| with_text_id(&detail.args, self.arg_text_ids));
            args_with_id.unwrap_or_default().append(&mut args);
        }
        Args::finish(&mut args, &mut columns);
        columns
    }
}

/// Returns the arguments with the id of their text in place of its position.
fn with_text_id(args: &Args, text_ids: &[u32]) -> Args {
    let text_id = args.text_id.and_then(|position| text_ids.get(position as usize).copied());
    Args { text_id, numbers: args.numbers.clone() }
}

fn span_columns(
    rows: &[SpanRow],
    stamps: &[Stamp],
    details: Details,
    references: References,
) -> Vec<ArrayRef> {
    let nodes = rows.iter().map(|row| references.node(row.node));
    let stamps = rows.iter().map(|row| stamps[row.stamp as usize]);
    let category_ids =
        rows.iter().map(|row| details.of_row(row).and_then(|detail| detail.category_id));
    let mut columns = vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ints(rows.iter().map(|row| row.duration_nanos)),
        ints(rows.iter().map(|row| row.children_nanos)),
        ids(rows.iter().map(|row| references.thread_id(row.node))),
        ids(nodes.clone().map(|node| node.context_id)),
        ids(nodes.map(|node| node.name_id)),
        bits(stamps.clone().map(|stamp| stamp.sessions)),
        ids(stamps.clone().map(|stamp| stamp.phase)),
        flags(stamps.map(|stamp| stamp.is_open)),
        maybe_ids(category_ids),
        maybe_bits(
            rows.iter().map(|row| (row.correlation_id != 0).then(|| row.correlation_id.into())),
        ),
    ];
    columns.extend(details.last_columns(rows));
    columns
}

/// Returns a column of nulls, for columns that only imported rows or windows fill.
fn nulls(rows: usize, data_type: &DataType) -> ArrayRef {
    new_null_array(data_type, rows)
}

/// Returns the columns of steps. The numbers of the steps begin with `first_step`.
fn step_columns(rows: &[SpanRow], first_step: u32, references: References) -> Vec<ArrayRef> {
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ints(rows.iter().map(|row| row.duration_nanos)),
        ids(rows.iter().map(|_| references.process_id)),
        ids(rows.iter().map(|row| references.thread_id(row.node))),
        ids(rows.iter().map(|row| references.node(row.node).context_id)),
        ids((first_step..).take(rows.len())),
    ]
}

fn instant_columns(rows: &[SpanRow], references: References) -> Vec<ArrayRef> {
    vec![
        ints(rows.iter().map(|row| row.start_nanos)),
        ids(rows.iter().map(|_| references.process_id)),
        ids(rows.iter().map(|row| references.thread_id(row.node))),
        texts(rows.iter().map(|_| "thread")),
        ids(rows.iter().map(|row| references.node(row.node).name_id)),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::UInt32),
        nulls(rows.len(), &DataType::new_list(DataType::Int64, true)),
    ]
}

fn metric_columns(rows: &[ValueRow], stamps: &[Stamp], references: References) -> Vec<ArrayRef> {
    let stamps = rows.iter().map(|row| stamps[row.stamp as usize]);
    let mut values = <MetricValue as Field>::Columns::default();
    for row in rows {
        row.value.append(&mut values);
    }
    let mut columns = vec![
        ints(rows.iter().map(|row| row.time_nanos)),
        ids(rows.iter().map(|row| references.thread_id(row.node))),
        ids(rows.iter().map(|row| references.node(row.node).context_id)),
        ids(rows.iter().map(|row| row.name_id)),
        bits(stamps.clone().map(|stamp| stamp.sessions)),
        ids(stamps.map(|stamp| stamp.phase)),
    ];
    MetricValue::finish(&mut values, &mut columns);
    columns
}

/// Writes the memory events of windows by time.
fn write_memory_events(
    events: &[row::MemoryEvent],
    arg_text_ids: &[u32],
    references: References,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut rows = Sorter::new(&SpillFile::new(&parts.run));
    for event in events {
        rows.push(&row::MemoryEvent {
            process_id: references.process_id,
            thread_id: event.thread_id.map(|position| references.thread_ids[position as usize]),
            args: with_text_id(&event.args, arg_text_ids),
            ..event.clone()
        })?;
    }
    write_table(rows, references.owner_id, parts, |_| ())
}

/// Writes the links of autograd, and the flows of windows, by time.
fn write_flows(
    autograd: Autograd,
    flows: Vec<row::Flow>,
    arg_text_ids: &[u32],
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<(), StoreError> {
    meter.add_written(autograd.row_count());
    let mut points = Sorter::new(&SpillFile::new(&parts.run));
    let first_flow_id = u64::from(references.process_id) << FLOW_ID_BITS;
    autograd.for_each_point(
        references.thread_ids,
        references.autograd_name_id,
        first_flow_id,
        |point| points.push(point),
    )?;
    for flow in flows {
        points.push(&row::Flow {
            thread_id: references.thread_ids[flow.thread_id as usize],
            flow_id: first_flow_id | WINDOW_FLOWS | (flow.flow_id & (WINDOW_FLOWS - 1)),
            args: with_text_id(&flow.args, arg_text_ids),
            ..flow
        })?;
    }
    write_table(points, references.owner_id, parts, |_| ())
}

/// Writes events by time. `complete` replaces the positions in a row with ids.
fn write_events<R: Row>(
    rows: Sorter<R>,
    references: References,
    parts: &mut Parts,
    meter: &mut Meter,
    complete: impl Fn(&mut R),
) -> Result<(), StoreError> {
    write_table(rows, references.owner_id, parts, |rows| {
        rows.iter_mut().for_each(&complete);
        meter.add_written(rows.len() as u64);
    })
}

/// Writes the rows of a table in order. `prepare` is called with the rows of each batch before they
/// are written.
fn write_table<R: Row>(
    rows: Sorter<R>,
    owner_id: Option<u32>,
    parts: &mut Parts,
    mut prepare: impl FnMut(&mut [R]),
) -> Result<(), StoreError> {
    let mut columns = R::Columns::default();
    write_rows(R::TABLE, rows, owner_id, parts, |rows| {
        prepare(rows);
        for row in rows.iter() {
            row.append(&mut columns);
        }
        R::finish(&mut columns)
    })
}

/// Writes rows in order. `columns` returns the columns of a batch.
fn write_rows<R: Sortable>(
    table: &'static Table,
    rows: Sorter<R>,
    owner_id: Option<u32>,
    parts: &mut Parts,
    mut columns: impl FnMut(&mut [R]) -> Vec<ArrayRef>,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(table);
    rows.for_each_batch(BATCH_ROWS, |rows| part.write(columns(rows), parts))?;
    part.finish(owner_id, parts)
}

impl References<'_> {
    fn node(&self, node: u32) -> OutlineNode {
        self.nodes[node as usize]
    }

    fn thread_id(&self, node: u32) -> u32 {
        self.thread_ids[self.node(node).thread as usize]
    }
}
