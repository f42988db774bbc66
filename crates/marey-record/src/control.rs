//! The global masks that each event reads: which sessions are alive, which of them record, and the
//! epoch.

use crate::perf::EventSet;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// The maximum number of live sessions: one bit each.
pub(crate) const MAX_SESSIONS: u32 = u64::BITS;

/// The global words, on a cache line of their own. They are written only when sessions change.
#[repr(C, align(64))]
pub(crate) struct Control {
    /// Live sessions, active or not. Zero means that recording is off.
    pub(crate) live_sessions: AtomicU64,
    /// Sessions that record now.
    pub(crate) active_sessions: AtomicU64,
    /// Sessions that record now, but only what is addressed to them: see
    /// [`crate::Detached::in_session`]. None of them is in `active_sessions`.
    pub(crate) addressed_sessions: AtomicU64,
    /// Live sessions whose paths are Python frames.
    pub(crate) python_sessions: AtomicU64,
    /// Live sessions that trace.
    pub(crate) trace_sessions: AtomicU64,
    /// Incremented when the first session starts. A thread whose tree is of an older epoch gets a
    /// new tree.
    pub(crate) epoch: AtomicU64,
    /// Incremented when a session begins, when a phase begins and when a flush begins. A launch
    /// stores this value, which identifies the phase that it belongs to.
    pub(crate) stamp: AtomicU64,
    /// Incremented after every change of the other words except `stamp`, and after columns were
    /// taken. What a thread has derived from them and cached stays valid while this word is
    /// unchanged.
    pub(crate) version: AtomicU64,
    /// The performance events that threads count in scopes, null for none.
    pub(crate) perf_events: AtomicPtr<EventSet>,
}

pub(crate) static CONTROL: Control = Control {
    live_sessions: AtomicU64::new(0),
    active_sessions: AtomicU64::new(0),
    addressed_sessions: AtomicU64::new(0),
    python_sessions: AtomicU64::new(0),
    trace_sessions: AtomicU64::new(0),
    epoch: AtomicU64::new(0),
    stamp: AtomicU64::new(0),
    // The cache of a new node has version 0, which never is the current one.
    version: AtomicU64::new(1),
    perf_events: AtomicPtr::new(std::ptr::null_mut()),
};

impl Control {
    /// Sets the properties of a session, before it records.
    pub(crate) fn configure(&self, slot: u32, is_python: bool, is_trace: bool) {
        let set = |word: &AtomicU64, is_set: bool| {
            if is_set {
                word.fetch_or(bit(slot), Ordering::SeqCst);
            }
        };
        set(&self.python_sessions, is_python);
        set(&self.trace_sessions, is_trace);
        self.invalidate();
    }

    /// Makes a session live and active.
    pub(crate) fn begin(&self, slot: u32, is_addressed: bool) {
        self.live_sessions.fetch_or(bit(slot), Ordering::SeqCst);
        self.activate(slot, is_addressed);
    }

    /// Makes a session record: all events, or only those that are addressed to it.
    pub(crate) fn activate(&self, slot: u32, is_addressed: bool) {
        let word = if is_addressed { &self.addressed_sessions } else { &self.active_sessions };
        word.fetch_or(bit(slot), Ordering::SeqCst);
        self.invalidate();
    }

    /// Stops a session from recording. Returns whether it was active. Events in progress may still
    /// record it.
    pub(crate) fn deactivate(&self, slot: u32) -> bool {
        let active_sessions = self.active_sessions.fetch_and(!bit(slot), Ordering::SeqCst);
        let addressed_sessions = self.addressed_sessions.fetch_and(!bit(slot), Ordering::SeqCst);
        self.invalidate();
        (active_sessions | addressed_sessions) & bit(slot) != 0
    }

    /// Invalidates every thread's tree.
    pub(crate) fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.invalidate();
    }

    /// Returns the version of the words. The words that the caller reads afterwards are of this
    /// version or newer.
    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Invalidates what threads have derived from the words and from their columns.
    pub(crate) fn invalidate(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a session that no longer records from the words.
    pub(crate) fn remove(&self, slot: u32) {
        for word in [&self.live_sessions, &self.python_sessions, &self.trace_sessions] {
            word.fetch_and(!bit(slot), Ordering::SeqCst);
        }
        self.invalidate();
    }

    /// Whether any session exists.
    #[inline(always)]
    pub(crate) fn is_live(&self) -> bool {
        self.live_sessions.load(Ordering::Relaxed) != 0
    }

    /// Returns the sessions that record, whether all events or only those that are addressed to
    /// them.
    pub(crate) fn addressable_sessions(&self) -> u64 {
        self.active_sessions.load(Ordering::Relaxed)
            | self.addressed_sessions.load(Ordering::Relaxed)
    }

    /// Returns the active sessions, and the sessions among them whose paths are Python frames.
    #[inline(always)]
    pub(crate) fn recording_sessions(&self) -> (u64, u64) {
        let active_sessions = self.active_sessions.load(Ordering::Relaxed);
        (active_sessions, active_sessions & self.python_sessions.load(Ordering::Relaxed))
    }
}

/// Returns the bit of a slot.
#[inline(always)]
pub(crate) const fn bit(slot: u32) -> u64 {
    1 << slot
}

/// Iterates over the slots in a mask, lowest first.
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
