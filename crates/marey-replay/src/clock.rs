//! The clock of libcupti: virtual, moved by what is played, or the machine's with an error.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Starts here and stands still but for what is played.
    Virtual { start_nanos: u64 },
    /// `CLOCK_REALTIME`, so much ahead and so much too fast from when the script was loaded on.
    Real { offset_nanos: i64, drift_parts_per_million: i64 },
}

static IS_REAL: AtomicBool = AtomicBool::new(false);
/// Virtual time is what has passed, and so much for each call: one counter serves ids and times.
static PASSED: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static CALL_NANOS: AtomicU64 = AtomicU64::new(0);
static OFFSET: AtomicI64 = AtomicI64::new(0);
static DRIFT: AtomicI64 = AtomicI64::new(0);
static LOADED_AT: AtomicU64 = AtomicU64::new(0);

pub(crate) fn set(clock: Clock, call_nanos: u64) {
    LOADED_AT.store(realtime(), Relaxed);
    CALLS.store(0, Relaxed);
    CALL_NANOS.store(call_nanos, Relaxed);
    match clock {
        Clock::Virtual { start_nanos } => {
            PASSED.store(start_nanos, Relaxed);
            IS_REAL.store(false, Relaxed);
        }
        Clock::Real { offset_nanos, drift_parts_per_million } => {
            OFFSET.store(offset_nanos, Relaxed);
            DRIFT.store(drift_parts_per_million, Relaxed);
            IS_REAL.store(true, Relaxed);
        }
    }
}

/// Calls so far.
pub(crate) fn calls() -> u64 {
    CALLS.load(Relaxed)
}

/// Begins a call, which takes its time: how many there were before.
#[inline]
pub(crate) fn begin_call() -> u64 {
    CALLS.fetch_add(1, Relaxed)
}

/// When the call of this number began. Of the machine's clock, that is now.
#[inline]
pub(crate) fn start_of(call: u64) -> u64 {
    if IS_REAL.load(Relaxed) {
        return now();
    }
    PASSED.load(Relaxed) + call * CALL_NANOS.load(Relaxed)
}

/// Nanoseconds of libcupti's clock.
#[inline]
pub(crate) fn now() -> u64 {
    if !IS_REAL.load(Relaxed) {
        return start_of(calls());
    }
    let now = realtime();
    let gone = now.wrapping_sub(LOADED_AT.load(Relaxed)).cast_signed();
    let drift = i128::from(gone) * i128::from(DRIFT.load(Relaxed)) / 1_000_000;
    now.wrapping_add_signed(OFFSET.load(Relaxed)).wrapping_add_signed(drift as i64)
}

/// Lets virtual time pass; the time before.
pub(crate) fn pass(nanos: u64) -> u64 {
    let now = now();
    PASSED.fetch_add(nanos, Relaxed);
    now
}

/// Lets virtual time pass until then, if that is not gone yet: the host waits for a device.
pub(crate) fn pass_until(then: u64) {
    pass(then.saturating_sub(now()));
}

fn realtime() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
