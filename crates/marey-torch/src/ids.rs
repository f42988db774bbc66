//! Numbers for the functions that PyTorch's profilers observe.
//!
//! `torch.profiler` writes a *record function id* for each operator, which is 0 unless an observer
//! asks PyTorch to number them. The observer here asks, and is never called.

use crate::callbacks::LIBRARY;
use crate::library::{Library, Registration, Unavailable};
use std::sync::{Mutex, PoisonError};

/// The handle of the registered observer.
static HANDLE: Mutex<Option<u64>> = Mutex::new(None);

/// Registers the observer, if it is not registered.
///
/// The caller serialises calls of this module with forks: Python holds the GIL around both.
pub fn start() -> Result<(), Unavailable> {
    let mut handle = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if handle.is_none() {
        let loaded_library = Library::find()?;
        let library = LIBRARY.get_or_init(|| loaded_library);
        // SAFETY: the registration has the layout of this version of PyTorch, as the caller of
        // this crate has made sure.
        *handle = Some(unsafe { library.add(Registration::numbering()) });
    }
    Ok(())
}

/// Removes the observer, if it is registered.
pub fn stop() {
    let mut handle = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(handle), Some(library)) = (handle.take(), LIBRARY.get()) {
        library.remove(handle);
    }
}
