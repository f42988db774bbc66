//! Mutexes and guards that count, for each thread, whether other threads may be waiting for it.
//!
//! A signal handler that parks its thread would park the locks that the thread holds, too. So each
//! thread counts its locks and other obligations, and the handler reads the count.

use crate::handler_slot::HandlerSlot;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
use std::time::Duration;

/// The number of live [`NoPark`] values of the thread, stored as an address. It is not a pointer.
static NO_PARK_COUNT: HandlerSlot<u8> = HandlerSlot::new();

/// A guard that forbids parking the calling thread, because other threads may wait for it.
#[derive(Debug)]
pub(crate) struct NoPark(PhantomData<*const ()>);

impl NoPark {
    pub(crate) fn begin() -> Self {
        NO_PARK_COUNT.set(NO_PARK_COUNT.get().wrapping_add(1));
        Self(PhantomData)
    }
}

impl Drop for NoPark {
    fn drop(&mut self) {
        // The slot is null if the process has no key left, or late in the thread's destruction.
        if must_not_park() {
            NO_PARK_COUNT.set(NO_PARK_COUNT.get().wrapping_sub(1));
        }
    }
}

/// Whether other threads may wait for the calling thread. Async-signal-safe.
pub(crate) fn must_not_park() -> bool {
    !NO_PARK_COUNT.get().is_null()
}

/// A guard of the standard library, together with a [`NoPark`].
#[derive(Debug)]
pub(crate) struct Guard<G> {
    // The fields drop in this order, so that the lock is free before the thread may be parked.
    guard: G,
    _no_park: NoPark,
}

/// A mutex that the calling thread holds.
pub(crate) type Locked<'a, T> = Guard<MutexGuard<'a, T>>;

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<T> Locked<'_, T> {
    /// Unlocks the mutex until the condition variable is notified or the timeout has passed. May
    /// also wake spuriously.
    pub(crate) fn wait(self, changed: &Condvar, timeout: Option<Duration>) -> Self {
        let Self { guard, _no_park: no_park } = self;
        let guard = match timeout {
            None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = changed.wait_timeout(guard, timeout);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        Self { guard, _no_park: no_park }
    }
}

/// Locks a mutex. Ignores poisoning, because a panic must not spread into the program and the data
/// is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let no_park = NoPark::begin();
    Guard { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _no_park: no_park }
}

/// Locks a mutex if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<Locked<'_, T>> {
    let no_park = NoPark::begin();
    let guard = match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(Guard { guard, _no_park: no_park })
}

/// Takes a read lock.
pub(crate) fn read<T>(lock: &RwLock<T>) -> Guard<RwLockReadGuard<'_, T>> {
    let no_park = NoPark::begin();
    Guard { guard: lock.read().unwrap_or_else(PoisonError::into_inner), _no_park: no_park }
}

/// Takes a write lock.
pub(crate) fn write<T>(lock: &RwLock<T>) -> Guard<RwLockWriteGuard<'_, T>> {
    let no_park = NoPark::begin();
    Guard { guard: lock.write().unwrap_or_else(PoisonError::into_inner), _no_park: no_park }
}
