//! Strings that records point to.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{LazyLock, Mutex};

/// Address of a NUL-terminated string that lives as long as the process, like the names in a
/// module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name(usize);

static NAMES: LazyLock<Mutex<HashSet<&'static CStr>>> = LazyLock::new(Mutex::default);

impl Name {
    /// Returns a permanent copy of a text, up to the first NUL.
    pub(crate) fn copied(text: &str) -> Self {
        let end = text.find('\0').unwrap_or(text.len());
        let text = CString::new(&text[..end]).unwrap_or_default();
        let mut names = crate::lock(&NAMES);
        if let Some(known) = names.get(text.as_c_str()) {
            return Self(known.as_ptr() as usize);
        }
        let text: &'static CStr = Box::leak(text.into_boxed_c_str());
        names.insert(text);
        Self(text.as_ptr() as usize)
    }

    /// Refers to a string that the caller keeps alive.
    pub(crate) const fn borrowed(address: usize) -> Self {
        Self(address)
    }

    pub(crate) const fn address(self) -> usize {
        self.0
    }
}
