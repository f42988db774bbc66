//! The column of a thread and session: the wall-time statistics and user metrics of that session
//! for each node of the thread. Events write to it without a lock, and readers copy it.

use crate::arena::Arena;
use crate::link::Link;
use crate::names;
use crate::tag::Tag;
use marey_model::metric::{MetricError, MetricName, MetricValue};
use marey_model::sketch;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The data of one session about one thread. That thread is the only writer.
#[derive(Debug, Default)]
pub(crate) struct Column {
    stats: Arena<Stats, 6>,
    sketches: Arena<Sketch, 3>,
    pages: Arena<Page, 4>,
    metrics: Arena<Metric, 3>,
    elements: Arena<AtomicU64, 3>,
    sketches_len: AtomicU32,
    pages_len: AtomicU32,
    metrics_len: AtomicU32,
    elements_len: AtomicU32,
}

/// Wall-time statistics of one node, with links to its sketch and metrics. Aligned
/// to a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Stats {
    count: AtomicU64,
    total_nanos: AtomicU64,
    self_nanos: AtomicU64,
    min_nanos: AtomicU64,
    max_nanos: AtomicU64,
    /// Null while there is at most one entry.
    sketch: Link<Sketch>,
    /// The first metric's number plus one.
    metrics: AtomicU32,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            total_nanos: AtomicU64::new(0),
            self_nanos: AtomicU64::new(0),
            min_nanos: AtomicU64::new(u64::MAX),
            max_nanos: AtomicU64::new(0),
            sketch: Link::default(),
            metrics: AtomicU32::new(0),
        }
    }
}

/// For every power of two, the page with the counters of its buckets.
#[derive(Debug)]
struct Sketch([Link<Page>; sketch::PAGES as usize]);

impl Default for Sketch {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Link::default()))
    }
}

/// The counters of a power of two. Aligned so that two neighbours never share a cache line.
#[repr(align(64))]
#[derive(Debug)]
struct Page([AtomicU32; sketch::BUCKETS_PER_PAGE as usize]);

impl Default for Page {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; sketch::BUCKETS_PER_PAGE as usize])
    }
}

/// One user metric of one node.
#[derive(Debug, Default)]
struct Metric {
    name: AtomicU32,
    /// A [`Tag`].
    tag: AtomicU8,
    /// The scalar's bits, or the number of the first element.
    value: AtomicU64,
    /// The number of elements of a vector.
    len: AtomicU32,
    /// The number of elements allocated for the metric.
    capacity: AtomicU32,
    /// The next metric of the node, plus one.
    next: AtomicU32,
}

/// Adds to a word that has one writer: a load and a store, no locked instruction.
#[inline(always)]
fn add(word: &AtomicU64, value: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

/// Returns the next free number of an arena and reserves it.
fn reserve_number(len: &AtomicU32) -> u32 {
    let number = len.load(Ordering::Relaxed);
    len.store(number + 1, Ordering::Relaxed);
    number
}

impl Stats {
    /// Adds an entry if the counter of its bucket exists and is not at its maximum. Returns whether
    /// it did.
    #[inline(always)]
    pub(crate) fn record(&self, nanos: u64, self_nanos: u64) -> bool {
        let Some(counter) = self.counter(nanos) else { return false };
        let entries = counter.load(Ordering::Relaxed).wrapping_add(1);
        if entries == 0 {
            return false;
        }
        counter.store(entries, Ordering::Relaxed);
        self.add(nanos, self_nanos);
        true
    }

    /// Adds an entry to everything but the sketch.
    #[inline(always)]
    fn add(&self, nanos: u64, self_nanos: u64) {
        add(&self.count, 1);
        add(&self.total_nanos, nanos);
        add(&self.self_nanos, self_nanos);
        if nanos < self.min_nanos.load(Ordering::Relaxed) {
            self.min_nanos.store(nanos, Ordering::Relaxed);
        }
        if nanos > self.max_nanos.load(Ordering::Relaxed) {
            self.max_nanos.store(nanos, Ordering::Relaxed);
        }
    }

    fn is_used(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0 || self.metrics.load(Ordering::Relaxed) != 0
    }

    /// Returns the counter of a duration's bucket, if its page exists.
    #[inline(always)]
    fn counter(&self, nanos: u64) -> Option<&AtomicU32> {
        let page = self.sketch()?.page(sketch::page(nanos) as usize)?;
        page.0.get(sketch::index_in_page(nanos) as usize)
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "the sketch is reached through a link")]
    fn sketch(&self) -> Option<&Sketch> {
        // SAFETY: `Column::make_sketch` set an element of the same column as these statistics.
        unsafe { self.sketch.get() }
    }
}

impl Sketch {
    #[inline(always)]
    #[expect(unsafe_code, reason = "the page is reached through a link")]
    fn page(&self, power: usize) -> Option<&Page> {
        // SAFETY: `Column::make_page` set an element of the same column as this sketch.
        unsafe { self.0.get(power)?.get() }
    }
}

/// Counts one entry in a bucket, up to the maximum of the counter.
#[inline(always)]
fn increment(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
}

impl Column {
    /// Returns an empty column with room for as much as this one contains, so that its thread need
    /// not allocate. `None` if this one contains nothing.
    pub(crate) fn empty_copy(&self) -> Option<Box<Self>> {
        let copy = Self::default();
        copy.stats.reserve_as(&self.stats, Stats::is_used);
        if !copy.stats.has_chunks() {
            return None;
        }
        copy.sketches.reserve(self.sketches_len.load(Ordering::Relaxed));
        copy.pages.reserve(self.pages_len.load(Ordering::Relaxed));
        copy.metrics.reserve(self.metrics_len.load(Ordering::Relaxed));
        copy.elements.reserve(self.elements_len.load(Ordering::Relaxed));
        Some(Box::new(copy))
    }

    /// Returns the statistics of `node`, which do not move during the life of the column.
    #[inline(always)]
    pub(crate) fn stats(&self, node: u32) -> Option<&Stats> {
        self.stats.ensure(node)
    }

    /// Adds one completed entry of `node`.
    #[inline(always)]
    pub(crate) fn record(&self, node: u32, nanos: u64, self_nanos: u64) {
        let Some(stats) = self.stats(node) else { return };
        if !stats.record(nanos, self_nanos) {
            self.record_slow(stats, nanos, self_nanos);
        }
    }

    /// Adds an entry whose counter does not exist yet or is at its maximum.
    #[cold]
    #[inline(never)]
    fn record_slow(&self, stats: &Stats, nanos: u64, self_nanos: u64) {
        let (previous_count, first_nanos) =
            (stats.count.load(Ordering::Relaxed), stats.min_nanos.load(Ordering::Relaxed));
        stats.add(nanos, self_nanos);
        if previous_count == 0 {
            // A single entry equals the minimum and needs no sketch.
            return;
        }
        if previous_count == 1 {
            self.count_in_sketch(stats, first_nanos);
        }
        self.count_in_sketch(stats, nanos);
    }

    /// Counts an entry in its bucket, after making the page if needed.
    fn count_in_sketch(&self, stats: &Stats, nanos: u64) -> Option<()> {
        let bucket = sketch::bucket(nanos);
        let power = (bucket / sketch::BUCKETS_PER_PAGE) as usize;
        let bucket_in_page = (bucket % sketch::BUCKETS_PER_PAGE) as usize;
        let sketch = stats.sketch().or_else(|| self.make_sketch(stats))?;
        let page = sketch.page(power).or_else(|| self.make_page(sketch, power))?;
        increment(page.0.get(bucket_in_page)?);
        Some(())
    }

    fn make_sketch(&self, stats: &Stats) -> Option<&Sketch> {
        let sketch = self.sketches.ensure(reserve_number(&self.sketches_len))?;
        stats.sketch.set(Some(sketch));
        Some(sketch)
    }

    fn make_page(&self, sketch: &Sketch, power: usize) -> Option<&Page> {
        let page = self.pages.ensure(reserve_number(&self.pages_len))?;
        sketch.0.get(power)?.set(Some(page));
        Some(page)
    }

    /// Adds a value of a user metric to `node`.
    pub(crate) fn add_metric(
        &self,
        node: u32,
        number: u32,
        name: &MetricName,
        added: &MetricValue,
    ) -> Result<(), MetricError> {
        let Some(stats) = self.stats.ensure(node) else { return Ok(()) };
        if let Some(metric) = self.metrics(stats).find(|metric| metric.has_number(number)) {
            let mut value = self.value(metric);
            value.update(added, name.aggregation(), name.key())?;
            self.store(metric, &value);
            return Ok(());
        }
        let position = reserve_number(&self.metrics_len);
        let Some(metric) = self.metrics.ensure(position) else { return Ok(()) };
        metric.name.store(number, Ordering::Relaxed);
        metric.next.store(stats.metrics.load(Ordering::Relaxed), Ordering::Relaxed);
        self.store(metric, added);
        stats.metrics.store(position + 1, Ordering::Release);
        Ok(())
    }

    /// Adds to a metric of `node` that is summed and has a float already. Returns whether it has.
    pub(crate) fn add_float(&self, node: u32, number: u32, added: f64) -> bool {
        let metric = self
            .stats
            .get(node)
            .and_then(|stats| self.metrics(stats).find(|metric| metric.has_number(number)));
        let Some(metric) = metric else { return false };
        let is_float = metric.tag.load(Ordering::Relaxed) == Tag::Float as u8;
        if is_float {
            let sum = f64::from_bits(metric.value.load(Ordering::Relaxed)) + added;
            metric.value.store(sum.to_bits(), Ordering::Relaxed);
        }
        is_float
    }

    fn metrics(&self, stats: &Stats) -> impl Iterator<Item = &Metric> {
        let mut number = stats.metrics.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let metric = self.metrics.get(number.checked_sub(1)?)?;
            number = metric.next.load(Ordering::Relaxed);
            Some(metric)
        })
    }

    fn value(&self, metric: &Metric) -> MetricValue {
        let bits = metric.value.load(Ordering::Relaxed);
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
    fn store(&self, metric: &Metric, value: &MetricValue) {
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
        metric.value.store(bits, Ordering::Relaxed);
        metric.tag.store(Tag::for_value(value) as u8, Ordering::Relaxed);
    }

    fn store_elements(&self, metric: &Metric, bits: impl ExactSizeIterator<Item = u64>) -> u64 {
        let len = bits.len() as u32;
        let capacity = metric.capacity.load(Ordering::Relaxed);
        let first = if len <= capacity {
            metric.value.load(Ordering::Relaxed) as u32
        } else {
            let first = self.elements_len.load(Ordering::Relaxed);
            // Doubling bounds the abandoned elements of a growing vector by its final size.
            let capacity = len.max(capacity.saturating_mul(2));
            self.elements_len.store(first.saturating_add(capacity), Ordering::Relaxed);
            metric.capacity.store(capacity, Ordering::Relaxed);
            first
        };
        for (position, bits) in (first..).zip(bits) {
            if let Some(element) = self.elements.ensure(position) {
                element.store(bits, Ordering::Relaxed);
            }
        }
        metric.len.store(len, Ordering::Relaxed);
        u64::from(first)
    }

    /// Copies the data of `node`. The copy may be torn unless no event runs, see
    /// [`crate::seq::Seq::read`].
    pub(crate) fn copy(&self, node: u32) -> NodeData {
        let Some(stats) = self.stats.get(node) else { return NodeData::default() };
        let count = stats.count.load(Ordering::Relaxed);
        let (min, max) =
            (stats.min_nanos.load(Ordering::Relaxed), stats.max_nanos.load(Ordering::Relaxed));
        let mut buckets = buckets(stats);
        if buckets.is_empty() && count > 0 {
            buckets = vec![(sketch::bucket(min), 1)];
        }
        let mut metrics: Vec<_> = self
            .metrics(stats)
            .map(|metric| (metric.name.load(Ordering::Relaxed), self.value(metric)))
            .collect();
        // The list grows at its head.
        metrics.reverse();
        NodeData {
            count,
            total_nanos: stats.total_nanos.load(Ordering::Relaxed),
            self_nanos: stats.self_nanos.load(Ordering::Relaxed),
            min_nanos: min,
            max_nanos: max,
            buckets,
            metrics,
        }
    }
}

/// Returns the counted buckets of a node's sketch, ascending.
fn buckets(stats: &Stats) -> Vec<(u32, u64)> {
    let Some(sketch) = stats.sketch() else { return Vec::new() };
    let mut buckets = Vec::new();
    for power in 0..sketch::PAGES {
        let Some(page) = sketch.page(power as usize) else { continue };
        for (bucket_in_page, counter) in (0..).zip(&page.0) {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                let bucket = power * sketch::BUCKETS_PER_PAGE + bucket_in_page;
                buckets.push((bucket, u64::from(count)));
            }
        }
    }
    buckets
}

impl Metric {
    fn has_number(&self, number: u32) -> bool {
        self.name.load(Ordering::Relaxed) == number
    }
}

/// The data of a session about a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeData {
    pub(crate) count: u64,
    pub(crate) total_nanos: u64,
    pub(crate) self_nanos: u64,
    pub(crate) min_nanos: u64,
    pub(crate) max_nanos: u64,
    /// The counted buckets of the sketch, ascending.
    pub(crate) buckets: Vec<(u32, u64)>,
    /// Metric numbers and values, in the order of first use.
    pub(crate) metrics: Vec<(u32, MetricValue)>,
}

impl Default for NodeData {
    fn default() -> Self {
        Self {
            count: 0,
            total_nanos: 0,
            self_nanos: 0,
            min_nanos: u64::MAX,
            max_nanos: 0,
            buckets: Vec::new(),
            metrics: Vec::new(),
        }
    }
}

impl NodeData {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.metrics.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_and_sketch_agree_with_the_entries() {
        let column = Column::default();
        for nanos in [10, 1_000, 5, 1_000_000] {
            column.record(3, nanos, nanos / 2);
        }
        let data = column.copy(3);
        assert_eq!((data.count, data.total_nanos, data.self_nanos), (4, 1_001_015, 500_507));
        assert_eq!((data.min_nanos, data.max_nanos), (5, 1_000_000));
        assert_eq!(data.buckets.iter().map(|&(_, count)| count).sum::<u64>(), 4);
        assert!(column.copy(4).is_empty());
    }

    #[test]
    fn a_single_entry_has_a_bucket_without_a_sketch() {
        let column = Column::default();
        column.record(0, 77, 77);
        assert_eq!(column.sketches_len.load(Ordering::Relaxed), 0);
        assert_eq!(column.copy(0).buckets, [(sketch::bucket(77), 1)]);
    }

    #[test]
    fn metrics_keep_their_order_and_vectors_reuse_their_elements() {
        let column = Column::default();
        let number = names::intern_metric("column::v").unwrap();
        let name = names::metric(number).unwrap();
        for _ in 0..3 {
            column.add_metric(9, number, &name, &MetricValue::Ints(vec![1, 2])).unwrap();
        }
        let other_number = names::intern_metric("column::w (pty)").unwrap();
        let other_name = names::metric(other_number).unwrap();
        column.add_metric(9, other_number, &other_name, &MetricValue::Float(0.5)).unwrap();
        let data = column.copy(9);
        let expected =
            vec![(number, MetricValue::Ints(vec![3, 6])), (other_number, MetricValue::Float(0.5))];
        assert_eq!(data.metrics, expected);
        assert_eq!(column.elements_len.load(Ordering::Relaxed), 2);
        assert!(column.add_metric(9, number, &name, &MetricValue::Int(1)).is_err());
    }

    #[test]
    fn an_empty_copy_has_room_for_the_same_data_and_none_of_it() {
        let column = Column::default();
        assert!(column.empty_copy().is_none());
        for node in 0..1000 {
            (0..3).for_each(|_| column.record(node, 1 << 20, 1));
        }
        let copy = column.empty_copy().unwrap();
        assert!(copy.copy(7).is_empty() && copy.empty_copy().is_none());
        let has_room = |column: &Column| {
            column.stats.get(999).is_some()
                && column.sketches.get(999).is_some()
                && column.pages.get(999).is_some()
        };
        assert!(has_room(&column) && has_room(&copy));
    }

    #[test]
    fn a_vector_of_changing_length_does_not_allocate_each_time() {
        const LONGEST: usize = 40;
        let column = Column::default();
        let number = names::intern_metric("column::x (pty)").unwrap();
        let name = names::metric(number).unwrap();
        let mut store_vector = |len: usize| {
            let value = MetricValue::Ints((0..).take(len).collect());
            column.add_metric(9, number, &name, &value).unwrap();
            assert_eq!(column.copy(9).metrics, [(number, value)]);
            column.elements_len.load(Ordering::Relaxed) as usize
        };
        let max_elements = (0..=LONGEST).map(&mut store_vector).max().unwrap();
        assert!(max_elements <= 4 * LONGEST, "{max_elements} elements for {LONGEST}");
        for len in [3, 0, LONGEST, 17, 1].into_iter().cycle().take(1000) {
            assert_eq!(store_vector(len), max_elements);
        }
    }
}
