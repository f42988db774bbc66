//! Sums spans by context node and time bucket, at several bucket widths, so that a zoom of the
//! timeline reads few rows.
//!
//! Only the finest level that fits is kept while spans arrive. When it exceeds its row limit, it is
//! folded into the next coarser level. At the end the coarser levels are derived in the same way,
//! so all levels agree.
//!
//! Self time counts in the bucket in which it was spent: a span's time in a bucket minus the time
//! of its direct children there, limited by the span's `children_nanos`. So no bucket or span has a
//! negative self time, and the self times of all buckets add up to the self times of the spans.
//! Spans that are still open count like the others.

use std::mem;

use hashbrown::HashMap;
use marey_model::sketch::Sketch;

/// The number that stands for the parent of a node without one.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// Bucket widths of the levels, as the exponents of powers of two in nanoseconds, finest first.
pub(crate) const LEVELS: [u32; 6] = [20, 24, 28, 32, 36, 40];

/// Greatest row limit of a level. A zoom that needs more rows reads the events.
const MAX_ROW_LIMIT: u64 = 262_144;
/// Lowest row limit of a level, for a run with few events.
const MIN_ROW_LIMIT: u64 = 4096;
/// Number of events for each row that the limit allows.
const EVENTS_PER_ROW: u64 = 16;
/// Average number of visits of a row by long spans above which the level is too fine for them.
const VISITS_PER_ROW: u64 = 16;

/// The finest level of sums that fits.
#[derive(Debug)]
pub(crate) struct Rollup {
    /// Position in [`LEVELS`] of the current level. At the end of the list, no level fits.
    level: usize,
    max_rows: u64,
    cell_indices: HashMap<BucketKey, u32>,
    cells: Vec<BucketSums>,
    /// The bucket and the cell of the last update of each node, as a cache.
    last_updates: Vec<(i64, u32)>,
    extra_visits: u64,
}

/// A node and the number of a bucket: its start divided by its width.
type BucketKey = (u32, i64);

/// The sums of a node in a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketSums {
    pub(crate) node: u32,
    pub(crate) bucket: i64,
    pub(crate) sums: Sums,
    /// Time of ended spans whose parent has not ended yet.
    inner_nanos: i64,
}

/// Sums of spans.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Number of spans that begin in the bucket.
    pub(crate) count: i64,
    pub(crate) total_nanos: i64,
    pub(crate) self_nanos: i64,
    /// Shortest and longest duration of the spans that begin in the bucket.
    pub(crate) extremes_nanos: Option<(i64, i64)>,
}

/// The sums of a node over a whole recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sums: Sums,
    pub(crate) sketch: Sketch,
}

impl Totals {
    pub(crate) fn add(&mut self, duration_nanos: i64, children_nanos: i64) {
        self.sums.count_span(duration_nanos);
        self.sums.add(duration_nanos, children_nanos);
        self.sketch.add(duration_nanos.cast_unsigned());
    }

    /// Whether a sum has reached the limit of its column.
    pub(crate) const fn is_saturated(&self) -> bool {
        let Sums { count, total_nanos, self_nanos, .. } = self.sums;
        is_limit(count) || is_limit(total_nanos) || is_limit(self_nanos)
    }
}

/// The node and times of a span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanTimes {
    pub(crate) node: u32,
    /// The node of its parent, or [`NO_NODE`].
    pub(crate) parent: u32,
    pub(crate) start_nanos: i64,
    pub(crate) duration_nanos: i64,
    pub(crate) children_nanos: i64,
}

impl Rollup {
    /// Creates the sums of a recording of `event_count` events and, so far, `node_count` nodes.
    pub(crate) fn new(node_count: usize, event_count: u64) -> Self {
        Self {
            level: 0,
            max_rows: (event_count / EVENTS_PER_ROW).clamp(MIN_ROW_LIMIT, MAX_ROW_LIMIT),
            cell_indices: HashMap::new(),
            cells: Vec::new(),
            last_updates: vec![(i64::MIN, 0); node_count],
            extra_visits: 0,
        }
    }

    /// Adds a node.
    pub(crate) fn add_node(&mut self) {
        self.last_updates.push((i64::MIN, 0));
    }

    /// Adds a span, after its children.
    pub(crate) fn add(&mut self, span: &SpanTimes) {
        let end_nanos = span.start_nanos.saturating_add(span.duration_nanos);
        let last_nanos = end_nanos.saturating_sub(1).max(span.start_nanos);
        while let Some(&width_log2) = LEVELS.get(self.level) {
            let extra_buckets = (last_nanos >> width_log2).abs_diff(span.start_nanos >> width_log2);
            self.extra_visits += extra_buckets;
            if extra_buckets < self.max_rows && self.extra_visits < VISITS_PER_ROW * self.max_rows {
                self.add_to_buckets(span, end_nanos, width_log2);
                break;
            }
            self.coarsen();
        }
        while self.cells.len() as u64 > self.max_rows {
            self.coarsen();
        }
    }

    fn add_to_buckets(&mut self, span: &SpanTimes, end_nanos: i64, width_log2: u32) {
        let first_bucket = span.start_nanos >> width_log2;
        let mut children_nanos = span.children_nanos;
        let mut bucket = first_bucket;
        let mut from_nanos = span.start_nanos;
        loop {
            let until_nanos = bucket_end_nanos(bucket, width_log2).min(end_nanos);
            let nanos = until_nanos.saturating_sub(from_nanos).max(0);
            let cell = self.cell(span.node, bucket);
            let inner_nanos = mem::take(&mut cell.inner_nanos).min(nanos).min(children_nanos);
            children_nanos -= inner_nanos;
            cell.sums.add(nanos, inner_nanos);
            if bucket == first_bucket {
                cell.sums.count_span(span.duration_nanos);
            }
            if span.parent != NO_NODE && nanos > 0 {
                let parent_cell = self.cell(span.parent, bucket);
                parent_cell.inner_nanos = parent_cell.inner_nanos.saturating_add(nanos);
            }
            if until_nanos >= end_nanos {
                break;
            }
            from_nanos = until_nanos;
            bucket += 1;
        }
        self.subtract_self_time(span.node, first_bucket..=bucket, children_nanos);
    }

    /// Subtracts time of children from the self time of buckets. It is time that was not found in
    /// the span's own buckets, because children of coroutines can run at other times than their
    /// parent.
    fn subtract_self_time(
        &mut self,
        node: u32,
        buckets: std::ops::RangeInclusive<i64>,
        mut nanos: i64,
    ) {
        for bucket in buckets {
            if nanos == 0 {
                break;
            }
            let cell = self.cell(node, bucket);
            let subtracted_nanos = cell.sums.self_nanos.min(nanos).max(0);
            cell.sums.self_nanos -= subtracted_nanos;
            nanos -= subtracted_nanos;
        }
    }

    fn cell(&mut self, node: u32, bucket: i64) -> &mut BucketSums {
        let last_update = &mut self.last_updates[node as usize];
        if last_update.0 != bucket {
            let next_index = self.cells.len() as u32;
            let index = *self.cell_indices.entry((node, bucket)).or_insert(next_index);
            if index == next_index {
                self.cells.push(BucketSums { node, bucket, sums: Sums::default(), inner_nanos: 0 });
            }
            *last_update = (bucket, index);
        }
        &mut self.cells[last_update.1 as usize]
    }

    /// Folds the level into the next coarser one.
    fn coarsen(&mut self) {
        let fine_cells = mem::take(&mut self.cells);
        let Some(&width_log2) = LEVELS.get(self.level) else { return };
        self.level += 1;
        self.cell_indices.clear();
        self.last_updates.fill((i64::MIN, 0));
        self.extra_visits = 0;
        if let Some(next_width_log2) = LEVELS.get(self.level) {
            for cell in fine_cells {
                let coarse_cell =
                    self.cell(cell.node, cell.bucket >> (next_width_log2 - width_log2));
                coarse_cell.sums.merge(&cell.sums);
                coarse_cell.inner_nanos = coarse_cell.inner_nanos.saturating_add(cell.inner_nanos);
            }
        }
    }

    /// Passes the rows of each level to `on_level`, finest first, as the exponent of the bucket
    /// width and the cells by time and node.
    pub(crate) fn finish<E>(
        mut self,
        mut on_level: impl FnMut(u32, &[BucketSums]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&width_log2) = LEVELS.get(self.level) {
            let mut rows = self.cells.clone();
            rows.retain(|cell| cell.sums.count > 0 || cell.sums.total_nanos > 0);
            rows.sort_unstable_by_key(|cell| (cell.bucket, cell.node));
            on_level(width_log2, &rows)?;
            self.coarsen();
        }
        Ok(())
    }
}

impl Sums {
    /// Whether nothing was added.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0 && self.total_nanos == 0
    }

    /// Counts a span that begins in the bucket.
    #[inline]
    pub(crate) fn count_span(&mut self, duration_nanos: i64) {
        self.count = self.count.saturating_add(1);
        self.extend_to((duration_nanos, duration_nanos));
    }

    /// Adds time, `inner_nanos` of it in direct children.
    #[inline]
    pub(crate) fn add(&mut self, nanos: i64, inner_nanos: i64) {
        self.total_nanos = self.total_nanos.saturating_add(nanos);
        self.self_nanos = self.self_nanos.saturating_add(nanos.saturating_sub(inner_nanos));
    }

    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_nanos = self.total_nanos.saturating_add(other.total_nanos);
        self.self_nanos = self.self_nanos.saturating_add(other.self_nanos);
        if let Some(extremes) = other.extremes_nanos {
            self.extend_to(extremes);
        }
    }

    fn extend_to(&mut self, (min, max): (i64, i64)) {
        let (known_min, known_max) = self.extremes_nanos.unwrap_or((min, max));
        self.extremes_nanos = Some((known_min.min(min), known_max.max(max)));
    }
}

/// Whether a saturating sum has reached a limit.
const fn is_limit(sum: i64) -> bool {
    matches!(sum, i64::MIN | i64::MAX)
}

/// Returns the end of a bucket.
fn bucket_end_nanos(bucket: i64, width_log2: u32) -> i64 {
    bucket.checked_add(1).and_then(|end| end.checked_mul(1 << width_log2)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the width and rows of each level that fits.
    fn levels(rollup: Rollup) -> Vec<(u32, Vec<BucketSums>)> {
        let mut levels = Vec::new();
        let finished: Result<(), ()> = rollup.finish(|width_log2, cells| {
            levels.push((width_log2, cells.to_vec()));
            Ok(())
        });
        assert_eq!(finished, Ok(()));
        levels
    }

    fn span(node: u32, parent: u32, start_nanos: i64, duration_nanos: i64) -> SpanTimes {
        SpanTimes { node, parent, start_nanos, duration_nanos, children_nanos: 0 }
    }

    #[test]
    fn a_level_with_too_many_rows_is_dropped_and_the_others_agree() {
        for (count, finest) in [(4096, 20), (4097, 24), (16 * 4096, 24), (16 * 4096 + 1, 28)] {
            let mut rollup = Rollup::new(1, 0);
            for bucket in 0..count {
                rollup.add(&span(0, NO_NODE, bucket << 20, 5));
            }
            let levels = levels(rollup);
            let shifts: Vec<_> = levels.iter().map(|level| level.0).collect();
            assert!(LEVELS.ends_with(&shifts) && shifts[0] == finest, "{count}: {shifts:?}");
            for (width_log2, cells) in levels {
                assert_eq!(cells.len(), ((count as usize - 1) >> (width_log2 - 20)) + 1);
                assert_eq!(cells.iter().map(|cell| cell.sums.count).sum::<i64>(), count);
                assert_eq!(cells.iter().map(|cell| cell.sums.self_nanos).sum::<i64>(), 5 * count);
            }
        }
    }

    #[test]
    fn more_events_allow_more_rows() {
        let mut rollup = Rollup::new(1, 16 * 5_000);
        for bucket in 0..5_000 {
            rollup.add(&span(0, NO_NODE, bucket << 20, 5));
        }
        assert_eq!(levels(rollup)[0].0, 20);
    }

    #[test]
    fn too_many_contexts_for_any_level_leave_no_level() {
        let mut rollup = Rollup::new(5_000, 0);
        for node in 0..5_000 {
            rollup.add(&span(node, NO_NODE, 0, 5));
        }
        assert!(levels(rollup).is_empty());
    }

    #[test]
    fn many_long_spans_do_not_visit_every_bucket() {
        let mut rollup = Rollup::new(1, 0);
        for start in 0..2_000 {
            rollup.add(&span(0, NO_NODE, start, 4_000 << 20));
        }
        let levels = levels(rollup);
        assert!(levels[0].0 > 20);
        let totals = levels[0].1.iter().map(|cell| cell.sums.total_nanos);
        assert_eq!(totals.sum::<i64>(), 2_000 * (4_000 << 20));
    }

    #[test]
    fn self_time_counts_in_buckets_without_children() {
        let mut rollup = Rollup::new(2, 0);
        // The child fills the second bucket of its parent, and half of the third.
        let child_nanos = (1 << 20) + (1 << 19);
        rollup.add(&span(1, 0, 1 << 20, child_nanos));
        let parent = SpanTimes { children_nanos: child_nanos, ..span(0, NO_NODE, 0, 3 << 20) };
        rollup.add(&parent);
        let (_, cells) = levels(rollup).swap_remove(0);
        let parent_cells: Vec<_> = cells
            .iter()
            .filter(|cell| cell.node == 0)
            .map(|cell| (cell.bucket, cell.sums.total_nanos, cell.sums.self_nanos))
            .collect();
        assert_eq!(parent_cells, [(0, 1 << 20, 1 << 20), (1, 1 << 20, 0), (2, 1 << 20, 1 << 19)]);
    }
}
