//! What comes through the C interface, as safe values: null is checked here, once.

#![expect(unsafe_code, reason = "pointers of C callers are followed here")]

use std::ffi::{CStr, c_char, c_void};

/// Where the caller wants a value.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the value; [`INVALID`] where the caller gave NULL.
    pub(crate) fn set(&self, value: T) -> i32 {
        if self.0.is_null() {
            return INVALID;
        }
        // SAFETY: a C caller passes NULL or memory for a `T`, which is all that the interface takes.
        unsafe { self.0.write(value) };
        0
    }

    /// Writes the value if the caller wants it.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            self.set(value);
        }
    }

    /// What the caller has there.
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: as in `set`; the callers of functions that read have written a value.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }

    /// Writes the first of several values.
    pub(crate) fn set_at(&self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: a C caller that says how many fit passes memory for as many.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

/// A structure that the caller shows.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> In<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: a C caller passes NULL or a `T` that stays for the call.
        unsafe { self.0.as_ref() }
    }
}

/// A text that the caller shows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text; empty where there is none or it is not UTF-8.
    pub(crate) fn get(&self) -> &str {
        if self.0.is_null() {
            return "";
        }
        // SAFETY: a C caller passes NULL or a terminated text that stays for the call.
        unsafe { CStr::from_ptr(self.0) }.to_str().unwrap_or_default()
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

/// Something of ours that the caller got as an opaque pointer. What is handed out is never freed, since
/// a profiler may ask about it after its end.
#[repr(transparent)]
pub(crate) struct Handle<T: 'static>(*const T);

impl<T> Handle<T> {
    pub(crate) const NULL: Self = Self(std::ptr::null());

    pub(crate) const fn to(what: &'static T) -> Self {
        Self(what)
    }

    pub(crate) fn new(what: T) -> Self {
        Self(Box::leak(Box::new(what)))
    }

    pub(crate) fn get(self) -> Option<&'static T> {
        // SAFETY: a C caller passes back what `to` and `new` made, which stays, or NULL.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}

// SAFETY: it is a shared reference or NULL.
unsafe impl<T: Sync> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Handle<T> {}

/// Memory of the caller's, of which only the address is taken.
pub(crate) type Address = *mut c_void;

/// `CUPTI_ERROR_INVALID_PARAMETER` and `CUDA_ERROR_INVALID_VALUE`.
pub(crate) const INVALID: i32 = 1;

/// Declares functions of the C interface: each counts its calls and fails where the script wants it to.
macro_rules! exports {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> i32 {
            static SITE: crate::site::Site = crate::site::Site::new(stringify!($name));
            if let Some(code) = SITE.called() {
                return code;
            }
            $body
        }
    )*};
}
pub(crate) use exports;
