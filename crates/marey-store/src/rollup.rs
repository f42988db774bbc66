//! Sums of spans by context and bucket of time.
//!
//! Only the finest level is kept while spans go by. When it has too many rows it is folded into the
//! next coarser one, and at the end the coarser ones are made of it in the same way, so all levels
//! say the same.
//!
//! Self time is charged where it was spent: a span's time in a bucket, less what spans directly
//! inside it took there, as far as the span's own `children_nanos` goes. So neither a bucket nor a
//! span gets less than nothing, and over all buckets self time adds up to that of the spans. Spans
//! that are still open are summed up like the others.

use std::mem;

use hashbrown::HashMap;
use marey_model::sketch::Sketch;

/// No place: what has nothing around it.
pub(crate) const NO_PLACE: u32 = u32::MAX;

/// Widths of the levels' buckets, as powers of two, finest first.
pub(crate) const LEVELS: [u32; 6] = [20, 24, 28, 32, 36, 40];

/// Most rows of a level. Who needs more reads the events.
const MAX_ROWS: u64 = 262_144;
/// A level may have so many rows however few events there are.
const MIN_MAX_ROWS: u64 = 4096;
/// Beyond that, there must be this many events for each row.
const EVENTS_A_ROW: u64 = 16;
/// As often, on average, long spans may look at each row, before the level is found too fine for them.
const VISITS_A_ROW: u64 = 16;

/// The sums of a recording.
#[derive(Debug)]
pub(crate) struct Rollup {
    /// Position in [`LEVELS`] of the finest level that is kept; past its end, none is.
    level: usize,
    max_rows: u64,
    buckets: HashMap<Key, u32>,
    cells: Vec<Cell>,
    /// The bucket and the cell where each place was last.
    recent: Vec<(i64, u32)>,
    visits: u64,
}

/// A place and a bucket's number: its start over its width.
type Key = (u32, i64);

/// The sums of a place in a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) place: u32,
    pub(crate) bucket: i64,
    pub(crate) sums: Sums,
    /// Time in spans directly inside one that has not ended yet.
    inside_nanos: i64,
}

/// Sums of spans.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Spans that began here.
    pub(crate) count: i64,
    pub(crate) total_nanos: i64,
    pub(crate) self_nanos: i64,
    /// Shortest and longest of the spans that began here, if any did.
    pub(crate) extremes_nanos: Option<(i64, i64)>,
}

/// The sums of a place over a whole recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole {
    pub(crate) sums: Sums,
    pub(crate) sketch: Sketch,
}

impl Whole {
    pub(crate) fn add(&mut self, duration_nanos: i64, children_nanos: i64) {
        self.sums.count_one(duration_nanos);
        self.sums.add(duration_nanos, children_nanos);
        self.sketch.add(duration_nanos.cast_unsigned());
    }

    /// Whether a sum is more than its column holds.
    pub(crate) const fn is_saturated(&self) -> bool {
        let Sums { count, total_nanos, self_nanos, .. } = self.sums;
        is_limit(count) || is_limit(total_nanos) || is_limit(self_nanos)
    }
}

/// A span as it is summed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summand {
    pub(crate) place: u32,
    /// The place that its time is inside of, or [`NO_PLACE`].
    pub(crate) parent: u32,
    pub(crate) start_nanos: i64,
    pub(crate) duration_nanos: i64,
    pub(crate) children_nanos: i64,
}

impl Rollup {
    /// For a recording with so many events, and so many places as far as that is known.
    pub(crate) fn new(places: usize, events: u64) -> Self {
        Self {
            level: 0,
            max_rows: (events / EVENTS_A_ROW).clamp(MIN_MAX_ROWS, MAX_ROWS),
            buckets: HashMap::new(),
            cells: Vec::new(),
            recent: vec![(i64::MIN, 0); places],
            visits: 0,
        }
    }

    /// A place more.
    pub(crate) fn add_place(&mut self) {
        self.recent.push((i64::MIN, 0));
    }

    /// Adds a span. Those inside it came before it.
    pub(crate) fn add(&mut self, span: &Summand) {
        let end_nanos = span.start_nanos.saturating_add(span.duration_nanos);
        let last_nanos = end_nanos.saturating_sub(1).max(span.start_nanos);
        while let Some(&shift) = LEVELS.get(self.level) {
            let more = (last_nanos >> shift).abs_diff(span.start_nanos >> shift);
            self.visits += more;
            if more < self.max_rows && self.visits < VISITS_A_ROW * self.max_rows {
                self.add_to_buckets(span, end_nanos, shift);
                break;
            }
            self.coarsen();
        }
        while self.cells.len() as u64 > self.max_rows {
            self.coarsen();
        }
    }

    fn add_to_buckets(&mut self, span: &Summand, end_nanos: i64, shift: u32) {
        let first = span.start_nanos >> shift;
        let mut children_nanos = span.children_nanos;
        let mut bucket = first;
        let mut from_nanos = span.start_nanos;
        loop {
            let until_nanos = end_of(bucket, shift).min(end_nanos);
            let nanos = until_nanos.saturating_sub(from_nanos).max(0);
            let cell = self.cell(span.place, bucket);
            let inside_nanos = mem::take(&mut cell.inside_nanos).min(nanos).min(children_nanos);
            children_nanos -= inside_nanos;
            cell.sums.add(nanos, inside_nanos);
            if bucket == first {
                cell.sums.count_one(span.duration_nanos);
            }
            if span.parent != NO_PLACE && nanos > 0 {
                let around = self.cell(span.parent, bucket);
                around.inside_nanos = around.inside_nanos.saturating_add(nanos);
            }
            if until_nanos >= end_nanos {
                break;
            }
            from_nanos = until_nanos;
            bucket += 1;
        }
        self.take_from(span.place, first..=bucket, children_nanos);
    }

    /// Takes time off the self time of buckets: children that lie elsewhere than their parent, as
    /// those of coroutines can.
    fn take_from(&mut self, place: u32, buckets: std::ops::RangeInclusive<i64>, mut nanos: i64) {
        for bucket in buckets {
            if nanos == 0 {
                break;
            }
            let cell = self.cell(place, bucket);
            let taken = cell.sums.self_nanos.min(nanos).max(0);
            cell.sums.self_nanos -= taken;
            nanos -= taken;
        }
    }

    fn cell(&mut self, place: u32, bucket: i64) -> &mut Cell {
        let recent = &mut self.recent[place as usize];
        if recent.0 != bucket {
            let next = self.cells.len() as u32;
            let at = *self.buckets.entry((place, bucket)).or_insert(next);
            if at == next {
                self.cells.push(Cell { place, bucket, sums: Sums::default(), inside_nanos: 0 });
            }
            *recent = (bucket, at);
        }
        &mut self.cells[recent.1 as usize]
    }

    /// Folds the level into the next coarser one.
    fn coarsen(&mut self) {
        let fine = mem::take(&mut self.cells);
        let Some(&shift) = LEVELS.get(self.level) else { return };
        self.level += 1;
        self.buckets.clear();
        self.recent.fill((i64::MIN, 0));
        self.visits = 0;
        if let Some(wider) = LEVELS.get(self.level) {
            for cell in fine {
                let coarse = self.cell(cell.place, cell.bucket >> (wider - shift));
                coarse.sums.merge(&cell.sums);
                coarse.inside_nanos = coarse.inside_nanos.saturating_add(cell.inside_nanos);
            }
        }
    }

    /// Gives the rows of each level that is kept, finest first, as the width of the buckets as a power
    /// of two and the cells by time and place.
    pub(crate) fn finish<E>(
        mut self,
        mut level: impl FnMut(u32, &[Cell]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&shift) = LEVELS.get(self.level) {
            let mut rows = self.cells.clone();
            rows.retain(|cell| cell.sums.count > 0 || cell.sums.total_nanos > 0);
            rows.sort_unstable_by_key(|cell| (cell.bucket, cell.place));
            level(shift, &rows)?;
            self.coarsen();
        }
        Ok(())
    }
}

impl Sums {
    /// Whether nothing was added.
    pub(crate) const fn is_nothing(&self) -> bool {
        self.count == 0 && self.total_nanos == 0
    }

    /// A span began here.
    #[inline]
    pub(crate) fn count_one(&mut self, duration_nanos: i64) {
        self.count = self.count.saturating_add(1);
        self.extend_to((duration_nanos, duration_nanos));
    }

    /// Adds time, some of it directly in spans inside.
    #[inline]
    pub(crate) fn add(&mut self, nanos: i64, inside_nanos: i64) {
        self.total_nanos = self.total_nanos.saturating_add(nanos);
        self.self_nanos = self.self_nanos.saturating_add(nanos.saturating_sub(inside_nanos));
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
        let (least, most) = self.extremes_nanos.unwrap_or((min, max));
        self.extremes_nanos = Some((least.min(min), most.max(max)));
    }
}

/// Whether a sum has come as far as it can, in either direction.
const fn is_limit(sum: i64) -> bool {
    matches!(sum, i64::MIN | i64::MAX)
}

/// Where a bucket ends.
fn end_of(bucket: i64, shift: u32) -> i64 {
    bucket.checked_add(1).and_then(|next| next.checked_mul(1 << shift)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Width and rows of each level that is left.
    fn levels(rollup: Rollup) -> Vec<(u32, Vec<Cell>)> {
        let mut levels = Vec::new();
        let told: Result<(), ()> = rollup.finish(|shift, cells| {
            levels.push((shift, cells.to_vec()));
            Ok(())
        });
        assert_eq!(told, Ok(()));
        levels
    }

    fn span(place: u32, parent: u32, start_nanos: i64, duration_nanos: i64) -> Summand {
        Summand { place, parent, start_nanos, duration_nanos, children_nanos: 0 }
    }

    #[test]
    fn a_level_with_too_many_rows_is_left_out_and_the_others_say_the_same() {
        for (count, finest) in [(4096, 20), (4097, 24), (16 * 4096, 24), (16 * 4096 + 1, 28)] {
            let mut rollup = Rollup::new(1, 0);
            for bucket in 0..count {
                rollup.add(&span(0, NO_PLACE, bucket << 20, 5));
            }
            let levels = levels(rollup);
            let shifts: Vec<_> = levels.iter().map(|level| level.0).collect();
            assert!(LEVELS.ends_with(&shifts) && shifts[0] == finest, "{count}: {shifts:?}");
            for (shift, cells) in levels {
                assert_eq!(cells.len(), ((count as usize - 1) >> (shift - 20)) + 1);
                assert_eq!(cells.iter().map(|cell| cell.sums.count).sum::<i64>(), count);
                assert_eq!(cells.iter().map(|cell| cell.sums.self_nanos).sum::<i64>(), 5 * count);
            }
        }
    }

    #[test]
    fn more_events_allow_for_more_rows() {
        let mut rollup = Rollup::new(1, 16 * 5_000);
        for bucket in 0..5_000 {
            rollup.add(&span(0, NO_PLACE, bucket << 20, 5));
        }
        assert_eq!(levels(rollup)[0].0, 20);
    }

    #[test]
    fn contexts_that_are_too_many_for_any_level_have_none() {
        let mut rollup = Rollup::new(5_000, 0);
        for place in 0..5_000 {
            rollup.add(&span(place, NO_PLACE, 0, 5));
        }
        assert!(levels(rollup).is_empty());
    }

    #[test]
    fn many_long_spans_at_once_do_not_look_at_every_bucket() {
        let mut rollup = Rollup::new(1, 0);
        for start in 0..2_000 {
            rollup.add(&span(0, NO_PLACE, start, 4_000 << 20));
        }
        let levels = levels(rollup);
        assert!(levels[0].0 > 20);
        let totals = levels[0].1.iter().map(|cell| cell.sums.total_nanos);
        assert_eq!(totals.sum::<i64>(), 2_000 * (4_000 << 20));
    }

    #[test]
    fn self_time_lies_where_no_child_was() {
        let mut rollup = Rollup::new(2, 0);
        // The child fills the second bucket of its parent, and half of the third.
        let child_nanos = (1 << 20) + (1 << 19);
        rollup.add(&span(1, 0, 1 << 20, child_nanos));
        let around = Summand { children_nanos: child_nanos, ..span(0, NO_PLACE, 0, 3 << 20) };
        rollup.add(&around);
        let (_, cells) = levels(rollup).swap_remove(0);
        let own: Vec<_> = cells
            .iter()
            .filter(|cell| cell.place == 0)
            .map(|cell| (cell.bucket, cell.sums.total_nanos, cell.sums.self_nanos))
            .collect();
        assert_eq!(own, [(0, 1 << 20, 1 << 20), (1, 1 << 20, 0), (2, 1 << 20, 1 << 19)]);
    }
}
