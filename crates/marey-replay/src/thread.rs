//! Per-thread state, and counters summed over all threads.

use crate::lock;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that only its thread writes.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, increment: u64) {
        self.0.store(self.0.load(Relaxed) + increment, Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct Counts {
    pub callback_count: Count,
    pub buffers_requested: Count,
    pub buffers_completed: Count,
    /// Buffers that the profiler promised to zero and did not.
    pub buffers_dirty: Count,
}

static ALL_COUNTS: Mutex<Vec<&'static Counts>> = Mutex::new(Vec::new());

thread_local! {
    static COUNTS: Cell<Option<&'static Counts>> = const { Cell::new(None) };
    static ID: u32 = read_id();
    /// Never dropped: profilers call us from exit handlers, after a thread's destructors have run.
    static EXTERNAL_IDS: ManuallyDrop<RefCell<Vec<ExternalId>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

#[inline]
pub(crate) fn counts() -> &'static Counts {
    COUNTS.get().unwrap_or_else(new_counts)
}

#[cold]
fn new_counts() -> &'static Counts {
    let counts: &'static Counts = Box::leak(Box::default());
    lock(&ALL_COUNTS).push(counts);
    COUNTS.set(Some(counts));
    counts
}

/// Returns the sum of a counter over all threads.
pub(crate) fn sum(count: fn(&Counts) -> &Count) -> u64 {
    lock(&ALL_COUNTS).iter().map(|counts| count(counts).0.load(Relaxed)).sum()
}

/// Resets all counters.
pub(crate) fn reset() {
    for counts in lock(&ALL_COUNTS).iter() {
        let Counts { callback_count, buffers_requested, buffers_completed, buffers_dirty } = counts;
        for count in [callback_count, buffers_requested, buffers_completed, buffers_dirty] {
            count.0.store(0, Relaxed);
        }
    }
}

/// Returns the thread id in the operating system.
pub(crate) fn id() -> u32 {
    ID.with(|id| *id)
}

#[expect(unsafe_code, reason = "gettid(2)")]
fn read_id() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// An external correlation id that the program has pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExternalId {
    /// Client that receives its records.
    pub client: usize,
    pub kind: u32,
    pub id: u64,
}

/// Pushes an external correlation id on this thread.
pub(crate) fn push_external_id(external: ExternalId) {
    EXTERNAL_IDS.with(|ids| ids.borrow_mut().push(external));
}

/// Pops the client's last id of this kind.
pub(crate) fn pop_external_id(client: usize, kind: u32) -> Option<u64> {
    EXTERNAL_IDS.with(|ids| {
        let mut ids = ids.borrow_mut();
        let is_match = |external: &ExternalId| (external.client, external.kind) == (client, kind);
        let last_index = ids.iter().rposition(is_match)?;
        Some(ids.remove(last_index).id)
    })
}

/// Returns each client's last id of each kind.
pub(crate) fn external_ids() -> Vec<ExternalId> {
    EXTERNAL_IDS.with(|ids| {
        let mut last_ids: Vec<ExternalId> = Vec::new();
        for external in ids.borrow().iter().rev() {
            let is_same =
                |other: &ExternalId| (other.client, other.kind) == (external.client, external.kind);
            if !last_ids.iter().any(is_same) {
                last_ids.push(*external);
            }
        }
        last_ids
    })
}
