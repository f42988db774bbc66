//! The SQL aggregate `critical_path(kind, lane, start_nanos, end_nanos, ...)`: the chain of events
//! that the steps of a process waited for. The view `critical_path` builds its arguments from a
//! run.

mod event;
#[cfg(test)]
mod tests;
mod trace;
mod walk;

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, StringArray, StructArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, UInt64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature, Volatility,
};

use super::documented;
use crate::sql::lookup::Lookups;
use event::{Event, EventKind};
use walk::{critical_path, find_window, split_by_step};

pub(super) fn aggregate(lookups: &Arc<Lookups>) -> AggregateUDF {
    let signature = Signature::exact(
        vec![
            DataType::Utf8View,
            DataType::Int64,
            DataType::Int64,
            DataType::Int64,
            DataType::UInt64,
            DataType::Int64,
            DataType::UInt64,
            DataType::Int64,
        ],
        Volatility::Immutable,
    );
    AggregateUDF::new_from_impl(CriticalPath { lookups: Arc::clone(lookups), signature })
}

/// The kinds of events with their names in SQL.
const EVENT_KINDS: [(&str, EventKind); 15] = [
    ("host", EventKind::Host),
    ("data_loading", EventKind::DataLoading),
    ("backward", EventKind::Backward),
    ("call", EventKind::Call),
    ("copy", EventKind::Copy),
    ("sync_device", EventKind::SyncDevice),
    ("sync_stream", EventKind::SyncStream),
    ("sync_event", EventKind::SyncEvent),
    ("compute", EventKind::Compute),
    ("communication", EventKind::Communication),
    ("memory", EventKind::Memory),
    ("pageable", EventKind::Pageable),
    ("stream_wait", EventKind::StreamWait),
    ("host_wait", EventKind::HostWait),
    ("step", EventKind::Step),
];

/// The fields of a segment in SQL.
fn segment_fields() -> Fields {
    Fields::from(vec![
        Field::new("step", DataType::Int64, true),
        Field::new("position", DataType::UInt32, false),
        Field::new("start_nanos", DataType::Int64, false),
        Field::new("end_nanos", DataType::Int64, false),
        Field::new("bound", DataType::Utf8, false),
        Field::new("lane", DataType::Int64, true),
        Field::new("id", DataType::Int64, true),
    ])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CriticalPath {
    lookups: Arc<Lookups>,
    signature: Signature,
}

impl AggregateUDFImpl for CriticalPath {
    fn name(&self) -> &'static str {
        "critical_path"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::new_list(DataType::Struct(segment_fields()), true))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{}() has no DISTINCT", self.name());
        }
        Ok(Box::new(EventAccumulator {
            events: Vec::new(),
            reservation: self.lookups.reserve("critical path"),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = DataType::new_list(DataType::Int64, true);
        Ok(vec![Arc::new(Field::new(format!("{}[events]", args.name), list, true))])
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documented!(
            "The critical path of a process's steps, or of all its events, followed from their end \
             back to their beginning: a list of segments in which each moment of a step occurs \
             once. The view critical_path calls it and shows how to build the arguments.",
            "critical_path(kind, lane, start_nanos, end_nanos, correlation_id, on_lane, \
             on_correlation_id, id)",
            "SELECT bound, sum(duration_nanos) FROM critical_path GROUP BY bound"
        ))
    }
}

/// The events of a group.
#[derive(Debug)]
struct EventAccumulator {
    events: Vec<Event>,
    /// Reservation for the events and the later walk, so that a query which exceeds the limit fails
    /// while events are still being collected.
    reservation: MemoryReservation,
}

/// Most memory of the walk per event: its index in time order, two intervals of its thread (32
/// bytes each), its entry in the correlation index (40), and two segments of the path (56 each),
/// also as parts of a step (72 each) and as rows of the answer (64 each).
const WALK_BYTES_PER_EVENT: usize = 8 + 2 * 32 + 40 + 2 * (56 + 72 + 64);

impl EventAccumulator {
    /// Reserves room for `additional` events.
    fn reserve(&mut self, additional: usize) -> Result<()> {
        self.events.reserve(additional);
        let (capacity, count) = (self.events.capacity(), self.events.len() + additional);
        self.reservation.try_resize(capacity * size_of::<Event>() + count * WALK_BYTES_PER_EVENT)
    }
}

/// Number of integers that encode an event in the aggregate's state.
const INTEGERS_PER_EVENT: usize = 8;

impl Accumulator for EventAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let kinds = values[0].as_string_view();
        let [lanes, starts, ends, on_lanes, ids] =
            [1, 2, 3, 5, 7].map(|column: usize| values[column].as_primitive::<Int64Type>());
        let [correlations, on_correlations] =
            [4, 6].map(|column: usize| values[column].as_primitive::<UInt64Type>());
        let value_or_zero = |array: &Int64Array, row: usize| {
            if array.is_valid(row) { array.value(row) } else { 0 }
        };
        self.reserve(kinds.len())?;
        for row in 0..kinds.len() {
            // An event needs a kind, a lane and both times.
            if kinds.is_null(row) || lanes.is_null(row) || starts.is_null(row) || ends.is_null(row)
            {
                continue;
            }
            let name = kinds.value(row);
            let Some(&(_, kind)) = EVENT_KINDS.iter().find(|kind| kind.0 == name) else {
                return exec_err!("critical_path() has no event kind {name:?}");
            };
            let id_or_zero = |array: &UInt64Array| {
                if array.is_valid(row) { array.value(row) } else { 0 }
            };
            self.events.push(Event {
                kind,
                lane: lanes.value(row).cast_unsigned(),
                start_nanos: starts.value(row),
                end_nanos: ends.value(row),
                correlation_id: id_or_zero(correlations),
                on_lane: value_or_zero(on_lanes, row).cast_unsigned(),
                on_correlation_id: id_or_zero(on_correlations),
                id: value_or_zero(ids, row).cast_unsigned(),
            });
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        for row in 0..lists.len() {
            let numbers = lists.value(row);
            let (events, _) =
                numbers.as_primitive::<Int64Type>().values().as_chunks::<INTEGERS_PER_EVENT>();
            self.reserve(events.len())?;
            self.events.extend(events.iter().filter_map(decode));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers: Vec<i64> = self.events.iter().flat_map(encode).collect();
        let numbers = Arc::new(Int64Array::from(numbers));
        Ok(vec![SingleRowListArrayBuilder::new(numbers).with_nullable(true).build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // The result must not depend on the order of the input rows.
        self.events.sort_unstable();
        let path = find_window(&self.events)
            .map(|(start_nanos, end_nanos)| critical_path(&self.events, start_nanos, end_nanos));
        let segments = split_by_step(&path.unwrap_or_default(), &self.events);
        let mut last_step = None;
        let mut position = 0_u32;
        let positions = segments.iter().map(|(step, _)| {
            position = if last_step == Some(*step) { position + 1 } else { 0 };
            last_step = Some(*step);
            position
        });
        let columns: Vec<ArrayRef> = vec![
            Arc::new(
                segments
                    .iter()
                    .map(|(step, _)| step.map(|step| self.events[step].id.cast_signed()))
                    .collect::<Int64Array>(),
            ),
            Arc::new(
                positions.collect::<Vec<u32>>().into_iter().map(Some).collect::<UInt32Array>(),
            ),
            Arc::new(
                segments
                    .iter()
                    .map(|(_, segment)| Some(segment.start_nanos))
                    .collect::<Int64Array>(),
            ),
            Arc::new(
                segments.iter().map(|(_, segment)| Some(segment.end_nanos)).collect::<Int64Array>(),
            ),
            Arc::new(
                segments
                    .iter()
                    .map(|(_, segment)| Some(segment.bound.name()))
                    .collect::<StringArray>(),
            ),
            Arc::new(
                segments
                    .iter()
                    .map(|(_, segment)| segment.lane.map(u64::cast_signed))
                    .collect::<Int64Array>(),
            ),
            Arc::new(
                segments
                    .iter()
                    .map(|(_, segment)| {
                        segment.event_index.map(|event| self.events[event].id.cast_signed())
                    })
                    .collect::<Int64Array>(),
            ),
        ];
        let list = Arc::new(StructArray::try_new(segment_fields(), columns, None)?);
        Ok(SingleRowListArrayBuilder::new(list).with_nullable(true).build_list_scalar())
    }

    /// Does not count the events, which the reservation accounts for.
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Returns an event as integers in the order of its fields. The kind is its index in
/// [`EVENT_KINDS`].
fn encode(event: &Event) -> [i64; INTEGERS_PER_EVENT] {
    let kind = EVENT_KINDS.iter().position(|kind| kind.1 == event.kind).unwrap_or_default();
    [
        i64::try_from(kind).unwrap_or_default(),
        event.lane.cast_signed(),
        event.start_nanos,
        event.end_nanos,
        event.correlation_id.cast_signed(),
        event.on_lane.cast_signed(),
        event.on_correlation_id.cast_signed(),
        event.id.cast_signed(),
    ]
}

fn decode(numbers: &[i64; INTEGERS_PER_EVENT]) -> Option<Event> {
    let [kind, lane, start_nanos, end_nanos, correlation_id, on_lane, on_correlation_id, id] =
        *numbers;
    let (_, kind) = *usize::try_from(kind).ok().and_then(|kind| EVENT_KINDS.get(kind))?;
    Some(Event {
        kind,
        lane: lane.cast_unsigned(),
        start_nanos,
        end_nanos,
        correlation_id: correlation_id.cast_unsigned(),
        on_lane: on_lane.cast_unsigned(),
        on_correlation_id: on_correlation_id.cast_unsigned(),
        id: id.cast_unsigned(),
    })
}

#[cfg(test)]
mod state_tests {
    use super::*;

    #[test]
    fn events_survive_encoding() {
        for (number, (_, kind)) in EVENT_KINDS.into_iter().enumerate() {
            let event = Event {
                kind,
                lane: u64::MAX,
                start_nanos: i64::MIN,
                end_nanos: i64::MAX,
                correlation_id: u64::MAX - 1,
                on_lane: 7 << 32,
                on_correlation_id: 3,
                id: number as u64,
            };
            assert_eq!(decode(&encode(&event)), Some(event));
        }
        assert_eq!(decode(&[15, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[-1, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
