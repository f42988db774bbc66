//! The kinds of records that the profiler wants.

use std::sync::atomic::{AtomicU64, Ordering};

static ENABLED: AtomicU64 = AtomicU64::new(0);

/// Whether the kind is one that libcupti knows, and from now on recorded or not.
pub(crate) fn enable(kind: u32, is_enabled: bool) -> bool {
    if !(1..64).contains(&kind) {
        return false;
    }
    let bit = 1 << kind;
    if is_enabled {
        ENABLED.fetch_or(bit, Ordering::Release);
    } else {
        ENABLED.fetch_and(!bit, Ordering::Release);
    }
    true
}

/// Stops recording.
pub(crate) fn disable_all() {
    ENABLED.store(0, Ordering::Release);
}

#[inline]
pub(crate) fn is_enabled(kind: u32) -> bool {
    ENABLED.load(Ordering::Acquire) & (1 << kind) != 0
}

#[inline]
pub(crate) fn is_any_enabled(kinds: &[u32]) -> bool {
    let wanted = kinds.iter().fold(0, |bits, kind| bits | (1 << kind));
    ENABLED.load(Ordering::Acquire) & wanted != 0
}
