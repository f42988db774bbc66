//! Memory functions. All memory is host memory.

#![expect(unsafe_code, reason = "functions of the C interface, on memory of their callers")]

use super::code;
use crate::api::{self, ApiFunction, CallArguments};
use crate::context;
use crate::ffi::{Address, Handle, INVALID_VALUE, Out, exports};
use crate::operation::{Copy, Fill, MemoryParameters, Operation, Work};
use crate::stream::{Stream, StreamHandle};

/// Bytes per nanosecond of copies without a duration in the script.
const BYTES_PER_NANO: u64 = 64;
const ALIGNMENT: usize = 256;

fn nanos_for(bytes: usize) -> u64 {
    (bytes as u64 / BYTES_PER_NANO).max(1)
}

fn allocate(address: &Out<Address>, bytes: usize) -> i32 {
    let mut memory = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two, and `memory` is writable.
    let error_code = unsafe { libc::posix_memalign(&raw mut memory, ALIGNMENT, bytes.max(1)) };
    if error_code != 0 { code::OUT_OF_MEMORY } else { address.set(memory) }
}

fn free(address: Address) -> i32 {
    // SAFETY: the caller passes an address from `allocate`, or NULL.
    unsafe { libc::free(address) };
    0
}

fn call_arguments(stream: &Stream, parameters: &MemoryParameters) -> CallArguments {
    CallArguments {
        parameters: parameters.as_ptr().cast(),
        ..CallArguments::context(stream.context())
    }
}

fn copy(
    api: &'static ApiFunction,
    to: Address,
    from: Address,
    copy: Copy,
    stream: StreamHandle,
) -> i32 {
    let stream = stream.get();
    let bytes = copy.bytes as usize;
    let work = Work::Copy(copy);
    let parameters = work.parameters(to as u64, from as u64);
    api::call(api, call_arguments(stream, &parameters), |correlation_id| {
        // SAFETY: the caller guarantees the size of both buffers; device memory is host memory.
        unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
        stream.submit(&Operation::new(work, nanos_for(bytes)), correlation_id);
        0
    })
}

fn set<T: std::marker::Copy>(
    api: &'static ApiFunction,
    to: Address,
    value: T,
    count: usize,
    stream: StreamHandle,
    recorded_value: u32,
) -> i32 {
    let stream = stream.get();
    let bytes = count * size_of::<T>();
    let work = Work::Fill(Fill { value: recorded_value, bytes: bytes as u64 });
    let parameters = work.parameters(to as u64, recorded_value.into());
    api::call(api, call_arguments(stream, &parameters), |correlation_id| {
        // SAFETY: the caller guarantees the size of the buffer; device memory is host memory.
        unsafe { std::slice::from_raw_parts_mut(to.cast::<T>(), count) }.fill(value);
        stream.submit(&Operation::new(work, nanos_for(bytes)), correlation_id);
        0
    })
}

exports! {
    fn cuMemAlloc_v2(address: Out<Address>, bytes: usize) {
        let call_arguments = CallArguments::context(Handle::to(context::current_or_first()));
        api::call(&api::ALLOCATE, call_arguments, |_| allocate(&address, bytes))
    }

    fn cuMemFree_v2(address: Address) {
        let call_arguments = CallArguments::context(Handle::to(context::current_or_first()));
        api::call(&api::FREE, call_arguments, |_| free(address))
    }

    fn cuMemAllocHost_v2(address: Out<Address>, bytes: usize) {
        allocate(&address, bytes)
    }

    fn cuMemHostAlloc(address: Out<Address>, bytes: usize, _flags: u32) {
        allocate(&address, bytes)
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<Address>, host: Address, _flags: u32) {
        address.set(host)
    }

    fn cuMemFreeHost(address: Address) {
        free(address)
    }

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let device = context::device(context::current_or_first().device_id);
        let bytes = device.map_or(0, |device| device.memory_bytes as usize);
        free.set(bytes).max(total.set(bytes))
    }

    fn cuMemcpyHtoD_v2(to: Address, from: Address, bytes: usize) {
        let blocking = Copy::to_device(bytes as u64, false);
        copy(&api::COPY_TO_DEVICE, to, from, blocking, StreamHandle::DEFAULT)
    }

    fn cuMemcpyHtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: StreamHandle) {
        copy(&api::COPY_TO_DEVICE_ASYNC, to, from, Copy::to_device(bytes as u64, true), stream)
    }

    fn cuMemcpyDtoH_v2(to: Address, from: Address, bytes: usize) {
        let blocking = Copy::to_host(bytes as u64, false);
        copy(&api::COPY_TO_HOST, to, from, blocking, StreamHandle::DEFAULT)
    }

    fn cuMemcpyDtoHAsync_v2(to: Address, from: Address, bytes: usize, stream: StreamHandle) {
        copy(&api::COPY_TO_HOST_ASYNC, to, from, Copy::to_host(bytes as u64, true), stream)
    }

    fn cuMemcpyDtoD_v2(to: Address, from: Address, bytes: usize) {
        let blocking = Copy::on_device(bytes as u64, false);
        copy(&api::COPY_ON_DEVICE, to, from, blocking, StreamHandle::DEFAULT)
    }

    fn cuMemcpyDtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: StreamHandle) {
        copy(&api::COPY_ON_DEVICE_ASYNC, to, from, Copy::on_device(bytes as u64, true), stream)
    }

    fn cuMemcpy(to: Address, from: Address, bytes: usize) {
        let blocking = Copy::on_device(bytes as u64, false);
        copy(&api::COPY, to, from, blocking, StreamHandle::DEFAULT)
    }

    fn cuMemcpyAsync(to: Address, from: Address, bytes: usize, stream: StreamHandle) {
        copy(&api::COPY_ASYNC, to, from, Copy::on_device(bytes as u64, true), stream)
    }

    fn cuMemsetD8_v2(to: Address, value: u8, count: usize) {
        set(&api::SET_BYTES, to, value, count, StreamHandle::DEFAULT, value.into())
    }

    fn cuMemsetD8Async(to: Address, value: u8, count: usize, stream: StreamHandle) {
        set(&api::SET_BYTES_ASYNC, to, value, count, stream, value.into())
    }

    fn cuMemsetD32_v2(to: Address, value: u32, count: usize) {
        set(&api::SET_WORDS, to, value, count, StreamHandle::DEFAULT, value)
    }

    fn cuMemsetD32Async(to: Address, value: u32, count: usize, stream: StreamHandle) {
        set(&api::SET_WORDS_ASYNC, to, value, count, stream, value)
    }

    /// Returns attributes of pointers, `CU_POINTER_ATTRIBUTE_*`, as of device memory for every
    /// address.
    fn cuPointerGetAttribute(value: Address, attribute: u32, address: Address) {
        pointer_attribute(value, attribute, address)
    }

    fn cuPointerGetAttributes(
        count: u32,
        attributes: *const u32,
        values: *const Address,
        address: Address,
    ) {
        let count = count as usize;
        if attributes.is_null() || values.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: the caller passes arrays of this length.
        let (attributes, values) = unsafe {
            (std::slice::from_raw_parts(attributes, count), std::slice::from_raw_parts(values, count))
        };
        let pairs = attributes.iter().zip(values);
        pairs.map(|(attribute, value)| pointer_attribute(*value, *attribute, address)).max().unwrap_or(0)
    }
}

fn pointer_attribute(value: Address, attribute: u32, address: Address) -> i32 {
    if value.is_null() || address.is_null() {
        return INVALID_VALUE;
    }
    let device = context::current_or_first();
    // SAFETY: the caller provides a value of the attribute's type: an address, or a 32-bit integer.
    unsafe {
        match attribute {
            1 => value.cast::<Handle<_>>().write(Handle::to(device)),
            3 | 4 | 11 => value.cast::<Address>().write(address),
            2 => value.cast::<u32>().write(2),
            8 => value.cast::<u32>().write(0),
            9 => value.cast::<u32>().write(device.device_id),
            13 => value.cast::<u32>().write(1),
            _ => return INVALID_VALUE,
        }
    }
    0
}
