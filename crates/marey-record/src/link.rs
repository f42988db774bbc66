//! An atomic pointer to an element of an arena. The owner thread sets it, and any thread may follow
//! it.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A pointer to an element, which never moves, or null. Only the owner thread changes it. A reader
/// sees the element's contents as of the time when the pointer was set, or newer.
#[derive(Debug)]
pub(crate) struct Link<T>(AtomicPtr<T>);

impl<T> Default for Link<T> {
    fn default() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> Link<T> {
    /// Returns the element.
    ///
    /// # Safety
    /// The element that was set must live as long as the reference.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through pointers")]
    pub(crate) unsafe fn get<'a>(&self) -> Option<&'a T> {
        // SAFETY: null, or from a reference passed to `set`, which lives long enough as the caller
        // guarantees.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the element, which must have been set.
    ///
    /// # Safety
    /// The pointer must not be null, and the element must live as long as the reference.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through pointers")]
    pub(crate) unsafe fn get_non_null<'a>(&self) -> &'a T {
        // SAFETY: from a reference passed to `set`, which lives long enough; the caller guarantees
        // both.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Points the link to another element, or to none.
    #[inline(always)]
    pub(crate) fn set(&self, element: Option<&T>) {
        let pointer =
            element.map_or(std::ptr::null_mut(), |element| std::ptr::from_ref(element).cast_mut());
        self.0.store(pointer, Ordering::Release);
    }
}
