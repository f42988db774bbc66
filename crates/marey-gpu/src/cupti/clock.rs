//! From the clock of the device's library to the recorder's.
//!
//! Records are stamped in nanoseconds of a clock that `cuptiGetTimestamp` reads; the recorder counts
//! ticks. Both are read together now and again, and moments in between lie on the line through the
//! last two readings.

use marey_record::device;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    library_nanos: u64,
    ticks: u64,
}

/// The line.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    last: Pair,
    ticks_per_nano: f64,
}

/// Readings closer together than this say nothing of the rate.
const SHORTEST_NANOS: u64 = 100_000_000;

/// Clocks whose rates differ by more than this are not both right: one was set.
const MOST_DRIFT: f64 = 1e-3;

impl Clock {
    /// A clock that is read by this function, whose error is the library's code.
    pub(super) fn new(read: impl Fn() -> Result<u64, u32>) -> Result<Self, u32> {
        let (_, nanos_per_tick) = device::now();
        Ok(Self { last: Pair::now(read)?, ticks_per_nano: 1.0 / nanos_per_tick })
    }

    /// Reads both clocks again.
    pub(super) fn update(&mut self, read: impl Fn() -> Result<u64, u32>) {
        let Ok(now) = Pair::now(read) else { return };
        let nanos = now.library_nanos.saturating_sub(self.last.library_nanos);
        if nanos < SHORTEST_NANOS {
            return;
        }
        let rate = now.ticks.saturating_sub(self.last.ticks) as f64 / nanos as f64;
        let own_rate = 1.0 / device::now().1;
        if (rate / own_rate - 1.0).abs() < MOST_DRIFT {
            self.ticks_per_nano = rate;
        }
        self.last = now;
    }

    /// The recorder's moment of a stamp.
    #[inline]
    pub(super) fn ticks(&self, library_nanos: u64) -> u64 {
        let since = library_nanos.wrapping_sub(self.last.library_nanos).cast_signed();
        let ticks = (since as f64 * self.ticks_per_nano) as i64;
        self.last.ticks.saturating_add_signed(ticks)
    }
}

impl Pair {
    /// Of several readings the quickest counts, as something may come between the two.
    fn now(read: impl Fn() -> Result<u64, u32>) -> Result<Self, u32> {
        const TRIES: u32 = 4;
        let try_once = || -> Result<_, u32> {
            let before = device::now().0;
            let library_nanos = read()?;
            let after = device::now().0;
            let ticks = before.midpoint(after);
            Ok((after.saturating_sub(before), Self { library_nanos, ticks }))
        };
        let mut quickest = try_once()?;
        for _ in 1..TRIES {
            let again = try_once()?;
            if again.0 < quickest.0 {
                quickest = again;
            }
        }
        Ok(quickest.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_clock_that_is_ahead_and_runs_faster_is_brought_back() {
        let nanos_per_tick = device::now().1;
        // Ahead by an hour, and 50 millionths faster.
        let library =
            |ticks: u64| 3_600_000_000_000 + (ticks as f64 * nanos_per_tick * 1.000_05) as u64;
        let now = || Ok(library(device::now().0));
        let mut clock = Clock::new(now).unwrap();
        let start = device::now().0;
        // As far in the past as the readings are long.
        let back = (2e8 / nanos_per_tick) as u64;
        clock.last = Pair { library_nanos: library(start - back), ticks: start - back };
        clock.update(now);
        let moment = device::now().0 + back;
        let off = clock.ticks(library(moment)).abs_diff(moment);
        assert!((off as f64 * nanos_per_tick) < 20_000.0, "{off} ticks");
    }

    #[test]
    fn a_clock_that_jumps_keeps_its_rate_and_one_that_fails_changes_nothing() {
        let jump = Cell::new(0);
        let read = || Ok((device::now().0 as f64 * device::now().1) as u64 + jump.get());
        let mut clock = Clock::new(read).unwrap();
        let rate = clock.ticks_per_nano;
        jump.set(10_000_000_000);
        clock.update(read);
        assert!((clock.ticks_per_nano - rate).abs() < f64::EPSILON);
        let last = clock.last;
        assert!(last.library_nanos > 10_000_000_000);
        clock.update(|| Err(999));
        assert_eq!(clock.last, last);
    }
}
