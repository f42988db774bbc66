//! Spans and values while they wait to be sorted.

use marey_model::metric::MetricValue;

use crate::row::{Bytes, Damaged, Field};
use crate::sort::Sortable;

/// A span.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanRow {
    pub(super) start_nanos: i64,
    pub(super) duration_nanos: i64,
    pub(super) children_nanos: i64,
    /// Position of its node among the places of the spool.
    pub(super) place: u32,
    /// Position of its stamp.
    pub(super) stamp: u32,
    /// The number that a launch shares with what it launched; 0 for none.
    pub(super) correlation: u32,
}

/// A value of a metric.
#[derive(Clone, Debug)]
pub(super) struct ValueRow {
    pub(super) time_nanos: i64,
    pub(super) place: u32,
    pub(super) stamp: u32,
    /// Id of the metric's name in the run.
    pub(super) name: u32,
    pub(super) value: MetricValue,
}

impl Sortable for SpanRow {
    type Key = i64;

    fn key(&self) -> i64 {
        self.start_nanos
    }

    fn put(&self, out: &mut Vec<u8>) {
        let times = [self.start_nanos, self.duration_nanos, self.children_nanos];
        let [start, duration, children] = times.map(i64::cast_unsigned);
        let ids = pair(self.place, self.stamp);
        put_words([start, duration, children, ids, self.correlation.into()], out);
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        let [start, duration, children, ids, correlation] = take_words(input)?;
        Ok(Self {
            start_nanos: start.cast_signed(),
            duration_nanos: duration.cast_signed(),
            children_nanos: children.cast_signed(),
            place: ids as u32,
            stamp: (ids >> 32) as u32,
            correlation: correlation as u32,
        })
    }
}

impl Sortable for ValueRow {
    type Key = i64;

    fn key(&self) -> i64 {
        self.time_nanos
    }

    fn put(&self, out: &mut Vec<u8>) {
        let ids = [pair(self.place, self.stamp), u64::from(self.name)];
        put_words([self.time_nanos.cast_unsigned(), ids[0], ids[1]], out);
        self.value.put(out);
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        let [time, ids, name] = take_words(input)?;
        Ok(Self {
            time_nanos: time.cast_signed(),
            place: ids as u32,
            stamp: (ids >> 32) as u32,
            name: name as u32,
            value: Field::take(input)?,
        })
    }
}

/// Two ids as one word.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn put_words<const N: usize>(words: [u64; N], out: &mut Vec<u8>) {
    out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
}

fn take_words<const N: usize>(input: &mut Bytes<'_>) -> Result<[u64; N], Damaged> {
    let mut words = [[0; 8]; N];
    let bytes = words.as_flattened_mut();
    bytes.copy_from_slice(input.bytes(bytes.len())?);
    Ok(words.map(u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_their_bytes() {
        let span = SpanRow {
            start_nanos: i64::MIN,
            duration_nanos: 2,
            children_nanos: i64::MAX,
            place: 4,
            stamp: u32::MAX,
            correlation: 7,
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
        span.put(&mut bytes);
        let row = |value| ValueRow { time_nanos: -7, place: 1, stamp: 2, name: 3, value };
        for value in &values {
            row(value.clone()).put(&mut bytes);
        }
        let mut input = Bytes(&bytes);
        assert_eq!(format!("{:?}", SpanRow::take(&mut input).unwrap()), format!("{span:?}"));
        for value in values {
            let expected = format!("{:?}", row(value));
            assert_eq!(format!("{:?}", ValueRow::take(&mut input).unwrap()), expected);
        }
        assert!(input.0.is_empty());
        assert!(ValueRow::take(&mut Bytes(&bytes[..9])).is_err());
    }
}
