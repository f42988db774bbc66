//! The C interface of libcuda, as far as profilers and Triton's launchers use it.

#![expect(unsafe_code, reason = "functions of the C interface")]

use crate::ffi::{exports, ignored_exports};

mod context;
mod device;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
pub(crate) mod start;
mod stream;

/// `CUresult`: the supported codes.
pub(crate) mod code {
    pub(crate) const NOT_INITIALIZED: i32 = 3;
    pub(crate) const INVALID_DEVICE: i32 = 101;
    pub(crate) const INVALID_CONTEXT: i32 = 201;
    pub(crate) const NOT_FOUND: i32 = 500;
    pub(crate) const OUT_OF_MEMORY: i32 = 2;
    pub(crate) const NO_DEVICE: i32 = 100;
    pub(crate) const NOT_SUPPORTED: i32 = 801;
}

ignored_exports! {
    cuCtxSetLimit;
    cuEventDestroy_v2;
    /// Always finished, because nothing runs.
    cuEventQuery;
    cuFuncSetAttribute;
    cuFuncSetCacheConfig;
    /// Always finished, because nothing runs.
    cuStreamQuery;
    cuTensorMapEncodeIm2col;
    /// The descriptor is not written, because nothing reads it.
    cuTensorMapEncodeTiled;
}
