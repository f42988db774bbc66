//! A box that one thread allocates and publishes, so that other threads may read its value.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A box that one thread, the owner, publishes when it needs the value, and that is taken back
/// later.
#[derive(Debug)]
pub(crate) struct Published<T>(AtomicPtr<T>);

impl<T> Default for Published<T> {
    fn default() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> Published<T> {
    /// Returns the value. Only the owner may call this, or a thread with the lock that callers of
    /// [`Self::take`] hold.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the value is reached through a published pointer")]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: a non-null pointer came from `Box::into_raw` and was published after the value
        // was written. `take` is called when the owner no longer uses the value, under the lock
        // that all other callers of this hold.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Publishes a value. Only the owner may call this, and only while there is none.
    #[cold]
    pub(crate) fn publish(&self, value: T) -> Option<&T> {
        self.0.store(Box::into_raw(Box::new(value)), Ordering::Release);
        self.get()
    }

    /// Takes the value back. The owner may call this, or a thread with the lock once the owner has
    /// ended or cannot be using the value.
    #[expect(unsafe_code, reason = "takes back the box that `publish` gave away")]
    pub(crate) fn take(&self) -> Option<Box<T>> {
        let pointer = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Box::into_raw`, and only the caller of `swap`
        // received it.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
