//! Aligns the clock of torch.profiler with that of the recorder, by a shift that is measured in
//! each window.
//!
//! The program enters *anchors* at the start and at the end of a window. An anchor is a short scope
//! that both record, the recorder's around the profiler's. The middles of the two scopes are the
//! same time, up to half of the difference of their durations. So the anchor with the smallest
//! difference is the best. Between the start and the end of the window the shift is interpolated.

use super::recorded::Anchor;

/// A time at which the shift was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measurement {
    /// On the profiler's clock.
    time_nanos: i64,
    shift_nanos: i64,
}

/// The shift as a function of time. Without anchors it is 0, because both clocks count from 1970.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    first: Option<Measurement>,
    last: Option<Measurement>,
    /// The time between the anchors at the start and those at the end, on the recorder's clock.
    pub(super) extent_nanos: Option<(i64, i64)>,
}

impl Alignment {
    /// Measures the shift with anchors, which are in order. If one of them was lost, they cannot be
    /// paired and the shift is 0.
    pub(super) fn new(recorded: &[Anchor], traced: &[Anchor]) -> Self {
        let half = recorded.len().div_ceil(2);
        let (at_start, at_end) = recorded.split_at(half);
        let extent_nanos = at_start
            .last()
            .zip(at_end.first())
            .map(|(first, last)| (first.end_nanos, last.start_nanos));
        if recorded.len() != traced.len() {
            return Self { extent_nanos, ..Self::default() };
        }
        let best = |recorded: &[Anchor], traced: &[Anchor]| {
            let pairs = recorded.iter().zip(traced);
            let best = pairs.min_by_key(|(recorded, traced)| {
                duration_nanos(recorded) - duration_nanos(traced)
            })?;
            Some(measure(*best.0, *best.1))
        };
        let first = best(at_start, &traced[..half]);
        Self { first, last: best(at_end, &traced[half..]), extent_nanos }
    }

    /// Returns the shift at the start, or `None` if it could not be measured.
    pub(super) fn offset_nanos(&self) -> Option<i64> {
        self.first.map(|first| first.shift_nanos)
    }

    /// Converts a time of the profiler's clock to the recorder's.
    pub(super) fn convert(&self, time_nanos: i64) -> i64 {
        let Some(first) = self.first else { return time_nanos };
        let last = self.last.unwrap_or(first);
        let elapsed_nanos = i128::from(last.time_nanos) - i128::from(first.time_nanos);
        let gain_nanos = i128::from(last.shift_nanos) - i128::from(first.shift_nanos);
        let since_nanos = i128::from(time_nanos) - i128::from(first.time_nanos);
        let interpolated =
            if elapsed_nanos > 0 { gain_nanos * since_nanos / elapsed_nanos } else { 0 };
        let interpolated = i64::try_from(interpolated).unwrap_or(0);
        time_nanos.saturating_add(first.shift_nanos).saturating_add(interpolated)
    }
}

fn duration_nanos(anchor: &Anchor) -> i128 {
    i128::from(anchor.end_nanos) - i128::from(anchor.start_nanos)
}

fn measure(recorded: Anchor, traced: Anchor) -> Measurement {
    let time_nanos = middle_nanos(traced);
    let shift_nanos = middle_nanos(recorded).saturating_sub(time_nanos);
    Measurement { time_nanos, shift_nanos }
}

fn middle_nanos(anchor: Anchor) -> i64 {
    i64::midpoint(anchor.start_nanos, anchor.end_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn anchor(start_nanos: i64, end_nanos: i64) -> Anchor {
        Anchor { start_nanos, end_nanos }
    }

    proptest! {
        #[test]
        fn a_clock_of_another_rate_is_aligned_to_half_of_the_quickest_anchor(
            shift in -1_000_000_000_i64..1_000_000_000,
            drift in -50_i64..50,
            delays in prop::collection::vec((200_i64..90_000, 200_i64..90_000), 2..16),
            time in 0_i64..10_000_000_000,
        ) {
            let count = delays.len();
            let there = |time: i64| time + shift + time / 1_000_000 * drift;
            let half = count.div_ceil(2);
            let traced: Vec<Anchor> = (0_i64..)
                .take(count)
                .zip(0..)
                .map(|(order, index)| {
                    order * 200_000 + if index < half { 0 } else { 10_000_000_000 }
                })
                .map(|start| anchor(start, start + 500))
                .collect();
            let recorded: Vec<Anchor> = traced
                .iter()
                .zip(&delays)
                .map(|(traced, delay)| {
                    let start_nanos = there(traced.start_nanos) - delay.0;
                    anchor(start_nanos, there(traced.end_nanos) + delay.1)
                })
                .collect();
            let alignment = Alignment::new(&recorded, &traced);
            let worst = |delays: &[(i64, i64)]| {
                delays.iter().map(|delay| delay.0 + delay.1).min().unwrap_or(0)
            };
            let tolerance = worst(&delays[..half]).max(worst(&delays[half..])) / 2 + 1_000;
            prop_assert!(alignment.convert(time).abs_diff(there(time)) <= tolerance.unsigned_abs());
        }
    }

    #[test]
    fn without_paired_anchors_times_stay() {
        assert_eq!(Alignment::new(&[anchor(1, 2)], &[]).convert(5), 5);
        assert_eq!(Alignment::new(&[], &[]).convert(-5), -5);
        let unpaired = Alignment::new(&[anchor(1, 2), anchor(7, 9)], &[anchor(0, 1)]);
        assert_eq!(unpaired.extent_nanos, Some((2, 7)));
    }

    #[test]
    fn the_best_anchor_is_as_long_on_both_sides() {
        let recorded = [anchor(0, 1_000), anchor(2_000, 2_300)];
        let traced = [anchor(500, 1_500), anchor(2_510, 2_520)];
        let (mut recorded, mut traced) = (recorded.to_vec(), traced.to_vec());
        recorded.extend_from_within(..);
        traced.extend_from_within(..);
        assert_eq!(Alignment::new(&recorded, &traced).offset_nanos(), Some(-500));
    }

    #[test]
    fn the_shift_is_interpolated_between_the_start_and_the_end() {
        const START: i64 = 1_700_000_000_000_000_000;
        let instant = |time: i64| anchor(START + time, START + time);
        let alignment =
            Alignment::new(&[instant(100), instant(1_300)], &[instant(0), instant(1_000)]);
        for (time, converted) in [(0, 100), (500, 700), (1_000, 1_300), (2_000, 2_500)] {
            assert_eq!(alignment.convert(START + time), START + converted);
        }
        let simultaneous = [anchor(5, 5), anchor(5, 5)];
        assert_eq!(Alignment::new(&[anchor(0, 2), anchor(10, 12)], &simultaneous).convert(7), 3);
    }
}
