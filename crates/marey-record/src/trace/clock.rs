//! The clock of a spool: converts ticks of the recorder's counter to nanoseconds of the monotonic
//! clock.

use crate::clock::{self, ClockReading};

/// The conversion from ticks to nanoseconds, fixed by one reading of both clocks at the start.
///
/// The counter's rate is known to 3e-5, so this clock and the monotonic clock may drift apart at
/// that rate. The clock frames of the spool show by how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceClock(ClockReading);

impl TraceClock {
    pub(super) fn starting_at(now: ClockReading) -> Self {
        Self(now)
    }

    /// Returns the nanoseconds of a counter value, which may be before the start.
    pub(super) fn nanos_at(&self, ticks: u64) -> i64 {
        let start_nanos = self.0.monotonic_nanos.cast_signed();
        if ticks >= self.0.ticks {
            start_nanos + clock::nanos(ticks - self.0.ticks).cast_signed()
        } else {
            start_nanos - clock::nanos(self.0.ticks - ticks).cast_signed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_start_are_in_order() {
        clock::calibrate();
        let start = ClockReading::now();
        let clock = TraceClock::starting_at(start);
        let moments = [start.ticks - 1_000_000, start.ticks, start.ticks + 1_000_000];
        let nanos = moments.map(|ticks| clock.nanos_at(ticks));
        assert_eq!(nanos[1], start.monotonic_nanos.cast_signed());
        assert_eq!(nanos[1] - nanos[0], nanos[2] - nanos[1]);
        assert_eq!((nanos[2] - nanos[1]).cast_unsigned(), clock::nanos(1_000_000));
    }
}
