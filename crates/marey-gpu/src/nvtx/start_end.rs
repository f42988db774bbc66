//! Records NVTX's start/end ranges, which may end on any thread, as detached scopes.
//!
//! The id of a range determines the slot of its scope in a table of fixed size. A thread claims a
//! slot by an atomic exchange. So there is no lock that a child of a fork could find held.

use marey_record::{Detached, NodeKind, api};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of open ranges.
const MAX_OPEN_RANGES: usize = 1 << 14;

/// Id of a free slot.
const FREE: u64 = 0;
/// Id of a slot that is being changed.
const LOCKED: u64 = u64::MAX;

struct Slot {
    /// Id of the range in this slot.
    range_id: AtomicU64,
    scope: AtomicPtr<Detached>,
}

static TABLE: [Slot; MAX_OPEN_RANGES] = [const {
    Slot { range_id: AtomicU64::new(FREE), scope: AtomicPtr::new(std::ptr::null_mut()) }
}; MAX_OPEN_RANGES];

static OPEN_RANGES: AtomicUsize = AtomicUsize::new(0);
static LAST_RANGE_ID: AtomicU64 = AtomicU64::new(FREE);

/// Starts a range; `name` is called only if the range is recorded. Returns its id, and its scope if
/// it is recorded.
pub(super) fn start(name: impl FnOnce() -> u32) -> (u64, Option<Arc<Detached>>) {
    let scope = api::is_live().then(|| api::enter_detached(None, name(), NodeKind::Scope));
    let Some(scope) = scope.flatten() else { return (next_range_id(), None) };
    if OPEN_RANGES.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN_RANGES {
        OPEN_RANGES.fetch_sub(1, Ordering::Relaxed);
        api::count_lost_range();
        return (next_range_id(), None);
    }
    // There are fewer open ranges than slots, so one of the next ids has a free slot.
    loop {
        let range_id = next_range_id();
        let slot = slot_for(range_id);
        if try_exchange(slot, FREE, LOCKED) {
            slot.scope.store(Arc::into_raw(Arc::clone(&scope)).cast_mut(), Ordering::Relaxed);
            slot.range_id.store(range_id, Ordering::Release);
            return (range_id, Some(scope));
        }
    }
}

/// Ends a range. Does nothing if no open range has this id.
#[expect(unsafe_code, reason = "takes back the scope that `start` leaked")]
pub(super) fn end(range_id: u64) {
    let slot = slot_for(range_id);
    if range_id == FREE || range_id == LOCKED || !try_exchange(slot, range_id, LOCKED) {
        return;
    }
    let scope = slot.scope.swap(std::ptr::null_mut(), Ordering::Relaxed);
    slot.range_id.store(FREE, Ordering::Release);
    OPEN_RANGES.fetch_sub(1, Ordering::Relaxed);
    if !scope.is_null() {
        // SAFETY: `start` stored it with `Arc::into_raw`, and the exchange gave this thread
        // exclusive access to the slot.
        unsafe { Arc::from_raw(scope) }.exit();
    }
}

fn next_range_id() -> u64 {
    LAST_RANGE_ID.fetch_add(1, Ordering::Relaxed) + 1
}

fn slot_for(range_id: u64) -> &'static Slot {
    &TABLE[range_id as usize % MAX_OPEN_RANGES]
}

fn try_exchange(slot: &Slot, from: u64, to: u64) -> bool {
    slot.range_id.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
}
