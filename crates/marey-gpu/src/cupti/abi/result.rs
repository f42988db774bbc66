//! CUPTI's result codes and their descriptions. They are not queried from the library, because some
//! versions fail without a driver.

use super::constants::Constant;

/// Success.
pub const SUCCESS: u32 = 0;
/// No more records: the end of a buffer.
pub const MAX_LIMIT_REACHED: u32 = 12;
/// Conflict with earlier calls, such as a mix of process-wide and per-subscriber functions.
pub const NOT_COMPATIBLE: u32 = 14;
/// The driver is not accessible.
pub const NOT_INITIALIZED: u32 = 15;
/// The stack of external correlation ids is empty.
pub const QUEUE_EMPTY: u32 = 18;
/// Not supported by the device or version.
pub const NOT_SUPPORTED: u32 = 27;
/// Restricted to administrators by the driver.
pub const INSUFFICIENT_PRIVILEGES: u32 = 35;
/// Another tool has subscribed.
pub const MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: u32 = 39;
/// Unknown error; from 13.0 on also instead of [`NOT_INITIALIZED`].
pub const UNKNOWN: u32 = 999;

macro_rules! codes {
    ($($value:literal $name:literal $(since $since:literal)?, $description:literal;)+) => {
        /// Every code.
        pub static ALL: &[Constant] = &[$(Constant {
            c_name: concat!("CUPTI_", $name),
            value: $value,
            since: 0 $(+ $since)?,
            description: $description,
        }),+];
    };
}

codes! {
    0 "SUCCESS", "success";
    1 "ERROR_INVALID_PARAMETER", "invalid argument";
    2 "ERROR_INVALID_DEVICE", "invalid device";
    3 "ERROR_INVALID_CONTEXT", "invalid context";
    7 "ERROR_INVALID_OPERATION", "the call is not allowed now";
    8 "ERROR_OUT_OF_MEMORY", "out of memory";
    9 "ERROR_HARDWARE", "the device failed";
    10 "ERROR_PARAMETER_SIZE_NOT_SUFFICIENT", "a buffer is too small";
    11 "ERROR_API_NOT_IMPLEMENTED", "the function is not implemented in this version";
    12 "ERROR_MAX_LIMIT_REACHED", "no more records";
    13 "ERROR_NOT_READY", "not ready";
    14 "ERROR_NOT_COMPATIBLE", "incompatible with another setting or tool";
    15 "ERROR_NOT_INITIALIZED", "the driver is not accessible";
    18 "ERROR_QUEUE_EMPTY", "the queue is empty";
    19 "ERROR_INVALID_HANDLE", "invalid handle";
    20 "ERROR_INVALID_STREAM", "invalid stream";
    21 "ERROR_INVALID_KIND", "unknown activity kind in this version";
    23 "ERROR_DISABLED", "disabled, perhaps by another tool";
    24 "ERROR_INVALID_MODULE", "invalid module";
    26 "ERROR_HARDWARE_BUSY", "another tool uses the counters of the device";
    27 "ERROR_NOT_SUPPORTED", "not supported by this device or version";
    28 "ERROR_UM_PROFILING_NOT_SUPPORTED", "unified memory cannot be traced";
    29 "ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE", "unified memory cannot be traced on this device";
    30 "ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES", "unified memory cannot be traced without peer access";
    31 "ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS", "unified memory cannot be traced under MPS";
    33 "ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED", "not supported on virtual devices";
    34 "ERROR_CUDA_COMPILER_NOT_COMPATIBLE", "incompatible compiler of the program";
    35 "ERROR_INSUFFICIENT_PRIVILEGES", "restricted to administrators by the driver";
    36 "ERROR_OLD_PROFILER_API_INITIALIZED", "the legacy profiling interface is in use";
    38 "ERROR_LEGACY_PROFILER_NOT_SUPPORTED", "the legacy profiling interface is not supported on this device";
    39 "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "another tool has subscribed";
    40 "ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES", "restricted by the hypervisor";
    41 "ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "not supported under confidential computing";
    42 "ERROR_CMP_DEVICE_NOT_SUPPORTED", "not supported on mining devices";
    43 "ERROR_MIG_DEVICE_NOT_SUPPORTED" since 26, "not supported on MIG instances";
    44 "ERROR_SLI_DEVICE_NOT_SUPPORTED" since 26, "not supported under SLI";
    45 "ERROR_WSL_DEVICE_NOT_SUPPORTED" since 26, "not supported under WSL";
    46 "ERROR_INVALID_CHIP_NAME" since 130_000, "invalid chip name";
    47 "ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS" since 130_101, "hardware event tracing is not supported under MPS";
    999 "ERROR_UNKNOWN", "unknown error; without a device, the driver is not accessible";
}

/// Returns the vendor's name of a code.
pub fn name(code: u32) -> &'static str {
    find(code).map_or("unknown error code", |constant| constant.c_name)
}

/// Returns the description of a code.
pub fn description(code: u32) -> &'static str {
    find(code).map_or("unknown", |constant| constant.description)
}

/// Whether a code means that the driver is not accessible: 15 up to CUDA 12, 999 later.
pub const fn is_driver_inaccessible(code: u32) -> bool {
    matches!(code, NOT_INITIALIZED | UNKNOWN)
}

fn find(code: u32) -> Option<&'static Constant> {
    ALL.iter().find(|constant| constant.value == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_names_and_descriptions() {
        assert!(ALL.is_sorted_by(|a, b| a.value < b.value));
        assert_eq!(name(39), "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
        assert_eq!(description(MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED), "another tool has subscribed");
        assert_eq!(description(77), "unknown");
        assert!(
            is_driver_inaccessible(15)
                && is_driver_inaccessible(999)
                && !is_driver_inaccessible(39)
        );
    }
}
