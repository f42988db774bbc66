//! Strings that records and callbacks point to.

#![expect(unsafe_code, reason = "copies and overwrites strings by their addresses")]

use crate::lock;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
        let mut names = lock(&NAMES);
        if let Some(existing) = names.get(text.as_c_str()) {
            return Self(existing.as_ptr() as usize);
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

/// Whether the names in records and callbacks end with their delivery.
static ARE_TEMPORARY: AtomicBool = AtomicBool::new(false);

/// The number of buffers that contain each temporary name.
static BUFFER_COUNTS_BY_NAME: LazyLock<Mutex<HashMap<usize, usize>>> =
    LazyLock::new(Mutex::default);

/// Written over the characters of a temporary name at its end.
const POISON: u8 = b'?';

/// Sets whether names end with their delivery.
pub(crate) fn set_temporary(are_temporary: bool) {
    ARE_TEMPORARY.store(are_temporary, Relaxed);
}

pub(crate) fn are_temporary() -> bool {
    ARE_TEMPORARY.load(Relaxed)
}

/// Returns the address that a record contains for a name: the address of a copy if names are
/// temporary.
pub(crate) fn for_record(address: usize) -> usize {
    if !are_temporary() || address == 0 {
        return address;
    }
    let copy = copy(address);
    lock(&BUFFER_COUNTS_BY_NAME).insert(copy, 0);
    copy
}

/// Calls `run` with the address that a callback contains for a name.
#[inline]
pub(crate) fn during_callback(address: usize, run: impl FnOnce(usize)) {
    if !are_temporary() || address == 0 {
        return run(address);
    }
    let copy = copy(address);
    run(copy);
    poison(copy);
}

/// Counts a name in a record that was written to a buffer.
pub(crate) fn note_written(address: usize) {
    if let Some(buffer_count) = lock(&BUFFER_COUNTS_BY_NAME).get_mut(&address) {
        *buffer_count += 1;
    }
}

/// Ends a name in a record whose buffer was completed, unless another buffer contains the name.
pub(crate) fn note_delivered(address: usize) {
    let mut buffer_counts = lock(&BUFFER_COUNTS_BY_NAME);
    let Some(buffer_count) = buffer_counts.get_mut(&address) else { return };
    *buffer_count -= 1;
    if *buffer_count == 0 {
        buffer_counts.remove(&address);
        poison(address);
    }
}

fn copy(address: usize) -> usize {
    // SAFETY: every name that is passed here lives as long as the process.
    let text = unsafe { CStr::from_ptr(address as *const c_char) };
    text.to_owned().into_raw() as usize
}

/// Overwrites a copy. Its memory is not freed, so that a late read returns a wrong name rather than
/// crashing.
fn poison(copy: usize) {
    let mut character = copy as *mut u8;
    // SAFETY: `copy` returned the address of a string that only we write.
    unsafe {
        while *character != 0 {
            *character = POISON;
            character = character.add(1);
        }
    }
}
