//! The clock of libcupti: virtual, advanced by the script, or the machine's with an error.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

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
static CALL_COUNT: AtomicU64 = AtomicU64::new(0);
static NANOS_PER_CALL: AtomicU64 = AtomicU64::new(0);
static OFFSET_NANOS: AtomicI64 = AtomicI64::new(0);
static DRIFT_PPM: AtomicI64 = AtomicI64::new(0);
static LOADED_AT_NANOS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn configure(clock: Clock, call_nanos: u64) {
    LOADED_AT_NANOS.store(realtime_nanos(), Relaxed);
    CALL_COUNT.store(0, Relaxed);
    NANOS_PER_CALL.store(call_nanos, Relaxed);
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

pub(crate) fn call_count() -> u64 {
    CALL_COUNT.load(Relaxed)
}

/// Begins a call, which takes its time. Returns the number of earlier calls.
#[inline]
pub(crate) fn begin_call() -> u64 {
    CALL_COUNT.fetch_add(1, Relaxed)
}

/// Returns the start of a call, by its number. With the machine's clock, returns the current time.
#[inline]
pub(crate) fn call_start_nanos(call_number: u64) -> u64 {
    if IS_REAL.load(Relaxed) {
        return now_nanos();
    }
    PASSED_NANOS.load(Relaxed) + call_number * NANOS_PER_CALL.load(Relaxed)
}

/// Returns the time of libcupti's clock, in nanoseconds.
#[inline]
pub(crate) fn now_nanos() -> u64 {
    if !IS_REAL.load(Relaxed) {
        return call_start_nanos(call_count());
    }
    let now_nanos = realtime_nanos();
    let elapsed_nanos = now_nanos.wrapping_sub(LOADED_AT_NANOS.load(Relaxed)).cast_signed();
    let drift_nanos = i128::from(elapsed_nanos) * i128::from(DRIFT_PPM.load(Relaxed)) / 1_000_000;
    now_nanos
        .wrapping_add_signed(OFFSET_NANOS.load(Relaxed))
        .wrapping_add_signed(drift_nanos as i64)
}

/// Advances virtual time. Returns the time before.
pub(crate) fn advance(nanos: u64) -> u64 {
    let now_nanos = now_nanos();
    PASSED_NANOS.fetch_add(nanos, Relaxed);
    now_nanos
}

/// Advances virtual time to `then_nanos`, unless that has passed: the host waits for a device.
pub(crate) fn advance_to(then_nanos: u64) {
    advance(then_nanos.saturating_sub(now_nanos()));
}

fn realtime_nanos() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
