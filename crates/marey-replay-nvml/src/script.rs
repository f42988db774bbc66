//! Values of the devices, set by tests through C functions.

#![expect(unsafe_code, reason = "C interface")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Success.
pub const SUCCESS: u32 = 0;
/// NVML is not initialised.
pub const UNINITIALIZED: u32 = 1;
/// Invalid argument.
pub const INVALID_ARGUMENT: u32 = 2;
/// The device does not support the field.
pub const NOT_SUPPORTED: u32 = 3;
/// A structure has another version.
pub const VERSION_MISMATCH: u32 = 25;

/// A field of a device.
#[derive(Debug, Default)]
struct Field {
    value: Option<f64>,
    error_code: u32,
    query_count: u64,
}

/// All fields, with their values and query counts.
#[derive(Debug, Default)]
struct Script {
    initialization_count: u64,
    fields: HashMap<(u32, String), Field>,
}

static SCRIPT: LazyLock<Mutex<Script>> = LazyLock::new(Mutex::default);
static FIELD_QUERIED: Condvar = Condvar::new();

fn script() -> MutexGuard<'static, Script> {
    SCRIPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number in an environment variable.
#[expect(clippy::disallowed_methods, reason = "the double is made for tests")]
fn env_number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// Initialises NVML. Returns the code.
pub(crate) fn initialize() -> u32 {
    let code = env_number("REPLAY_NVML_INIT").unwrap_or(SUCCESS);
    if code == SUCCESS {
        script().initialization_count += 1;
    }
    code
}

/// Shuts NVML down once. Returns the code.
pub(crate) fn shutdown() -> u32 {
    let mut script = script();
    if script.initialization_count == 0 {
        return UNINITIALIZED;
    }
    script.initialization_count -= 1;
    SUCCESS
}

/// Returns the number of devices.
pub(crate) fn device_count() -> Result<u32, u32> {
    if script().initialization_count == 0 {
        return Err(UNINITIALIZED);
    }
    Ok(env_number("REPLAY_NVML_DEVICES").unwrap_or(0))
}

/// Queries a field. If the field `lost` is set, every query fails.
pub(crate) fn query(device: u32, name: &str) -> Result<f64, u32> {
    if device >= device_count()? {
        return Err(INVALID_ARGUMENT);
    }
    let mut script = script();
    let lost_code =
        script.fields.get(&(device, "lost".to_owned())).map_or(SUCCESS, |lost| lost.error_code);
    let field = script.fields.entry((device, name.to_owned())).or_default();
    field.query_count += 1;
    let result = match (lost_code, field.error_code, field.value) {
        (SUCCESS, SUCCESS, Some(value)) => Ok(value),
        (SUCCESS, SUCCESS, None) => Err(NOT_SUPPORTED),
        (SUCCESS, code, _) | (code, ..) => Err(code),
    };
    drop(script);
    FIELD_QUERIED.notify_all();
    result
}

/// Returns an increasing number.
pub(crate) fn next_sequence_number() -> u64 {
    static SEQUENCE_NUMBER: AtomicU64 = AtomicU64::new(0);
    SEQUENCE_NUMBER.fetch_add(1, Ordering::SeqCst)
}

/// Whether a device supports a field.
pub(crate) fn is_supported(device: u32, name: &str) -> bool {
    let script = script();
    script.fields.get(&(device, name.to_owned())).is_some_and(|field| field.value.is_some())
}

/// Converts the name of a field.
fn field_name(text: *const c_char) -> String {
    // SAFETY: tests pass a NUL-terminated string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Sets the value of a field.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_set(device: u32, field: *const c_char, value: f64) {
    let mut script = script();
    let field = script.fields.entry((device, field_name(field))).or_default();
    (field.value, field.error_code) = (Some(value), SUCCESS);
}

/// Makes queries of a field fail with a code; the field `lost` makes all queries fail.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_fail(device: u32, field: *const c_char, code: u32) {
    script().fields.entry((device, field_name(field))).or_default().error_code = code;
}

/// Returns the number of queries of a field.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_calls(device: u32, field: *const c_char) -> u64 {
    script().fields.get(&(device, field_name(field))).map_or(0, |field| field.query_count)
}

/// Waits until a field was queried `calls` times. Returns false after a minute.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_wait(device: u32, field: *const c_char, calls: u64) -> bool {
    const TIMEOUT: Duration = Duration::from_mins(1);
    let key = (device, field_name(field));
    let is_below_calls =
        |script: &mut Script| script.fields.get(&key).is_none_or(|field| field.query_count < calls);
    let waited = FIELD_QUERIED.wait_timeout_while(script(), TIMEOUT, is_below_calls);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}
