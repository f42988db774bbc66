//! The sequence number around a thread's events.
//!
//! It is odd while the owner is inside an event. Two things rest on it: a reader that finds the same
//! even number before and after its loads has seen no half of an event ([`Seq::read`]), and after a
//! change of the global masks and a [`heavy_fence`](crate::sync::heavy_fence), a thread seen outside
//! an event will act on the new masks only ([`Seq::wait_outside_event`]).

use crate::sync::{AtomicU64, Ordering, fence, light_fence};

/// A thread's sequence number. The owner writes it, anybody reads it.
#[derive(Debug)]
pub struct Seq(AtomicU64);

impl Default for Seq {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Seq {
    /// Enters an event. `false` if the owner is inside one already (a signal handler interrupted
    /// it): then nothing was changed, and the caller drops the event.
    #[inline(always)]
    pub fn begin(&self) -> bool {
        let value = self.0.load(Ordering::Relaxed);
        if value & 1 != 0 {
            return false;
        }
        // Whoever waited for the event before this one and finds this one sees all of that one.
        self.0.store(value + 1, Ordering::Release);
        // Readers that see the event's stores see the odd number too.
        fence(Ordering::Release);
        // The loads of the global masks stay behind the store above.
        light_fence();
        true
    }

    /// Leaves the event.
    #[inline(always)]
    pub fn end(&self) {
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value + 1, Ordering::Release);
    }

    /// Leaves the event as if it had not been, because nothing was changed in it.
    #[inline(always)]
    pub fn cancel(&self) {
        let value = self.0.load(Ordering::Relaxed);
        self.0.store(value - 1, Ordering::Release);
    }

    /// Whether the owner is in an event.
    pub fn is_inside(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 != 0
    }

    /// Events that the owner has completed.
    pub fn events(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> 1
    }

    /// Runs `load` until no event came between; `None` if that does not succeed `tries` times.
    ///
    /// `load` may see torn state: it must only copy atomics, and its result must be dropped unless
    /// returned.
    pub fn read<T>(&self, tries: u32, mut load: impl FnMut() -> T) -> Option<T> {
        for _ in 0..tries {
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

    /// The number; odd while the owner is in an event.
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until the owner is outside the event that it is in, if any. Between two looks `rest` is
    /// called, and the waiting ends where that returns `false`: then the error is the number of the event.
    pub fn wait_outside_event(&self, mut rest: impl FnMut() -> bool) -> Result<(), u64> {
        // An event takes nanoseconds, unless its thread has lost the processor.
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
            } else if !rest() {
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
