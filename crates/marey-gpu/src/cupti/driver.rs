//! The driver, `libcuda.so.1`: whether there is a device, and what the devices are.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use super::dl::{Loaded, functions};
use super::driver_error as error;
use super::functions::CuContext;
use super::unavailable::Unavailable;

/// The name by which the driver, libcupti and every program of CUDA open it.
const SONAME: &str = "libcuda.so.1";

functions! {
    /// Functions of the driver. Each gives a code of [`driver_error`](super::driver_error).
    pub struct DriverFunctions -> u32;

    needed {
        /// Starts the driver.
        init = c"cuInit" (flags: u32);
        /// The CUDA version, as 12080 for 12.8.
        driver_get_version = c"cuDriverGetVersion" (version: *mut c_int);
        /// How many devices the process sees.
        device_get_count = c"cuDeviceGetCount" (count: *mut c_int);
        /// The handle of a device.
        device_get = c"cuDeviceGet" (device: *mut c_int, ordinal: c_int);
        /// A number that the driver knows of a device.
        device_get_attribute = c"cuDeviceGetAttribute" (value: *mut c_int, attribute: u32, device: c_int);
        /// The calling thread's context, which may be null.
        ctx_get_current = c"cuCtxGetCurrent" (context: *mut CuContext);
        /// Waits for all work of the calling thread's context.
        ctx_synchronize = c"cuCtxSynchronize" ();
    }

    optional {
        /// The name of a device.
        device_get_name = c"cuDeviceGetName" (name: *mut c_char, bytes: c_int, device: c_int);
        /// The number of a device, or of a part of one, that no other has.
        device_get_uuid = c"cuDeviceGetUuid_v2" (uuid: *mut [u8; 16], device: c_int);
        /// Whether a device's primary context is there, which programs of the runtime use.
        device_primary_ctx_get_state = c"cuDevicePrimaryCtxGetState" (device: c_int, flags: *mut u32, is_active: *mut c_int);
        /// Its memory in bytes.
        device_total_mem = c"cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int);
        /// The handle of the calling thread's device.
        ctx_get_device = c"cuCtxGetDevice" (device: *mut c_int);
        /// Makes a context the calling thread's, keeping the one before.
        ctx_push_current = c"cuCtxPushCurrent_v2" (context: CuContext);
        /// Brings the one before back.
        ctx_pop_current = c"cuCtxPopCurrent_v2" (context: *mut CuContext);
    }
}

/// Numbers of `cuDeviceGetAttribute`.
pub mod attribute {
    /// Highest clock of the processors, kHz.
    pub const CLOCK_RATE: u32 = 13;
    /// Streaming multiprocessors.
    pub const MULTIPROCESSOR_COUNT: u32 = 16;
    /// Highest clock of the memory, kHz.
    pub const MEMORY_CLOCK_RATE: u32 = 36;
    /// Width of the memory bus, bits.
    pub const GLOBAL_MEMORY_BUS_WIDTH: u32 = 37;
    /// Major number of the compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: u32 = 75;
    /// Minor number of it.
    pub const COMPUTE_CAPABILITY_MINOR: u32 = 76;
}

/// The driver, started, with at least one device.
#[derive(Debug)]
pub struct Driver {
    /// The CUDA version that it serves, as 12080 for 12.8.
    pub version: u32,
    /// How many devices this process sees.
    pub device_count: u32,
    /// Its functions.
    pub functions: DriverFunctions,
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its number in this process.
    pub ordinal: u32,
    /// Its model; empty if the driver does not say.
    pub name: String,
    /// The number that no other has, as `nvidia-smi -L` writes it after `GPU-`; empty if the driver does not say.
    pub uuid: String,
    /// Compute capability as Proton writes it: ten times the major number and the minor one.
    pub arch: u32,
    /// Width of the memory bus, bits.
    pub bus_width: u32,
    /// Highest clock of the processors, kHz.
    pub clock_rate: u32,
    /// Highest clock of the memory, kHz.
    pub memory_clock_rate: u32,
    /// Streaming multiprocessors.
    pub num_sms: u32,
    /// Memory, bytes; 0 if the driver does not say.
    pub total_memory: u64,
}

impl Driver {
    /// Whether the process has started the driver, by itself or through us. Changes nothing.
    #[expect(unsafe_code, reason = "a call of the driver")]
    pub fn is_started() -> bool {
        let Some(library) = Loaded::already(Path::new(SONAME)) else { return false };
        let Ok(functions) = DriverFunctions::of(library) else { return false };
        let mut context = std::ptr::null_mut::<c_void>();
        // SAFETY: the context can be written; a driver that is not started says so.
        let code = unsafe { (functions.ctx_get_current)(&raw mut context) };
        code != error::NOT_INITIALIZED
    }

    /// Returns the major number of the CUDA version, which the driver tells also while it starts.
    #[expect(unsafe_code, reason = "a call of the driver")]
    pub(super) fn major_within_start() -> Option<u32> {
        let functions = DriverFunctions::of(Loaded::already(Path::new(SONAME))?).ok()?;
        let mut version: c_int = 0;
        // SAFETY: the number can be written, and the driver need not be started for this call.
        let code = unsafe { (functions.driver_get_version)(&raw mut version) };
        (code == error::SUCCESS).then(|| version.cast_unsigned() / 1000)
    }

    /// Loads and starts the driver, once: what came of it is remembered.
    ///
    /// A process that is forked afterwards cannot use CUDA, so this waits until the program uses it
    /// itself, or records its own process.
    pub fn get() -> Result<&'static Self, Unavailable> {
        static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        DRIVER.get_or_init(|| Self::load(SONAME)).as_ref().map_err(Clone::clone)
    }

    pub(super) fn load(path: &str) -> Result<Self, Unavailable> {
        let library = Loaded::open(path).map_err(|reason| Unavailable::NoDriver { reason })?;
        let functions = DriverFunctions::of(library)
            .map_err(|function| Unavailable::DriverIncomplete { function })?;
        start(&functions)?;
        let device_count = number("cuDeviceGetCount", functions.device_get_count)?;
        if device_count == 0 {
            return Err(Unavailable::NoDevice);
        }
        let version = number("cuDriverGetVersion", functions.driver_get_version)?;
        Ok(Self { version, device_count, functions })
    }

    /// The major number of the CUDA version.
    pub const fn cuda_major(&self) -> u32 {
        self.version / 1000
    }

    #[expect(unsafe_code, reason = "a call of the driver")]
    fn handle(&self, ordinal: u32) -> Option<c_int> {
        let mut handle = 0;
        // SAFETY: the driver is started, and the handle can be written.
        let code = unsafe { (self.functions.device_get)(&raw mut handle, ordinal.cast_signed()) };
        (code == error::SUCCESS).then_some(handle)
    }

    /// Returns the UUID of a device, or of the part of one that the process sees; `None` if the driver does
    /// not say.
    pub fn uuid(&self, ordinal: u32) -> Option<String> {
        Some(self.uuid_of(self.handle(ordinal)?)).filter(|uuid| !uuid.is_empty())
    }

    /// Whether the program uses a device, as far as the driver says.
    #[expect(unsafe_code, reason = "a call of the driver")]
    pub fn is_used(&self, ordinal: u32) -> bool {
        let get = self.functions.device_primary_ctx_get_state;
        let Some((get, handle)) = get.zip(self.handle(ordinal)) else { return false };
        let (mut flags, mut is_active) = (0, 0);
        // SAFETY: the handle is the driver's, and both numbers can be written.
        let code = unsafe { get(handle, &raw mut flags, &raw mut is_active) };
        code == error::SUCCESS && is_active != 0
    }

    /// What a device is, or `None` for a number that none has.
    #[expect(unsafe_code, reason = "calls of the driver")]
    pub fn device(&self, ordinal: u32) -> Option<Device> {
        let handle = self.handle(ordinal)?;
        let number = |which| {
            let mut value = 0;
            // SAFETY: the handle is the driver's, and the value can be written.
            let code =
                unsafe { (self.functions.device_get_attribute)(&raw mut value, which, handle) };
            if code == error::SUCCESS { value.cast_unsigned() } else { 0 }
        };
        Some(Device {
            ordinal,
            name: self.name_of(handle),
            uuid: self.uuid_of(handle),
            arch: number(attribute::COMPUTE_CAPABILITY_MAJOR) * 10
                + number(attribute::COMPUTE_CAPABILITY_MINOR),
            bus_width: number(attribute::GLOBAL_MEMORY_BUS_WIDTH),
            clock_rate: number(attribute::CLOCK_RATE),
            memory_clock_rate: number(attribute::MEMORY_CLOCK_RATE),
            num_sms: number(attribute::MULTIPROCESSOR_COUNT),
            total_memory: self.memory_of(handle),
        })
    }

    /// Every device of this process.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        (0..self.device_count).filter_map(|ordinal| self.device(ordinal))
    }

    /// Whether the calling thread has a context.
    #[expect(unsafe_code, reason = "a call of the driver")]
    pub fn has_context(&self) -> bool {
        let mut context = std::ptr::null_mut::<c_void>();
        // SAFETY: the context can be written.
        let code = unsafe { (self.functions.ctx_get_current)(&raw mut context) };
        code == error::SUCCESS && !context.is_null()
    }

    /// Waits for all work of the calling thread's context, if it has one. The error is the driver's code.
    #[expect(unsafe_code, reason = "a call of the driver")]
    pub fn synchronize(&self) -> Result<(), u32> {
        if !self.has_context() {
            return Ok(());
        }
        // SAFETY: the driver is started, and the thread has a context.
        match unsafe { (self.functions.ctx_synchronize)() } {
            error::SUCCESS => Ok(()),
            code => Err(code),
        }
    }

    #[expect(unsafe_code, reason = "a call of the driver")]
    fn name_of(&self, handle: c_int) -> String {
        let mut text = [0_u8; 256];
        let Some(get) = self.functions.device_get_name else { return String::new() };
        // SAFETY: the text can be written, and the length is one short of it, so that it ends with a zero.
        let code = unsafe { get(text.as_mut_ptr().cast(), 255, handle) };
        if code != error::SUCCESS {
            return String::new();
        }
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    #[expect(unsafe_code, reason = "a call of the driver")]
    fn uuid_of(&self, handle: c_int) -> String {
        let mut uuid = [0; 16];
        let Some(get) = self.functions.device_get_uuid else { return String::new() };
        // SAFETY: the vendor's type is sixteen bytes, which can be written.
        let code = unsafe { get(&raw mut uuid, handle) };
        if code != error::SUCCESS {
            return String::new();
        }
        let digits = format!("{:032x}", u128::from_be_bytes(uuid));
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        parts.join("-")
    }

    #[expect(unsafe_code, reason = "a call of the driver")]
    fn memory_of(&self, handle: c_int) -> u64 {
        let mut bytes = 0;
        let Some(get) = self.functions.device_total_mem else { return 0 };
        // SAFETY: the number can be written.
        let code = unsafe { get(&raw mut bytes, handle) };
        if code == error::SUCCESS { bytes as u64 } else { 0 }
    }
}

#[expect(unsafe_code, reason = "a call of the driver")]
fn start(functions: &DriverFunctions) -> Result<(), Unavailable> {
    // SAFETY: may be called at any time and again; the flags must be 0.
    match unsafe { (functions.init)(0) } {
        error::SUCCESS => Ok(()),
        code => Err(Unavailable::DriverFailed { call: "cuInit", code }),
    }
}

#[expect(unsafe_code, reason = "a call of the driver")]
fn number(
    call: &'static str,
    get: unsafe extern "C" fn(*mut c_int) -> u32,
) -> Result<u32, Unavailable> {
    let mut number = 0;
    // SAFETY: the driver is started, and the number can be written.
    match unsafe { get(&raw mut number) } {
        error::SUCCESS => Ok(number.cast_unsigned()),
        code => Err(Unavailable::DriverFailed { call, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compiled;
    use super::super::unavailable::Step;
    use super::*;

    /// A driver of which `source` defines some functions, and whether it loads.
    fn driver(source: &str) -> Result<Driver, Unavailable> {
        let root = tempfile::tempdir().unwrap();
        let path =
            compiled::library(&root.path().join("libcuda.so"), DriverFunctions::NEEDED, source);
        Driver::load(path.to_str().unwrap())
    }

    const ONE_DEVICE: &str = "unsigned cuDeviceGetCount(int *count) { *count = 1; return 0; }\n";

    #[test]
    fn each_step_has_its_refusal() {
        let refusal = |source| driver(source).map(|it| it.version).unwrap_err();
        let told = |error: &Unavailable| (error.step(), error.code(), error.code_name());

        let missing = Driver::load("/nowhere/libcuda.so.1").unwrap_err();
        assert_eq!(told(&missing), (Step::Driver, None, None));
        assert!(missing.to_string().contains("/nowhere/libcuda.so.1"), "{missing}");

        let mismatch = refusal("unsigned cuInit(unsigned flags) { return 803; }");
        assert_eq!(
            told(&mismatch),
            (Step::Init, Some(803), Some("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"))
        );
        assert!(mismatch.hint().contains("restart the machine"));

        let none = refusal("unsigned cuInit(unsigned flags) { return 100; }");
        assert_eq!(told(&none), (Step::Device, Some(100), Some("CUDA_ERROR_NO_DEVICE")));
        let hidden = refusal("unsigned cuDeviceGetCount(int *count) { *count = 0; return 0; }");
        assert_eq!((told(&hidden), hidden.hint()), ((Step::Device, None, None), none.hint()));

        let versionless =
            refusal(&format!("{ONE_DEVICE} unsigned cuDriverGetVersion(int *v) {{ return 999; }}"));
        assert_eq!(
            versionless.to_string(),
            "`cuDriverGetVersion` of the NVIDIA driver gave 999 (CUDA_ERROR_UNKNOWN)"
        );
    }

    #[test]
    fn a_device_has_the_figures_of_its_attributes() {
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
        let driver = driver(&source).unwrap();
        assert_eq!((driver.cuda_major(), driver.device_count), (13, 1));
        let expected = Device {
            ordinal: 0,
            name: "NVIDIA H200".to_owned(),
            uuid: "00010203-0405-0607-0809-0a0b0c0d0e0f".to_owned(),
            arch: 90,
            bus_width: 6144,
            clock_rate: 1_980_000,
            memory_clock_rate: 2_619_000,
            num_sms: 132,
            total_memory: 150_121_545_728,
        };
        assert_eq!(driver.devices().collect::<Vec<_>>(), [expected]);
        assert_eq!(driver.device(1), None);
    }

    #[test]
    fn what_the_driver_does_not_say_is_left_empty() {
        let device = driver(ONE_DEVICE).unwrap().device(0).unwrap();
        assert_eq!(device, Device::default());
    }

    #[test]
    fn only_a_thread_with_a_context_waits() {
        let with_context = |has_context: bool| {
            let context = if has_context { "(void *)8" } else { "0" };
            driver(&format!(
                "{ONE_DEVICE} unsigned cuCtxGetCurrent(void **context) {{ *context = {context}; return 0; }}
                unsigned cuCtxSynchronize(void) {{ return 719; }}"
            ))
            .unwrap()
            .synchronize()
        };
        assert_eq!((with_context(false), with_context(true)), (Ok(()), Err(719)));
    }
}
