//! From the clock of the device's library to the recorder's.
//!
//! Records are stamped in nanoseconds of a clock that `cuptiGetTimestamp` reads; the recorder counts
//! ticks. Both are read together now and again. A moment between two readings lies on the line through
//! them, so that later moments stay later; one after the last reading on a line of the rate between that
//! and the first of the last minutes, as a reading is wrong by a microsecond or so, which is much of a
//! tenth of a second and little of a minute.

use marey_record::device;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    library_nanos: u64,
    ticks: u64,
}

/// A moment, and the rate from there to the next one, or on from the last.
#[derive(Clone, Copy, Debug)]
struct Knot {
    pair: Pair,
    ticks_per_nano: f64,
}

/// The line.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Ascending; there is at least one.
    knots: Vec<Knot>,
    /// Readings closer together than this are not kept.
    apart_nanos: u64,
}

/// Readings closer together than this say nothing of the rate.
const SHORTEST_NANOS: u64 = 100_000_000;

/// Readings that are kept. Of more, each second one goes, and later ones are further apart.
const MOST_KNOTS: usize = 64;

/// Up to so far, then the oldest one goes: rates change with the temperature.
const LONGEST_NANOS: u64 = 1_600_000_000;

/// Clocks whose rates differ by more than this are not both right: one was set.
const MOST_DRIFT: f64 = 1e-3;

impl Clock {
    /// A clock that is read by this function, whose error is the library's code.
    pub(super) fn new(read: impl Fn() -> Result<u64, u32>) -> Result<Self, u32> {
        Ok(Self::since(Pair::now(read)?, own_ticks_per_nano()))
    }

    fn since(pair: Pair, ticks_per_nano: f64) -> Self {
        Self { knots: vec![Knot { pair, ticks_per_nano }], apart_nanos: SHORTEST_NANOS }
    }

    /// Reads both clocks again.
    pub(super) fn update(&mut self, read: impl Fn() -> Result<u64, u32>) {
        if let Ok(now) = Pair::now(read) {
            self.add(now);
        }
    }

    fn add(&mut self, now: Pair) {
        let last = self.last();
        if now.library_nanos.abs_diff(last.pair.library_nanos) < self.apart_nanos {
            return;
        }
        let ticks_per_nano = match last.pair.rate_to(now) {
            Some(rate) if (rate / own_ticks_per_nano() - 1.0).abs() < MOST_DRIFT => rate,
            // A clock was set: what is known of its rate stays true.
            _ => return *self = Self::since(now, last.ticks_per_nano),
        };
        if self.knots.len() == MOST_KNOTS {
            self.thin_out();
        }
        let at = self.knots.len() - 1;
        self.knots[at].ticks_per_nano = ticks_per_nano;
        let since_first = self.knots[0].pair.rate_to(now).unwrap_or(ticks_per_nano);
        self.knots.push(Knot { pair: now, ticks_per_nano: since_first });
    }

    /// Makes room for another reading.
    fn thin_out(&mut self) {
        if self.apart_nanos >= LONGEST_NANOS {
            self.knots.remove(0);
            return;
        }
        self.apart_nanos *= 2;
        // The last one stays.
        let mut is_kept = self.knots.len().is_multiple_of(2);
        self.knots.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
        for at in 1..self.knots.len() {
            let rate = self.knots[at - 1].pair.rate_to(self.knots[at].pair);
            self.knots[at - 1].ticks_per_nano = rate.unwrap_or(self.knots[at].ticks_per_nano);
        }
    }

    fn last(&self) -> Knot {
        self.knots[self.knots.len() - 1]
    }

    /// The recorder's moment of a stamp.
    #[inline]
    pub(super) fn ticks(&self, library_nanos: u64) -> u64 {
        // Most stamps are of the last moments.
        let is_before = |knot: &&Knot| knot.pair.library_nanos <= library_nanos;
        let knot = self.knots.iter().rev().find(is_before).unwrap_or(&self.knots[0]);
        let since = library_nanos.wrapping_sub(knot.pair.library_nanos).cast_signed();
        let ticks = (since as f64 * knot.ticks_per_nano) as i64;
        knot.pair.ticks.saturating_add_signed(ticks)
    }
}

/// The rate of a library's clock that is right.
fn own_ticks_per_nano() -> f64 {
    1.0 / device::now().1
}

impl Pair {
    /// The ticks a nanosecond from here to a later moment; `None` if it is not later.
    fn rate_to(self, later: Self) -> Option<f64> {
        let nanos = later.library_nanos.checked_sub(self.library_nanos).filter(|&it| it > 0)?;
        let ticks = later.ticks.checked_sub(self.ticks).filter(|&it| it > 0)?;
        Some(ticks as f64 / nanos as f64)
    }

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
        let start = device::now().0;
        // As far in the past as the readings are long.
        let back = (2e8 / nanos_per_tick) as u64;
        let first = Pair { library_nanos: library(start - back), ticks: start - back };
        let mut clock = Clock::since(first, own_ticks_per_nano());
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
        let rate = clock.last().ticks_per_nano;
        jump.set(10_000_000_000);
        clock.update(read);
        assert!((clock.last().ticks_per_nano - rate).abs() < f64::EPSILON);
        let last = clock.last().pair;
        assert!(last.library_nanos > 10_000_000_000);
        clock.update(|| Err(999));
        assert_eq!(clock.last().pair, last);
        jump.set(0);
        clock.update(read);
        assert!(clock.last().pair.library_nanos < last.library_nanos, "also one that is set back");
    }

    #[test]
    fn readings_that_are_a_little_wrong_leave_moments_right_and_in_order() {
        const SECOND: u64 = 1_000_000_000;
        const WRONG_NANOS: u64 = 2_000;
        let ticks_per_nano = own_ticks_per_nano();
        // 40 millionths too slow.
        let ticks = |nanos: u64| 1_000_000 + (nanos as f64 * ticks_per_nano * 1.000_04) as u64;
        let reading = |number: u64| {
            let nanos = 10 * SECOND + number * SHORTEST_NANOS;
            let wrong_nanos = [0, WRONG_NANOS][(number % 2) as usize];
            Pair { library_nanos: nanos, ticks: ticks(nanos + wrong_nanos) }
        };
        let mut clock = Clock::since(reading(0), ticks_per_nano);
        for number in 1..=3_000 {
            clock.add(reading(number));
            if number < 10 {
                continue;
            }
            let now = reading(number).library_nanos;
            // A second back, which is when a buffer's first records are of, and on to the next reading.
            let moments = (now - SECOND..now + SHORTEST_NANOS).step_by(10_000_000);
            let found: Vec<_> = moments.clone().map(|nanos| clock.ticks(nanos)).collect();
            assert!(found.is_sorted(), "at {number}");
            for (nanos, found) in moments.zip(found) {
                let off_nanos = found.abs_diff(ticks(nanos)) as f64 / ticks_per_nano;
                assert!(off_nanos <= 1.5 * WRONG_NANOS as f64, "{off_nanos} ns at {number}");
            }
        }
        assert!(clock.knots.len() <= MOST_KNOTS);
    }
}
