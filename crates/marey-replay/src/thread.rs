//! What the double knows of each thread, and what all threads have counted.

use crate::lock;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only its thread writes.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }
}

/// What a thread has counted.
#[derive(Default)]
pub(crate) struct Counts {
    pub callbacks: Count,
    pub buffers_requested: Count,
    pub buffers_completed: Count,
    /// Buffers that were said to be zeroed, and were not.
    pub buffers_dirty: Count,
}

static ALL: Mutex<Vec<&'static Counts>> = Mutex::new(Vec::new());

thread_local! {
    static COUNTS: Cell<Option<&'static Counts>> = const { Cell::new(None) };
    static ID: u32 = read_id();
    /// Never dropped: profilers call from handlers of the process's end, when a thread's own have run.
    static EXTERNAL: ManuallyDrop<RefCell<Vec<External>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// This thread's counts.
#[inline]
pub(crate) fn counts() -> &'static Counts {
    COUNTS.get().unwrap_or_else(new_counts)
}

#[cold]
fn new_counts() -> &'static Counts {
    let counts: &'static Counts = Box::leak(Box::default());
    lock(&ALL).push(counts);
    COUNTS.set(Some(counts));
    counts
}

/// The sum of a count over all threads.
pub(crate) fn sum(count: fn(&Counts) -> &Count) -> u64 {
    lock(&ALL).iter().map(|counts| count(counts).0.load(Relaxed)).sum()
}

/// Begins to count anew.
pub(crate) fn reset() {
    for counts in lock(&ALL).iter() {
        let Counts { callbacks, buffers_requested, buffers_completed, buffers_dirty } = counts;
        for count in [callbacks, buffers_requested, buffers_completed, buffers_dirty] {
            count.0.store(0, Relaxed);
        }
    }
}

/// The thread's number, as the system has it.
pub(crate) fn id() -> u32 {
    ID.with(|id| *id)
}

#[expect(unsafe_code, reason = "gettid(2)")]
fn read_id() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// An id that the program has put upon its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct External {
    /// The client that is to be told.
    pub client: usize,
    pub kind: u32,
    pub id: u64,
}

/// Puts an id upon the calls of this thread.
pub(crate) fn push_external(external: External) {
    EXTERNAL.with(|ids| ids.borrow_mut().push(external));
}

/// Takes the client's last id of this kind away.
pub(crate) fn pop_external(client: usize, kind: u32) -> Option<u64> {
    EXTERNAL.with(|ids| {
        let mut ids = ids.borrow_mut();
        let is_meant = |external: &External| (external.client, external.kind) == (client, kind);
        let last = ids.iter().rposition(is_meant)?;
        Some(ids.remove(last).id)
    })
}

/// Each client's last id of each kind.
pub(crate) fn externals() -> Vec<External> {
    EXTERNAL.with(|ids| {
        let mut last: Vec<External> = Vec::new();
        for external in ids.borrow().iter().rev() {
            let is_same =
                |known: &External| (known.client, known.kind) == (external.client, external.kind);
            if !last.iter().any(is_same) {
                last.push(*external);
            }
        }
        last
    })
}
