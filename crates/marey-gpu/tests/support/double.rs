//! The libraries that play NVIDIA's part, and functions of them.

use std::ffi::{CStr, OsStr};
use std::path::PathBuf;

/// Returns the path of a double, which is next to the test binary.
pub(crate) fn path(file: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(file)
}

/// Returns a function of a double, which stays loaded.
///
/// # Safety
/// `F` is the function pointer type of the function with this name.
#[expect(unsafe_code, reason = "the address of a function becomes a function")]
pub(crate) unsafe fn function<F: Copy>(library: impl AsRef<OsStr>, name: &CStr) -> F {
    // SAFETY: the double is trusted.
    let library = unsafe { libloading::os::unix::Library::new(library) }.unwrap();
    // SAFETY: guaranteed by the caller.
    let function = *unsafe { library.get::<F>(name.to_bytes_with_nul()) }.unwrap();
    let _ = library.into_raw();
    function
}
