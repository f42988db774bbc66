//! The user metrics of a column: a list for each node, with the newest metric first.

use super::stats::Stats;
use super::{Column, reserve_position};
use crate::names;
use crate::tag::Tag;
use marey_model::metric::{MetricError, MetricName, MetricValue};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// One user metric of one node.
#[derive(Debug, Default)]
pub(super) struct StoredMetric {
    /// The interned id of its name.
    metric_id: AtomicU32,
    /// A [`Tag`].
    tag: AtomicU8,
    /// The scalar's bits, or the position of the first element.
    value_bits: AtomicU64,
    /// The number of elements of a vector.
    len: AtomicU32,
    /// The number of elements allocated for the metric.
    capacity: AtomicU32,
    /// The position of the node's next metric plus one; 0 for none.
    next_position: AtomicU32,
}

impl StoredMetric {
    /// Returns the interned id of the metric's name.
    pub(super) fn metric_id(&self) -> u32 {
        self.metric_id.load(Ordering::Relaxed)
    }
}

impl Column {
    /// Adds a value of a user metric to `node`.
    pub(crate) fn add_metric(
        &self,
        node: u32,
        metric_id: u32,
        name: &MetricName,
        added: &MetricValue,
    ) -> Result<(), MetricError> {
        let Some(stats) = self.stats.ensure(node) else { return Ok(()) };
        if let Some(metric) = self.metrics(stats).find(|metric| metric.metric_id() == metric_id) {
            let mut value = self.value(metric);
            value.update(added, name.aggregation(), name.key())?;
            self.store(metric, &value);
            return Ok(());
        }
        let position = reserve_position(&self.metrics_len);
        let Some(metric) = self.metrics.ensure(position) else { return Ok(()) };
        metric.metric_id.store(metric_id, Ordering::Relaxed);
        metric.next_position.store(stats.first_metric.load(Ordering::Relaxed), Ordering::Relaxed);
        self.store(metric, added);
        stats.first_metric.store(position + 1, Ordering::Release);
        Ok(())
    }

    /// Adds to a metric of `node` that is summed and has a float already. Returns whether it has.
    pub(crate) fn add_float(&self, node: u32, metric_id: u32, added: f64) -> bool {
        let metric = self
            .stats
            .get(node)
            .and_then(|stats| self.metrics(stats).find(|metric| metric.metric_id() == metric_id));
        let Some(metric) = metric else { return false };
        let is_float = metric.tag.load(Ordering::Relaxed) == Tag::Float as u8;
        if is_float {
            let sum = f64::from_bits(metric.value_bits.load(Ordering::Relaxed)) + added;
            metric.value_bits.store(sum.to_bits(), Ordering::Relaxed);
        }
        is_float
    }

    /// Iterates over the metrics of a node, the newest first.
    pub(super) fn metrics(&self, stats: &Stats) -> impl Iterator<Item = &StoredMetric> {
        let mut position_plus_one = stats.first_metric.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let metric = self.metrics.get(position_plus_one.checked_sub(1)?)?;
            position_plus_one = metric.next_position.load(Ordering::Relaxed);
            Some(metric)
        })
    }

    /// Returns the value of a metric.
    pub(super) fn value(&self, metric: &StoredMetric) -> MetricValue {
        let bits = metric.value_bits.load(Ordering::Relaxed);
        let elements = || {
            let len = metric.len.load(Ordering::Relaxed);
            (0..len).map(move |offset| {
                let element = self.elements.get((bits as u32).wrapping_add(offset));
                element.map_or(0, |element| element.load(Ordering::Relaxed))
            })
        };
        match Tag::from_u8(metric.tag.load(Ordering::Relaxed)) {
            Some(Tag::Float) => MetricValue::Float(f64::from_bits(bits)),
            Some(Tag::Text) => MetricValue::Text(names::text(bits as u32)),
            Some(Tag::Ints) => MetricValue::Ints(elements().map(u64::cast_signed).collect()),
            Some(Tag::Floats) => MetricValue::Floats(elements().map(f64::from_bits).collect()),
            Some(Tag::Int) | None => MetricValue::Int(bits.cast_signed()),
        }
    }

    /// Stores a value. A vector reuses the elements of the previous one if they are enough.
    fn store(&self, metric: &StoredMetric, value: &MetricValue) {
        let bits = match value {
            MetricValue::Int(value) => value.cast_unsigned(),
            MetricValue::Float(value) => value.to_bits(),
            MetricValue::Text(text) => names::intern_text(text).into(),
            MetricValue::Ints(values) => {
                self.store_elements(metric, values.iter().map(|value| value.cast_unsigned()))
            }
            MetricValue::Floats(values) => {
                self.store_elements(metric, values.iter().map(|value| value.to_bits()))
            }
        };
        metric.value_bits.store(bits, Ordering::Relaxed);
        metric.tag.store(Tag::for_value(value) as u8, Ordering::Relaxed);
    }

    fn store_elements(
        &self,
        metric: &StoredMetric,
        bits: impl ExactSizeIterator<Item = u64>,
    ) -> u64 {
        let len = bits.len() as u32;
        let capacity = metric.capacity.load(Ordering::Relaxed);
        let first_position = if len <= capacity {
            metric.value_bits.load(Ordering::Relaxed) as u32
        } else {
            let first_position = self.elements_len.load(Ordering::Relaxed);
            // Doubling bounds the abandoned elements of a growing vector by its final size.
            let capacity = len.max(capacity.saturating_mul(2));
            self.elements_len.store(first_position.saturating_add(capacity), Ordering::Relaxed);
            metric.capacity.store(capacity, Ordering::Relaxed);
            first_position
        };
        for (position, bits) in (first_position..).zip(bits) {
            if let Some(element) = self.elements.ensure(position) {
                element.store(bits, Ordering::Relaxed);
            }
        }
        metric.len.store(len, Ordering::Relaxed);
        u64::from(first_position)
    }
}
