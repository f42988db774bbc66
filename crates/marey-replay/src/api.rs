//! A driver or runtime call as CUPTI presents it: callbacks at entry and exit, and an API record.

use crate::callback::{CallData, MAX_SUBSCRIBERS, domain, notify_each};
use crate::context::Context;
use crate::ffi::Handle;
use crate::record::{ApiRecord, ExternalRecord, kind};
use crate::{activity, clock, name, output, thread};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// A CUDA function: callback id and name in the driver API, and of the equivalent runtime function,
/// if any.
pub(crate) struct ApiFunction {
    pub driver: (u32, &'static CStr),
    pub runtime: Option<(u32, &'static CStr)>,
}

macro_rules! apis {
    ($($constant:ident = $cbid:literal $name:literal $(, $runtime_cbid:literal $runtime:literal)?;)*) => {$(
        pub(crate) static $constant: ApiFunction =
            ApiFunction { driver: ($cbid, $name), runtime: apis!(@ $($runtime_cbid $runtime)?) };
    )*};
    (@) => { None };
    (@ $cbid:literal $name:literal) => { Some(($cbid, $name)) };
}

apis! {
    LAUNCH_KERNEL = 307 c"cuLaunchKernel", 211 c"cudaLaunchKernel_v7000";
    LAUNCH_KERNEL_EX = 652 c"cuLaunchKernelEx", 430 c"cudaLaunchKernelExC_v11060";
    LAUNCH_COOPERATIVE_ON_DEVICES = 480 c"cuLaunchCooperativeKernelMultiDevice",
        272 c"cudaLaunchCooperativeKernelMultiDevice_v9000";
    LAUNCH_COOPERATIVE = 477 c"cuLaunchCooperativeKernel", 269 c"cudaLaunchCooperativeKernel_v9000";
    COPY_TO_DEVICE = 276 c"cuMemcpyHtoD_v2";
    COPY_TO_DEVICE_ASYNC = 277 c"cuMemcpyHtoDAsync_v2";
    COPY_TO_HOST = 278 c"cuMemcpyDtoH_v2";
    COPY_TO_HOST_ASYNC = 279 c"cuMemcpyDtoHAsync_v2";
    COPY_ON_DEVICE = 280 c"cuMemcpyDtoD_v2";
    COPY_ON_DEVICE_ASYNC = 281 c"cuMemcpyDtoDAsync_v2";
    COPY = 305 c"cuMemcpy", 31 c"cudaMemcpy_v3020";
    COPY_ASYNC = 306 c"cuMemcpyAsync", 41 c"cudaMemcpyAsync_v3020";
    SET_BYTES = 249 c"cuMemsetD8_v2", 49 c"cudaMemset_v3020";
    SET_BYTES_ASYNC = 216 c"cuMemsetD8Async", 51 c"cudaMemsetAsync_v3020";
    SET_WORDS = 251 c"cuMemsetD32_v2";
    SET_WORDS_ASYNC = 220 c"cuMemsetD32Async";
    SYNCHRONIZE_CONTEXT = 17 c"cuCtxSynchronize", 165 c"cudaDeviceSynchronize_v3020";
    SYNCHRONIZE_STREAM = 126 c"cuStreamSynchronize", 131 c"cudaStreamSynchronize_v3020";
    SYNCHRONIZE_EVENT = 121 c"cuEventSynchronize", 137 c"cudaEventSynchronize_v3020";
    RECORD_EVENT = 119 c"cuEventRecord", 135 c"cudaEventRecord_v3020";
    WAIT_FOR_EVENT = 295 c"cuStreamWaitEvent";
    ALLOCATE = 243 c"cuMemAlloc_v2", 20 c"cudaMalloc_v3020";
    FREE = 245 c"cuMemFree_v2", 22 c"cudaFree_v3020";
    LOAD_MODULE = 19 c"cuModuleLoadData";
    BEGIN_CAPTURE = 539 c"cuStreamBeginCapture_v2", 315 c"cudaStreamBeginCapture_v10000";
    END_CAPTURE = 497 c"cuStreamEndCapture", 319 c"cudaStreamEndCapture_v10000";
    INSTANTIATE_GRAPH = 643 c"cuGraphInstantiateWithFlags", 443 c"cudaGraphInstantiate_v12000";
    LAUNCH_GRAPH = 514 c"cuGraphLaunch", 311 c"cudaGraphLaunch_v10000";
}

/// Correlation id of the first call.
static FIRST_CORRELATION_ID: AtomicU32 = AtomicU32::new(1);
static CALLS_GO_THROUGH_RUNTIME: AtomicBool = AtomicBool::new(false);
static HAS_SEPARATE_RUNTIME_IDS: AtomicBool = AtomicBool::new(false);

pub(crate) fn configure(calls_go_through_runtime: bool, has_separate_runtime_ids: bool) {
    CALLS_GO_THROUGH_RUNTIME.store(calls_go_through_runtime, Relaxed);
    HAS_SEPARATE_RUNTIME_IDS.store(has_separate_runtime_ids, Relaxed);
    set_next_correlation_id(1);
}

pub(crate) fn set_next_correlation_id(correlation_id: u32) {
    FIRST_CORRELATION_ID.store(correlation_id.wrapping_sub(clock::call_count() as u32), Relaxed);
}

pub(crate) fn next_correlation_id() -> u32 {
    correlation_id_of_call(clock::call_count())
}

#[inline]
fn correlation_id_of_call(call: u64) -> u32 {
    FIRST_CORRELATION_ID.load(Relaxed).wrapping_add(call as u32)
}

/// Whether scripted calls go through the runtime.
pub(crate) fn calls_go_through_runtime() -> bool {
    CALLS_GO_THROUGH_RUNTIME.load(Relaxed)
}

/// Arguments of a call for callbacks.
#[derive(Clone, Copy)]
pub(crate) struct CallArguments {
    /// Address of the kernel's name, for launches.
    pub symbol: usize,
    /// Parameters of the driver function.
    pub parameters: *const c_void,
    pub context: Handle<Context>,
    /// Whether the call goes through the runtime, which calls the driver.
    pub goes_through_runtime: bool,
    /// Correlation id, instead of the next one.
    pub correlation_id: Option<u32>,
}

impl CallArguments {
    /// Returns the arguments of a driver call in this context.
    pub(crate) const fn context(context: Handle<Context>) -> Self {
        Self {
            symbol: 0,
            parameters: std::ptr::null(),
            context,
            goes_through_runtime: false,
            correlation_id: None,
        }
    }
}

/// Makes a call: `body` executes it with its correlation id and returns the result code.
#[inline]
pub(crate) fn call(
    api: &'static ApiFunction,
    arguments: CallArguments,
    body: impl FnOnce(u32) -> i32,
) -> i32 {
    let runtime = api.runtime.filter(|_| arguments.goes_through_runtime);
    let separate_correlation_id = runtime
        .filter(|_| HAS_SEPARATE_RUNTIME_IDS.load(Relaxed))
        .map(|_| correlation_id_of_call(clock::begin_call()));
    let call_number = clock::begin_call();
    let correlation_id = arguments.correlation_id.map_or_else(
        || correlation_id_of_call(call_number),
        |scripted| {
            // The next call keeps the id that this one would have had.
            FIRST_CORRELATION_ID.fetch_sub(1, Relaxed);
            scripted
        },
    );
    let runtime_correlation_id = separate_correlation_id.unwrap_or(correlation_id);
    // A word of correlation data per subscriber, for each of the two calls.
    let (runtime_data, driver_data) = (
        [const { Cell::new(0_u64) }; MAX_SUBSCRIBERS],
        [const { Cell::new(0_u64) }; MAX_SUBSCRIBERS],
    );
    let result_code = Cell::new(0);
    let notify_all = |site: u32,
                      domain: u32,
                      (cbid, function): (u32, &'static CStr),
                      data: &[Cell<u64>; MAX_SUBSCRIBERS],
                      correlation_id: u32| {
        notify_each(domain, cbid, |subscriber, notify| {
            name::during_callback(arguments.symbol, |symbol| {
                notify(&CallData {
                    site,
                    function: function.as_ptr(),
                    parameters: arguments.parameters,
                    result_code: result_code.as_ptr(),
                    symbol,
                    context: arguments.context,
                    context_id: arguments.context.get().map_or(0, |context| context.id),
                    data: data[subscriber].as_ptr(),
                    correlation_id,
                });
            });
        });
    };
    if let Some(runtime) = runtime {
        notify_all(0, domain::RUNTIME, runtime, &runtime_data, runtime_correlation_id);
    }
    notify_all(0, domain::DRIVER, api.driver, &driver_data, correlation_id);
    result_code.set(body(correlation_id));
    notify_all(1, domain::DRIVER, api.driver, &driver_data, correlation_id);
    if let Some(runtime) = runtime {
        notify_all(1, domain::RUNTIME, runtime, &runtime_data, runtime_correlation_id);
    }
    if activity::is_any_enabled(&[kind::DRIVER, kind::RUNTIME]) {
        let start_nanos = clock::call_start_nanos(call_number);
        let write_record = |kind: u32, cbid: u32, correlation_id: u32| {
            let record = ApiRecord {
                kind,
                cbid,
                start_nanos,
                end_nanos: clock::now_nanos(),
                process_id: std::process::id(),
                thread_id: thread::id(),
                correlation_id,
                result_code: result_code.get().cast_unsigned(),
            };
            output::send(output::output(), record);
        };
        if separate_correlation_id.is_none() || activity::is_enabled(kind::DRIVER) {
            write_external_records(correlation_id);
        }
        if activity::is_enabled(kind::DRIVER) {
            write_record(kind::DRIVER, api.driver.0, correlation_id);
        }
        if let Some((cbid, _)) = runtime.filter(|_| activity::is_enabled(kind::RUNTIME)) {
            separate_correlation_id.into_iter().for_each(write_external_records);
            write_record(kind::RUNTIME, cbid, runtime_correlation_id);
        }
    }
    result_code.get()
}

/// Writes the external correlation records of a call, one per kind, before its API record.
fn write_external_records(correlation_id: u32) {
    let clients = activity::enabled_clients(kind::EXTERNAL_CORRELATION);
    if clients.is_empty() {
        return;
    }
    for external in thread::external_ids() {
        let record = ExternalRecord {
            kind: kind::EXTERNAL_CORRELATION,
            external_kind: external.kind,
            external_id: external.id,
            correlation_id,
            ..ExternalRecord::default()
        };
        output::send_to(output::output(), clients.restricted_to(external.client), record);
    }
}
