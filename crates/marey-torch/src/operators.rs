//! Switches the recording of operators on and off.
//!
//! While it is off, PyTorch calls nothing of marey, so an operator costs what it costs without
//! marey.

use crate::autograd::{self, AutogradFields};
use crate::callbacks::{self, LIBRARY};
use crate::library::Library;
pub use crate::library::Unavailable;
use crate::shapes;
use std::sync::{Mutex, PoisonError};

/// The handles of the registered callbacks, empty while operators are not recorded.
static HANDLES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Registers the callbacks, if they are not registered. Takes effect on each thread at its next
/// operator.
///
/// The caller serialises calls of this module with forks: Python holds the GIL around both.
pub fn start(fields: AutogradFields) -> Result<(), Unavailable> {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if !handles.is_empty() {
        return Ok(());
    }
    let loaded_library = Library::find()?;
    let library = LIBRARY.get_or_init(|| loaded_library);
    autograd::set_fields(fields);
    for registration in callbacks::registrations() {
        // SAFETY: the registration has the layout of this version of PyTorch, as the caller of
        // this crate has made sure.
        handles.push(unsafe { library.add(registration) });
    }
    shapes::start();
    Ok(())
}

/// Removes the callbacks, if they are registered. Operators in progress still end.
pub fn stop() {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(library) = LIBRARY.get() else { return };
    shapes::stop();
    for handle in handles.drain(..) {
        library.remove(handle);
    }
}
