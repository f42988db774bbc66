//! The clock of the recorder: the processor's counter, turned into nanoseconds by one
//! multiplication.
//!
//! `ticks` is the time-stamp counter where it is invariant (x86-64, `CPUID` leaf `8000_0007H`, bit 8) and
//! `CLOCK_MONOTONIC` nanoseconds elsewhere. The factor is measured once, between the moment the
//! library was loaded and the first session, over at least 2 ms: the error of two clock readings
//! of 30 ns each is then below 3e-5.

use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Nanoseconds a tick, as a fixed-point number with 32 fractional bits.
static NANOS_PER_TICK: AtomicU64 = AtomicU64::new(1 << 32);
static CALIBRATED: OnceLock<()> = OnceLock::new();
static LOADED: OnceLock<Pair> = OnceLock::new();

const SHORTEST_BASELINE: Duration = Duration::from_millis(2);

/// One moment on the counter and on the system's clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The counter.
    pub(crate) ticks: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) monotonic_nanos: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970.
    pub(crate) unix_nanos: u64,
}

impl Pair {
    /// Reads the clocks, the counter between two readings of the monotonic one. Of several tries the
    /// quickest counts: a page fault or an interrupt between the readings moves them apart.
    pub(crate) fn now() -> Self {
        const TRIES: u32 = 4;
        let try_once = || {
            let before = system_nanos(libc::CLOCK_MONOTONIC);
            let ticks = ticks();
            let after = system_nanos(libc::CLOCK_MONOTONIC);
            (after.saturating_sub(before), ticks, before.midpoint(after))
        };
        let mut quickest = try_once();
        for _ in 1..TRIES {
            quickest = quickest.min(try_once());
        }
        let (_, ticks, monotonic_nanos) = quickest;
        Self { ticks, monotonic_nanos, unix_nanos: system_nanos(libc::CLOCK_REALTIME) }
    }
}

/// Notes the moment from which the counter's rate is measured. The sooner, the better.
pub(crate) fn note_load() {
    LOADED.get_or_init(Pair::now);
}

/// Measures the counter's rate, once. Waits until the baseline is long enough.
pub(crate) fn calibrate() {
    CALIBRATED.get_or_init(|| {
        if !counter_is_invariant() {
            return;
        }
        let first = *LOADED.get_or_init(Pair::now);
        let baseline = SHORTEST_BASELINE.as_nanos() as u64;
        loop {
            let now = Pair::now();
            let nanos = now.monotonic_nanos.saturating_sub(first.monotonic_nanos);
            if nanos >= baseline {
                let ticks = now.ticks.saturating_sub(first.ticks).max(1);
                let factor = (u128::from(nanos) << 32) / u128::from(ticks);
                NANOS_PER_TICK.store(factor as u64, Ordering::Relaxed);
                return;
            }
            std::hint::spin_loop();
        }
    });
}

/// Nanoseconds of a difference of ticks.
#[inline(always)]
pub(crate) fn nanos(ticks: u64) -> u64 {
    let factor = NANOS_PER_TICK.load(Ordering::Relaxed);
    ((u128::from(ticks) * u128::from(factor)) >> 32) as u64
}

/// The counter now.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the counter has no safe intrinsic")]
pub(crate) fn ticks() -> u64 {
    if INVARIANT.load(Ordering::Relaxed) == NO {
        return system_nanos(libc::CLOCK_MONOTONIC);
    }
    // SAFETY: RDTSC exists on every x86-64 processor and only writes registers.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The counter now.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    system_nanos(libc::CLOCK_MONOTONIC)
}

#[cfg(target_arch = "x86_64")]
const YES: u64 = 1;
#[cfg(target_arch = "x86_64")]
const NO: u64 = 2;
/// 0 = not asked yet; the counter is then used, and only differences after `calibrate` count.
#[cfg(target_arch = "x86_64")]
static INVARIANT: AtomicU64 = AtomicU64::new(0);

#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const LEAF: u32 = 0x8000_0007;
    let invariant = __cpuid(0x8000_0000).eax >= LEAF && __cpuid(LEAF).edx & (1 << 8) != 0;
    INVARIANT.store(if invariant { YES } else { NO }, Ordering::Relaxed);
    invariant
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_invariant() -> bool {
    false
}

#[expect(unsafe_code, reason = "std's clocks do not give their numbers")]
fn system_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; the two clocks asked for exist on every Linux,
    // so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_agree_with_the_monotonic_clock() {
        note_load();
        calibrate();
        let first = Pair::now();
        while Pair::now().monotonic_nanos - first.monotonic_nanos < 20_000_000 {}
        let second = Pair::now();
        let measured = nanos(second.ticks - first.ticks) as f64;
        let expected = (second.monotonic_nanos - first.monotonic_nanos) as f64;
        assert!((measured / expected - 1.0).abs() < 1e-3, "{measured} ns for {expected} ns");
    }
}
