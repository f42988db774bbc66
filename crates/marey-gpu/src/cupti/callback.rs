//! The subscriber's callback. CUPTI calls it on the program's threads, at the entry and exit of
//! CUDA calls and for resources such as contexts and graph nodes. It logs launches and calls for
//! the recorder.
//!
//! Callbacks run inside the program's CUDA calls. They do not call CUDA, take no lock that is held
//! around a CUPTI call, and do not unwind.

use super::abi::calls::driver;
use super::abi::constants::{domain, resource, site};
use super::abi::layout::{callback_data, graph_data, resource_data};
use super::abi::record::{Field, Record};
use super::functions::{CuContext, Functions};
use crate::lock;
use marey_record::api::CudaApi;
use marey_record::device::LaunchKind;
use marey_record::{api, device};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// CUPTI functions that query ids of devices and graph nodes.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Maximum number of callback ids (`cbid`) in a domain.
const MAX_CBIDS: usize = 1024;

/// A table of the calls of one domain, by callback id.
type CallTable<T> = [T; MAX_CBIDS];

/// The interned name ids of the calls of the driver's and the runtime's domain.
static CALL_NAMES: [CallTable<AtomicU32>; 2] =
    [const { [const { AtomicU32::new(0) }; MAX_CBIDS] }; 2];

/// A cache of known contexts, indexed by some bits of their addresses. With it, launches in
/// alternating contexts take no lock.
static CONTEXT_CACHE: [AtomicPtr<c_void>; CONTEXT_CACHE_LEN] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CONTEXT_CACHE_LEN];
const CONTEXT_CACHE_LEN: usize = 64;

/// Addresses of the contexts that have launched something.
static CONTEXTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Device numbers by context id. Destroyed contexts are kept, because their records may be read
/// later.
static CONTEXT_DEVICES: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());

/// The kind of each driver call, by callback id. It is one of the constants below.
static CALL_KINDS: CallTable<AtomicU8> = [const { AtomicU8::new(NO_ACTIVITY) }; MAX_CBIDS];
/// No activity results from the call.
const NO_ACTIVITY: u8 = 0;
const LAUNCHES_KERNEL: u8 = 1;
const BEGINS_CAPTURE: u8 = 2;
const ENDS_CAPTURE: u8 = 3;
/// Synchronises, with an activity record. Marey's own flushes make such calls too.
const SYNCHRONIZES: u8 = 4;
const LAUNCHES_GRAPH: u8 = 5;
/// Copies or fills memory.
const MOVES_MEMORY: u8 = 6;
/// Copies or fills memory, with a size argument that can be read.
const MOVES_SIZED: u8 = 7;

thread_local! {
    /// Whether CUDA calls of this thread are made by marey, not by the program.
    static IS_INTERNAL: Cell<bool> = const { Cell::new(false) };
}

/// Whether every call of the driver's, and of the runtime's, domain is recorded.
static RECORDS_ALL_CALLS: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Number of streams in capture.
static CAPTURE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Sets the library of the callbacks, before any callback is enabled.
pub(super) fn prepare(functions: &Functions) {
    // Captures and contexts of an earlier subscription may have ended after it.
    clear_state();
    FUNCTIONS.get_or_init(|| *functions);
    let kinds = [
        (driver::LAUNCHES, LAUNCHES_KERNEL),
        (driver::GRAPH_LAUNCHES, LAUNCHES_GRAPH),
        (driver::COPIES, MOVES_MEMORY),
        (driver::FILLS, MOVES_MEMORY),
        (driver::SYNCHRONIZATIONS, SYNCHRONIZES),
        (driver::BEGIN_CAPTURES, BEGINS_CAPTURE),
        (driver::END_CAPTURES, ENDS_CAPTURE),
    ];
    for (calls, kind) in kinds {
        for call in calls.calls {
            if let Some(entry) = CALL_KINDS.get(call.callback_id as usize) {
                let kind = if call.has_size { MOVES_SIZED } else { kind };
                entry.store(kind, Ordering::Relaxed);
            }
        }
    }
}

/// The correlation ids of marey's own synchronisations, whose records are ignored.
static INTERNAL_SYNCS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The maximum number of these ids. Each context and flush adds one, whose record arrives soon.
const MAX_INTERNAL_SYNCS: usize = 4096;

/// Whether a synchronisation record is of a call that marey made. Forgets the call, because it has
/// only one record.
pub(super) fn take_internal_sync(correlation_id: u32) -> bool {
    lock(&INTERNAL_SYNCS).remove(&correlation_id)
}

/// Remembers that the calling thread synchronises on behalf of marey.
fn remember_internal_sync(data: Record) {
    if data.read_u32(callback_data::SITE) != Some(site::ENTER) {
        return;
    }
    if let Some(correlation_id) = data.read_u32(callback_data::CORRELATION_ID) {
        let mut syncs = lock(&INTERNAL_SYNCS);
        if syncs.len() == MAX_INTERNAL_SYNCS {
            // The remembered ids are those whose records never arrived.
            syncs.clear();
        }
        syncs.insert(correlation_id);
    }
}

/// Whether the calling thread makes calls on behalf of marey.
fn is_internal() -> bool {
    IS_INTERNAL.try_with(Cell::get).unwrap_or(false)
}

/// Sets whether every call of a domain is recorded.
pub(super) fn record_all_calls(domain_id: u32, is_recorded: bool) {
    if let Some(flag) = RECORDS_ALL_CALLS.get(domain_index(domain_id)) {
        flag.store(is_recorded, Ordering::Relaxed);
    }
}

/// Makes CUDA calls that are not recorded as calls of the program.
pub(crate) fn without_recording<T>(calls: impl FnOnce() -> T) -> T {
    IS_INTERNAL.set(true);
    let result = calls();
    IS_INTERNAL.set(false);
    result
}

/// Returns the index of a call domain in the tables.
const fn domain_index(domain_id: u32) -> usize {
    (domain_id - domain::DRIVER_API) as usize
}

/// Returns the device of a context, by context id. For an unknown context, returns the device with
/// the lowest context id.
pub(super) fn device_of_context(context_id: Option<u32>) -> u32 {
    let devices = lock(&CONTEXT_DEVICES);
    let device_of_id = context_id.and_then(|context_id| devices.get(&context_id));
    let first_device = || devices.first_key_value().map(|(_, device)| device);
    device_of_id.or_else(first_device).copied().unwrap_or(0)
}

/// Returns the existing contexts that have launched something.
pub(super) fn contexts() -> Vec<CuContext> {
    let contexts = lock(&CONTEXTS);
    contexts.iter().map(|&address| std::ptr::with_exposed_provenance_mut(address)).collect()
}

/// Whether a stream is in capture. Synchronising its context would invalidate the capture.
pub(super) fn is_capturing() -> bool {
    CAPTURE_COUNT.load(Ordering::Relaxed) != 0
}

/// Locks all state for a fork.
pub(super) fn lock_for_fork() -> impl Sized + use<> {
    let contexts = lock(&CONTEXTS);
    (contexts, lock(&CONTEXT_DEVICES), lock(&INTERNAL_SYNCS))
}

/// Resets all state, as in the child of a fork, which has no contexts.
pub(super) fn clear_state() {
    lock(&CONTEXTS).clear();
    for entry in &CONTEXT_CACHE {
        entry.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
    CAPTURE_COUNT.store(0, Ordering::Relaxed);
    lock(&CONTEXT_DEVICES).clear();
    lock(&INTERNAL_SYNCS).clear();
}

/// The subscriber's callback.
///
/// # Safety
/// `data` is as CUPTI documents: of a call for the first two domains, of a resource for the third.
#[expect(unsafe_code, reason = "the library gives its data by their address")]
pub(super) unsafe extern "C" fn on_callback(
    _userdata: *mut c_void,
    domain_id: u32,
    cbid: u32,
    data: *const c_void,
) {
    if data.is_null() {
        return;
    }
    match domain_id {
        domain::DRIVER_API => {
            // SAFETY: call data has at least this size, and is valid until the callback returns.
            handle_driver_call(cbid, unsafe {
                record_at(data, callback_data::LAYOUT.structs[0].bytes)
            });
        }
        domain::RUNTIME_API => {
            // SAFETY: call data has at least this size, and is valid until the callback returns.
            let data = unsafe { record_at(data, callback_data::LAYOUT.structs[0].bytes) };
            handle_other_call(domain::RUNTIME_API, cbid, data);
        }
        domain::RESOURCE => {
            // SAFETY: resource data has at least this size.
            let record = unsafe { record_at(data, resource_data::LAYOUT.structs[0].bytes) };
            // This is not the fast path. It takes locks, so it may panic.
            drop(std::panic::catch_unwind(|| handle_resource(cbid, record)));
        }
        _ => {}
    }
}

/// # Safety
/// `bytes` bytes at the address are readable until the callback returns.
#[inline(always)]
#[expect(unsafe_code, reason = "the library gives its data by their address")]
unsafe fn record_at<'a>(data: *const c_void, bytes: usize) -> Record<'a> {
    // SAFETY: guaranteed by the caller. The fields that are read exist in every version.
    unsafe { Record::from_address(data.cast(), bytes, 0) }
}

/// Handles entry or exit of a driver call.
#[inline]
fn handle_driver_call(cbid: u32, data: Record) {
    let call_kind =
        CALL_KINDS.get(cbid as usize).map_or(NO_ACTIVITY, |kind| kind.load(Ordering::Relaxed));
    match call_kind {
        LAUNCHES_KERNEL => return handle_launch(cbid, data, LaunchKind::Kernel),
        LAUNCHES_GRAPH => return handle_launch(cbid, data, LaunchKind::Graph),
        MOVES_MEMORY => return handle_launch(cbid, data, LaunchKind::Memory),
        MOVES_SIZED => return handle_launch(cbid, data, sized_launch_kind(data)),
        _ => {}
    }
    if is_internal() {
        if call_kind == SYNCHRONIZES {
            remember_internal_sync(data);
        }
        return;
    }
    match call_kind {
        SYNCHRONIZES => return handle_launch(cbid, data, LaunchKind::Silent),
        BEGINS_CAPTURE | ENDS_CAPTURE => count_capture(call_kind, data),
        _ => {}
    }
    if RECORDS_ALL_CALLS[domain_index(domain::DRIVER_API)].load(Ordering::Relaxed) {
        handle_other_call(domain::DRIVER_API, cbid, data);
    }
}

/// Handles entry or exit of a call that results in an activity.
#[inline]
fn handle_launch(cbid: u32, data: Record, kind: LaunchKind) {
    let Some(correlation_id) = data.read_u32(callback_data::CORRELATION_ID) else { return };
    match data.read_u32(callback_data::SITE) {
        Some(site::ENTER) => {
            cache_context(data);
            api::launch_enter(correlation_id, call_name_id(domain::DRIVER_API, cbid, data), kind);
        }
        Some(site::EXIT) => api::launch_exit(correlation_id, has_succeeded(data)),
        _ => {}
    }
}

/// Returns the launch kind of a call with a size argument. A copy of size 0 leaves no record.
#[expect(unsafe_code, reason = "the arguments are given by their address")]
fn sized_launch_kind(data: Record) -> LaunchKind {
    const SIZE_ARGUMENT: usize = 2;
    let Some(arguments) = data.read_address(callback_data::PARAMS) else {
        return LaunchKind::Memory;
    };
    // SAFETY: these calls have at least three arguments, of eight bytes each including padding.
    let size = unsafe { arguments.cast::<u64>().add(SIZE_ARGUMENT).read() };
    if size == 0 { LaunchKind::Silent } else { LaunchKind::Memory }
}

/// Handles entry or exit of a call that is recorded because all calls of its domain are.
fn handle_other_call(domain_id: u32, cbid: u32, data: Record) {
    let interface = match domain_id {
        domain::DRIVER_API => CudaApi::Driver,
        _ => CudaApi::Runtime,
    };
    let Some(correlation_id) = data.read_u32(callback_data::CORRELATION_ID) else { return };
    match data.read_u32(callback_data::SITE) {
        Some(site::ENTER) => {
            api::call_enter(interface, correlation_id, call_name_id(domain_id, cbid, data));
        }
        Some(site::EXIT) => api::call_exit(interface, correlation_id),
        _ => {}
    }
}

/// Returns the name id of a call in the recorder.
#[inline]
fn call_name_id(domain_id: u32, cbid: u32, data: Record) -> u32 {
    let names = &CALL_NAMES[domain_index(domain_id)];
    let name_id = names.get(cbid as usize).map_or(0, |name| name.load(Ordering::Relaxed));
    if name_id == 0 { intern_call_name(names, cbid, data) } else { name_id }
}

/// Whether a driver call returned `CUDA_SUCCESS`, at its exit.
#[inline]
#[expect(unsafe_code, reason = "the result is given by its address")]
fn has_succeeded(data: Record) -> bool {
    let Some(address) = data.read_address(callback_data::RETURN) else { return true };
    // SAFETY: at the exit of a driver call, this is the address of its four-byte result.
    unsafe { address.cast::<u32>().read() == 0 }
}

#[cold]
#[expect(unsafe_code, reason = "the name is given by its address")]
fn intern_call_name(names: &CallTable<AtomicU32>, cbid: u32, data: Record) -> u32 {
    let Some(address) = data.read_string_address(callback_data::FUNCTION_NAME) else { return 0 };
    // SAFETY: the name is a constant of the library.
    let name = unsafe { CStr::from_ptr(address) };
    let name_id = api::intern(&name.to_string_lossy());
    if let Some(entry) = names.get(cbid as usize) {
        entry.store(name_id, Ordering::Relaxed);
    }
    name_id
}

#[inline]
fn cache_context(data: Record) {
    let Some(context) = data.read_address(callback_data::CONTEXT) else { return };
    if context != context_cache_entry(context).load(Ordering::Relaxed) {
        add_context(context);
        if let Some(context_id) = data.read_u32(callback_data::CONTEXT_UID) {
            store_context_device(context, context_id);
        }
    }
}

#[cold]
#[expect(unsafe_code, reason = "a call of the library")]
fn store_context_device(context: CuContext, context_id: u32) {
    let Some(get_device_id) = FUNCTIONS.get().and_then(|functions| functions.get_device_id) else {
        return;
    };
    let mut device = 0;
    // SAFETY: the context is current in the call of this callback, and the number is writable.
    if unsafe { get_device_id(context, &raw mut device) } == 0 {
        lock(&CONTEXT_DEVICES).insert(context_id, device);
    }
}

#[cold]
fn add_context(context: CuContext) {
    let mut contexts = lock(&CONTEXTS);
    let address = context.expose_provenance();
    if !contexts.contains(&address) {
        contexts.push(address);
    }
    context_cache_entry(context).store(context, Ordering::Relaxed);
}

/// Returns the cache entry for a context.
#[inline(always)]
fn context_cache_entry(context: CuContext) -> &'static AtomicPtr<c_void> {
    /// The minimum distance of two heap objects.
    const HEAP_ALIGN_LOG2: u32 = 6;
    &CONTEXT_CACHE[(context.addr() >> HEAP_ALIGN_LOG2) % CONTEXT_CACHE_LEN]
}

fn forget_context(context: CuContext) {
    let mut contexts = lock(&CONTEXTS);
    contexts.retain(|&address| address != context.addr());
    context_cache_entry(context).store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Handles an event of a context or graph node.
fn handle_resource(cbid: u32, data: Record) {
    match cbid {
        resource::CONTEXT_DESTROY_STARTING => {
            if let Some(context) = data.read_address(resource_data::CONTEXT) {
                forget_context(context);
            }
        }
        resource::GRAPHNODE_CREATED => {
            if let Some(node) = graph_node_id(data, graph_data::NODE) {
                device::record_captured_node(node);
            }
        }
        resource::GRAPHNODE_CLONED => {
            let original = graph_node_id(data, graph_data::ORIGINAL_NODE);
            if let (Some(original), Some(copy)) = (original, graph_node_id(data, graph_data::NODE))
            {
                device::record_cloned_node(original, copy);
            }
        }
        resource::GRAPHNODE_DESTROY_STARTING => {
            if let Some(node) = graph_node_id(data, graph_data::NODE) {
                device::record_destroyed_node(node);
            }
        }
        _ => {}
    }
}

/// Returns the id of a graph node in the resource descriptor.
#[expect(unsafe_code, reason = "the library gives its data by their address")]
fn graph_node_id(data: Record, field: Field) -> Option<u64> {
    let descriptor = data.read_address(resource_data::DESCRIPTOR)?;
    // SAFETY: the descriptor of graph callbacks has at least this size.
    let graph = unsafe { record_at(descriptor, graph_data::LAYOUT.structs[0].bytes) };
    let node = graph.read_address(field)?;
    let get_node_id = FUNCTIONS.get()?.get_graph_node_id?;
    let mut node_id = 0;
    // SAFETY: the node exists during its callback, in which CUPTI allows this call, and the number
    // is writable.
    let code = unsafe { get_node_id(node, &raw mut node_id) };
    (code == 0 && node_id != 0).then_some(node_id)
}

/// Counts the begin and the end of a stream capture.
#[cold]
fn count_capture(call_kind: u8, data: Record) {
    if data.read_u32(callback_data::SITE) != Some(site::EXIT) {
        return;
    }
    if call_kind == BEGINS_CAPTURE {
        CAPTURE_COUNT.fetch_add(has_succeeded(data).into(), Ordering::Relaxed);
        return;
    }
    // A failed call ends the capture too. A capture that began before the subscription was not
    // counted.
    let one_less = |captures: usize| captures.checked_sub(1);
    CAPTURE_COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).unwrap_or(0);
}
