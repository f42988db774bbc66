//! What result codes mean, without the library: some versions cannot say it where there is no driver.

use super::constants::Constant;

/// All went well.
pub const SUCCESS: u32 = 0;
/// No (more) records: what the walk of a buffer ends with.
pub const MAX_LIMIT_REACHED: u32 = 12;
/// Calls that exclude each other were made, as of the APIs for one subscriber and for several.
pub const NOT_COMPATIBLE: u32 = 14;
/// The library cannot reach the driver.
pub const NOT_INITIALIZED: u32 = 15;
/// The stack of external correlation numbers is empty.
pub const QUEUE_EMPTY: u32 = 18;
/// The device or the version cannot do it.
pub const NOT_SUPPORTED: u32 = 27;
/// The driver reserves it for administrators.
pub const INSUFFICIENT_PRIVILEGES: u32 = 35;
/// Another tool has subscribed.
pub const MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: u32 = 39;
/// What libraries from 13.0 on say for [`NOT_INITIALIZED`] too.
pub const UNKNOWN: u32 = 999;

macro_rules! codes {
    ($($value:literal $name:literal $(since $since:literal)?, $text:literal;)+) => {
        /// Every code.
        pub static ALL: &[Constant] = &[$(Constant {
            c_name: concat!("CUPTI_", $name),
            value: $value,
            since: 0 $(+ $since)?,
            text: $text,
        }),+];
    };
}

codes! {
    0 "SUCCESS", "success";
    1 "ERROR_INVALID_PARAMETER", "an argument is not valid";
    2 "ERROR_INVALID_DEVICE", "no such device";
    3 "ERROR_INVALID_CONTEXT", "no such context";
    7 "ERROR_INVALID_OPERATION", "the call is not allowed now";
    8 "ERROR_OUT_OF_MEMORY", "out of memory";
    9 "ERROR_HARDWARE", "the device failed";
    10 "ERROR_PARAMETER_SIZE_NOT_SUFFICIENT", "a buffer is too small";
    11 "ERROR_API_NOT_IMPLEMENTED", "this version does not have the call";
    12 "ERROR_MAX_LIMIT_REACHED", "no more records";
    13 "ERROR_NOT_READY", "not ready";
    14 "ERROR_NOT_COMPATIBLE", "excluded by another setting or tool";
    15 "ERROR_NOT_INITIALIZED", "the driver cannot be reached";
    18 "ERROR_QUEUE_EMPTY", "nothing to take";
    19 "ERROR_INVALID_HANDLE", "no such handle";
    20 "ERROR_INVALID_STREAM", "no such stream";
    21 "ERROR_INVALID_KIND", "this version does not know the kind of record";
    23 "ERROR_DISABLED", "disabled, perhaps by another tool";
    24 "ERROR_INVALID_MODULE", "no such module";
    26 "ERROR_HARDWARE_BUSY", "another tool holds the counters of the device";
    27 "ERROR_NOT_SUPPORTED", "not supported by this device or version";
    28 "ERROR_UM_PROFILING_NOT_SUPPORTED", "unified memory cannot be traced";
    29 "ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE", "unified memory cannot be traced on this device";
    30 "ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES", "unified memory cannot be traced without peer access";
    31 "ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS", "unified memory cannot be traced under MPS";
    33 "ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED", "not supported on virtual devices";
    34 "ERROR_CUDA_COMPILER_NOT_COMPATIBLE", "the compiler of the program is not compatible";
    35 "ERROR_INSUFFICIENT_PRIVILEGES", "reserved for administrators by the driver";
    36 "ERROR_OLD_PROFILER_API_INITIALIZED", "the old profiling interface is in use";
    38 "ERROR_LEGACY_PROFILER_NOT_SUPPORTED", "the old profiling interface is not supported on this device";
    39 "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "another tool has subscribed";
    40 "ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES", "reserved by the hypervisor";
    41 "ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "not supported under confidential computing";
    42 "ERROR_CMP_DEVICE_NOT_SUPPORTED", "not supported on mining devices";
    43 "ERROR_MIG_DEVICE_NOT_SUPPORTED" since 26, "not supported on parts of a device";
    44 "ERROR_SLI_DEVICE_NOT_SUPPORTED" since 26, "not supported under SLI";
    45 "ERROR_WSL_DEVICE_NOT_SUPPORTED" since 26, "not supported under WSL";
    46 "ERROR_INVALID_CHIP_NAME" since 130_000, "no such chip";
    47 "ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS" since 130_101, "hardware event tracing is not supported under MPS";
    999 "ERROR_UNKNOWN", "an error without a name; where no device is, the driver cannot be reached";
}

/// The vendor's name of a code.
pub fn name(code: u32) -> &'static str {
    find(code).map_or("a code that this version of marey does not know", |known| known.c_name)
}

/// What a code says.
pub fn text(code: u32) -> &'static str {
    find(code).map_or("unknown", |known| known.text)
}

/// Whether a code says that the driver cannot be reached: 15 up to CUDA 12, 999 later.
pub const fn is_unreachable(code: u32) -> bool {
    matches!(code, NOT_INITIALIZED | UNKNOWN)
}

fn find(code: u32) -> Option<&'static Constant> {
    ALL.iter().find(|known| known.value == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_both_texts() {
        assert!(ALL.is_sorted_by(|a, b| a.value < b.value));
        assert_eq!(name(39), "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
        assert_eq!(text(MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED), "another tool has subscribed");
        assert_eq!(text(77), "unknown");
        assert!(is_unreachable(15) && is_unreachable(999) && !is_unreachable(39));
    }
}
