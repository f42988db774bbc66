//! What CUPTI calls on the program's threads: at both ends of a launch, and when graphs are made.
//!
//! These run inside the program's calls of CUDA. Nothing here calls CUDA back, takes a lock that is held
//! around a call of the library, or panics.

use super::abi::calls::driver;
use super::abi::constants::{domain, resource, site};
use super::abi::layout::{callback_data, graph_data, resource_data};
use super::abi::record::{Field, Record};
use super::functions::{CuContext, Functions};
use marey_record::{api, device};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The functions by which nodes of graphs get their numbers.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Calls of the driver that callbacks come for.
const MOST_CALLS: usize = 1024;

/// The recorder's numbers of their names, by their numbers.
static CALL_NAMES: [AtomicU32; MOST_CALLS] = [const { AtomicU32::new(0) }; MOST_CALLS];

/// The context that launched last: mostly there is only one.
static LAST_CONTEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Contexts that have launched something, by their addresses.
static CONTEXTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// What a call does, by its number: one of the numbers below.
static CALL_KINDS: [AtomicU8; MOST_CALLS] = [const { AtomicU8::new(LAUNCHES) }; MOST_CALLS];
const LAUNCHES: u8 = 0;
const BEGINS_CAPTURE: u8 = 1;
const ENDS_CAPTURE: u8 = 2;
const WAITS: u8 = 3;

thread_local! {
    /// Whether it is us who make a call.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Numbers of our own waits, whose records have not come yet.
static OUR_WAITS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Streams that are being captured.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// Says which library the callbacks are of, before any come.
pub(super) fn prepare(functions: &Functions) {
    // A capture that went on when we last listened may have ended while nobody did.
    CAPTURES.store(0, Ordering::Relaxed);
    FUNCTIONS.get_or_init(|| *functions);
    our_waits().clear();
    let kinds = [
        (driver::BEGIN_CAPTURES, BEGINS_CAPTURE),
        (driver::END_CAPTURES, ENDS_CAPTURE),
        (driver::WAITS, WAITS),
    ];
    for (calls, kind) in kinds {
        for call in calls.calls {
            if let Some(known) = CALL_KINDS.get(call.id as usize) {
                known.store(kind, Ordering::Relaxed);
            }
        }
    }
}

/// The contexts that have launched something and still exist.
pub(super) fn contexts() -> Vec<CuContext> {
    let contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    contexts.iter().map(|&address| std::ptr::with_exposed_provenance_mut(address)).collect()
}

/// Whether a stream is being captured: then nobody may wait for its context.
pub(super) fn is_capturing() -> bool {
    CAPTURES.load(Ordering::Relaxed) != 0
}

/// Makes calls of the driver that are no part of what the program does.
pub(super) fn as_ours(calls: impl FnOnce()) {
    IS_OURS.set(true);
    calls();
    IS_OURS.set(false);
}

/// Whether this is the number of a wait of ours. Asked once, by its record.
pub(super) fn is_our_wait(correlation: u32) -> bool {
    let mut waits = our_waits();
    let before = waits.len();
    waits.retain(|&known| known != correlation);
    waits.len() != before
}

fn our_waits() -> MutexGuard<'static, Vec<u32>> {
    OUR_WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn note_our_wait(correlation: u32, data: Record) {
    if data.read_u32(callback_data::SITE) == Some(site::ENTER) {
        our_waits().push(correlation);
    }
}

/// In the child of a fork, which has no contexts.
pub(super) fn begin_child() {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    LAST_CONTEXT.store(std::ptr::null_mut(), Ordering::Relaxed);
    CAPTURES.store(0, Ordering::Relaxed);
}

/// The subscriber's callback.
///
/// # Safety
/// `data` is what the library says: of a call for the first two domains, of a resource for the third.
#[expect(unsafe_code, reason = "the library gives its data by their address")]
pub(super) unsafe extern "C" fn callback(
    _userdata: *mut c_void,
    of_domain: u32,
    cbid: u32,
    data: *const c_void,
) {
    if data.is_null() {
        return;
    }
    match of_domain {
        domain::DRIVER_API => {
            // SAFETY: data of a call has these bytes, and is the library's until we return.
            call(cbid, unsafe { record(data, callback_data::LAYOUT.structs[0].bytes) });
        }
        domain::RESOURCE => {
            // SAFETY: data of a resource has these bytes.
            let record = unsafe { record(data, resource_data::LAYOUT.structs[0].bytes) };
            // Not on the common path, and it locks.
            drop(std::panic::catch_unwind(|| resource(cbid, record)));
        }
        _ => {}
    }
}

/// # Safety
/// `bytes` bytes can be read at the address until the callback returns.
#[inline(always)]
#[expect(unsafe_code, reason = "the library gives its data by their address")]
unsafe fn record<'a>(data: *const c_void, bytes: usize) -> Record<'a> {
    // SAFETY: the caller's promise. The fields that we read are of every version.
    unsafe { Record::at(data.cast(), bytes, 0) }
}

/// One end of a call.
#[inline]
fn call(cbid: u32, data: Record) {
    let does = CALL_KINDS.get(cbid as usize).map_or(LAUNCHES, |kind| kind.load(Ordering::Relaxed));
    let Some(correlation) = data.read_u32(callback_data::CORRELATION_ID) else { return };
    match does {
        WAITS if IS_OURS.get() => return note_our_wait(correlation, data),
        LAUNCHES | WAITS => {}
        _ => return count_capture(does == BEGINS_CAPTURE, data),
    }
    match data.read_u32(callback_data::SITE) {
        Some(site::ENTER) => {
            note_context(data);
            let known =
                CALL_NAMES.get(cbid as usize).map_or(0, |name| name.load(Ordering::Relaxed));
            let name = if known == 0 { learn_name(cbid, data) } else { known };
            api::launch_enter(correlation, name);
        }
        Some(site::EXIT) => api::launch_exit(correlation, has_succeeded(data)),
        _ => {}
    }
}

/// A call of the driver gives 0 where it succeeds.
#[inline]
#[expect(unsafe_code, reason = "the result is given by its address")]
fn has_succeeded(data: Record) -> bool {
    let Some(address) = data.read_text(callback_data::RETURN) else { return true };
    // SAFETY: at the end of a call the driver's result is there, a number of four bytes.
    unsafe { address.cast::<c_void>().cast::<u32>().read() == 0 }
}

#[cold]
#[expect(unsafe_code, reason = "the name is given by its address")]
fn learn_name(cbid: u32, data: Record) -> u32 {
    let Some(address) = data.read_text(callback_data::FUNCTION_NAME) else { return 0 };
    // SAFETY: the library's own constant.
    let name = unsafe { CStr::from_ptr(address) };
    let number = api::intern(&name.to_string_lossy());
    if let Some(known) = CALL_NAMES.get(cbid as usize) {
        known.store(number, Ordering::Relaxed);
    }
    number
}

#[inline]
fn note_context(data: Record) {
    let Some(context) = address(data, callback_data::CONTEXT) else { return };
    if context != LAST_CONTEXT.load(Ordering::Relaxed) {
        learn_context(context);
    }
}

#[cold]
fn learn_context(context: CuContext) {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = context.expose_provenance();
    if !contexts.contains(&known) {
        contexts.push(known);
    }
    LAST_CONTEXT.store(context, Ordering::Relaxed);
}

fn forget_context(context: CuContext) {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    contexts.retain(|&known| known != context.addr());
    LAST_CONTEXT.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Something happened to a context or to a graph.
fn resource(cbid: u32, data: Record) {
    match cbid {
        resource::CONTEXT_DESTROY_STARTING => {
            if let Some(context) = address(data, resource_data::CONTEXT) {
                forget_context(context);
            }
        }
        resource::GRAPHNODE_CREATED => {
            if let Some(node) = graph_node(data, graph_data::NODE) {
                device::captured(node);
            }
        }
        resource::GRAPHNODE_CLONED => {
            let original = graph_node(data, graph_data::ORIGINAL_NODE);
            if let (Some(original), Some(copy)) = (original, graph_node(data, graph_data::NODE)) {
                device::cloned(original, copy);
            }
        }
        resource::GRAPHNODE_DESTROY_STARTING => {
            if let Some(node) = graph_node(data, graph_data::NODE) {
                device::destroyed(node);
            }
        }
        _ => {}
    }
}

/// The number of a node that the descriptor names.
#[expect(unsafe_code, reason = "the library gives its data by their address")]
fn graph_node(data: Record, field: Field) -> Option<u64> {
    let descriptor = address(data, resource_data::DESCRIPTOR)?;
    // SAFETY: the descriptor of a graph's callbacks has these bytes.
    let graph = unsafe { record(descriptor, graph_data::LAYOUT.structs[0].bytes) };
    let node = address(graph, field)?;
    let get = FUNCTIONS.get()?.get_graph_node_id?;
    let mut id = 0;
    // SAFETY: the node exists while its callback runs, in which the library allows this call, and
    // the number can be written.
    let code = unsafe { get(node, &raw mut id) };
    (code == 0 && id != 0).then_some(id)
}

fn address(data: Record, field: Field) -> Option<*mut c_void> {
    data.read_text(field).map(|address| address.cast_mut().cast())
}

/// A capture of a stream begins or ends, unless the call fails.
#[cold]
fn count_capture(begins: bool, data: Record) {
    if data.read_u32(callback_data::SITE) != Some(site::EXIT) || !has_succeeded(data) {
        return;
    }
    if begins {
        CAPTURES.fetch_add(1, Ordering::Relaxed);
    } else if is_capturing() {
        // One that began before we listened was not counted.
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
    }
}
