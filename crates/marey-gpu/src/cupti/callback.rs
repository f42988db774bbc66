//! What CUPTI calls on the program's threads: at both ends of a launch, and when graphs are made.
//!
//! These run inside the program's calls of CUDA. Nothing here calls CUDA back, takes a lock that is held
//! around a call of the library, or panics.

use super::abi::calls::driver;
use super::abi::constants::{domain, resource, site};
use super::abi::layout::{callback_data, graph_data, resource_data};
use super::abi::record::{Field, Record};
use super::functions::{CuContext, Functions};
use marey_record::api::Interface;
use marey_record::device::LaunchKind;
use marey_record::{api, device};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The functions by which nodes of graphs get their numbers.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Calls of an interface.
const MOST_CALLS: usize = 1024;

/// Calls by their numbers: one interface.
type Calls<T> = [T; MOST_CALLS];

/// The recorder's numbers of their names, of the driver's and the runtime's.
static CALL_NAMES: [Calls<AtomicU32>; 2] = [const { [const { AtomicU32::new(0) }; MOST_CALLS] }; 2];

/// Contexts that are known, by some bits of their addresses: what several devices have in turn costs no
/// lock.
static KNOWN_CONTEXTS: [AtomicPtr<c_void>; KNOWN] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; KNOWN];
const KNOWN: usize = 64;

/// Contexts that have launched something, by their addresses.
static CONTEXTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The devices of contexts, by the contexts' numbers in records. A context that is destroyed stays here,
/// since its records may be read later.
static CONTEXT_DEVICES: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());

/// What a call of the driver does, by its number: one of the numbers below.
static CALL_KINDS: Calls<AtomicU8> = [const { AtomicU8::new(PLAIN) }; MOST_CALLS];
/// Nothing that devices tell of.
const PLAIN: u8 = 0;
const LAUNCHES_KERNEL: u8 = 1;
const BEGINS_CAPTURE: u8 = 2;
const ENDS_CAPTURE: u8 = 3;
/// Waits for a device, of which the device tells; we make such calls ourselves.
const WAITS: u8 = 4;
const LAUNCHES_GRAPH: u8 = 5;
/// Copies memory, or fills it.
const MOVES_MEMORY: u8 = 6;
/// The same, and says how much where we can see it.
const MOVES_SIZED: u8 = 7;

thread_local! {
    /// Whether the calls of this thread are ours, and not the program's.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether every call of the driver, and of the runtime, is kept.
static ARE_CALLS_KEPT: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Streams that are being captured.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// Says which library the callbacks are of, before any come.
pub(super) fn prepare(functions: &Functions) {
    // Captures and contexts from when we last listened may have ended while nobody did.
    forget_all();
    FUNCTIONS.get_or_init(|| *functions);
    let kinds = [
        (driver::LAUNCHES, LAUNCHES_KERNEL),
        (driver::GRAPH_LAUNCHES, LAUNCHES_GRAPH),
        (driver::COPIES, MOVES_MEMORY),
        (driver::SETS, MOVES_MEMORY),
        (driver::SIZED, MOVES_SIZED),
        (driver::WAITS, WAITS),
        (driver::BEGIN_CAPTURES, BEGINS_CAPTURE),
        (driver::END_CAPTURES, ENDS_CAPTURE),
    ];
    for (calls, kind) in kinds {
        for call in calls.calls {
            if let Some(known) = CALL_KINDS.get(call.id as usize) {
                known.store(kind, Ordering::Relaxed);
            }
        }
    }
}

/// Waits of ours that records will tell of, by their correlation numbers.
static OWN_WAITS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// So many of them are remembered: one of each context and flush, whose records come at once.
const MOST_OWN_WAITS: usize = 4096;

fn own_waits() -> MutexGuard<'static, BTreeSet<u32>> {
    OWN_WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a record of a wait is of one of ours; there is one record of each.
pub(super) fn take_own_wait(correlation: u32) -> bool {
    own_waits().remove(&correlation)
}

/// The calling thread waits for a device on our account.
fn remember_own_wait(data: Record) {
    if data.read_u32(callback_data::SITE) != Some(site::ENTER) {
        return;
    }
    if let Some(correlation) = data.read_u32(callback_data::CORRELATION_ID) {
        let mut waits = own_waits();
        if waits.len() == MOST_OWN_WAITS {
            // No records come of them.
            waits.clear();
        }
        waits.insert(correlation);
    }
}

/// Whether a call is one of ours.
fn is_ours() -> bool {
    IS_OURS.try_with(Cell::get).unwrap_or(false)
}

/// Whether every call of a domain is kept from now on.
pub(super) fn keep_calls(of_domain: u32, is_kept: bool) {
    if let Some(kept) = ARE_CALLS_KEPT.get(interface(of_domain)) {
        kept.store(is_kept, Ordering::Relaxed);
    }
}

/// Makes calls of CUDA that are not told as the program's.
pub(super) fn ours<T>(act: impl FnOnce() -> T) -> T {
    IS_OURS.set(true);
    let answer = act();
    IS_OURS.set(false);
    answer
}

/// The place of a domain of calls in the tables.
const fn interface(of_domain: u32) -> usize {
    (of_domain - domain::DRIVER_API) as usize
}

/// Returns the device of a context, by the context's number. Where that is not known, the device that the
/// program used first.
pub(super) fn device_of(context: Option<u32>) -> u32 {
    let devices = context_devices();
    let known = context.and_then(|context| devices.get(&context));
    let first = || devices.first_key_value().map(|(_, device)| device);
    known.or_else(first).copied().unwrap_or(0)
}

fn context_devices() -> MutexGuard<'static, BTreeMap<u32, u32>> {
    CONTEXT_DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Holds the locks over a fork.
pub(super) fn hold() -> impl Sized + use<> {
    let contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    (contexts, context_devices(), own_waits())
}

/// In the child of a fork, which has no contexts.
pub(super) fn begin_child() {
    forget_all();
}

fn forget_all() {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    for known in &KNOWN_CONTEXTS {
        known.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
    CAPTURES.store(0, Ordering::Relaxed);
    context_devices().clear();
    own_waits().clear();
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
            driver_call(cbid, unsafe { record(data, callback_data::LAYOUT.structs[0].bytes) });
        }
        domain::RUNTIME_API => {
            // SAFETY: as above.
            let data = unsafe { record(data, callback_data::LAYOUT.structs[0].bytes) };
            kept_call(domain::RUNTIME_API, cbid, data);
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

/// One end of a call of the driver.
#[inline]
fn driver_call(cbid: u32, data: Record) {
    let does = CALL_KINDS.get(cbid as usize).map_or(PLAIN, |kind| kind.load(Ordering::Relaxed));
    match does {
        LAUNCHES_KERNEL => return launch(cbid, data, LaunchKind::Kernel),
        LAUNCHES_GRAPH => return launch(cbid, data, LaunchKind::Graph),
        MOVES_MEMORY => return launch(cbid, data, LaunchKind::Memory),
        MOVES_SIZED => return launch(cbid, data, kind_of_sized(data)),
        _ => {}
    }
    if is_ours() {
        if does == WAITS {
            remember_own_wait(data);
        }
        return;
    }
    match does {
        WAITS => return launch(cbid, data, LaunchKind::Silent),
        BEGINS_CAPTURE | ENDS_CAPTURE => count_capture(does == BEGINS_CAPTURE, data),
        _ => {}
    }
    if ARE_CALLS_KEPT[interface(domain::DRIVER_API)].load(Ordering::Relaxed) {
        kept_call(domain::DRIVER_API, cbid, data);
    }
}

/// One end of a call that devices will tell of.
#[inline]
fn launch(cbid: u32, data: Record, kind: LaunchKind) {
    let Some(correlation) = data.read_u32(callback_data::CORRELATION_ID) else { return };
    match data.read_u32(callback_data::SITE) {
        Some(site::ENTER) => {
            note_context(data);
            api::launch_enter(correlation, name(domain::DRIVER_API, cbid, data), kind);
        }
        Some(site::EXIT) => api::launch_exit(correlation, has_succeeded(data)),
        _ => {}
    }
}

/// Returns what a call launches that gives its size: a copy of no bytes leaves no record.
#[expect(unsafe_code, reason = "the arguments are given by their address")]
fn kind_of_sized(data: Record) -> LaunchKind {
    const SIZE: usize = 2;
    let Some(arguments) = data.read_address(callback_data::PARAMS) else {
        return LaunchKind::Memory;
    };
    // SAFETY: these calls have three arguments or more, of eight bytes each with their padding.
    let size = unsafe { arguments.cast::<u64>().add(SIZE).read() };
    if size == 0 { LaunchKind::Silent } else { LaunchKind::Memory }
}

/// One end of a call that is kept because all are.
fn kept_call(of_domain: u32, cbid: u32, data: Record) {
    let interface = match of_domain {
        domain::DRIVER_API => Interface::Driver,
        _ => Interface::Runtime,
    };
    let Some(correlation) = data.read_u32(callback_data::CORRELATION_ID) else { return };
    match data.read_u32(callback_data::SITE) {
        Some(site::ENTER) => api::call_enter(interface, correlation, name(of_domain, cbid, data)),
        Some(site::EXIT) => api::call_exit(interface, correlation),
        _ => {}
    }
}

/// The recorder's number of a call's name.
#[inline]
fn name(of_domain: u32, cbid: u32, data: Record) -> u32 {
    let names = &CALL_NAMES[interface(of_domain)];
    let known = names.get(cbid as usize).map_or(0, |name| name.load(Ordering::Relaxed));
    if known == 0 { learn_name(names, cbid, data) } else { known }
}

/// A call of the driver gives 0 where it succeeds.
#[inline]
#[expect(unsafe_code, reason = "the result is given by its address")]
fn has_succeeded(data: Record) -> bool {
    let Some(address) = data.read_address(callback_data::RETURN) else { return true };
    // SAFETY: at the end of a call the driver's result is there, a number of four bytes.
    unsafe { address.cast::<u32>().read() == 0 }
}

#[cold]
#[expect(unsafe_code, reason = "the name is given by its address")]
fn learn_name(names: &Calls<AtomicU32>, cbid: u32, data: Record) -> u32 {
    let Some(address) = data.read_text(callback_data::FUNCTION_NAME) else { return 0 };
    // SAFETY: the library's own constant.
    let name = unsafe { CStr::from_ptr(address) };
    let number = api::intern(&name.to_string_lossy());
    if let Some(known) = names.get(cbid as usize) {
        known.store(number, Ordering::Relaxed);
    }
    number
}

#[inline]
fn note_context(data: Record) {
    let Some(context) = data.read_address(callback_data::CONTEXT) else { return };
    if context != known_context(context).load(Ordering::Relaxed) {
        learn_context(context);
        if let Some(number) = data.read_u32(callback_data::CONTEXT_UID) {
            learn_device(context, number);
        }
    }
}

#[cold]
#[expect(unsafe_code, reason = "a call of the library")]
fn learn_device(context: CuContext, number: u32) {
    let Some(get) = FUNCTIONS.get().and_then(|functions| functions.get_device_id) else { return };
    let mut device = 0;
    // SAFETY: the context is current in the call that is told of, and the number can be written.
    if unsafe { get(context, &raw mut device) } == 0 {
        context_devices().insert(number, device);
    }
}

#[cold]
fn learn_context(context: CuContext) {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = context.expose_provenance();
    if !contexts.contains(&known) {
        contexts.push(known);
    }
    known_context(context).store(context, Ordering::Relaxed);
}

/// Where a context is if it is known.
#[inline(always)]
fn known_context(context: CuContext) -> &'static AtomicPtr<c_void> {
    /// Objects of a heap are no closer together.
    const APART_LOG2: u32 = 6;
    &KNOWN_CONTEXTS[(context.addr() >> APART_LOG2) % KNOWN]
}

fn forget_context(context: CuContext) {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    contexts.retain(|&known| known != context.addr());
    known_context(context).store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// Something happened to a context or to a graph.
fn resource(cbid: u32, data: Record) {
    match cbid {
        resource::CONTEXT_DESTROY_STARTING => {
            if let Some(context) = data.read_address(resource_data::CONTEXT) {
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
    let descriptor = data.read_address(resource_data::DESCRIPTOR)?;
    // SAFETY: the descriptor of a graph's callbacks has these bytes.
    let graph = unsafe { record(descriptor, graph_data::LAYOUT.structs[0].bytes) };
    let node = graph.read_address(field)?;
    let get = FUNCTIONS.get()?.get_graph_node_id?;
    let mut id = 0;
    // SAFETY: the node exists while its callback runs, in which the library allows this call, and
    // the number can be written.
    let code = unsafe { get(node, &raw mut id) };
    (code == 0 && id != 0).then_some(id)
}

/// A capture of a stream begins or ends.
#[cold]
fn count_capture(begins: bool, data: Record) {
    if data.read_u32(callback_data::SITE) != Some(site::EXIT) {
        return;
    }
    if begins {
        CAPTURES.fetch_add(has_succeeded(data).into(), Ordering::Relaxed);
        return;
    }
    // A call that fails ends the capture, too. One that began before we listened was not counted.
    let ended = CAPTURES
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |captures| captures.checked_sub(1));
    ended.unwrap_or(0);
}
