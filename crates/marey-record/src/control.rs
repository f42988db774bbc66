//! The few words that events read: which sessions live, which record, and the epoch.

use crate::sync::{AtomicU64, Ordering};

/// Most sessions alive at a time: one bit each.
pub(crate) const MAX_SESSIONS: u32 = u64::BITS;

/// The words, on a cache line of their own; written only when sessions change.
#[repr(C, align(64))]
pub(crate) struct Control {
    /// Sessions that exist, active or not. Zero is "off".
    pub(crate) live: AtomicU64,
    /// Sessions that record now.
    pub(crate) active: AtomicU64,
    /// Sessions, of those alive, whose paths are Python frames.
    pub(crate) python: AtomicU64,
    /// Sessions, of those alive, that keep every event.
    pub(crate) trace: AtomicU64,
    /// Grows whenever recording starts from nothing; a thread with an older tree begins anew.
    pub(crate) epoch: AtomicU64,
    /// Grows whenever a session begins or enters a phase: tells which phase a launch belongs to.
    pub(crate) mark: AtomicU64,
    /// Grows after every change of the words above but `mark`, and after columns were taken away. What
    /// a thread has worked out from them it need not work out again while this word stays.
    pub(crate) version: AtomicU64,
}

pub(crate) static CONTROL: Control = Control {
    live: AtomicU64::new(0),
    active: AtomicU64::new(0),
    python: AtomicU64::new(0),
    trace: AtomicU64::new(0),
    epoch: AtomicU64::new(0),
    mark: AtomicU64::new(0),
    // A node's note is of version 0 before there is any.
    version: AtomicU64::new(1),
};

impl Control {
    /// Says of a session, before it records, what is unusual about it.
    pub(crate) fn mark(&self, slot: u32, is_python: bool, is_trace: bool) {
        let set = |word: &AtomicU64, is_set: bool| {
            if is_set {
                word.fetch_or(bit(slot), Ordering::SeqCst);
            }
        };
        set(&self.python, is_python);
        set(&self.trace, is_trace);
        self.has_changed();
    }

    /// A session exists from now on, and records.
    pub(crate) fn begin(&self, slot: u32) {
        self.live.fetch_or(bit(slot), Ordering::SeqCst);
        self.activate(slot);
    }

    /// Lets a session record.
    pub(crate) fn activate(&self, slot: u32) {
        self.active.fetch_or(bit(slot), Ordering::SeqCst);
        self.has_changed();
    }

    /// Stops a session from recording; whether it did. Events that are in progress may not know yet.
    pub(crate) fn deactivate(&self, slot: u32) -> bool {
        let before = self.active.fetch_and(!bit(slot), Ordering::SeqCst);
        self.has_changed();
        before & bit(slot) != 0
    }

    /// Makes every thread's tree void.
    pub(crate) fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.has_changed();
    }

    /// Of the words as the caller sees them next; they may be newer.
    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Has threads look again at the words, and at their columns.
    pub(crate) fn has_changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a session out of every word, when it records no more.
    pub(crate) fn forget(&self, slot: u32) {
        for word in [&self.live, &self.python, &self.trace] {
            word.fetch_and(!bit(slot), Ordering::SeqCst);
        }
        self.has_changed();
    }

    /// Whether any session exists.
    #[inline(always)]
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// The sessions that record now, and those of them whose paths are Python frames.
    #[inline(always)]
    pub(crate) fn recording(&self) -> (u64, u64) {
        let active = self.active.load(Ordering::Relaxed);
        (active, active & self.python.load(Ordering::Relaxed))
    }
}

/// The bit of a slot.
#[inline(always)]
pub(crate) const fn bit(slot: u32) -> u64 {
    1 << slot
}

/// The slots of a mask, lowest first.
#[inline(always)]
pub(crate) fn slots(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let slot = mask.trailing_zeros();
        mask &= mask - 1;
        Some(slot)
    })
}
