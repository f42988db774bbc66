//! Converts the recorder's monotonic clock to nanoseconds since 1970.

/// Minimum distance of a pair of readings to the previous one. Closer pairs measure the latency of
/// reading, not the rate of the clock.
const MIN_PAIR_DISTANCE_NANOS: i128 = 100_000_000;

/// Largest slew of the wall clock, in millionths of the elapsed time. 500 ppm is the kernel's
/// limit. A clock that deviates by more than this and [`MAX_JITTER_NANOS`] since the last pair was
/// stepped, not slewed.
const MAX_SLEW_MILLIONTHS: i128 = 500;
const MAX_JITTER_NANOS: i128 = 1_000_000;

/// Fractional bits of a rate.
const RATE_BITS: u32 = 48;

/// Maps the recorder's monotonic clock to nanoseconds since 1970.
///
/// The map is linear between pairs of readings. Before the first and after the last pair it
/// continues with the neighbouring rate. A step of the wall clock is ignored: later times continue
/// the clock from before the step. The map never decreases, so the order of events is kept.
#[derive(Debug)]
pub(super) struct Clock {
    /// The lines by `monotonic_nanos`. The first line extends to earlier times.
    lines: Vec<ClockLine>,
    /// The gain of the wall clock on the recorder's clock from the first to the last pair.
    drift_nanos: i64,
}

/// The map from one pair to the next.
#[derive(Clone, Copy, Debug)]
struct ClockLine {
    monotonic_nanos: i64,
    unix_nanos: i64,
    /// The gain of the wall clock per nanosecond, times 2^48.
    rate: i64,
}

impl Clock {
    /// Creates the map from pairs `(monotonic, since 1970)` in the order of reading. If there are
    /// none, the monotonic clock is used as the wall clock.
    pub(super) fn new(pairs: &[(i64, i64)]) -> Self {
        let Some(&first) = pairs.first() else { return Self::from_first_pair((0, 0)) };
        let mut clock = Self::from_first_pair(first);
        let mut last = first;
        for &pair in &pairs[1..] {
            if i128::from(pair.0) - i128::from(last.0) >= MIN_PAIR_DISTANCE_NANOS {
                clock.advance(last, pair);
                last = pair;
            }
        }
        clock
    }

    fn from_first_pair((monotonic_nanos, unix_nanos): (i64, i64)) -> Self {
        Self { lines: vec![ClockLine { monotonic_nanos, unix_nanos, rate: 0 }], drift_nanos: 0 }
    }

    /// Adds the next pair.
    fn advance(&mut self, last: (i64, i64), (monotonic_nanos, unix_nanos): (i64, i64)) {
        let Some(line) = self.lines.last_mut() else { return };
        let elapsed_nanos = i128::from(monotonic_nanos) - i128::from(last.0);
        let gain_nanos = i128::from(unix_nanos) - i128::from(last.1) - elapsed_nanos;
        let was_stepped =
            gain_nanos.abs() > elapsed_nanos * MAX_SLEW_MILLIONTHS / 1_000_000 + MAX_JITTER_NANOS;
        let unix_nanos = if was_stepped {
            line.unix_nanos_at(monotonic_nanos)
        } else {
            line.rate = (gain_nanos << RATE_BITS).div_euclid(elapsed_nanos) as i64;
            self.drift_nanos = self.drift_nanos.saturating_add(gain_nanos as i64);
            clamp(i128::from(line.unix_nanos) + elapsed_nanos + gain_nanos)
        };
        let rate = line.rate;
        self.lines.push(ClockLine { monotonic_nanos, unix_nanos, rate });
    }

    /// Returns the time in nanoseconds since 1970. `line` caches the line of the last timestamp,
    /// which saves the search for the next one if it is close.
    #[inline]
    pub(super) fn unix_nanos(&self, monotonic_nanos: i64, line: &mut usize) -> i64 {
        if !self.line_contains(*line, monotonic_nanos) {
            let after = self.lines.partition_point(|line| line.monotonic_nanos <= monotonic_nanos);
            *line = after.saturating_sub(1);
        }
        self.lines[*line].unix_nanos_at(monotonic_nanos)
    }

    #[inline]
    fn line_contains(&self, line: usize, monotonic_nanos: i64) -> bool {
        let begins = line == 0 || self.lines[line].monotonic_nanos <= monotonic_nanos;
        begins && self.lines.get(line + 1).is_none_or(|next| monotonic_nanos < next.monotonic_nanos)
    }

    /// Returns the gain of the wall clock from the first to the last pair, without steps.
    pub(super) const fn drift_nanos(&self) -> i64 {
        self.drift_nanos
    }
}

impl ClockLine {
    #[inline]
    fn unix_nanos_at(&self, monotonic_nanos: i64) -> i64 {
        let elapsed_nanos = i128::from(monotonic_nanos) - i128::from(self.monotonic_nanos);
        // The gain is rounded down like the rate, so that the next line starts no lower.
        let gain_nanos = (elapsed_nanos * i128::from(self.rate)) >> RATE_BITS;
        clamp(i128::from(self.unix_nanos) + elapsed_nanos + gain_nanos)
    }
}

#[inline]
fn clamp(nanos: i128) -> i64 {
    nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;
    const UNIX: i64 = 1_700_000_000 * SECOND;

    fn unix_offset(clock: &Clock, monotonic_nanos: i64) -> i64 {
        clock.unix_nanos(monotonic_nanos, &mut 0) - UNIX
    }

    #[test]
    fn a_steady_drift_is_corrected_between_pairs_and_beyond() {
        // The wall clock gains 30 microseconds a second.
        let pairs: Vec<_> = (1..5).map(|n| (n * SECOND, UNIX + n * (SECOND + 30_000))).collect();
        let clock = Clock::new(&pairs);
        for (moment, expected) in [
            (SECOND, SECOND + 30_000),
            (SECOND * 3 / 2, SECOND * 3 / 2 + 45_000),
            (4 * SECOND, 4 * SECOND + 120_000),
            (100 * SECOND, 100 * SECOND + 3_000_000),
            (0, 0),
        ] {
            assert!(unix_offset(&clock, moment).abs_diff(expected) <= 1, "{moment}");
        }
        assert_eq!(clock.drift_nanos(), 90_000);
    }

    #[test]
    fn a_step_of_the_wall_clock_is_not_followed() {
        let step = 3_600 * SECOND;
        let pairs = [
            (0, UNIX),
            (SECOND, UNIX + SECOND + 10_000),
            (2 * SECOND, UNIX + 2 * SECOND + 20_000 + step),
            (3 * SECOND, UNIX + 3 * SECOND + 30_000 + step),
        ];
        let clock = Clock::new(&pairs);
        for seconds in 0..=40 {
            let expected = seconds * (SECOND + 10_000);
            assert!(unix_offset(&clock, seconds * SECOND).abs_diff(expected) <= 3, "{seconds}");
        }
        assert_eq!(clock.drift_nanos(), 20_000);
    }

    #[test]
    fn close_pairs_do_not_change_the_rate() {
        let clock = Clock::new(&[(0, UNIX), (10_000, UNIX + 13_000), (20_000, UNIX + 9_000)]);
        assert_eq!(unix_offset(&clock, 5), 5);
        assert_eq!(unix_offset(&clock, 3_600 * SECOND), 3_600 * SECOND);
        let drift_after = |nanos| Clock::new(&[(0, UNIX), (nanos, UNIX + nanos + 9)]).drift_nanos();
        assert_eq!([99_999_999, 100_000_000].map(drift_after), [0, 9]);
        assert_eq!(Clock::new(&[]).unix_nanos(-7, &mut 0), -7);
    }

    proptest! {
        #[test]
        fn order_is_kept_and_any_cached_line_gives_the_same_time(
            pairs in prop::collection::vec((any::<i64>(), any::<i64>()), 0..8),
            steps in prop::collection::vec((0_i64..3 * SECOND, -3_000_000_i64..3_000_000), 0..8),
            mut moments in prop::collection::vec(
                prop_oneof![any::<i64>(), 0..20 * SECOND], 2..40),
            hostile in any::<bool>(),
        ) {
            let mut now = (0, UNIX);
            let plausible = steps.into_iter().map(|(step, deviation)| {
                now = (now.0 + step, now.1 + step + deviation);
                now
            });
            let pairs = if hostile { pairs } else { plausible.collect() };
            let clock = Clock::new(&pairs);
            // The edges are around each pair.
            let neighbours = |nanos: i64| [nanos.saturating_sub(1), nanos, nanos.saturating_add(1)];
            moments.extend(pairs.iter().flat_map(|pair| neighbours(pair.0)));
            let unix: Vec<_> = moments.iter().map(|&now| clock.unix_nanos(now, &mut 0)).collect();
            let mut cached_line = 0;
            for (&moment, &expected) in moments.iter().zip(&unix) {
                prop_assert_eq!(clock.unix_nanos(moment, &mut cached_line), expected);
            }
            let mut order: Vec<_> = moments.iter().zip(&unix).collect();
            order.sort();
            prop_assert!(order.is_sorted_by_key(|(_, unix)| **unix));
        }
    }

    #[test]
    fn the_wall_clock_is_followed_up_to_the_limit_of_slewing() {
        // 500 ppm of a second, and a millisecond.
        for (ahead_nanos, drift_nanos) in
            [(1_500_000, 1_500_000), (1_500_001, 0), (-1_500_000, -1_500_000), (-1_500_001, 0)]
        {
            let clock = Clock::new(&[(0, UNIX), (SECOND, UNIX + SECOND + ahead_nanos)]);
            assert_eq!(clock.drift_nanos(), drift_nanos, "{ahead_nanos}");
        }
    }
}
