//! Who receives the NVTX annotations of this process.

use marey_model::env;
use pyo3::prelude::*;
use std::ffi::OsString;

/// The value of `NVTX_INJECTION64_PATH` as C libraries see it: `os.environ` does not know what they set.
#[pyfunction]
#[expect(clippy::disallowed_methods, reason = "the GIL is held")]
pub(crate) fn nvtx_injection() -> Option<OsString> {
    std::env::var_os(env::NVTX_INJECTION)
}
