//! Versions, and ids of contexts, devices, streams and graphs.

#![expect(unsafe_code, reason = "functions of the C interface")]

use crate::context::Context;
use crate::ffi::{Handle, INVALID_VALUE, Out, exports};
use crate::graph::{ExecutableGraph, Graph, Node};
use crate::stream::StreamHandle;
use crate::{context, settings};
use std::ffi::c_char;

/// Names of codes: `CUPTI_` plus the name in the header.
fn result_name(code: i32) -> &'static std::ffi::CStr {
    match code {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        7 => c"CUPTI_ERROR_INVALID_OPERATION",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        14 => c"CUPTI_ERROR_NOT_COMPATIBLE",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        18 => c"CUPTI_ERROR_QUEUE_EMPTY",
        21 => c"CUPTI_ERROR_INVALID_KIND",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        35 => c"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        39 => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        _ => c"CUPTI_ERROR_UNKNOWN",
    }
}

exports! {
    fn cuptiGetVersion(version: Out<u32>) {
        version.set(settings::version().0)
    }

    fn cuptiGetResultString(code: i32, text: Out<*const c_char>) {
        text.set(result_name(code).as_ptr())
    }

    fn cuptiGetContextId(context: Handle<Context>, id: Out<u32>) {
        id.set(context.get().unwrap_or_else(|| context::current_or_first()).id)
    }

    fn cuptiGetDeviceId(context: Handle<Context>, id: Out<u32>) {
        id.set(context.get().unwrap_or_else(|| context::current_or_first()).device_id)
    }

    fn cuptiGetStreamId(_context: Handle<Context>, stream: StreamHandle, id: Out<u32>) {
        id.set(stream.get().id)
    }

    fn cuptiGetStreamIdEx(
        _context: Handle<Context>,
        stream: StreamHandle,
        _is_per_thread: u8,
        id: Out<u32>,
    ) {
        id.set(stream.get().id)
    }

    fn cuptiGetGraphId(graph: Handle<Graph>, id: Out<u32>) {
        graph.get().map_or(INVALID_VALUE, |graph| id.set(graph.id))
    }

    fn cuptiGetGraphExecId(executable: Handle<ExecutableGraph>, id: Out<u32>) {
        executable.get().map_or(INVALID_VALUE, |executable| id.set(executable.id))
    }

    fn cuptiGetGraphNodeId(node: Handle<Node>, id: Out<u64>) {
        node.get().map_or(INVALID_VALUE, |node| id.set(node.id))
    }
}
