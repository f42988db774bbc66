//! The clock of libcupti: virtual, advanced by the script, or the machine's with an error.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Kind of clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Begins at this time and is advanced only by the script.
    Virtual { start_nanos: u64 },
    /// `CLOCK_REALTIME` with an offset, and a drift since the script was loaded.
    Real { offset_nanos: i64, drift_parts_per_million: i64 },
}

static IS_REAL: AtomicBool = AtomicBool::new(false);
/// Virtual time is the time passed plus the time of calls, so that one counter serves ids and
/// times.
static PASSED_NANOS: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static CALL_NANOS: AtomicU64 = AtomicU64::new(0);
static OFFSET_NANOS: AtomicI64 = AtomicI64::new(0);
static DRIFT_PPM: AtomicI64 = AtomicI64::new(0);
static LOADED_AT_NANOS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn configure(clock: Clock, call_nanos: u64) {
    LOADED_AT_NANOS.store(realtime_nanos(), Relaxed);
    CALLS.store(0, Relaxed);
    CALL_NANOS.store(call_nanos, Relaxed);
    match clock {
        Clock::Virtual { start_nanos } => {
            PASSED_NANOS.store(start_nanos, Relaxed);
            IS_REAL.store(false, Relaxed);
        }
        Clock::Real { offset_nanos, drift_parts_per_million } => {
            OFFSET_NANOS.store(offset_nanos, Relaxed);
            DRIFT_PPM.store(drift_parts_per_million, Relaxed);
            IS_REAL.store(true, Relaxed);
        }
    }
}

/// Returns the number of calls so far.
pub(crate) fn call_count() -> u64 {
    CALLS.load(Relaxed)
}

/// Begins a call, which takes its time. Returns the number of earlier calls.
#[inline]
pub(crate) fn begin_call() -> u64 {
    CALLS.fetch_add(1, Relaxed)
}

/// Returns the start of a call, by its number. With the machine's clock, returns the current time.
#[inline]
pub(crate) fn start_of(call: u64) -> u64 {
    if IS_REAL.load(Relaxed) {
        return now();
    }
    PASSED_NANOS.load(Relaxed) + call * CALL_NANOS.load(Relaxed)
}

/// Returns the time of libcupti's clock, in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    if !IS_REAL.load(Relaxed) {
        return start_of(call_count());
    }
    let now = realtime_nanos();
    let elapsed = now.wrapping_sub(LOADED_AT_NANOS.load(Relaxed)).cast_signed();
    let drift = i128::from(elapsed) * i128::from(DRIFT_PPM.load(Relaxed)) / 1_000_000;
    now.wrapping_add_signed(OFFSET_NANOS.load(Relaxed)).wrapping_add_signed(drift as i64)
}

/// Advances virtual time. Returns the time before.
pub(crate) fn advance(nanos: u64) -> u64 {
    let now = now();
    PASSED_NANOS.fetch_add(nanos, Relaxed);
    now
}

/// Advances virtual time to `then`, unless that has passed: the host waits for a device.
pub(crate) fn advance_to(then: u64) {
    advance(then.saturating_sub(now()));
}

fn realtime_nanos() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
