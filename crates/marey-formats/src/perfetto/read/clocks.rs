//! Converts the timestamps of packets to nanoseconds since 1970, by the clock snapshots in the
//! trace.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::perfetto::message::{CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, ClockSnapshot};

/// The ids of clocks that are local to a sequence.
const SEQUENCE_CLOCKS: RangeInclusive<u32> = 64..=127;

/// The key of a clock: its sequence, if it is local to one, and its id.
type ClockKey = (Option<u32>, u32);

/// The clocks of a trace.
///
/// The first snapshot with the wall clock sets the offsets. Later snapshots follow the trace clock,
/// so times do not jump when the wall clock is set. In a trace without a wall clock, times count
/// from 0.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    clocks: HashMap<ClockKey, Clock>,
    /// Whether a timestamp was converted. From then on offsets must not change.
    has_converted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The number that is added to its nanoseconds.
    offset_nanos: i128,
    unit_nanos: u64,
    /// The last timestamp, if each timestamp is relative to the previous one.
    last_timestamp: Option<u64>,
}

impl Clocks {
    /// Adds a snapshot of a sequence.
    pub(super) fn add_snapshot(&mut self, sequence_id: u32, snapshot: &ClockSnapshot) {
        let readings = snapshot.clocks.iter().map(|clock| {
            let clock_id = clock.id.unwrap_or(0);
            let unit_nanos = clock.unit_multiplier_nanos.filter(|&unit| unit > 0).unwrap_or(1);
            let timestamp = clock.timestamp.unwrap_or(0);
            let last_timestamp = (clock.is_incremental == Some(true)).then_some(timestamp);
            let nanos = i128::from(timestamp).saturating_mul(unit_nanos.into());
            (
                clock_key(sequence_id, clock_id),
                nanos,
                Clock { offset_nanos: 0, unit_nanos, last_timestamp },
            )
        });
        let readings: Vec<(ClockKey, i128, Clock)> = readings.collect();
        let reading_nanos =
            |clock_id| readings.iter().find(|(key, ..)| key.1 == clock_id).map(|reading| reading.1);
        let on_known_clocks = [CLOCK_BOOTTIME, CLOCK_MONOTONIC].map(|clock_id| {
            Some(reading_nanos(clock_id)?.saturating_add(self.offset_nanos((None, clock_id))?))
        });
        let now_nanos = reading_nanos(CLOCK_REALTIME)
            .filter(|_| !self.has_converted)
            .or_else(|| on_known_clocks.into_iter().flatten().next())
            .or_else(|| {
                readings.iter().find_map(|&(key, nanos, _)| {
                    Some(nanos.saturating_add(self.offset_nanos(key)?))
                })
            })
            .or_else(|| reading_nanos(CLOCK_REALTIME))
            .or_else(|| reading_nanos(CLOCK_BOOTTIME))
            .or_else(|| readings.first().map(|reading| reading.1))
            .unwrap_or(0);
        for (key, nanos, clock) in readings {
            self.clocks
                .insert(key, Clock { offset_nanos: now_nanos.saturating_sub(nanos), ..clock });
        }
    }

    /// Converts a timestamp to nanoseconds since 1970. Returns `None` if the clock is unknown.
    pub(super) fn nanos(&mut self, sequence_id: u32, clock_id: u32, timestamp: u64) -> Option<i64> {
        let key = clock_key(sequence_id, clock_id);
        if !self.clocks.contains_key(&key) && key.0.is_none() {
            // An unknown global clock is taken for the boot clock, of which a machine has one and
            // which most programs use.
            let offset_nanos = if clock_id == CLOCK_REALTIME {
                0
            } else {
                self.offset_nanos((None, CLOCK_BOOTTIME)).unwrap_or(0)
            };
            self.clocks.insert(key, Clock { offset_nanos, unit_nanos: 1, last_timestamp: None });
        }
        self.has_converted = true;
        let clock = self.clocks.get_mut(&key)?;
        let mut absolute_timestamp = timestamp;
        if let Some(last_timestamp) = &mut clock.last_timestamp {
            // Negative steps are large numbers.
            *last_timestamp = last_timestamp.wrapping_add(timestamp);
            absolute_timestamp = *last_timestamp;
        }
        let nanos = i128::from(absolute_timestamp).saturating_mul(clock.unit_nanos.into());
        let nanos = nanos.saturating_add(clock.offset_nanos);
        Some(nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    fn offset_nanos(&self, key: ClockKey) -> Option<i128> {
        self.clocks.get(&key).map(|clock| clock.offset_nanos)
    }
}

fn clock_key(sequence_id: u32, clock_id: u32) -> ClockKey {
    (SEQUENCE_CLOCKS.contains(&clock_id).then_some(sequence_id), clock_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::message;

    fn snapshot(clocks: &[(u32, u64, bool, Option<u64>)]) -> ClockSnapshot {
        let clock = |&(clock_id, timestamp, is_incremental, unit)| message::Clock {
            id: Some(clock_id),
            timestamp: Some(timestamp),
            is_incremental: Some(is_incremental),
            unit_multiplier_nanos: unit,
        };
        ClockSnapshot { clocks: clocks.iter().map(clock).collect() }
    }

    #[test]
    fn the_first_wall_clock_reading_sets_the_offset() {
        let mut clocks = Clocks::default();
        clocks.add_snapshot(
            0,
            &snapshot(&[(CLOCK_BOOTTIME, 100, false, None), (CLOCK_REALTIME, 5000, false, None)]),
        );
        assert_eq!(clocks.nanos(0, CLOCK_BOOTTIME, 110), Some(5010));
        assert_eq!(clocks.nanos(0, CLOCK_REALTIME, 5010), Some(5010));
        // The wall clock is set.
        clocks.add_snapshot(
            0,
            &snapshot(&[(CLOCK_REALTIME, 9000, false, None), (CLOCK_BOOTTIME, 200, false, None)]),
        );
        assert_eq!(clocks.nanos(0, CLOCK_BOOTTIME, 210), Some(5110));
        assert_eq!(clocks.nanos(0, CLOCK_REALTIME, 9010), Some(5110));
    }

    #[test]
    fn incremental_clocks_count_from_their_last_timestamp() {
        let mut clocks = Clocks::default();
        let micros = (64, 7, true, Some(1000));
        clocks.add_snapshot(
            3,
            &snapshot(&[
                micros,
                (CLOCK_BOOTTIME, 100, false, None),
                (CLOCK_REALTIME, 1100, false, None),
            ]),
        );
        assert_eq!(clocks.nanos(3, 64, 2), Some(1100 + 2000));
        assert_eq!(clocks.nanos(3, 64, 1), Some(1100 + 3000));
        assert_eq!(clocks.nanos(3, 64, 0), Some(1100 + 3000));
        assert_eq!(clocks.nanos(4, 64, 1), None);
    }

    #[test]
    fn times_count_from_zero_without_a_wall_clock() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.nanos(0, CLOCK_BOOTTIME, 5), Some(5));
        clocks.add_snapshot(
            0,
            &snapshot(&[(CLOCK_BOOTTIME, 10, false, None), (CLOCK_REALTIME, 7000, false, None)]),
        );
        assert_eq!(clocks.nanos(0, CLOCK_BOOTTIME, 20), Some(20));
        assert_eq!(clocks.nanos(0, CLOCK_REALTIME, 7010), Some(20));
        assert_eq!(clocks.nanos(0, CLOCK_BOOTTIME, u64::MAX), Some(i64::MAX));
    }

    #[test]
    fn large_timestamps_do_not_overflow() {
        let mut clocks = Clocks::default();
        let largest = (64, u64::MAX, true, Some(u64::MAX));
        for _ in 0..3 {
            clocks.add_snapshot(
                0,
                &snapshot(&[largest, (CLOCK_BOOTTIME, u64::MAX, false, Some(u64::MAX))]),
            );
            clocks.add_snapshot(0, &snapshot(&[(CLOCK_BOOTTIME, 0, false, None), largest]));
            assert!(clocks.nanos(0, 64, u64::MAX).is_some());
        }
    }
}
