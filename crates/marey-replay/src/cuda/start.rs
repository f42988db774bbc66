//! The driver's start: by `cuInit`, or by the first thing that is played, as nothing runs without.

#![expect(unsafe_code, reason = "loads what the environment names")]

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Once;

static START: Once = Once::new();

/// Starts the driver, once. Others who want that meanwhile wait, as for the driver's own lock.
pub(crate) fn start() {
    START.call_once(load_injected);
}

/// Whether it is started: not yet while it loads what the environment names.
pub(crate) fn is_started() -> bool {
    START.is_completed()
}

/// Loads the library that `CUDA_INJECTION64_PATH` names and calls its `InitializeInjection`.
#[expect(clippy::disallowed_methods, reason = "the double is made for tests")]
fn load_injected() {
    let Some(path) = std::env::var_os("CUDA_INJECTION64_PATH") else { return };
    let Ok(path) = CString::new(path.into_vec()) else { return };
    // SAFETY: the path is terminated; whoever set the variable wants the library loaded.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY) };
    if library.is_null() {
        return;
    }
    // SAFETY: the handle is a library's, and the name is terminated.
    let initialize = unsafe { libc::dlsym(library, c"InitializeInjection".as_ptr()) };
    if !initialize.is_null() {
        // SAFETY: under this name libraries have a function that takes nothing and gives a number.
        let initialize: extern "C" fn() -> i32 = unsafe { std::mem::transmute(initialize) };
        initialize();
    }
}
