//! The sequence number around the events of a thread, by which readers detect a torn read and
//! sessions wait for events to end.
//!
//! It is odd while the owner is inside an event. Two guarantees rest on it. A reader that finds the
//! same even number before and after its loads has seen no part of an event ([`Seq::read`]). After
//! a change of the global masks and a [`heavy_fence`](crate::sync::heavy_fence), a thread seen
//! outside an event acts only on the new masks ([`Seq::wait_outside_event`]).

use crate::sync::{AtomicU64, Ordering, fence, light_fence};

/// A thread's sequence number. Only the owner writes it.
#[derive(Debug)]
pub struct Seq(AtomicU64);

impl Default for Seq {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Seq {
    /// Enters an event. Returns `false`, with nothing changed, if the owner is inside one already
    /// because a signal handler interrupted it. The caller then drops its event.
    #[inline(always)]
    pub fn begin(&self) -> bool {
        let value = self.0.load(Ordering::Relaxed);
        if value & 1 != 0 {
            return false;
        }
        // A thread that waited for the end of the previous event and sees this number sees all
        // stores of the previous event.
        self.0.store(value + 1, Ordering::Release);
        // A reader that sees the event's stores sees the odd number too.
        fence(Ordering::Release);
        // Orders the loads of the global masks after the store above.
        light_fence();
        true
    }

    /// Leaves the event.
    #[inline(always)]
    pub fn end(&self) {
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value + 1, Ordering::Release);
    }

    /// Leaves the event and restores the number, because nothing was changed in the event.
    #[inline(always)]
    pub fn cancel(&self) {
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value - 1, Ordering::Release);
    }

    /// Whether the owner is in an event.
    pub fn is_inside(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 != 0
    }

    /// Returns the number of events that the owner has completed.
    pub fn completed_events(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> 1
    }

    /// Runs `load` until no event overlaps it. Returns `None` if none of `attempts` attempts
    /// succeeds.
    ///
    /// `load` may see torn state: it must only copy atomics, and its result must be dropped unless
    /// returned.
    pub fn read<T>(&self, attempts: u32, mut load: impl FnMut() -> T) -> Option<T> {
        for _ in 0..attempts {
            let before = self.0.load(Ordering::Acquire);
            if before & 1 == 0 {
                let value = load();
                fence(Ordering::Acquire);
                if self.0.load(Ordering::Relaxed) == before {
                    return Some(value);
                }
            }
            spin();
        }
        None
    }

    /// Returns the sequence number, odd while the owner is in an event.
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until the owner is outside the event that it is in, if any. `pause` is called between
    /// two reads; if it returns `false`, the wait fails with the number of the event.
    pub fn wait_outside_event(&self, mut pause: impl FnMut() -> bool) -> Result<(), u64> {
        // An event takes nanoseconds, unless its thread is preempted.
        const SPINS: u32 = 200;
        let seen = self.number();
        if seen & 1 == 0 {
            return Ok(());
        }
        let mut spins = 0;
        while self.number() == seen {
            if spins < SPINS {
                spins += 1;
                spin();
            } else if !pause() {
                return Err(seen);
            }
        }
        Ok(())
    }
}

#[cfg(not(loom))]
use std::hint::spin_loop as spin;

#[cfg(loom)]
use loom::thread::yield_now as spin;
