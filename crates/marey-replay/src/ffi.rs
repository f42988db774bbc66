//! Safe wrappers of pointers from C callers, with null checks.

#![expect(unsafe_code, reason = "dereferences pointers of C callers")]

use std::ffi::{CStr, c_char, c_void};

/// An output parameter.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the value; returns [`INVALID_VALUE`] for NULL.
    pub(crate) fn set(&self, value: T) -> i32 {
        if self.0.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: a C caller passes NULL or a writable `T`, as the interface requires.
        unsafe { self.0.write(value) };
        0
    }

    /// Writes the value unless the pointer is NULL.
    pub(crate) fn set_if_not_null(&self, value: T) {
        if !self.0.is_null() {
            self.set(value);
        }
    }

    /// Reads the current value.
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: as in `set`; callers of functions that read it have initialised the value.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }

    /// Writes an element of an array.
    pub(crate) fn set_at(&self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: a C caller that passes a length passes an array of this length.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

impl Out<c_char> {
    /// Writes a NUL-terminated text, of which at most `bytes` bytes are written. Returns
    /// [`INVALID_VALUE`] if not even the NUL fits.
    pub(crate) fn set_text(&self, text: &str, bytes: usize) -> i32 {
        let Some(capacity) = bytes.checked_sub(1) else { return INVALID_VALUE };
        let written = text.bytes().take(capacity).chain([0]);
        written.enumerate().for_each(|(index, byte)| self.set_at(index, byte.cast_signed()));
        0
    }
}

/// An input string.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Returns the string; empty for NULL or invalid UTF-8.
    pub(crate) fn get(&self) -> &str {
        if self.0.is_null() {
            return "";
        }
        // SAFETY: a C caller passes NULL or a NUL-terminated string that is valid during the call.
        unsafe { CStr::from_ptr(self.0) }.to_str().unwrap_or_default()
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

/// An opaque pointer to one of our objects. The objects are never freed, because a profiler may
/// query them after their end.
#[repr(transparent)]
pub(crate) struct Handle<T: 'static>(*const T);

impl<T> Handle<T> {
    pub(crate) const NULL: Self = Self(std::ptr::null());

    pub(crate) const fn to(object: &'static T) -> Self {
        Self(object)
    }

    pub(crate) fn new(object: T) -> Self {
        Self(Box::leak(Box::new(object)))
    }

    pub(crate) fn get(self) -> Option<&'static T> {
        // SAFETY: a C caller passes NULL, or a pointer from `to` or `new`, whose object is never
        // freed.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }
}

impl<T> Default for Handle<T> {
    fn default() -> Self {
        Self::NULL
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

/// An address in the caller's memory that is not dereferenced.
pub(crate) type Address = *mut c_void;

/// `CUPTI_ERROR_INVALID_PARAMETER` and `CUDA_ERROR_INVALID_VALUE`.
pub(crate) const INVALID_VALUE: i32 = 1;

/// Declares functions of the C interface. Each counts its calls and fails if the script says so.
macro_rules! exports {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> i32 {
            static EXPORT: crate::export::Export = crate::export::Export::new(stringify!($name));
            if let Some(code) = EXPORT.count_call() {
                return code;
            }
            $body
        }
    )*};
}
pub(crate) use exports;

/// Declares functions of the C interface that succeed without an effect, whatever their arguments.
macro_rules! ignored_exports {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        exports! { $($(#[$meta])* fn $name() { 0 })* }
    };
}
pub(crate) use ignored_exports;
