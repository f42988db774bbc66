//! The counts of what this process has lost, by cause. Any thread adds to them, and each profile
//! and run contains them.

use crate::sync::{AtomicU64, Ordering};
use marey_model::loss::LossCause;

static COUNTS: [AtomicU64; LossCause::COUNT] = [const { AtomicU64::new(0) }; LossCause::COUNT];

/// Counts one loss.
#[cold]
pub(crate) fn count(cause: LossCause) {
    add(cause, 1);
}

/// Counts `losses` losses.
pub(crate) fn add(cause: LossCause, losses: u64) {
    if let Some(counter) = COUNTS.get(cause as usize) {
        counter.fetch_add(losses, Ordering::Relaxed);
    }
}

/// Returns the losses so far.
pub(crate) fn snapshot() -> [(LossCause, u64); LossCause::COUNT] {
    LossCause::ALL.map(|cause| {
        (cause, COUNTS.get(cause as usize).map_or(0, |counter| counter.load(Ordering::Relaxed)))
    })
}

/// Resets the counters.
pub(crate) fn reset() {
    for counter in &COUNTS {
        counter.store(0, Ordering::Relaxed);
    }
}
