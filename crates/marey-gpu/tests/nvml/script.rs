//! Control of the double.

use crate::double;
use crate::harness::double_path;
use std::ffi::{CStr, CString, c_char};

// NVML error codes.
pub(crate) const NO_PERMISSION: u32 = 4;
pub(crate) const DRIVER_NOT_LOADED: u32 = 9;
pub(crate) const GPU_IS_LOST: u32 = 15;
pub(crate) const UNKNOWN: u32 = 999;

/// Returns a control function of the double; `F` is its type.
#[expect(unsafe_code, reason = "a function of the double")]
fn function<F: Copy>(name: &CStr) -> F {
    // SAFETY: the callers pass the type that the double declares.
    unsafe { double::function(double_path(), name) }
}

type Set = extern "C" fn(u32, *const c_char, f64);
type Fail = extern "C" fn(u32, *const c_char, u32);
type QueryCount = extern "C" fn(u32, *const c_char) -> u64;
type Wait = extern "C" fn(u32, *const c_char, u64) -> bool;

/// Sets the value of a field.
pub(crate) fn set(device: u32, field: &str, value: f64) {
    let field = CString::new(field).unwrap();
    function::<Set>(c"replay_nvml_set")(device, field.as_ptr(), value);
}

/// Makes queries of a field fail with a code.
pub(crate) fn fail(device: u32, field: &str, code: u32) {
    let field = CString::new(field).unwrap();
    function::<Fail>(c"replay_nvml_fail")(device, field.as_ptr(), code);
}

/// Returns the number of queries of a field.
pub(crate) fn query_count(device: u32, field: &str) -> u64 {
    let field = CString::new(field).unwrap();
    function::<QueryCount>(c"replay_nvml_calls")(device, field.as_ptr())
}

/// Waits until a field was queried `count` times since the process began.
pub(crate) fn wait_for_queries(device: u32, field: &str, count: u64) {
    let name = CString::new(field).unwrap();
    let is_reached = function::<Wait>(c"replay_nvml_wait")(device, name.as_ptr(), count);
    assert!(is_reached, "timeout waiting for queries of `{field}` on device {device}");
}
