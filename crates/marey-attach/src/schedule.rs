//! The times at which a process is sampled.

use std::time::{Duration, Instant};

/// Times at a fixed rate. A time that has passed before it is waited for is skipped and counted, so
/// that a slow reading does not shift the later ones.
#[derive(Debug)]
pub struct Schedule {
    start: Instant,
    period: Duration,
    next: u32,
}

/// A time to sample at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Time until then; zero if it is now.
    pub wait: Duration,
    /// Times that were skipped before it.
    pub skipped: u32,
}

impl Schedule {
    /// Begins now, with `rate_hz` times a second.
    ///
    /// # Panics
    ///
    /// If `rate_hz` is 0.
    pub fn begin(rate_hz: u32) -> Self {
        Self { start: Instant::now(), period: Duration::from_secs(1) / rate_hz, next: 0 }
    }

    /// Returns the next time, seen from `now`.
    pub fn next(&mut self, now: Instant) -> Tick {
        let elapsed = now.saturating_duration_since(self.start);
        let due = self.period * self.next;
        let periods_late = elapsed.saturating_sub(due).as_nanos() / self.period.as_nanos().max(1);
        let skipped = u32::try_from(periods_late).unwrap_or(u32::MAX);
        self.next = self.next.saturating_add(skipped).saturating_add(1);
        let due = self.period * (self.next - 1);
        Tick { wait: due.saturating_sub(elapsed), skipped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_times_are_skipped_and_the_later_ones_stay_in_place() {
        let mut schedule = Schedule::begin(100);
        let start = schedule.start;
        let mut next = |millis| {
            let tick = schedule.next(start + Duration::from_millis(millis));
            (tick.wait.as_millis(), tick.skipped)
        };
        assert_eq!(next(0), (0, 0)); // at 0
        assert_eq!(next(4), (6, 0)); // at 10
        assert_eq!(next(25), (0, 0)); // at 20, a little late
        assert_eq!(next(26), (4, 0)); // at 30
        assert_eq!(next(99), (0, 5)); // at 90; 40 to 80 were missed
        assert_eq!(next(99), (1, 0)); // at 100
    }
}
