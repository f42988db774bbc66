//! The times at which a process is sampled: one in each period, with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// A schedule of one sample per period, at a random time in the period. Without this jitter, a loop
/// of the program with the same period would be sampled at the same place each time. After a slow
/// sample, periods that have passed are skipped and counted, and later ones keep their times.
#[derive(Debug)]
pub struct Schedule {
    start: Instant,
    period: Duration,
    /// The length of the schedule.
    duration: Duration,
    next_period: u64,
    random: RandomState,
}

/// A time to sample at, or the end of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The time to wait before it. Zero means now.
    pub wait: Duration,
    /// Number of times that were skipped before it.
    pub skipped: u64,
    /// Whether it is the end, at which no sample is due.
    pub is_end: bool,
}

impl Schedule {
    /// Returns a schedule that begins now, with `rate_hz` times a second, and ends after `duration`,
    /// if any.
    ///
    /// # Panics
    ///
    /// If `rate_hz` is 0.
    pub fn begin(rate_hz: u32, duration: Option<Duration>) -> Self {
        Self {
            start: Instant::now(),
            period: Duration::from_secs(1) / rate_hz,
            duration: duration.unwrap_or(Duration::MAX),
            next_period: 0,
            random: RandomState::new(),
        }
    }

    /// Returns the next time, as a wait from `now`. Periods after the end are not skipped ones.
    pub fn next(&mut self, now: Instant) -> Tick {
        let elapsed = now.saturating_duration_since(self.start).min(self.duration);
        let period_begin = self.period_start(self.next_period);
        let periods_late =
            elapsed.saturating_sub(period_begin).as_nanos() / self.period.as_nanos().max(1);
        let skipped = u64::try_from(periods_late).unwrap_or(u64::MAX);
        let sampled_period = self.next_period.saturating_add(skipped);
        self.next_period = sampled_period.saturating_add(1);
        let sample_time = self.sample_time(sampled_period);
        let is_end = sample_time >= self.duration;
        Tick { wait: sample_time.min(self.duration).saturating_sub(elapsed), skipped, is_end }
    }

    /// Returns the time at which to sample in a period, counted from the start.
    fn sample_time(&self, period: u64) -> Duration {
        let fraction = self.random.hash_one(period) as f64 / u64::MAX as f64;
        self.period_start(period) + self.period.mul_f64(fraction)
    }

    /// Returns the beginning of a period, counted from the start.
    fn period_start(&self, period: u64) -> Duration {
        Duration::from_nanos((self.period.as_nanos() as u64).saturating_mul(period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_periods_are_skipped_and_the_later_ones_stay_in_place() {
        let mut schedule = Schedule::begin(100, None);
        let start = schedule.start;
        // The period, in units of 10 ms, in which the next time lies.
        let mut next = |millis| {
            let now = start + Duration::from_millis(millis);
            let tick = schedule.next(now);
            let sample_time = (now + tick.wait).duration_since(start);
            (sample_time.as_millis() / 10, tick.skipped)
        };
        assert_eq!(next(0), (0, 0));
        assert_eq!(next(9), (1, 0));
        assert_eq!(next(29), (2, 0));
        assert_eq!(next(29), (3, 0));
        assert_eq!(next(99), (9, 5)); // 4 to 8 were missed
        assert_eq!(next(99), (10, 0));
    }

    #[test]
    fn samples_and_skipped_periods_are_as_many_as_fit_the_duration() {
        for late_millis in [0, 7, 45, 3_000] {
            let mut schedule = Schedule::begin(100, Some(Duration::from_secs(2)));
            let mut now = schedule.start;
            let mut periods = 0;
            loop {
                let tick = schedule.next(now);
                periods += tick.skipped;
                now += tick.wait;
                if tick.is_end {
                    break;
                }
                periods += 1;
                now += Duration::from_millis(late_millis);
            }
            assert_eq!(periods, 200, "{late_millis}");
            assert!(now >= schedule.start + Duration::from_secs(2), "{late_millis}");
        }
    }

    #[test]
    fn the_highest_rate_is_kept_for_a_year() {
        const RATE_HZ: u32 = 100_000;
        let mut schedule = Schedule::begin(RATE_HZ, None);
        let year = Duration::from_hours(24 * 365);
        let now = schedule.start + year;
        assert_eq!(schedule.next(now).skipped, year.as_secs() * u64::from(RATE_HZ));
        let tick = schedule.next(now);
        assert_eq!(tick.skipped, 0);
        assert!(tick.wait > Duration::ZERO && tick.wait <= Duration::from_micros(20), "{tick:?}");
    }

    #[test]
    fn times_are_spread_over_their_periods() {
        let schedule = Schedule::begin(100, None);
        let fractions: Vec<f64> =
            (0..1000).map(|n| (schedule.sample_time(n).as_secs_f64() * 100.0).fract()).collect();
        let mean = fractions.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
        for quarter in [0.0, 0.25, 0.5, 0.75] {
            let inside =
                fractions.iter().filter(|f| (quarter..quarter + 0.25).contains(*f)).count();
            assert!((150..350).contains(&inside), "{inside} of 1000 after {quarter}");
        }
    }
}
