//! Control of the double.

use crate::harness::double_path;
use std::ffi::{CString, c_char};
use std::sync::LazyLock;

// NVML error codes.
pub(crate) const NO_PERMISSION: u32 = 4;
pub(crate) const DRIVER_NOT_LOADED: u32 = 9;
pub(crate) const GPU_IS_LOST: u32 = 15;
pub(crate) const UNKNOWN: u32 = 999;

/// The control functions of the loaded double.
#[derive(Debug)]
struct Double(libloading::Library);

static DOUBLE: LazyLock<Double> = LazyLock::new(Double::load);

#[expect(unsafe_code, reason = "calls of the double")]
impl Double {
    fn load() -> Self {
        // SAFETY: the double has no initialisers.
        Self(unsafe { libloading::Library::new(double_path()) }.unwrap())
    }

    /// Returns a function of the double; `F` is its type.
    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers pass the type that the double declares.
        *unsafe { self.0.get::<F>(name.as_bytes()) }.unwrap()
    }
}

type Set = extern "C" fn(u32, *const c_char, f64);
type Fail = extern "C" fn(u32, *const c_char, u32);
type QueryCount = extern "C" fn(u32, *const c_char) -> u64;
type Wait = extern "C" fn(u32, *const c_char, u64) -> bool;

/// Sets the value of a field.
pub(crate) fn set(device: u32, field: &str, value: f64) {
    let field = CString::new(field).unwrap();
    DOUBLE.function::<Set>("replay_nvml_set")(device, field.as_ptr(), value);
}

/// Makes queries of a field fail with a code.
pub(crate) fn fail(device: u32, field: &str, code: u32) {
    let field = CString::new(field).unwrap();
    DOUBLE.function::<Fail>("replay_nvml_fail")(device, field.as_ptr(), code);
}

/// Returns the number of queries of a field.
pub(crate) fn query_count(device: u32, field: &str) -> u64 {
    let field = CString::new(field).unwrap();
    DOUBLE.function::<QueryCount>("replay_nvml_calls")(device, field.as_ptr())
}

/// Waits until a field was queried `count` times since the process began.
pub(crate) fn wait_for_queries(device: u32, field: &str, count: u64) {
    let name = CString::new(field).unwrap();
    let is_reached = DOUBLE.function::<Wait>("replay_nvml_wait")(device, name.as_ptr(), count);
    assert!(is_reached, "timeout waiting for queries of `{field}` on device {device}");
}
