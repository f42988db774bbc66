//! The few words that every event reads: which sessions live, which record, and the epoch.

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
    /// The two kinds above: an event looks at this word, and at those only where it must.
    pub(crate) unusual: AtomicU64,
    /// Grows whenever recording starts from nothing; a thread with an older tree begins anew.
    pub(crate) epoch: AtomicU64,
    /// Grows whenever a session begins or enters a phase: tells which phase a launch belongs to.
    pub(crate) mark: AtomicU64,
}

pub(crate) static CONTROL: Control = Control {
    live: AtomicU64::new(0),
    active: AtomicU64::new(0),
    python: AtomicU64::new(0),
    trace: AtomicU64::new(0),
    unusual: AtomicU64::new(0),
    epoch: AtomicU64::new(0),
    mark: AtomicU64::new(0),
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
        set(&self.unusual, is_python || is_trace);
    }

    /// Takes a session out of every word, when it records no more.
    pub(crate) fn forget(&self, slot: u32) {
        for word in [&self.live, &self.python, &self.trace, &self.unusual] {
            word.fetch_and(!bit(slot), Ordering::SeqCst);
        }
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
