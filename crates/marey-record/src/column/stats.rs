//! The wall-time statistics of a node: sums, and a sketch of the durations.

use crate::link::Link;
use marey_model::sketch;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Wall-time statistics of one node, with links to its sketch and metrics. Aligned
/// to a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Stats {
    pub(super) count: AtomicU64,
    pub(super) total_nanos: AtomicU64,
    pub(super) self_nanos: AtomicU64,
    pub(super) min_nanos: AtomicU64,
    pub(super) max_nanos: AtomicU64,
    /// Null while there is at most one entry.
    pub(super) sketch: Link<PagedSketch>,
    /// The position of the first metric plus one; 0 for none.
    pub(super) first_metric: AtomicU32,
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
            first_metric: AtomicU32::new(0),
        }
    }
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
    pub(super) fn add(&self, nanos: u64, self_nanos: u64) {
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

    /// Whether an entry or a metric was recorded.
    pub(super) fn is_used(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0 || self.first_metric.load(Ordering::Relaxed) != 0
    }

    /// Returns the counter of a duration's bucket, if its page exists.
    #[inline(always)]
    fn counter(&self, nanos: u64) -> Option<&AtomicU32> {
        let page = self.sketch()?.page(sketch::page(nanos) as usize)?;
        page.0.get(sketch::index_in_page(nanos) as usize)
    }

    #[inline(always)]
    #[expect(unsafe_code, reason = "the sketch is reached through a link")]
    pub(super) fn sketch(&self) -> Option<&PagedSketch> {
        // SAFETY: `Column::make_sketch` set an element of the same column as these statistics.
        unsafe { self.sketch.get() }
    }
}

/// For every power of two, the page with the counters of its buckets.
#[derive(Debug)]
pub(super) struct PagedSketch(pub(super) [Link<BucketPage>; sketch::PAGES as usize]);

impl Default for PagedSketch {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Link::default()))
    }
}

impl PagedSketch {
    #[inline(always)]
    #[expect(unsafe_code, reason = "the page is reached through a link")]
    pub(super) fn page(&self, power: usize) -> Option<&BucketPage> {
        // SAFETY: `Column::make_page` set an element of the same column as this sketch.
        unsafe { self.0.get(power)?.get() }
    }
}

/// The counters of a power of two. Aligned so that two neighbours never share a cache line.
#[repr(align(64))]
#[derive(Debug)]
pub(super) struct BucketPage(pub(super) [AtomicU32; sketch::BUCKETS_PER_PAGE as usize]);

impl Default for BucketPage {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; sketch::BUCKETS_PER_PAGE as usize])
    }
}

/// Returns the counted buckets of a node's sketch, ascending.
pub(super) fn counted_buckets(stats: &Stats) -> Vec<(u32, u64)> {
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

/// Adds to a word that has one writer: a load and a store, no locked instruction.
#[inline(always)]
fn add(word: &AtomicU64, value: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

/// Counts one entry in a bucket, up to the maximum of the counter.
#[inline(always)]
pub(super) fn increment(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
}
