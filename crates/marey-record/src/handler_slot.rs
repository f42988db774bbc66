//! A thread-local pointer that a signal handler can read without allocating.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// A pointer per thread, initially null, that signal handlers may read.
///
/// Ordinary thread-local storage does not qualify in a library that was loaded late: a thread's
/// first access may allocate, and the handler may have interrupted the allocator.
/// `pthread_getspecific` allocates nothing.
#[derive(Debug)]
pub(crate) struct HandlerSlot<T> {
    /// `None` if the process has no key left. The slot is then always null.
    key: OnceLock<Option<libc::pthread_key_t>>,
    marker: PhantomData<fn() -> T>,
}

impl<T> HandlerSlot<T> {
    pub(crate) const fn new() -> Self {
        Self { key: OnceLock::new(), marker: PhantomData }
    }

    /// Sets the calling thread's pointer. Not for signal handlers.
    #[expect(unsafe_code, reason = "std has no keys of threads")]
    pub(crate) fn set(&self, pointer: *const T) {
        if let Some(key) = *self.key.get_or_init(new_key) {
            // SAFETY: the key was created and is never deleted. A failure leaves null.
            unsafe { libc::pthread_setspecific(key, pointer.cast::<c_void>()) };
        }
    }

    /// Returns the calling thread's pointer. Async-signal-safe.
    #[expect(unsafe_code, reason = "as above")]
    pub(crate) fn get(&self) -> *const T {
        match self.key.get() {
            // SAFETY: the key was created and is never deleted.
            Some(&Some(key)) => unsafe { libc::pthread_getspecific(key) }.cast_const().cast(),
            _ => std::ptr::null(),
        }
    }
}

#[expect(unsafe_code, reason = "as above")]
fn new_key() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` is writable, and there is no destructor.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, None) } != 0;
    (!failed).then_some(key)
}
