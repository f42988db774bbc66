//! The functions of NVML that marey calls.

#![expect(unsafe_code, reason = "C interface")]

use crate::script::{self, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, VERSION_MISMATCH};
use std::ffi::{CStr, c_char, c_void};

/// A device handle: the device number plus one, so that it is never null. MIG instances have an
/// additional bit.
type Device = *mut c_void;

/// Bit of MIG instances, one per device, which reject all queries.
const MIG_BIT: usize = 1 << 16;

fn device_number(device: Device) -> u32 {
    (device.addr() as u32).wrapping_sub(1)
}

/// Returns the UUID without its prefix: `GPU-`, or `MIG-` for a MIG instance.
fn uuid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// Writes a result and returns its code.
fn write_result<T>(out: *mut T, result: Result<T, u32>) -> u32 {
    match result {
        Ok(value) => {
            // SAFETY: NVML's caller provides a writable address.
            unsafe { out.write(value) };
            SUCCESS
        }
        Err(code) => code,
    }
}

fn write_text(out: *mut c_char, capacity: u32, text: &str) -> u32 {
    const INSUFFICIENT_SIZE: u32 = 7;
    if text.len() >= capacity as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: the caller's buffer has the given size, and the text fits with its NUL.
    unsafe {
        out.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        out.add(text.len()).write(0);
    }
    SUCCESS
}

fn query_u32(device: Device, field: &str) -> Result<u32, u32> {
    script::query(device_number(device), field).map(|value| value as u32)
}

fn query_u64(device: Device, field: &str) -> Result<u64, u32> {
    script::query(device_number(device), field).map(|value| value as u64)
}

// Library functions.

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    script::initialize()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    script::shutdown()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, capacity: u32) -> u32 {
    write_text(out, capacity, "550.1.2")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, capacity: u32) -> u32 {
    write_text(out, capacity, "12.550.1.2")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(out: *mut u32) -> u32 {
    write_result(out, script::device_count())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut Device) -> u32 {
    let device = std::ptr::without_provenance_mut(index as usize + 1);
    let handle = script::device_count()
        .and_then(|count| if index < count { Ok(device) } else { Err(INVALID_ARGUMENT) });
    write_result(out, handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Device, out: *mut c_char, capacity: u32) -> u32 {
    match script::query(device_number(device), "name") {
        Ok(model) => write_text(out, capacity, &format!("Replay {model}")),
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Device, out: *mut c_char, capacity: u32) -> u32 {
    write_text(out, capacity, &format!("GPU-{}", uuid(device_number(device))))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(name: *const c_char, out: *mut Device) -> u32 {
    const NOT_FOUND: u32 = 6;
    // SAFETY: the caller passes a NUL-terminated string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let (kind, wanted_uuid) = name.split_once('-').unwrap_or_default();
    let instance_bit = if kind == "MIG" { MIG_BIT } else { 0 };
    let handle = script::device_count().and_then(|count| {
        let index = (0..count).find(|&index| uuid(index) == wanted_uuid).ok_or(NOT_FOUND)?;
        Ok(std::ptr::without_provenance_mut((index as usize + 1) | instance_bit))
    });
    write_result(out, handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    mig_instance: Device,
    out: *mut Device,
) -> u32 {
    let gpu = std::ptr::without_provenance_mut(mig_instance.addr() & !MIG_BIT);
    write_result(out, if gpu == mig_instance { Err(INVALID_ARGUMENT) } else { Ok(gpu) })
}

// Device queries.

#[repr(C)]
struct Utilization {
    gpu: u32,
    memory: u32,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, out: *mut Utilization) -> u32 {
    let rates = || {
        let gpu = query_u32(device, "utilization")?;
        Ok(Utilization { gpu, memory: query_u32(device, "memory_utilization")? })
    };
    write_result(out, rates())
}

#[repr(C)]
struct MemoryInfo {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, out: *mut MemoryInfo) -> u32 {
    let expected_version = size_of::<MemoryInfo>() as u32 | 2 << 24;
    // SAFETY: the caller has set the version field.
    let version = unsafe { (*out).version };
    if version != expected_version {
        return VERSION_MISMATCH;
    }
    let memory = || {
        let (total, used) = (query_u64(device, "memory_total")?, query_u64(device, "memory_used")?);
        let free = query_u64(device, "memory_free")?;
        Ok(MemoryInfo { version, total, reserved: total.saturating_sub(used + free), free, used })
    };
    write_result(out, memory())
}

macro_rules! queries {
    ($($function:ident($field:literal) -> $type:ty = $query:ident;)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $function(device: Device, out: *mut $type) -> u32 {
            write_result(out, $query(device, $field))
        }
    )+};
}

queries! {
    nvmlDeviceGetPowerUsage("power") -> u32 = query_u32;
    nvmlDeviceGetEnforcedPowerLimit("power_limit") -> u32 = query_u32;
    nvmlDeviceGetTotalEnergyConsumption("energy") -> u64 = query_u64;
    nvmlDeviceGetCurrentClocksThrottleReasons("throttle_reasons") -> u64 = query_u64;
    nvmlDeviceGetCurrPcieLinkGeneration("pcie_generation") -> u32 = query_u32;
    nvmlDeviceGetCurrPcieLinkWidth("pcie_width") -> u32 = query_u32;
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: Device, sensor: u32, out: *mut u32) -> u32 {
    if sensor != 0 {
        return INVALID_ARGUMENT;
    }
    write_result(out, query_u32(device, "temperature"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Device, clock: u32, out: *mut u32) -> u32 {
    let field = match clock {
        1 => "sm_clock",
        2 => "memory_clock",
        _ => return INVALID_ARGUMENT,
    };
    write_result(out, query_u32(device, field))
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
    write_result(out, query_u64(device, field))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieThroughput(device: Device, direction: u32, out: *mut u32) -> u32 {
    let field = match direction {
        0 => "pcie_tx",
        1 => "pcie_rx",
        _ => return INVALID_ARGUMENT,
    };
    write_result(out, query_u32(device, field))
}

#[repr(C)]
struct FieldValueQuery {
    field: u32,
    scope: u32,
    time_micros: i64,
    latency_micros: i64,
    value_type: u32,
    code: u32,
    value: u64,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: i32,
    values: *mut FieldValueQuery,
) -> u32 {
    /// Ids of the fields for the throughput of `NVLink`.
    const NVLINK_SENT: u32 = 138;
    const NVLINK_RECEIVED: u32 = 139;
    const ALL_LINKS: u32 = u32::MAX;
    const UNSIGNED_LONG_LONG: u32 = 3;
    let Ok(count) = usize::try_from(count) else { return INVALID_ARGUMENT };
    // SAFETY: the caller passes an array of this length.
    for value in unsafe { std::slice::from_raw_parts_mut(values, count) } {
        let result = match (value.field, value.scope) {
            (NVLINK_SENT, ALL_LINKS) => query_u64(device, "nvlink_tx"),
            (NVLINK_RECEIVED, ALL_LINKS) => query_u64(device, "nvlink_rx"),
            _ => Err(NOT_SUPPORTED),
        };
        value.code = result.err().unwrap_or(SUCCESS);
        (value.value_type, value.value) = (UNSIGNED_LONG_LONG, result.unwrap_or(0));
    }
    SUCCESS
}

// GPM functions.

#[repr(C)]
struct GpmSupport {
    version: u32,
    is_supported: u32,
}

#[derive(Debug, Default)]
struct GpmSample {
    /// The device and a sequence number; `None` before the sample is taken.
    origin: Option<(u32, u64)>,
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
    let is_supported = u32::from(script::is_supported(device_number(device), "gpm"));
    write_result(out, Ok(GpmSupport { version: 1, is_supported }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleAlloc(out: *mut *mut GpmSample) -> u32 {
    write_result(out, Ok(Box::into_raw(Box::default())))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleFree(sample: *mut GpmSample) -> u32 {
    // SAFETY: `nvmlGpmSampleAlloc` allocated it, and samples are freed once.
    drop(unsafe { Box::from_raw(sample) });
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleGet(device: Device, sample: *mut GpmSample) -> u32 {
    let device = device_number(device);
    let taken = script::query(device, "gpm")
        .map(|_| GpmSample { origin: Some((device, script::next_sequence_number())) });
    write_result(sample, taken)
}

/// Fails unless the second sample is a later one of the same device.
#[unsafe(no_mangle)]
extern "C" fn nvmlGpmMetricsGet(request: *mut GpmRequest) -> u32 {
    // SAFETY: the caller has initialised the request, followed by this number of metrics.
    let (version, first, second, metrics) = unsafe {
        let metrics = (&raw mut (*request).metrics).cast::<GpmMetric>();
        let metrics = std::slice::from_raw_parts_mut(metrics, (*request).count as usize);
        ((*request).version, &*(*request).first, &*(*request).second, metrics)
    };
    let (Some((device, earlier_number)), Some((other_device, later_number))) =
        (first.origin, second.origin)
    else {
        return INVALID_ARGUMENT;
    };
    if version != 1 || device != other_device || later_number <= earlier_number {
        return INVALID_ARGUMENT;
    }
    for metric in metrics {
        let result = script::query(device, &format!("gpm:{}", metric.id));
        metric.code = result.err().unwrap_or(SUCCESS);
        metric.value = result.unwrap_or(0.0);
        metric.names = [c"".as_ptr(); 3];
    }
    SUCCESS
}
