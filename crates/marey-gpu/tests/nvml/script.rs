//! Control of the double.

use crate::harness::double;
use std::ffi::{CString, c_char};
use std::sync::LazyLock;

// NVML error codes.
pub(crate) const NO_PERMISSION: u32 = 4;
pub(crate) const DRIVER_NOT_LOADED: u32 = 9;
pub(crate) const GPU_IS_LOST: u32 = 15;
pub(crate) const UNKNOWN: u32 = 999;

/// The control functions of the loaded double.
#[derive(Debug)]
struct Script(libloading::Library);

static SCRIPT: LazyLock<Script> = LazyLock::new(Script::load);

#[expect(unsafe_code, reason = "calls of the double")]
impl Script {
    fn load() -> Self {
        // SAFETY: the double has no initialisers.
        Self(unsafe { libloading::Library::new(double()) }.unwrap())
    }

    /// Returns a function of the double; `F` is its type.
    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers pass the type that the double declares.
        *unsafe { self.0.get::<F>(name.as_bytes()) }.unwrap()
    }
}

type Set = extern "C" fn(u32, *const c_char, f64);
type Fail = extern "C" fn(u32, *const c_char, u32);
type Calls = extern "C" fn(u32, *const c_char) -> u64;
type Wait = extern "C" fn(u32, *const c_char, u64) -> bool;

/// Sets the value of a field.
pub(crate) fn set(device: u32, field: &str, value: f64) {
    let field = CString::new(field).unwrap();
    SCRIPT.function::<Set>("replay_nvml_set")(device, field.as_ptr(), value);
}

/// Makes queries of a field fail with a code.
pub(crate) fn fail(device: u32, field: &str, code: u32) {
    let field = CString::new(field).unwrap();
    SCRIPT.function::<Fail>("replay_nvml_fail")(device, field.as_ptr(), code);
}

/// Returns the number of queries of a field.
pub(crate) fn calls(device: u32, field: &str) -> u64 {
    let field = CString::new(field).unwrap();
    SCRIPT.function::<Calls>("replay_nvml_calls")(device, field.as_ptr())
}

/// Waits until a field was queried `calls` times since the process began.
pub(crate) fn wait(device: u32, field: &str, calls: u64) {
    let name = CString::new(field).unwrap();
    let has_come = SCRIPT.function::<Wait>("replay_nvml_wait")(device, name.as_ptr(), calls);
    assert!(has_come, "timeout waiting for queries of `{field}` on device {device}");
}
