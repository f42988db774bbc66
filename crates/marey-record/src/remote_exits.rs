//! The exits of a thread's scopes on other threads, as of asynchronous functions.
//!
//! A thread alone writes its stack. So another thread that exits one of its scopes leaves the id and
//! the time here, and the owner exits the scope at its next event, as of that time.

use crate::control::CONTROL;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of exits that wait for one thread. Further ones are dropped: the scopes stay open
/// until the scope around them ends, which counts them as unclosed.
const MAX_WAITING: usize = 16;

/// The exits that wait for the owner of a tree.
#[derive(Debug, Default)]
pub(crate) struct RemoteExits {
    waiting: AtomicU32,
    exits: [RemoteExit; MAX_WAITING],
}

#[derive(Debug, Default)]
struct RemoteExit {
    /// The id of the scope, 0 for none.
    scope: AtomicU64,
    ticks: AtomicU64,
}

impl RemoteExits {
    /// Adds the exit of a scope. One thread at a time may call this.
    pub(crate) fn add(&self, scope: u64, ticks: u64) {
        let is_free = |exit: &&RemoteExit| exit.scope.load(Ordering::Acquire) == 0;
        let Some(exit) = self.exits.iter().find(is_free) else { return };
        exit.ticks.store(ticks, Ordering::Relaxed);
        exit.scope.store(scope, Ordering::Release);
        self.waiting.fetch_add(1, Ordering::Release);
        // The owner's next event takes the slow path, which looks here.
        CONTROL.invalidate();
    }

    /// Whether exits wait for the owner.
    #[inline(always)]
    pub(crate) fn are_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Takes the exits, each the id of a scope and its time. Only the owner may call this.
    pub(crate) fn take(&self) -> impl Iterator<Item = (u64, u64)> {
        self.exits.iter().filter_map(|exit| {
            let scope = exit.scope.load(Ordering::Acquire);
            if scope == 0 {
                return None;
            }
            let ticks = exit.ticks.load(Ordering::Relaxed);
            exit.scope.store(0, Ordering::Release);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            Some((scope, ticks))
        })
    }
}
