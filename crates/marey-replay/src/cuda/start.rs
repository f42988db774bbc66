//! Initialisation of the driver: by `cuInit`, or by the first statement that is played.

#![expect(unsafe_code, reason = "loads the library in the environment")]

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Once;

static START: Once = Once::new();

/// Initialises the driver, once. Concurrent callers wait, as for the driver's own lock.
pub(crate) fn start() {
    START.call_once(load_injected);
}

/// Whether the driver is initialised; false while it loads the library in the environment.
pub(crate) fn is_started() -> bool {
    START.is_completed()
}

/// Loads the library in `CUDA_INJECTION64_PATH` and calls its `InitializeInjection`.
#[expect(clippy::disallowed_methods, reason = "the double is made for tests")]
fn load_injected() {
    let Some(path) = std::env::var_os("CUDA_INJECTION64_PATH") else { return };
    let Ok(path) = CString::new(path.into_vec()) else { return };
    // SAFETY: the path is NUL-terminated, and whoever set the variable wants the library loaded.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY) };
    if library.is_null() {
        return;
    }
    // SAFETY: the handle is of a library, and the name is NUL-terminated.
    let initialize = unsafe { libc::dlsym(library, c"InitializeInjection".as_ptr()) };
    if !initialize.is_null() {
        // SAFETY: the function with this name takes no arguments and returns a number.
        let initialize: extern "C" fn() -> i32 = unsafe { std::mem::transmute(initialize) };
        initialize();
    }
}
