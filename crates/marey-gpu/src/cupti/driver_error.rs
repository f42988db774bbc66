//! The error codes of the driver, with hints how to resolve them.

/// Success.
pub const SUCCESS: u32 = 0;
/// The driver is not initialised in this process.
pub const NOT_INITIALIZED: u32 = 3;
/// No device is visible to this process.
pub const NO_DEVICE: u32 = 100;

struct ErrorCode {
    number: u32,
    name: &'static str,
    hint: Option<&'static str>,
}

const fn code(number: u32, name: &'static str) -> ErrorCode {
    ErrorCode { number, name, hint: None }
}

const fn code_with_hint(number: u32, name: &'static str, hint: &'static str) -> ErrorCode {
    ErrorCode { number, name, hint: Some(hint) }
}

static CODES: &[ErrorCode] = &[
    code(SUCCESS, "CUDA_SUCCESS"),
    code(1, "CUDA_ERROR_INVALID_VALUE"),
    code(2, "CUDA_ERROR_OUT_OF_MEMORY"),
    code_with_hint(
        NOT_INITIALIZED,
        "CUDA_ERROR_NOT_INITIALIZED",
        "a process forked after its parent initialised CUDA cannot use CUDA: start it with `spawn`",
    ),
    code(4, "CUDA_ERROR_DEINITIALIZED"),
    code_with_hint(
        34,
        "CUDA_ERROR_STUB_LIBRARY",
        "remove the `stubs` folder of the CUDA toolkit from LD_LIBRARY_PATH",
    ),
    code_with_hint(
        46,
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "another process uses the device exclusively: see `nvidia-smi`",
    ),
    code(NO_DEVICE, "CUDA_ERROR_NO_DEVICE"),
    code(101, "CUDA_ERROR_INVALID_DEVICE"),
    code(201, "CUDA_ERROR_INVALID_CONTEXT"),
    code(304, "CUDA_ERROR_OPERATING_SYSTEM"),
    code(800, "CUDA_ERROR_NOT_PERMITTED"),
    code(801, "CUDA_ERROR_NOT_SUPPORTED"),
    code_with_hint(
        802,
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "start the fabric manager: `systemctl start nvidia-fabricmanager`",
    ),
    code_with_hint(
        803,
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "the kernel module and the driver's library have different versions: restart the machine",
    ),
    code_with_hint(
        804,
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "remove the `compat` folder of CUDA from LD_LIBRARY_PATH, or update the driver",
    ),
    code(999, "CUDA_ERROR_UNKNOWN"),
];

/// Returns the vendor's name of a code.
pub fn name(code: u32) -> &'static str {
    find(code).map_or("unknown error code", |error| error.name)
}

/// Returns a hint how to resolve an error, `None` if only the general advice applies.
pub fn hint(code: u32) -> Option<&'static str> {
    find(code)?.hint
}

/// Returns every code with its name.
pub fn all() -> impl Iterator<Item = (u32, &'static str)> {
    CODES.iter().map(|error| (error.number, error.name))
}

fn find(code: u32) -> Option<&'static ErrorCode> {
    CODES.iter().find(|error| error.number == code)
}
