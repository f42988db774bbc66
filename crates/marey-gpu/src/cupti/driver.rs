//! Access to the NVIDIA driver, `libcuda.so.1`, and the properties of its devices.

#![expect(unsafe_code, reason = "calls of the driver")]

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use super::dl::{LoadedLibrary, functions, read_c_string};
use super::driver_error as error;
use super::functions::CuContext;
use super::unavailable::Unavailable;

/// The name by which libcupti and CUDA programs load the driver.
const SONAME: &str = "libcuda.so.1";

functions! {
    /// Functions of the driver. Each returns a `CUresult`, see
    /// [`driver_error`](super::driver_error).
    pub struct DriverFunctions -> u32;

    required {
        /// Initialises the driver.
        init = c"cuInit" (flags: u32);
        /// Writes the CUDA version, such as 12080 for 12.8.
        driver_get_version = c"cuDriverGetVersion" (version: *mut c_int);
        /// Writes the number of devices visible to the process.
        device_get_count = c"cuDeviceGetCount" (count: *mut c_int);
        /// Writes the handle of a device.
        device_get = c"cuDeviceGet" (device: *mut c_int, ordinal: c_int);
        /// Writes an attribute of a device.
        device_get_attribute = c"cuDeviceGetAttribute" (value: *mut c_int, attribute: u32, device: c_int);
        /// Writes the calling thread's context, which may be null.
        ctx_get_current = c"cuCtxGetCurrent" (context: *mut CuContext);
        /// Waits for all work in the calling thread's context.
        ctx_synchronize = c"cuCtxSynchronize" ();
    }

    optional {
        /// Writes the name of a device.
        device_get_name = c"cuDeviceGetName" (name: *mut c_char, bytes: c_int, device: c_int);
        /// Writes the UUID of a device, or of a MIG instance.
        device_get_uuid = c"cuDeviceGetUuid_v2" (uuid: *mut [u8; 16], device: c_int);
        /// Writes whether the primary context of a device, which the runtime uses, is active.
        device_primary_ctx_get_state = c"cuDevicePrimaryCtxGetState" (device: c_int, flags: *mut u32, is_active: *mut c_int);
        /// Writes the memory size of a device.
        device_total_mem = c"cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int);
        /// Pushes a context onto the calling thread's stack.
        ctx_push_current = c"cuCtxPushCurrent_v2" (context: CuContext);
        /// Pops the context from the calling thread's stack.
        ctx_pop_current = c"cuCtxPopCurrent_v2" (context: *mut CuContext);
    }
}

/// Attributes for `cuDeviceGetAttribute`.
pub mod attribute {
    /// Maximum clock rate of the processors, in kHz.
    pub const CLOCK_RATE: u32 = 13;
    /// Streaming multiprocessors.
    pub const MULTIPROCESSOR_COUNT: u32 = 16;
    /// Maximum clock rate of the memory, in kHz.
    pub const MEMORY_CLOCK_RATE: u32 = 36;
    /// Width of the memory bus, in bits.
    pub const GLOBAL_MEMORY_BUS_WIDTH: u32 = 37;
    /// Major number of the compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: u32 = 75;
    /// Minor number of the compute capability.
    pub const COMPUTE_CAPABILITY_MINOR: u32 = 76;
}

/// The initialised driver, with at least one device.
#[derive(Debug)]
pub struct Driver {
    /// CUDA version that it supports, such as 12080 for 12.8.
    pub version: u32,
    /// Number of devices visible to this process.
    pub device_count: u32,
    /// Functions.
    pub functions: DriverFunctions,
}

/// Properties of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Device number in this process.
    pub ordinal: u32,
    /// Model name; empty if unknown.
    pub name: String,
    /// UUID as `nvidia-smi -L` prints it after `GPU-`; empty if unknown.
    pub uuid: String,
    /// Compute capability as in Proton's files: ten times the major number plus the minor number.
    pub arch: u32,
    /// Width of the memory bus, in bits.
    pub bus_width_bits: u32,
    /// Maximum clock rate of the processors, in kHz.
    pub clock_rate_khz: u32,
    /// Maximum clock rate of the memory, in kHz.
    pub memory_clock_rate_khz: u32,
    /// Number of streaming multiprocessors.
    pub num_sms: u32,
    /// Memory size in bytes; 0 if unknown.
    pub total_memory_bytes: u64,
}

impl Driver {
    /// Whether the program or marey has initialised the driver in this process. Does not initialise
    /// it.
    pub fn is_started() -> bool {
        let Some(functions) = Self::loaded_functions() else { return false };
        let mut context = std::ptr::null_mut::<c_void>();
        // SAFETY: the context is writable; an uninitialised driver returns an error.
        let code = unsafe { (functions.ctx_get_current)(&raw mut context) };
        code != error::NOT_INITIALIZED
    }

    /// Returns the major CUDA version. Also works while the driver is being initialised.
    pub(super) fn cuda_major_during_start() -> Option<u32> {
        let functions = Self::loaded_functions()?;
        let mut version: c_int = 0;
        // SAFETY: the number is writable, and the driver need not be initialised for this call.
        let code = unsafe { (functions.driver_get_version)(&raw mut version) };
        (code == error::SUCCESS).then(|| version.cast_unsigned() / 1000)
    }

    /// Returns the functions of the driver if the process has loaded it.
    fn loaded_functions() -> Option<DriverFunctions> {
        DriverFunctions::load(&LoadedLibrary::find_loaded(Path::new(SONAME))?).ok()
    }

    /// Loads and initialises the driver once, and caches the result.
    ///
    /// A process that is forked afterwards cannot use CUDA, so this is called only when the program
    /// has initialised CUDA itself or requests a backend by name.
    pub fn get() -> Result<&'static Self, Unavailable> {
        static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        DRIVER.get_or_init(|| Self::load(SONAME)).as_ref().map_err(Clone::clone)
    }

    pub(super) fn load(path: &str) -> Result<Self, Unavailable> {
        let library = LoadedLibrary::open(path).map_err(Unavailable::NoDriver)?;
        let functions = DriverFunctions::load(&library).map_err(Unavailable::DriverIncomplete)?;
        initialize(&functions)?;
        let device_count = query_number("cuDeviceGetCount", functions.device_get_count)?;
        if device_count == 0 {
            return Err(Unavailable::NoDevice);
        }
        let version = query_number("cuDriverGetVersion", functions.driver_get_version)?;
        Ok(Self { version, device_count, functions })
    }

    /// Returns the major CUDA version.
    pub const fn cuda_major(&self) -> u32 {
        self.version / 1000
    }

    fn device_handle(&self, ordinal: u32) -> Option<c_int> {
        let mut handle = 0;
        // SAFETY: the driver is initialised, and the handle is writable.
        let code = unsafe { (self.functions.device_get)(&raw mut handle, ordinal.cast_signed()) };
        (code == error::SUCCESS).then_some(handle)
    }

    /// Returns the UUID of a device, or of the MIG instance visible to the process; `None` if
    /// unknown.
    pub fn uuid(&self, ordinal: u32) -> Option<String> {
        self.query_uuid(self.device_handle(ordinal)?)
    }

    /// Whether the primary context of a device is active in this process; false if unknown.
    pub fn has_active_context(&self, ordinal: u32) -> bool {
        let get = self.functions.device_primary_ctx_get_state;
        let Some((get, handle)) = get.zip(self.device_handle(ordinal)) else { return false };
        let (mut flags, mut is_active) = (0, 0);
        // SAFETY: the handle is the driver's, and both numbers are writable.
        let code = unsafe { get(handle, &raw mut flags, &raw mut is_active) };
        code == error::SUCCESS && is_active != 0
    }

    /// Returns the properties of a device, or `None` if there is no device with this number.
    pub fn device(&self, ordinal: u32) -> Option<Device> {
        let handle = self.device_handle(ordinal)?;
        let query_attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the handle is the driver's, and the value is writable.
            let code =
                unsafe { (self.functions.device_get_attribute)(&raw mut value, attribute, handle) };
            if code == error::SUCCESS { value.cast_unsigned() } else { 0 }
        };
        Some(Device {
            ordinal,
            name: self.query_name(handle).unwrap_or_default(),
            uuid: self.query_uuid(handle).unwrap_or_default(),
            arch: query_attribute(attribute::COMPUTE_CAPABILITY_MAJOR) * 10
                + query_attribute(attribute::COMPUTE_CAPABILITY_MINOR),
            bus_width_bits: query_attribute(attribute::GLOBAL_MEMORY_BUS_WIDTH),
            clock_rate_khz: query_attribute(attribute::CLOCK_RATE),
            memory_clock_rate_khz: query_attribute(attribute::MEMORY_CLOCK_RATE),
            num_sms: query_attribute(attribute::MULTIPROCESSOR_COUNT),
            total_memory_bytes: self.query_memory_bytes(handle),
        })
    }

    /// Returns every device of this process.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        (0..self.device_count).filter_map(|ordinal| self.device(ordinal))
    }

    /// Waits for all work in the calling thread's context, if any. The error is the driver's code.
    pub fn synchronize(&self) -> Result<(), u32> {
        let mut context = std::ptr::null_mut::<c_void>();
        // SAFETY: the context is writable.
        let code = unsafe { (self.functions.ctx_get_current)(&raw mut context) };
        if code != error::SUCCESS || context.is_null() {
            return Ok(());
        }
        // SAFETY: the driver is initialised, and the thread has a context.
        match unsafe { (self.functions.ctx_synchronize)() } {
            error::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    fn query_name(&self, handle: c_int) -> Option<String> {
        let mut name = [0_u8; 256];
        let get = self.functions.device_get_name?;
        // SAFETY: the buffer is writable, and one byte longer than the length passed, so the string
        // is NUL-terminated.
        let code = unsafe { get(name.as_mut_ptr().cast(), 255, handle) };
        (code == error::SUCCESS).then(|| read_c_string(&name)).flatten()
    }

    fn query_uuid(&self, handle: c_int) -> Option<String> {
        let mut uuid = [0; 16];
        let get = self.functions.device_get_uuid?;
        // SAFETY: `CUuuid` is sixteen bytes, which are writable.
        let code = unsafe { get(&raw mut uuid, handle) };
        let digits = format!("{:032x}", u128::from_be_bytes(uuid));
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        (code == error::SUCCESS).then(|| parts.join("-"))
    }

    fn query_memory_bytes(&self, handle: c_int) -> u64 {
        let mut bytes = 0;
        let Some(get) = self.functions.device_total_mem else { return 0 };
        // SAFETY: the number is writable.
        let code = unsafe { get(&raw mut bytes, handle) };
        if code == error::SUCCESS { bytes as u64 } else { 0 }
    }
}

fn initialize(functions: &DriverFunctions) -> Result<(), Unavailable> {
    // SAFETY: may be called at any time and repeatedly; the flags must be 0.
    match unsafe { (functions.init)(0) } {
        error::SUCCESS => Ok(()),
        code => Err(Unavailable::DriverFailed { call: "cuInit", code }),
    }
}

fn query_number(
    call: &'static str,
    get: unsafe extern "C" fn(*mut c_int) -> u32,
) -> Result<u32, Unavailable> {
    let mut value = 0;
    // SAFETY: the driver is initialised, and the number is writable.
    match unsafe { get(&raw mut value) } {
        error::SUCCESS => Ok(value.cast_unsigned()),
        code => Err(Unavailable::DriverFailed { call, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_library;
    use super::super::unavailable::StartStep;
    use super::*;

    /// Loads a fake driver, in which `source` defines some functions.
    fn load_fake(source: &str) -> Result<Driver, Unavailable> {
        let root = tempfile::tempdir().unwrap();
        let path = fake_library::compile(
            &root.path().join("libcuda.so"),
            DriverFunctions::REQUIRED,
            source,
        );
        Driver::load(path.to_str().unwrap())
    }

    const ONE_DEVICE: &str = "unsigned cuDeviceGetCount(int *count) { *count = 1; return 0; }\n";

    #[test]
    fn each_failing_step_has_its_error() {
        let refusal = |source| load_fake(source).map(|it| it.version).unwrap_err();
        let summary = |error: &Unavailable| (error.step(), error.code(), error.code_name());

        let missing = Driver::load("/nowhere/libcuda.so.1").unwrap_err();
        assert_eq!(summary(&missing), (StartStep::Driver, None, None));
        assert!(missing.to_string().contains("/nowhere/libcuda.so.1"), "{missing}");

        let mismatch = refusal("unsigned cuInit(unsigned flags) { return 803; }");
        assert_eq!(
            summary(&mismatch),
            (StartStep::Init, Some(803), Some("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"))
        );
        assert!(mismatch.hint().contains("restart the machine"));

        let no_device = refusal("unsigned cuInit(unsigned flags) { return 100; }");
        assert_eq!(
            summary(&no_device),
            (StartStep::Device, Some(100), Some("CUDA_ERROR_NO_DEVICE"))
        );
        let hidden = refusal("unsigned cuDeviceGetCount(int *count) { *count = 0; return 0; }");
        assert_eq!(
            (summary(&hidden), hidden.hint()),
            ((StartStep::Device, None, None), no_device.hint())
        );

        let versionless =
            refusal(&format!("{ONE_DEVICE} unsigned cuDriverGetVersion(int *v) {{ return 999; }}"));
        assert_eq!(
            versionless.to_string(),
            "`cuDriverGetVersion` of the NVIDIA driver returned 999 (CUDA_ERROR_UNKNOWN)"
        );
    }

    #[test]
    fn a_device_has_the_values_of_its_attributes() {
        let source = format!(
            "{ONE_DEVICE}
            unsigned cuDriverGetVersion(int *version) {{ *version = 13000; return 0; }}
            unsigned cuDeviceGet(int *device, int ordinal) {{ *device = 7; return ordinal ? 101 : 0; }}
            unsigned cuDeviceGetAttribute(int *value, unsigned which, int device) {{
                switch (which) {{
                    case 13: *value = 1980000; break;
                    case 16: *value = 132; break;
                    case 36: *value = 2619000; break;
                    case 37: *value = 6144; break;
                    case 75: *value = 9; break;
                    case 76: *value = 0; break;
                }}
                return device == 7 ? 0 : 101;
            }}
            unsigned cuDeviceGetName(char *name, int bytes, int device) {{
                const char text[] = \"NVIDIA H200\";
                for (int at = 0; at < sizeof text && at < bytes; ++at) name[at] = text[at];
                return 0;
            }}
            unsigned cuDeviceGetUuid_v2(unsigned char *uuid, int device) {{
                for (int at = 0; at < 16; ++at) uuid[at] = at;
                return 0;
            }}
            unsigned cuDeviceTotalMem_v2(unsigned long *bytes, int device) {{ *bytes = 150121545728; return 0; }}"
        );
        let driver = load_fake(&source).unwrap();
        assert_eq!((driver.cuda_major(), driver.device_count), (13, 1));
        let expected = Device {
            ordinal: 0,
            name: "NVIDIA H200".to_owned(),
            uuid: "00010203-0405-0607-0809-0a0b0c0d0e0f".to_owned(),
            arch: 90,
            bus_width_bits: 6144,
            clock_rate_khz: 1_980_000,
            memory_clock_rate_khz: 2_619_000,
            num_sms: 132,
            total_memory_bytes: 150_121_545_728,
        };
        assert_eq!(driver.devices().collect::<Vec<_>>(), [expected]);
        assert_eq!(driver.device(1), None);
    }

    #[test]
    fn unknown_properties_are_empty() {
        let device = load_fake(ONE_DEVICE).unwrap().device(0).unwrap();
        assert_eq!(device, Device::default());
    }

    #[test]
    fn only_a_thread_with_a_context_synchronizes() {
        let synchronize_with = |has_context: bool| {
            let context = if has_context { "(void *)8" } else { "0" };
            load_fake(&format!(
                "{ONE_DEVICE} unsigned cuCtxGetCurrent(void **context) {{ *context = {context}; return 0; }}
                unsigned cuCtxSynchronize(void) {{ return 719; }}"
            ))
            .unwrap()
            .synchronize()
        };
        assert_eq!((synchronize_with(false), synchronize_with(true)), (Ok(()), Err(719)));
    }
}
