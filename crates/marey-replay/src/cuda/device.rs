//! Driver and devices.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::{code, start};
use crate::device::Device;
use crate::ffi::{Out, Text, exports};
use crate::{context, settings};
use std::ffi::{CStr, c_char, c_void};

fn device(index: i32) -> Option<(u32, Device)> {
    let index = u32::try_from(index).ok()?;
    Some((index, context::device(index)?))
}

/// Names of the supported error codes, which are also their descriptions.
fn code_name(code: i32) -> &'static CStr {
    match code {
        0 => c"CUDA_SUCCESS",
        1 => c"CUDA_ERROR_INVALID_VALUE",
        code::NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        code::OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        code::NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        code::INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        code::INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        code::NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        code::NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}

/// Writes the address of a function of this library. Returns a code.
fn get_function(symbol: Text, address: &Out<*mut c_void>) -> i32 {
    let found = find_function(symbol.get());
    let code = address.set(found);
    if found.is_null() { code::NOT_FOUND } else { code }
}

/// Finds a function of this library, by its name or the name of a newer version.
fn find_function(symbol: &str) -> *mut c_void {
    let mut library = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the address is of a function of this library, and `library` is writable.
    if unsafe { libc::dladdr(cuInit as *const c_void, &raw mut library) } == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: `dladdr` has stored the path of this library, which is already loaded.
    let handle = unsafe { libc::dlopen(library.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return std::ptr::null_mut();
    }
    let names = [format!("{symbol}_v2\0"), format!("{symbol}\0")];
    names
        .iter()
        // SAFETY: the handle is of this library, and the names are NUL-terminated.
        .map(|name| unsafe { libc::dlsym(handle, name.as_ptr().cast()) })
        .find(|address| !address.is_null())
        .unwrap_or(std::ptr::null_mut())
}

exports! {
    fn cuInit(_flags: u32) {
        if context::device_count() == 0 {
            return code::NO_DEVICE;
        }
        start::start();
        0
    }

    fn cuDriverGetVersion(version: Out<i32>) {
        version.set(settings::script().settings.driver_version)
    }

    fn cuDeviceGetCount(count: Out<i32>) {
        count.set(i32::try_from(context::device_count()).unwrap_or(i32::MAX))
    }

    fn cuDeviceGet(handle: Out<i32>, index: i32) {
        device(index).map_or(code::INVALID_DEVICE, |_| handle.set(index))
    }

    fn cuDeviceGetName(name: Out<c_char>, size: i32, index: i32) {
        let Some((_, device)) = device(index) else { return code::INVALID_DEVICE };
        name.set_text(&device.name, usize::try_from(size).unwrap_or(0))
    }

    fn cuDeviceGetAttribute(value: Out<i32>, attribute: u32, index: i32) {
        let Some((index, device)) = device(index) else { return code::INVALID_DEVICE };
        value.set(device.attribute(attribute, index))
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, index: i32) {
        device(index).map_or(code::INVALID_DEVICE, |(index, device)| uuid.set(device.uuid(index)))
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, index: i32) {
        device(index).map_or(code::INVALID_DEVICE, |(index, device)| uuid.set(device.uuid(index)))
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, index: i32) {
        device(index)
            .map_or(code::INVALID_DEVICE, |(_, device)| bytes.set(device.memory_bytes as usize))
    }

    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, index: i32) {
        let Some((_, device)) = device(index) else { return code::INVALID_DEVICE };
        major.set(device.major().cast_signed()).max(minor.set(device.minor().cast_signed()))
    }

    fn cuGetErrorName(code: i32, text: Out<*const c_char>) {
        text.set(code_name(code).as_ptr())
    }

    fn cuGetErrorString(code: i32, text: Out<*const c_char>) {
        text.set(code_name(code).as_ptr())
    }

    fn cuGetProcAddress(symbol: Text, address: Out<*mut c_void>, _version: i32, _flags: u64) {
        get_function(symbol, &address)
    }

    fn cuGetProcAddress_v2(
        symbol: Text,
        address: Out<*mut c_void>,
        _version: i32,
        _flags: u64,
        status: Out<i32>,
    ) {
        let code = get_function(symbol, &address);
        // 0: found, 1: unknown symbol.
        status.set_if_not_null((code == code::NOT_FOUND).into());
        code
    }
}
