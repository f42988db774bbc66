//! The clock of the recorder: the processor's time-stamp counter, converted to nanoseconds by one
//! multiplication.
//!
//! `ticks` are readings of the counter where it can be trusted, and `CLOCK_MONOTONIC` nanoseconds
//! elsewhere, in which case the profile has a note. The counter is trusted on x86-64 if the
//! processor reports it as invariant (`CPUID` leaf `8000_0007H`, bit 8) and the kernel, which
//! watches it, lists it among its clocks. The factor is measured once, between the load of the
//! library and the first session, over at least 2 ms: the error of two clock readings of 30 ns each
//! is then below 3e-5.

use crate::device;
use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Nanoseconds per tick of the counter, less than one, in units of 2^-64. Zero if ticks are
/// nanoseconds.
static NANOS_PER_TICK: AtomicU64 = AtomicU64::new(0);
static CALIBRATION: OnceLock<()> = OnceLock::new();
static BASELINE_START: OnceLock<ClockReading> = OnceLock::new();

/// Key of the note that names the clock if it is not the counter.
const NOTE_KEY: &str = "clock";

const MIN_BASELINE: Duration = Duration::from_millis(2);

/// One point in time, read from the counter and from the system's clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// The counter.
    pub(crate) ticks: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) monotonic_nanos: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970.
    pub(crate) unix_nanos: u64,
}

impl ClockReading {
    /// Reads the clocks, the counter between two readings of the monotonic clock. The quickest of
    /// several attempts counts: a page fault or an interrupt between the readings moves them apart.
    pub(crate) fn now() -> Self {
        const ATTEMPTS: u32 = 4;
        let read_once = || {
            let before = system_nanos(libc::CLOCK_MONOTONIC);
            let ticks = ticks();
            let after = system_nanos(libc::CLOCK_MONOTONIC);
            (after.saturating_sub(before), ticks, before.midpoint(after))
        };
        let mut quickest = read_once();
        for _ in 1..ATTEMPTS {
            quickest = quickest.min(read_once());
        }
        let (_, ticks, monotonic_nanos) = quickest;
        Self { ticks, monotonic_nanos, unix_nanos: system_nanos(libc::CLOCK_REALTIME) }
    }
}

/// Reads the clocks at the start of the baseline over which the counter's rate is measured. A
/// longer baseline is more exact.
pub(crate) fn on_load() {
    BASELINE_START.get_or_init(ClockReading::now);
}

/// Measures the counter's rate, once. Waits until the baseline is long enough.
pub(crate) fn calibrate() {
    CALIBRATION.get_or_init(|| {
        if !try_use_counter() {
            use_system_clock();
            return;
        }
        let first = *BASELINE_START.get_or_init(ClockReading::now);
        let min_baseline_nanos = MIN_BASELINE.as_nanos() as u64;
        loop {
            let now = ClockReading::now();
            let nanos = now.monotonic_nanos.saturating_sub(first.monotonic_nanos);
            if nanos >= min_baseline_nanos {
                let ticks = now.ticks.saturating_sub(first.ticks).max(1);
                let factor = (u128::from(nanos) << u64::BITS) / u128::from(ticks);
                match u64::try_from(factor) {
                    Ok(factor) => NANOS_PER_TICK.store(factor, Ordering::Relaxed),
                    // The counter has stopped, or is slower than 1 GHz.
                    Err(_) => use_system_clock(),
                }
                return;
            }
            std::hint::spin_loop();
        }
    });
}

/// Converts a difference of ticks to nanoseconds.
#[inline(always)]
pub(crate) fn nanos(ticks: u64) -> u64 {
    if NANOS_PER_TICK.load(Ordering::Relaxed) == 0 { ticks } else { counter_nanos(ticks) }
}

/// Converts a time of this clock to nanoseconds of `CLOCK_MONOTONIC`. The time must have been read
/// after the first call of [`calibrate`].
pub fn monotonic_nanos(ticks: u64) -> u64 {
    calibrate();
    if NANOS_PER_TICK.load(Ordering::Relaxed) == 0 {
        return ticks;
    }
    let known = BASELINE_START.get_or_init(ClockReading::now);
    match ticks.checked_sub(known.ticks) {
        Some(later) => known.monotonic_nanos + nanos(later),
        None => known.monotonic_nanos.saturating_sub(nanos(known.ticks - ticks)),
    }
}

/// Returns the nanoseconds since a time of this clock.
pub(crate) fn nanos_since(start_ticks: u64) -> u64 {
    nanos(ticks().saturating_sub(start_ticks))
}

/// Converts a difference of ticks to nanoseconds, given that the clock [is the
/// counter](is_counter).
#[inline(always)]
pub(crate) fn counter_nanos(ticks: u64) -> u64 {
    let factor = NANOS_PER_TICK.load(Ordering::Relaxed);
    ((u128::from(ticks) * u128::from(factor)) >> u64::BITS) as u64
}

/// Returns the current time of this clock.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    ticks_from_counter(counter())
}

/// Returns the time of a reading of the counter that was just made.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ticks_from_counter(counter: u64) -> u64 {
    if COUNTER_STATE.load(Ordering::Relaxed) == UNTRUSTED {
        return system_nanos(libc::CLOCK_MONOTONIC);
    }
    counter
}

/// Reads the counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the counter has no safe intrinsic")]
pub(crate) fn counter() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and only writes registers.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the clock is the processor's counter.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_counter() -> bool {
    COUNTER_STATE.load(Ordering::Relaxed) == TRUSTED
}

/// Returns the current time of this clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    system_nanos(libc::CLOCK_MONOTONIC)
}

/// Returns 0: there is no counter on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    0
}

/// Returns the current time of this clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn ticks_from_counter(_counter: u64) -> u64 {
    ticks()
}

/// Whether the clock is the processor's counter.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn is_counter() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
const TRUSTED: u64 = 1;
#[cfg(target_arch = "x86_64")]
const UNTRUSTED: u64 = 2;
/// 0 = not determined yet: the counter is then used, and only differences after `calibrate` count.
#[cfg(target_arch = "x86_64")]
static COUNTER_STATE: AtomicU64 = AtomicU64::new(0);

/// Makes the counter the clock if it can be trusted. Returns whether it can.
#[cfg(target_arch = "x86_64")]
fn try_use_counter() -> bool {
    let clocks = std::fs::read_to_string(KERNEL_CLOCKS);
    let is_trusted = is_invariant() && kernel_trusts_counter(clocks.ok().as_deref());
    if is_trusted {
        COUNTER_STATE.store(TRUSTED, Ordering::Relaxed);
    }
    is_trusted
}

/// Uses the system's clock in place of the counter, and adds a note to the profile.
fn use_system_clock() {
    #[cfg(target_arch = "x86_64")]
    COUNTER_STATE.store(UNTRUSTED, Ordering::Relaxed);
    device::note(
        NOTE_KEY,
        "CLOCK_MONOTONIC, because the processor's time-stamp counter is not reliable here",
    );
}

#[cfg(target_arch = "x86_64")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const LEAF: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= LEAF && __cpuid(LEAF).edx & (1 << 8) != 0
}

/// The list of clocks that the kernel trusts.
#[cfg(target_arch = "x86_64")]
const KERNEL_CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Whether the counter is among the kernel's clocks. The kernel removes it from the list when it
/// differs between processors or stops. Without a list, as in some sandboxes, CPUID alone decides.
#[cfg(target_arch = "x86_64")]
fn kernel_trusts_counter(clocks: Option<&str>) -> bool {
    clocks.is_none_or(|clocks| clocks.split_whitespace().any(|clock| clock == "tsc"))
}

#[cfg(not(target_arch = "x86_64"))]
fn try_use_counter() -> bool {
    false
}

#[expect(unsafe_code, reason = "std's clocks do not give their numbers")]
fn system_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec, and both clocks exist on every Linux, so the call
    // cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_counter_that_the_kernel_does_not_list_is_not_trusted() {
        assert!(kernel_trusts_counter(Some("kvm-clock tsc acpi_pm \n")));
        assert!(!kernel_trusts_counter(Some("hpet acpi_pm \n")));
        assert!(!kernel_trusts_counter(Some("hyperv_clocksource_tsc_page acpi_pm\n")));
        assert!(kernel_trusts_counter(None));
    }

    #[test]
    fn nanoseconds_agree_with_the_monotonic_clock() {
        on_load();
        calibrate();
        let first = ClockReading::now();
        while ClockReading::now().monotonic_nanos - first.monotonic_nanos < 20_000_000 {}
        let second = ClockReading::now();
        let measured = nanos(second.ticks - first.ticks) as f64;
        let expected = (second.monotonic_nanos - first.monotonic_nanos) as f64;
        let error_nanos = monotonic_nanos(second.ticks).abs_diff(second.monotonic_nanos);
        assert!(error_nanos < 1_000_000, "{error_nanos} ns from the monotonic clock");
        assert!((measured / expected - 1.0).abs() < 1e-3, "{measured} ns for {expected} ns");
    }
}
