//! The clock of a spool: the recorder's counter as nanoseconds of the monotonic clock.

use crate::clock::{self, Pair};

/// Turns the counter into nanoseconds from one moment on.
///
/// The counter's rate is known to 3e-5, so the two clocks drift apart by up to that; the pairs that the
/// spool holds are of this clock, and tell by how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceClock(Pair);

impl TraceClock {
    pub(super) fn starting(now: Pair) -> Self {
        Self(now)
    }

    /// The counter's moment, which may be before the start.
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
    fn moments_before_and_after_the_start_are_in_order() {
        clock::calibrate();
        let start = Pair::now();
        let clock = TraceClock::starting(start);
        let moments = [start.ticks - 1_000_000, start.ticks, start.ticks + 1_000_000];
        let nanos = moments.map(|ticks| clock.nanos_at(ticks));
        assert_eq!(nanos[1], start.monotonic_nanos.cast_signed());
        assert_eq!(nanos[1] - nanos[0], nanos[2] - nanos[1]);
        assert_eq!((nanos[2] - nanos[1]).cast_unsigned(), clock::nanos(1_000_000));
    }
}
