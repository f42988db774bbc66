//! Something that a thread makes for itself and that others may look at.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A box that one thread, the owner, makes when it needs it, and that is taken away when it does not.
#[derive(Debug)]
pub(crate) struct Published<T>(AtomicPtr<T>);

impl<T> Default for Published<T> {
    fn default() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> Published<T> {
    /// What is there. Only for the owner, and under the lock that the owner holds when it takes.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the value is reached through a published pointer")]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: a non-null pointer came from `Box::into_raw` and was published whole. `take` is
        // called when the owner uses the value no more, under the lock that all others hold here.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Puts a value there. Only the owner may call this, where there is none.
    #[cold]
    pub(crate) fn make(&self, value: T) -> Option<&T> {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
        self.get()
    }

    /// Takes the value away. The owner's call, or that of somebody who holds the lock when the owner is
    /// over, or cannot be using the value.
    #[expect(unsafe_code, reason = "takes back the box that `make` gave away")]
    pub(crate) fn take(&self) -> Option<Box<T>> {
        let pointer = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Box::into_raw`, and the swap gave it to us alone.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
