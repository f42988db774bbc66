//! Reads which library receives the NVTX annotations of this process.

use marey_model::env;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Returns the value of `NVTX_INJECTION64_PATH` in the C environment, which `os.environ` does not
/// update.
#[pyfunction]
#[expect(clippy::disallowed_methods, reason = "the GIL is held")]
pub(crate) fn nvtx_injection() -> Option<OsString> {
    std::env::var_os(env::NVTX_INJECTION)
}
