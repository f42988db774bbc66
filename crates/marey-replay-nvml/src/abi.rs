//! The functions of NVML that are asked, with what they take.

#![expect(unsafe_code, reason = "the functions are for C")]

use crate::script::{self, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, VERSION_MISMATCH};
use std::ffi::{CStr, c_char, c_void};

/// A device: its number and one, so that none is null. A part of a device has a bit beside that.
type Device = *mut c_void;

/// The bit of parts of devices, one of each, which answer no question.
const PART: usize = 1 << 16;

fn number(device: Device) -> u32 {
    (device.addr() as u32).wrapping_sub(1)
}

/// Returns the UUID of a device without its prefix: `GPU-`, or `MIG-` of a part.
fn uuid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// Writes an answer, and gives its code.
fn give<T>(out: *mut T, answer: Result<T, u32>) -> u32 {
    match answer {
        Ok(value) => {
            // SAFETY: who calls NVML gives room for the answer.
            unsafe { out.write(value) };
            SUCCESS
        }
        Err(code) => code,
    }
}

fn give_text(out: *mut c_char, room: u32, text: &str) -> u32 {
    const INSUFFICIENT_SIZE: u32 = 7;
    if text.len() >= room as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: the caller's room is as long as it says, and the text and its zero fit.
    unsafe {
        out.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        out.add(text.len()).write(0);
    }
    SUCCESS
}

fn int(device: Device, field: &str) -> Result<u32, u32> {
    script::ask(number(device), field).map(|value| value as u32)
}

fn long(device: Device, field: &str) -> Result<u64, u32> {
    script::ask(number(device), field).map(|value| value as u64)
}

// The library.

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    script::begin()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    script::end()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, room: u32) -> u32 {
    give_text(out, room, "550.1.2")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, room: u32) -> u32 {
    give_text(out, room, "12.550.1.2")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(out: *mut u32) -> u32 {
    give(out, script::device_count())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut Device) -> u32 {
    let device = std::ptr::without_provenance_mut(index as usize + 1);
    let found = script::device_count()
        .and_then(|count| if index < count { Ok(device) } else { Err(INVALID_ARGUMENT) });
    give(out, found)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Device, out: *mut c_char, room: u32) -> u32 {
    match script::ask(number(device), "name") {
        Ok(model) => give_text(out, room, &format!("Replay {model}")),
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Device, out: *mut c_char, room: u32) -> u32 {
    give_text(out, room, &format!("GPU-{}", uuid(number(device))))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(name: *const c_char, out: *mut Device) -> u32 {
    const NOT_FOUND: u32 = 6;
    // SAFETY: the caller shows a text that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let (kind, wanted) = name.split_once('-').unwrap_or_default();
    let part = if kind == "MIG" { PART } else { 0 };
    let found = script::device_count().and_then(|count| {
        let index = (0..count).find(|&index| uuid(index) == wanted).ok_or(NOT_FOUND)?;
        Ok(std::ptr::without_provenance_mut((index as usize + 1) | part))
    });
    give(out, found)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part: Device, out: *mut Device) -> u32 {
    let whole = std::ptr::without_provenance_mut(part.addr() & !PART);
    give(out, if whole == part { Err(INVALID_ARGUMENT) } else { Ok(whole) })
}

// What a device says.

#[repr(C)]
struct Utilization {
    gpu: u32,
    memory: u32,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, out: *mut Utilization) -> u32 {
    let rates = || {
        let gpu = int(device, "utilization")?;
        Ok(Utilization { gpu, memory: int(device, "memory_utilization")? })
    };
    give(out, rates())
}

#[repr(C)]
struct Memory {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, out: *mut Memory) -> u32 {
    let expected = size_of::<Memory>() as u32 | 2 << 24;
    // SAFETY: the caller has set the version.
    let version = unsafe { (*out).version };
    if version != expected {
        return VERSION_MISMATCH;
    }
    let memory = || {
        let (total, used) = (long(device, "memory_total")?, long(device, "memory_used")?);
        let free = long(device, "memory_free")?;
        Ok(Memory { version, total, reserved: total.saturating_sub(used + free), free, used })
    };
    give(out, memory())
}

macro_rules! numbers {
    ($($function:ident($field:literal) -> $type:ty = $ask:ident;)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $function(device: Device, out: *mut $type) -> u32 {
            give(out, $ask(device, $field))
        }
    )+};
}

numbers! {
    nvmlDeviceGetPowerUsage("power") -> u32 = int;
    nvmlDeviceGetEnforcedPowerLimit("power_limit") -> u32 = int;
    nvmlDeviceGetTotalEnergyConsumption("energy") -> u64 = long;
    nvmlDeviceGetCurrentClocksThrottleReasons("throttle_reasons") -> u64 = long;
    nvmlDeviceGetCurrPcieLinkGeneration("pcie_generation") -> u32 = int;
    nvmlDeviceGetCurrPcieLinkWidth("pcie_width") -> u32 = int;
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: Device, sensor: u32, out: *mut u32) -> u32 {
    if sensor != 0 {
        return INVALID_ARGUMENT;
    }
    give(out, int(device, "temperature"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Device, clock: u32, out: *mut u32) -> u32 {
    let field = match clock {
        1 => "sm_clock",
        2 => "memory_clock",
        _ => return INVALID_ARGUMENT,
    };
    give(out, int(device, field))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Device,
    kind: u32,
    since: u32,
    out: *mut u64,
) -> u32 {
    let field = match (kind, since) {
        (0, 0) => "ecc_corrected",
        (1, 0) => "ecc_uncorrected",
        _ => return INVALID_ARGUMENT,
    };
    give(out, long(device, field))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieThroughput(device: Device, way: u32, out: *mut u32) -> u32 {
    let field = match way {
        0 => "pcie_tx",
        1 => "pcie_rx",
        _ => return INVALID_ARGUMENT,
    };
    give(out, int(device, field))
}

#[repr(C)]
struct FieldValue {
    field: u32,
    scope: u32,
    time_micros: i64,
    latency_micros: i64,
    value_type: u32,
    code: u32,
    value: u64,
}

/// The numbers that nvml-wrapper and NVML have for what links have sent and received.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(device: Device, count: i32, values: *mut FieldValue) -> u32 {
    const ALL_LINKS: u32 = u32::MAX;
    const UNSIGNED_LONG_LONG: u32 = 3;
    let Ok(count) = usize::try_from(count) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's array is as long as it says.
    for value in unsafe { std::slice::from_raw_parts_mut(values, count) } {
        let answer = match (value.field, value.scope) {
            (138, ALL_LINKS) => long(device, "nvlink_tx"),
            (139, ALL_LINKS) => long(device, "nvlink_rx"),
            _ => Err(NOT_SUPPORTED),
        };
        value.code = answer.err().unwrap_or(SUCCESS);
        (value.value_type, value.value) = (UNSIGNED_LONG_LONG, answer.unwrap_or(0));
    }
    SUCCESS
}

// GPM.

#[repr(C)]
struct GpmSupport {
    version: u32,
    is_supported: u32,
}

/// A sample: the device that it is of, and its place in the order of samples.
#[derive(Debug, Default)]
struct GpmSample {
    taken: Option<(u32, u64)>,
}

#[repr(C)]
struct GpmMetric {
    id: u32,
    code: u32,
    value: f64,
    names: [*const c_char; 3],
}

#[repr(C)]
struct GpmRequest {
    version: u32,
    count: u32,
    first: *const GpmSample,
    second: *const GpmSample,
    metrics: [GpmMetric; 0],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmQueryDeviceSupport(device: Device, out: *mut GpmSupport) -> u32 {
    let is_supported = u32::from(script::has(number(device), "gpm"));
    give(out, Ok(GpmSupport { version: 1, is_supported }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleAlloc(out: *mut *mut GpmSample) -> u32 {
    give(out, Ok(Box::into_raw(Box::default())))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleFree(sample: *mut GpmSample) -> u32 {
    // SAFETY: `nvmlGpmSampleAlloc` has made it, and nobody frees a sample twice.
    drop(unsafe { Box::from_raw(sample) });
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleGet(device: Device, sample: *mut GpmSample) -> u32 {
    match script::ask(number(device), "gpm") {
        Ok(_) => {
            let order = script::order();
            give(sample, Ok(GpmSample { taken: Some((number(device), order)) }))
        }
        Err(code) => code,
    }
}

/// The second sample must be the later one, of the same device.
#[unsafe(no_mangle)]
extern "C" fn nvmlGpmMetricsGet(request: *mut GpmRequest) -> u32 {
    // SAFETY: the caller has filled it in, with as many metrics behind it as it says.
    let (version, first, second, metrics) = unsafe {
        let metrics = (&raw mut (*request).metrics).cast::<GpmMetric>();
        let metrics = std::slice::from_raw_parts_mut(metrics, (*request).count as usize);
        ((*request).version, &*(*request).first, &*(*request).second, metrics)
    };
    let (Some((device, earlier)), Some((other, later))) = (first.taken, second.taken) else {
        return INVALID_ARGUMENT;
    };
    if version != 1 || device != other || later <= earlier {
        return INVALID_ARGUMENT;
    }
    for metric in metrics {
        let answer = script::ask(device, &format!("gpm:{}", metric.id));
        metric.code = answer.err().unwrap_or(SUCCESS);
        metric.value = answer.unwrap_or(0.0);
        metric.names = [c"".as_ptr(); 3];
    }
    SUCCESS
}
