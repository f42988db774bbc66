//! Locks, and which threads must not be parked: others wait for what they do.
//!
//! A signal handler that parks its thread would park the locks that the thread holds, too. So a thread
//! counts what it is awaited for, and the handler asks.

use crate::handler_slot::HandlerSlot;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

/// Points nowhere: the address is the number of things that others wait for the thread to do.
static AWAITED: HandlerSlot<u8> = HandlerSlot::new();

/// As long as this lives, others may wait for the thread that made it.
#[derive(Debug)]
pub(crate) struct Awaited(PhantomData<*const ()>);

impl Awaited {
    pub(crate) fn begin() -> Self {
        AWAITED.set(AWAITED.get().wrapping_add(1));
        Self(PhantomData)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        // Null where there is no slot, or the thread is as good as over.
        if is_awaited() {
            AWAITED.set(AWAITED.get().wrapping_sub(1));
        }
    }
}

/// Whether others may wait for the calling thread; async-signal-safe.
pub(crate) fn is_awaited() -> bool {
    !AWAITED.get().is_null()
}

/// A lock that the calling thread holds, with the guard of the standard library.
#[derive(Debug)]
pub(crate) struct Held<G> {
    // Dropped in this order: the lock is free before the thread may be parked.
    guard: G,
    _awaited: Awaited,
}

/// A mutex that the calling thread holds.
pub(crate) type Locked<'a, T> = Held<MutexGuard<'a, T>>;

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Locks; a panic elsewhere must not spread into the program, and the data is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let awaited = Awaited::begin();
    Held { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _awaited: awaited }
}

/// Locks if nobody holds the lock.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<Locked<'_, T>> {
    let awaited = Awaited::begin();
    let guard = match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(Held { guard, _awaited: awaited })
}

/// Locks beside others that read.
pub(crate) fn read<T>(lock: &RwLock<T>) -> Held<RwLockReadGuard<'_, T>> {
    let awaited = Awaited::begin();
    Held { guard: lock.read().unwrap_or_else(PoisonError::into_inner), _awaited: awaited }
}

/// Locks for the calling thread alone.
pub(crate) fn write<T>(lock: &RwLock<T>) -> Held<RwLockWriteGuard<'_, T>> {
    let awaited = Awaited::begin();
    Held { guard: lock.write().unwrap_or_else(PoisonError::into_inner), _awaited: awaited }
}
