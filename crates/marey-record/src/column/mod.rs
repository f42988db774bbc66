//! The column of a thread and session: the wall-time statistics and user metrics of that session
//! for each node of the thread. Events write to it without a lock, and readers copy it.

mod metrics;
mod node_data;
mod stats;

pub(crate) use self::node_data::{NodeData, WallTimes};
pub(crate) use self::stats::Stats;

use self::metrics::StoredMetric;
use self::stats::{BucketPage, PagedSketch, counted_buckets, increment};
use crate::arena::Arena;
use marey_model::sketch;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The data of one session about one thread. That thread is the only writer.
#[derive(Debug, Default)]
pub(crate) struct Column {
    stats: Arena<Stats, 6>,
    sketches: Arena<PagedSketch, 3>,
    pages: Arena<BucketPage, 4>,
    metrics: Arena<StoredMetric, 3>,
    elements: Arena<AtomicU64, 3>,
    sketches_len: AtomicU32,
    pages_len: AtomicU32,
    metrics_len: AtomicU32,
    elements_len: AtomicU32,
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

    fn make_sketch(&self, stats: &Stats) -> Option<&PagedSketch> {
        let sketch = self.sketches.ensure(reserve_position(&self.sketches_len))?;
        stats.sketch.set(Some(sketch));
        Some(sketch)
    }

    fn make_page(&self, sketch: &PagedSketch, power: usize) -> Option<&BucketPage> {
        let page = self.pages.ensure(reserve_position(&self.pages_len))?;
        sketch.0.get(power)?.set(Some(page));
        Some(page)
    }

    /// Copies the data of `node`. The copy may be torn unless no event runs, see
    /// [`crate::seq::Seq::read`].
    pub(crate) fn copy(&self, node: u32) -> NodeData {
        let Some(stats) = self.stats.get(node) else { return NodeData::default() };
        let count = stats.count.load(Ordering::Relaxed);
        let min_nanos = stats.min_nanos.load(Ordering::Relaxed);
        let mut buckets = counted_buckets(stats);
        if buckets.is_empty() && count > 0 {
            buckets = vec![(sketch::bucket(min_nanos), 1)];
        }
        let mut metrics: Vec<_> =
            self.metrics(stats).map(|metric| (metric.metric_id(), self.value(metric))).collect();
        // The list grows at its head.
        metrics.reverse();
        let wall = WallTimes {
            count,
            open_count: 0,
            total_nanos: stats.total_nanos.load(Ordering::Relaxed),
            self_nanos: stats.self_nanos.load(Ordering::Relaxed),
            min_nanos,
            max_nanos: stats.max_nanos.load(Ordering::Relaxed),
            buckets,
        };
        NodeData { wall, metrics }
    }
}

/// Reserves the next free position of an arena and returns it.
fn reserve_position(len: &AtomicU32) -> u32 {
    let position = len.load(Ordering::Relaxed);
    len.store(position + 1, Ordering::Relaxed);
    position
}

#[cfg(test)]
mod tests;
