//! Converts CUPTI's timestamps to the recorder's clock.
//!
//! Records have timestamps in nanoseconds of the clock that `cuptiGetTimestamp` reads. The recorder
//! counts ticks. Both clocks are read together from time to time. Timestamps between two readings
//! are interpolated linearly, which preserves their order. Timestamps after the last reading are
//! extrapolated at the mean rate of the last minutes. The mean is needed because a reading has an
//! error of about a microsecond, which matters over a tenth of a second but not over a minute.

use marey_record::device;

/// A simultaneous reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    library_nanos: u64,
    ticks: u64,
}

/// A reading, and the rate from it to the next one, or beyond the last one.
#[derive(Clone, Copy, Debug)]
struct Knot {
    reading: Reading,
    ticks_per_nano: f64,
}

/// A piecewise linear map between the clocks.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The readings in ascending order of time. Never empty.
    knots: Vec<Knot>,
    /// The minimum distance of two readings.
    spacing_nanos: u64,
}

/// Smallest distance of two readings from which a rate can be computed.
const MIN_SPACING_NANOS: u64 = 100_000_000;

/// The maximum number of readings. When it is reached, every second reading is dropped and the
/// distance is doubled.
const MAX_KNOTS: usize = 64;

/// The maximum distance. Once it is reached, the oldest reading is dropped instead, because rates
/// change with the temperature.
const MAX_SPACING_NANOS: u64 = 1_600_000_000;

/// The maximum deviation of a rate from the nominal one. A larger one means that a clock was set.
const MAX_RATE_ERROR: f64 = 1e-3;

impl Clock {
    /// Creates a clock that `read` reads; an error is CUPTI's code.
    pub(super) fn new(read: impl Fn() -> Result<u64, u32>) -> Result<Self, u32> {
        Ok(Self::from_reading(Reading::take(read)?, nominal_ticks_per_nano()))
    }

    fn from_reading(reading: Reading, ticks_per_nano: f64) -> Self {
        Self { knots: vec![Knot { reading, ticks_per_nano }], spacing_nanos: MIN_SPACING_NANOS }
    }

    /// Adds a reading of both clocks.
    pub(super) fn update(&mut self, read: impl Fn() -> Result<u64, u32>) {
        if let Ok(reading) = Reading::take(read) {
            self.add(reading);
        }
    }

    fn add(&mut self, reading: Reading) {
        let last = self.last_knot();
        if reading.library_nanos.abs_diff(last.reading.library_nanos) < self.spacing_nanos {
            return;
        }
        let ticks_per_nano = match last.reading.rate_to(reading) {
            Some(rate) if (rate / nominal_ticks_per_nano() - 1.0).abs() < MAX_RATE_ERROR => rate,
            // A clock was set. Start again at this reading, with the known rate.
            _ => return *self = Self::from_reading(reading, last.ticks_per_nano),
        };
        if self.knots.len() == MAX_KNOTS {
            self.halve_readings();
        }
        let last_index = self.knots.len() - 1;
        self.knots[last_index].ticks_per_nano = ticks_per_nano;
        let mean_rate = self.knots[0].reading.rate_to(reading).unwrap_or(ticks_per_nano);
        self.knots.push(Knot { reading, ticks_per_nano: mean_rate });
    }

    /// Makes room for another reading.
    fn halve_readings(&mut self) {
        if self.spacing_nanos >= MAX_SPACING_NANOS {
            self.knots.remove(0);
            return;
        }
        self.spacing_nanos *= 2;
        // Keep the last reading.
        let mut is_kept = self.knots.len().is_multiple_of(2);
        self.knots.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
        for index in 1..self.knots.len() {
            let rate = self.knots[index - 1].reading.rate_to(self.knots[index].reading);
            self.knots[index - 1].ticks_per_nano = rate.unwrap_or(self.knots[index].ticks_per_nano);
        }
    }

    fn last_knot(&self) -> Knot {
        self.knots[self.knots.len() - 1]
    }

    /// Converts a timestamp to ticks of the recorder.
    #[inline]
    pub(super) fn ticks(&self, library_nanos: u64) -> u64 {
        // Most timestamps are recent, so search from the end.
        let is_before = |knot: &&Knot| knot.reading.library_nanos <= library_nanos;
        let knot = self.knots.iter().rev().find(is_before).unwrap_or(&self.knots[0]);
        let elapsed_nanos = library_nanos.wrapping_sub(knot.reading.library_nanos).cast_signed();
        let ticks = (elapsed_nanos as f64 * knot.ticks_per_nano) as i64;
        knot.reading.ticks.saturating_add_signed(ticks)
    }
}

/// Returns the rate between a correct nanosecond clock and the recorder's clock.
fn nominal_ticks_per_nano() -> f64 {
    1.0 / device::now().1
}

impl Reading {
    /// Returns the ticks per nanosecond from this reading to a later one; `None` if it is not
    /// later.
    fn rate_to(self, later: Self) -> Option<f64> {
        let nanos = later.library_nanos.checked_sub(self.library_nanos).filter(|&it| it > 0)?;
        let ticks = later.ticks.checked_sub(self.ticks).filter(|&it| it > 0)?;
        Some(ticks as f64 / nanos as f64)
    }

    /// Reads both clocks several times and returns the quickest reading, which has the smallest
    /// error.
    fn take(read: impl Fn() -> Result<u64, u32>) -> Result<Self, u32> {
        const ATTEMPTS: u32 = 4;
        let read_both = || -> Result<_, u32> {
            let before = device::now().0;
            let library_nanos = read()?;
            let after = device::now().0;
            let ticks = before.midpoint(after);
            Ok((after.saturating_sub(before), Self { library_nanos, ticks }))
        };
        let mut quickest = read_both()?;
        for _ in 1..ATTEMPTS {
            let repeated = read_both()?;
            if repeated.0 < quickest.0 {
                quickest = repeated;
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
    fn offset_and_rate_of_a_clock_are_corrected() {
        let nanos_per_tick = device::now().1;
        // Ahead by an hour, and faster by 50 ppm.
        let library =
            |ticks: u64| 3_600_000_000_000 + (ticks as f64 * nanos_per_tick * 1.000_05) as u64;
        let now = || Ok(library(device::now().0));
        let start = device::now().0;
        // The first reading is 200 ms in the past.
        let age_ticks = (2e8 / nanos_per_tick) as u64;
        let first = Reading { library_nanos: library(start - age_ticks), ticks: start - age_ticks };
        let mut clock = Clock::from_reading(first, nominal_ticks_per_nano());
        clock.update(now);
        let timestamp = device::now().0 + age_ticks;
        let error_ticks = clock.ticks(library(timestamp)).abs_diff(timestamp);
        assert!((error_ticks as f64 * nanos_per_tick) < 20_000.0, "{error_ticks} ticks");
    }

    #[test]
    fn a_jump_keeps_the_rate_and_a_failed_reading_is_ignored() {
        let jump = Cell::new(0);
        let read = || Ok((device::now().0 as f64 * device::now().1) as u64 + jump.get());
        let mut clock = Clock::new(read).unwrap();
        let rate = clock.last_knot().ticks_per_nano;
        jump.set(10_000_000_000);
        clock.update(read);
        assert!((clock.last_knot().ticks_per_nano - rate).abs() < f64::EPSILON);
        let last = clock.last_knot().reading;
        assert!(last.library_nanos > 10_000_000_000);
        clock.update(|| Err(999));
        assert_eq!(clock.last_knot().reading, last);
        jump.set(0);
        clock.update(read);
        assert!(
            clock.last_knot().reading.library_nanos < last.library_nanos,
            "a clock that is set back restarts too"
        );
    }

    #[test]
    fn noisy_readings_keep_timestamps_accurate_and_in_order() {
        const SECOND: u64 = 1_000_000_000;
        const ERROR_NANOS: u64 = 2_000;
        let ticks_per_nano = nominal_ticks_per_nano();
        // Slower by 40 ppm.
        let ticks = |nanos: u64| 1_000_000 + (nanos as f64 * ticks_per_nano * 1.000_04) as u64;
        let reading = |number: u64| {
            let nanos = 10 * SECOND + number * MIN_SPACING_NANOS;
            let error_nanos = [0, ERROR_NANOS][(number % 2) as usize];
            Reading { library_nanos: nanos, ticks: ticks(nanos + error_nanos) }
        };
        let mut clock = Clock::from_reading(reading(0), ticks_per_nano);
        for number in 1..=3_000 {
            clock.add(reading(number));
            if number < 10 {
                continue;
            }
            let now = reading(number).library_nanos;
            // From a second back, the age of the first records of a buffer, to the next reading.
            let timestamps = (now - SECOND..now + MIN_SPACING_NANOS).step_by(10_000_000);
            let converted: Vec<_> = timestamps.clone().map(|nanos| clock.ticks(nanos)).collect();
            assert!(converted.is_sorted(), "at {number}");
            for (nanos, converted) in timestamps.zip(converted) {
                let deviation_nanos = converted.abs_diff(ticks(nanos)) as f64 / ticks_per_nano;
                assert!(
                    deviation_nanos <= 1.5 * ERROR_NANOS as f64,
                    "{deviation_nanos} ns at {number}"
                );
            }
        }
        assert!(clock.knots.len() <= MAX_KNOTS);
    }
}
