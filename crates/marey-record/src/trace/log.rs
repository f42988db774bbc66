//! A thread's log: what it recorded since the background thread looked last.
//!
//! The owner appends, inside its events; [`super`] takes. An entry is one record of a [`Ring`], but for
//! vectors, whose elements follow in records of their own.

use crate::losses;
use crate::names;
use crate::recorder;
use crate::ring::{Pushed, RECORD_BYTES, Record, Ring};
use crate::trace;
use marey_model::env;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use std::sync::OnceLock;

/// What a thread logs into.
#[derive(Debug)]
pub(crate) struct Log(Ring);

impl Log {
    /// A log of the size that the environment asks for.
    pub(crate) fn new() -> Self {
        const DEFAULT_BYTES: u64 = 4 << 20;
        static BYTES: OnceLock<u64> = OnceLock::new();
        let bytes = BYTES
            .get_or_init(|| recorder::env_number(env::TRACE_BUFFER_BYTES).unwrap_or(DEFAULT_BYTES));
        Self::with_records(bytes / RECORD_BYTES)
    }

    /// A log for so many records.
    pub(crate) fn with_records(records: u64) -> Self {
        Self(Ring::new(records))
    }

    /// Logs a scope that was left.
    #[inline(always)]
    pub(crate) fn span(&self, node: u32, start_ticks: u64, end_ticks: u64, sessions: u64) {
        done(self.0.push([node.into(), start_ticks, end_ticks, sessions]));
    }

    /// Logs a value that was added to a metric.
    pub(crate) fn value(
        &self,
        node: u32,
        ticks: u64,
        metric: u32,
        value: &MetricValue,
        sessions: u64,
    ) {
        let (tag, bits) = match value {
            MetricValue::Int(value) => (Tag::Int, value.cast_unsigned()),
            MetricValue::Float(value) => (Tag::Float, value.to_bits()),
            MetricValue::Text(text) => (Tag::Text, names::intern(text).into()),
            MetricValue::Ints(values) => (Tag::Ints, values.len() as u64),
            MetricValue::Floats(values) => (Tag::Floats, values.len() as u64),
        };
        let head = [head(node, tag, metric), ticks, bits, sessions];
        let elements = |first: usize| match value {
            MetricValue::Ints(values) => four(values, first, i64::cast_unsigned),
            MetricValue::Floats(values) => four(values, first, f64::to_bits),
            _ => Record::default(),
        };
        let rest = if tag.is_vector() { bits.div_ceil(PER_RECORD) } else { 0 };
        done(self.0.push_many(1 + rest, |at| match at.checked_sub(1) {
            None => head,
            Some(before) => elements((before * PER_RECORD) as usize),
        }));
    }

    /// Takes what is there, oldest first.
    pub(super) fn take(&self, decoder: &mut Decoder, mut entry: impl FnMut(Entry)) {
        self.0.drain(|record| {
            if let Some(decoded) = decoder.decode(record) {
                entry(decoded);
            }
        });
    }

    /// Drops what is there; returns how many records that were.
    pub(super) fn discard(&self) -> u64 {
        self.0.drain(|_| ())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a push means for others.
#[inline(always)]
fn done(pushed: Pushed) {
    match pushed {
        Pushed::WithRoom => {}
        Pushed::BeyondHalf => trace::ask_for_drain(),
        Pushed::Refused => losses::count(LossCause::TraceBuffer),
    }
}

const PER_RECORD: u64 = size_of::<Record>() as u64 / size_of::<u64>() as u64;

fn four<T: Copy>(values: &[T], first: usize, bits: fn(T) -> u64) -> Record {
    std::array::from_fn(|offset| values.get(first + offset).map_or(0, |&value| bits(value)))
}

/// What an entry is; a span has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Int = 1,
    Float = 2,
    Text = 3,
    Ints = 4,
    Floats = 5,
}

impl Tag {
    const fn is_vector(self) -> bool {
        matches!(self, Self::Ints | Self::Floats)
    }
}

/// Node, tag and metric in one word. The table of names ends long before the 24 bits of a metric.
fn head(node: u32, tag: Tag, metric: u32) -> u64 {
    u64::from(node) | (tag as u64) << 32 | u64::from(metric) << 40
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Span { node: u32, start_ticks: u64, end_ticks: u64, sessions: u64 },
    Value { node: u32, ticks: u64, metric: u32, value: MetricValue, sessions: u64 },
}

/// Puts entries together from records.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// A vector of which elements are still to come.
    vector: Option<Vector>,
}

#[derive(Debug)]
struct Vector {
    head: Record,
    elements: Vec<u64>,
}

impl Decoder {
    fn decode(&mut self, record: Record) -> Option<Entry> {
        let Some(mut vector) = self.vector.take() else { return self.begin(record) };
        vector.elements.extend(record);
        self.end_vector(vector)
    }

    fn begin(&mut self, record: Record) -> Option<Entry> {
        let [head, first, second, sessions] = record;
        let node = head as u32;
        let value = match (head >> 32) as u8 {
            tag if tag == Tag::Int as u8 => MetricValue::Int(second.cast_signed()),
            tag if tag == Tag::Float as u8 => MetricValue::Float(f64::from_bits(second)),
            tag if tag == Tag::Text as u8 => MetricValue::Text(names::name(second as u32)),
            tag if tag == Tag::Ints as u8 || tag == Tag::Floats as u8 => {
                return self.end_vector(Vector { head: record, elements: Vec::new() });
            }
            _ => {
                return Some(Entry::Span { node, start_ticks: first, end_ticks: second, sessions });
            }
        };
        Some(Entry::Value { node, ticks: first, metric: (head >> 40) as u32, value, sessions })
    }

    /// The vector's entry, if all of its elements are there.
    fn end_vector(&mut self, mut vector: Vector) -> Option<Entry> {
        let [head, ticks, len, sessions] = vector.head;
        if (vector.elements.len() as u64) < len {
            self.vector = Some(vector);
            return None;
        }
        vector.elements.truncate(len as usize);
        let elements = vector.elements.into_iter();
        let value = if (head >> 32) as u8 == Tag::Ints as u8 {
            MetricValue::Ints(elements.map(u64::cast_signed).collect())
        } else {
            MetricValue::Floats(elements.map(f64::from_bits).collect())
        };
        Some(Entry::Value {
            node: head as u32,
            ticks,
            metric: (head >> 40) as u32,
            value,
            sessions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(log: &Log) -> Vec<Entry> {
        let mut entries = Vec::new();
        log.take(&mut Decoder::default(), |entry| entries.push(entry));
        entries
    }

    #[test]
    fn what_is_logged_is_what_is_taken() {
        let log = Log::with_records(64);
        let values = [
            MetricValue::Int(-3),
            MetricValue::Float(0.5),
            MetricValue::Text("log::text".into()),
            MetricValue::Ints(vec![]),
            MetricValue::Ints(vec![i64::MIN, 2, 3, 4, 5]),
            MetricValue::Floats(vec![0.25, -0.0, f64::INFINITY, 1e300]),
        ];
        log.span(7, 10, 20, 1 << 63);
        let mut expected =
            vec![Entry::Span { node: 7, start_ticks: 10, end_ticks: 20, sessions: 1 << 63 }];
        for (metric, value) in (0xff_fff0..).zip(values) {
            log.value(u32::MAX, 15, metric, &value, 3);
            expected.push(Entry::Value { node: u32::MAX, ticks: 15, metric, value, sessions: 3 });
        }
        assert_eq!(entries(&log), expected);
        assert!(log.is_empty());
    }

    #[test]
    fn an_entry_without_room_is_left_out_whole() {
        let log = Log::with_records(4);
        log.value(1, 1, 1, &MetricValue::Ints(vec![1; 100]), 1);
        log.span(2, 2, 2, 1);
        let expected = Entry::Span { node: 2, start_ticks: 2, end_ticks: 2, sessions: 1 };
        assert_eq!(entries(&log), [expected]);
    }
}
