//! What the devices say, set by tests from C.

#![expect(unsafe_code, reason = "the functions are for C")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The code of success.
pub const SUCCESS: u32 = 0;
/// NVML has not begun.
pub const UNINITIALIZED: u32 = 1;
/// An argument makes no sense.
pub const INVALID_ARGUMENT: u32 = 2;
/// The device does not have the field.
pub const NOT_SUPPORTED: u32 = 3;
/// A structure is of another version.
pub const VERSION_MISMATCH: u32 = 25;

/// A field of a device.
#[derive(Debug, Default)]
struct Field {
    value: Option<f64>,
    code: u32,
    calls: u64,
}

/// Everything that was set, and how often it was asked for.
#[derive(Debug, Default)]
struct Script {
    begun: u64,
    fields: HashMap<(u32, String), Field>,
}

static SCRIPT: LazyLock<Mutex<Script>> = LazyLock::new(Mutex::default);
static ASKED: Condvar = Condvar::new();

fn script() -> MutexGuard<'static, Script> {
    SCRIPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number in an environment variable.
#[expect(clippy::disallowed_methods, reason = "the double is made for tests")]
fn env(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// NVML begins, or not.
pub(crate) fn begin() -> u32 {
    let code = env("REPLAY_NVML_INIT").unwrap_or(SUCCESS);
    if code == SUCCESS {
        script().begun += 1;
    }
    code
}

/// NVML is let go once.
pub(crate) fn end() -> u32 {
    let mut script = script();
    if script.begun == 0 {
        return UNINITIALIZED;
    }
    script.begun -= 1;
    SUCCESS
}

/// How many devices there are.
pub(crate) fn device_count() -> Result<u32, u32> {
    if script().begun == 0 {
        return Err(UNINITIALIZED);
    }
    Ok(env("REPLAY_NVML_DEVICES").unwrap_or(0))
}

/// What a device says of a field; a field called `lost` fails every question.
pub(crate) fn ask(device: u32, name: &str) -> Result<f64, u32> {
    if device >= device_count()? {
        return Err(INVALID_ARGUMENT);
    }
    let mut script = script();
    let lost = script.fields.get(&(device, "lost".to_owned())).map_or(SUCCESS, |lost| lost.code);
    let field = script.fields.entry((device, name.to_owned())).or_default();
    field.calls += 1;
    let answer = match (lost, field.code, field.value) {
        (SUCCESS, SUCCESS, Some(value)) => Ok(value),
        (SUCCESS, SUCCESS, None) => Err(NOT_SUPPORTED),
        (SUCCESS, code, _) | (code, ..) => Err(code),
    };
    drop(script);
    ASKED.notify_all();
    answer
}

/// A number that grows.
pub(crate) fn order() -> u64 {
    static ORDER: AtomicU64 = AtomicU64::new(0);
    ORDER.fetch_add(1, Ordering::SeqCst)
}

/// Whether a device has a field.
pub(crate) fn has(device: u32, name: &str) -> bool {
    let script = script();
    script.fields.get(&(device, name.to_owned())).is_some_and(|field| field.value.is_some())
}

/// The name of a field, as tests give it.
fn name(text: *const c_char) -> String {
    // SAFETY: tests give a text that ends in a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Has a device say a value.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_set(device: u32, field: *const c_char, value: f64) {
    let mut script = script();
    let field = script.fields.entry((device, name(field))).or_default();
    (field.value, field.code) = (Some(value), SUCCESS);
}

/// Has a question fail with a code; one about the field `lost` fails them all.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_fail(device: u32, field: *const c_char, code: u32) {
    script().fields.entry((device, name(field))).or_default().code = code;
}

/// How often a field was asked for.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_calls(device: u32, field: *const c_char) -> u64 {
    script().fields.get(&(device, name(field))).map_or(0, |field| field.calls)
}

/// Waits until a field has been asked for so often; whether that came to be within a minute.
#[unsafe(no_mangle)]
extern "C" fn replay_nvml_wait(device: u32, field: *const c_char, calls: u64) -> bool {
    const PATIENCE: Duration = Duration::from_mins(1);
    let key = (device, name(field));
    let too_few =
        |script: &mut Script| script.fields.get(&key).is_none_or(|field| field.calls < calls);
    let waited = ASKED.wait_timeout_while(script(), PATIENCE, too_few);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}
