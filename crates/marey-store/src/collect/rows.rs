//! Spans and values in the compact form in which the second pass over a spool sorts them. They
//! refer to nodes, stamps and details by position.

use marey_model::metric::MetricValue;

use crate::row::{DamagedRow, Field, RowBytes};
use crate::sort::Sortable;

/// A span.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanRow {
    pub(super) start_nanos: i64,
    pub(super) duration_nanos: i64,
    pub(super) children_nanos: i64,
    /// The position of its node in the outline.
    pub(super) node: u32,
    /// The position of its [`Stamp`].
    pub(super) stamp: u32,
    /// Correlation id if it is a launch, otherwise 0.
    pub(super) correlation_id: u32,
    /// The number of its [`SpanDetail`](super::windows::SpanDetail), or 0 if it has none.
    pub(super) detail: u32,
}

/// The properties that many spans share besides their context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) sessions: u64,
    pub(super) phase: u32,
    pub(super) is_open: bool,
}

/// A value of a metric.
#[derive(Clone, Debug)]
pub(super) struct ValueRow {
    pub(super) time_nanos: i64,
    pub(super) node: u32,
    pub(super) stamp: u32,
    /// The run's id of the metric's name.
    pub(super) name_id: u32,
    pub(super) value: MetricValue,
}

impl Sortable for SpanRow {
    type Key = i64;

    fn key(&self) -> i64 {
        self.start_nanos
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let times = [self.start_nanos, self.duration_nanos, self.children_nanos];
        let [start_nanos, duration_nanos, children_nanos] = times.map(i64::cast_unsigned);
        let node_and_stamp = pack_ids(self.node, self.stamp);
        let correlation_and_detail = pack_ids(self.correlation_id, self.detail);
        encode_words(
            [start_nanos, duration_nanos, children_nanos, node_and_stamp, correlation_and_detail],
            out,
        );
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        let [start_nanos, duration_nanos, children_nanos, node_and_stamp, correlation_and_detail] =
            decode_words(input)?;
        Ok(Self {
            start_nanos: start_nanos.cast_signed(),
            duration_nanos: duration_nanos.cast_signed(),
            children_nanos: children_nanos.cast_signed(),
            node: node_and_stamp as u32,
            stamp: (node_and_stamp >> 32) as u32,
            correlation_id: correlation_and_detail as u32,
            detail: (correlation_and_detail >> 32) as u32,
        })
    }
}

impl Sortable for ValueRow {
    type Key = i64;

    fn key(&self) -> i64 {
        self.time_nanos
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let ids = [pack_ids(self.node, self.stamp), u64::from(self.name_id)];
        encode_words([self.time_nanos.cast_unsigned(), ids[0], ids[1]], out);
        self.value.encode(out);
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        let [time_nanos, node_and_stamp, name_id] = decode_words(input)?;
        Ok(Self {
            time_nanos: time_nanos.cast_signed(),
            node: node_and_stamp as u32,
            stamp: (node_and_stamp >> 32) as u32,
            name_id: name_id as u32,
            value: Field::decode(input)?,
        })
    }
}

/// Packs two ids into one word.
pub(super) fn pack_ids(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

pub(super) fn encode_words<const N: usize>(words: [u64; N], out: &mut Vec<u8>) {
    out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
}

pub(super) fn decode_words<const N: usize>(
    input: &mut RowBytes<'_>,
) -> Result<[u64; N], DamagedRow> {
    let mut words = [[0; 8]; N];
    let bytes = words.as_flattened_mut();
    bytes.copy_from_slice(input.bytes(bytes.len())?);
    Ok(words.map(u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_encoding() {
        let span = SpanRow {
            start_nanos: i64::MIN,
            duration_nanos: 2,
            children_nanos: i64::MAX,
            node: 4,
            stamp: u32::MAX,
            correlation_id: 7,
            detail: u32::MAX,
        };
        let values = [
            MetricValue::Int(-1),
            MetricValue::Float(f64::INFINITY),
            MetricValue::Text("".into()),
            MetricValue::Text("ünï".into()),
            MetricValue::Ints(vec![1, i64::MIN]),
            MetricValue::Floats(vec![]),
        ];
        let mut bytes = Vec::new();
        span.encode(&mut bytes);
        let row = |value| ValueRow { time_nanos: -7, node: 1, stamp: 2, name_id: 3, value };
        assert_eq!((span.key(), row(MetricValue::Int(0)).key()), (i64::MIN, -7));
        for value in &values {
            row(value.clone()).encode(&mut bytes);
        }
        let mut input = RowBytes(&bytes);
        assert_eq!(format!("{:?}", SpanRow::decode(&mut input).unwrap()), format!("{span:?}"));
        for value in values {
            let expected = format!("{:?}", row(value));
            assert_eq!(format!("{:?}", ValueRow::decode(&mut input).unwrap()), expected);
        }
        assert!(input.0.is_empty());
        assert!(ValueRow::decode(&mut RowBytes(&bytes[..9])).is_err());
    }
}
