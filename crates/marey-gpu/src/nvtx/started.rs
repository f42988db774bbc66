//! Ranges that are started and ended, on whatever threads.
//!
//! A range's number says where in a table of fixed size its scope is. A place is claimed by writing
//! its owner's number, so there is no lock that a fork could leave behind.

use marey_record::{Detached, NodeKind, api};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Most ranges that are open at once.
const PLACES: usize = 1 << 14;

/// Nobody's place.
const FREE: u64 = 0;
/// A place that changes hands.
const TAKEN: u64 = u64::MAX;

struct Place {
    /// The number of the range that is here.
    range: AtomicU64,
    scope: AtomicPtr<Detached>,
}

static TABLE: [Place; PLACES] =
    [const { Place { range: AtomicU64::new(FREE), scope: AtomicPtr::new(std::ptr::null_mut()) } };
        PLACES];

static OPEN: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicU64 = AtomicU64::new(FREE);

/// Starts a range, whose name is asked for only where something is recorded; returns its number, and
/// its scope if it is recorded.
pub(super) fn start(name: impl FnOnce() -> u32) -> (u64, Option<Arc<Detached>>) {
    let scope = api::is_live().then(|| api::enter_detached(None, name(), NodeKind::Scope));
    let Some(scope) = scope.flatten() else { return (next(), None) };
    if OPEN.fetch_add(1, Ordering::Relaxed) >= PLACES {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        api::count_lost_range();
        return (next(), None);
    }
    // Fewer are open than there are places, so one of the next numbers has a free one.
    loop {
        let range = next();
        let place = place(range);
        if exchange(place, FREE, TAKEN) {
            place.scope.store(Arc::into_raw(Arc::clone(&scope)).cast_mut(), Ordering::Relaxed);
            place.range.store(range, Ordering::Release);
            return (range, Some(scope));
        }
    }
}

/// Ends a range. A number that no open one has does nothing.
#[expect(unsafe_code, reason = "takes back the scope that `start` gave away")]
pub(super) fn end(range: u64) {
    let place = place(range);
    if range == FREE || range == TAKEN || !exchange(place, range, TAKEN) {
        return;
    }
    let scope = place.scope.swap(std::ptr::null_mut(), Ordering::Relaxed);
    place.range.store(FREE, Ordering::Release);
    OPEN.fetch_sub(1, Ordering::Relaxed);
    if !scope.is_null() {
        // SAFETY: `start` put it there with `Arc::into_raw`, and the exchange gave the place to us
        // alone.
        unsafe { Arc::from_raw(scope) }.exit();
    }
}

fn next() -> u64 {
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

fn place(range: u64) -> &'static Place {
    &TABLE[range as usize % PLACES]
}

fn exchange(place: &Place, from: u64, to: u64) -> bool {
    place.range.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
}
