//! What codes of the driver mean, and what mends them.

/// All went well.
pub const SUCCESS: u32 = 0;
/// The process has not started the driver.
pub const NOT_INITIALIZED: u32 = 3;
/// No device for this process.
pub const NO_DEVICE: u32 = 100;

struct Code {
    number: u32,
    name: &'static str,
    hint: Option<&'static str>,
}

const fn code(number: u32, name: &'static str) -> Code {
    Code { number, name, hint: None }
}

const fn mended(number: u32, name: &'static str, hint: &'static str) -> Code {
    Code { number, name, hint: Some(hint) }
}

static CODES: &[Code] = &[
    code(SUCCESS, "CUDA_SUCCESS"),
    code(1, "CUDA_ERROR_INVALID_VALUE"),
    code(2, "CUDA_ERROR_OUT_OF_MEMORY"),
    mended(
        NOT_INITIALIZED,
        "CUDA_ERROR_NOT_INITIALIZED",
        "a process that was forked after its parent used CUDA cannot use it: start it with spawn",
    ),
    code(4, "CUDA_ERROR_DEINITIALIZED"),
    mended(
        34,
        "CUDA_ERROR_STUB_LIBRARY",
        "take the `stubs` folder of the CUDA toolkit out of LD_LIBRARY_PATH",
    ),
    mended(
        46,
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "another process has the device to itself: see `nvidia-smi`",
    ),
    code(NO_DEVICE, "CUDA_ERROR_NO_DEVICE"),
    code(101, "CUDA_ERROR_INVALID_DEVICE"),
    code(201, "CUDA_ERROR_INVALID_CONTEXT"),
    code(304, "CUDA_ERROR_OPERATING_SYSTEM"),
    code(800, "CUDA_ERROR_NOT_PERMITTED"),
    code(801, "CUDA_ERROR_NOT_SUPPORTED"),
    mended(
        802,
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "start the services of the machine's devices: `systemctl start nvidia-fabricmanager`",
    ),
    mended(
        803,
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "the kernel module is of another version than the driver's library: restart the machine",
    ),
    mended(
        804,
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "take the `compat` folder of CUDA out of LD_LIBRARY_PATH, or update the driver",
    ),
    code(999, "CUDA_ERROR_UNKNOWN"),
];

/// The vendor's name of a code.
pub fn name(code: u32) -> &'static str {
    find(code).map_or("a code that this version of marey does not know", |known| known.name)
}

/// What mends it, where it is more than to look at the device.
pub fn hint(code: u32) -> Option<&'static str> {
    find(code)?.hint
}

/// Every code with its name.
pub fn all() -> impl Iterator<Item = (u32, &'static str)> {
    CODES.iter().map(|known| (known.number, known.name))
}

fn find(code: u32) -> Option<&'static Code> {
    CODES.iter().find(|known| known.number == code)
}
