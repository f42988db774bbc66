//! Pointers to the elements of arenas.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A pointer to an element, which never moves, or to none. One thread, the owner, changes it; others see
/// what it points to whole.
#[derive(Debug)]
pub(crate) struct Link<T>(AtomicPtr<T>);

impl<T> Default for Link<T> {
    fn default() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl<T> Link<T> {
    /// The element.
    ///
    /// # Safety
    /// The element that was set must live as long as the reference.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through pointers")]
    pub(crate) unsafe fn get<'a>(&self) -> Option<&'a T> {
        // SAFETY: null, or from a reference in `set`, to what lives long enough, as the caller says.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The element, which must have been set.
    ///
    /// # Safety
    /// As above, and there must be one.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through pointers")]
    pub(crate) unsafe fn get_set<'a>(&self) -> &'a T {
        // SAFETY: from a reference in `set`, as the caller says, to what lives long enough.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Points to another element, or to none.
    #[inline(always)]
    pub(crate) fn set(&self, element: Option<&T>) {
        let pointer =
            element.map_or(std::ptr::null_mut(), |element| std::ptr::from_ref(element).cast_mut());
        self.0.store(pointer, Ordering::Release);
    }
}
