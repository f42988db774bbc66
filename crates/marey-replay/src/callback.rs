//! The one subscriber, and what it is told.

#![expect(unsafe_code, reason = "the subscriber is a function of the profiler's")]

use crate::context::Context;
use crate::ffi::{Address, Handle};
use crate::graph::{Executable, Graph, Node};
use crate::thread::counts;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// What callbacks are about: `CUpti_CallbackDomain`.
pub(crate) mod domain {
    pub(crate) const DRIVER: u32 = 1;
    pub(crate) const RUNTIME: u32 = 2;
    pub(crate) const RESOURCE: u32 = 3;
    pub(crate) const SYNCHRONIZE: u32 = 4;
}
const DOMAINS: usize = 8;

/// What happens to resources: `CUpti_CallbackIdResource`.
pub(crate) mod resource {
    pub(crate) const CONTEXT_CREATED: u32 = 1;
    pub(crate) const STREAM_CREATED: u32 = 3;
    pub(crate) const STREAM_DESTROY_STARTING: u32 = 4;
    pub(crate) const MODULE_LOADED: u32 = 6;
    pub(crate) const MODULE_UNLOAD_STARTING: u32 = 7;
    pub(crate) const GRAPH_CREATED: u32 = 9;
    pub(crate) const GRAPH_DESTROY_STARTING: u32 = 10;
    pub(crate) const GRAPH_CLONED: u32 = 11;
    pub(crate) const NODE_CREATED: u32 = 13;
    pub(crate) const EXECUTABLE_CREATE_STARTING: u32 = 17;
    pub(crate) const EXECUTABLE_CREATED: u32 = 18;
    pub(crate) const EXECUTABLE_DESTROY_STARTING: u32 = 19;
    pub(crate) const NODE_CLONED: u32 = 20;
}

/// Words of 64 callback ids, for the highest that any domain has.
const WORDS: usize = 20;

/// The profiler's function: its own pointer, domain, callback id, what happened.
pub(crate) type Callback = extern "C" fn(Address, u32, u32, *const c_void);

static CALLBACK: AtomicUsize = AtomicUsize::new(0);
static USER_DATA: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static ENABLED: [[AtomicU64; WORDS]; DOMAINS] =
    [const { [const { AtomicU64::new(0) }; WORDS] }; DOMAINS];

/// What the profiler gets to name its subscription by.
pub(crate) struct Subscriber;
pub(crate) static SUBSCRIBER: Subscriber = Subscriber;

/// Takes a subscriber, if there is none yet.
pub(crate) fn subscribe(callback: Callback, user_data: Address) -> bool {
    if CALLBACK.load(Ordering::Acquire) != 0 {
        return false;
    }
    USER_DATA.store(user_data, Ordering::Release);
    let callback = callback as *const () as usize;
    CALLBACK.compare_exchange(0, callback, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Lets the subscriber go; whether there was one.
pub(crate) fn unsubscribe() -> bool {
    for domain in 0..DOMAINS as u32 {
        enable_domain(domain, false);
    }
    CALLBACK.swap(0, Ordering::AcqRel) != 0
}

/// Whether the callback is known, and from now on made or not.
pub(crate) fn enable(domain: u32, cbid: u32, is_enabled: bool) -> bool {
    let word = ENABLED.get(domain as usize).and_then(|words| words.get(cbid as usize / 64));
    let Some(word) = word else { return false };
    let bit = 1 << (cbid % 64);
    if is_enabled {
        word.fetch_or(bit, Ordering::Release);
    } else {
        word.fetch_and(!bit, Ordering::Release);
    }
    true
}

/// As [`enable`], for a whole domain.
pub(crate) fn enable_domain(domain: u32, is_enabled: bool) -> bool {
    let Some(words) = ENABLED.get(domain as usize) else { return false };
    for word in words {
        word.store(if is_enabled { u64::MAX } else { 0 }, Ordering::Release);
    }
    true
}

/// As [`enable_domain`], for all of them.
pub(crate) fn enable_all(is_enabled: bool) {
    for domain in 1..DOMAINS as u32 {
        enable_domain(domain, is_enabled);
    }
}

pub(crate) fn is_enabled(domain: u32, cbid: u32) -> bool {
    let word = ENABLED.get(domain as usize).and_then(|words| words.get(cbid as usize / 64));
    word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (cbid % 64)) != 0)
}

/// Tells the subscriber, if it wants to know.
#[inline]
pub(crate) fn tell<T>(domain: u32, cbid: u32, what: &T) {
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback == 0 || !is_enabled(domain, cbid) {
        return;
    }
    counts().callbacks.add(1);
    // SAFETY: only `subscribe` stores here, and it stores a function of this type.
    let callback = unsafe { std::mem::transmute::<usize, Callback>(callback) };
    callback(USER_DATA.load(Ordering::Acquire), domain, cbid, std::ptr::from_ref(what).cast());
}

/// A call of the driver's or the runtime's: `CUpti_CallbackData`.
#[repr(C)]
pub(crate) struct CallData {
    /// 0 before the call, 1 after it.
    pub site: u32,
    pub function: *const c_char,
    pub parameters: *const c_void,
    pub code: *const i32,
    /// The kernel's name, of launches.
    pub symbol: usize,
    pub context: Handle<Context>,
    pub context_id: u32,
    /// A word of the subscriber's, the same before and after.
    pub data: *mut u64,
    pub correlation: u32,
}

const _: () = {
    assert!(std::mem::offset_of!(CallData, function) == 8);
    assert!(std::mem::offset_of!(CallData, parameters) == 16);
    assert!(std::mem::offset_of!(CallData, code) == 24);
    assert!(std::mem::offset_of!(CallData, symbol) == 32);
    assert!(std::mem::offset_of!(CallData, context) == 40);
    assert!(std::mem::offset_of!(CallData, context_id) == 48);
    assert!(std::mem::offset_of!(CallData, data) == 56);
    assert!(std::mem::offset_of!(CallData, correlation) == 64);
    assert!(size_of::<CallData>() == 72);
};

/// Something that happened to a resource: `CUpti_ResourceData`.
#[repr(C)]
pub(crate) struct ResourceData {
    pub context: Handle<Context>,
    /// The stream, of callbacks about streams.
    pub stream: usize,
    pub description: *const c_void,
}

/// What a callback about graphs describes: `CUpti_GraphData`.
#[repr(C)]
pub(crate) struct GraphData {
    pub graph: Handle<Graph>,
    pub original: Handle<Graph>,
    pub node: Handle<Node>,
    pub original_node: Handle<Node>,
    pub node_kind: u32,
    pub dependency: Handle<Node>,
    pub executable: Handle<Executable>,
}

const _: () = {
    assert!(std::mem::offset_of!(GraphData, node) == 16);
    assert!(std::mem::offset_of!(GraphData, node_kind) == 32);
    assert!(std::mem::offset_of!(GraphData, dependency) == 40);
    assert!(std::mem::offset_of!(GraphData, executable) == 48);
    assert!(size_of::<GraphData>() == 56);
};

impl Default for GraphData {
    fn default() -> Self {
        Self {
            graph: Handle::NULL,
            original: Handle::NULL,
            node: Handle::NULL,
            original_node: Handle::NULL,
            node_kind: 0,
            dependency: Handle::NULL,
            executable: Handle::NULL,
        }
    }
}

/// A module's code: `CUpti_ModuleResourceData`.
#[repr(C)]
pub(crate) struct ModuleData {
    pub id: u32,
    pub size: usize,
    pub code: usize,
}

/// A wait: `CUpti_SynchronizeData`.
#[repr(C)]
pub(crate) struct SynchronizeData {
    pub context: Handle<Context>,
    pub stream: usize,
}

/// Tells of a resource without a description.
pub(crate) fn tell_resource(cbid: u32, context: Handle<Context>, stream: usize) {
    let description = std::ptr::null();
    tell(domain::RESOURCE, cbid, &ResourceData { context, stream, description });
}

/// Tells of a resource that has one.
pub(crate) fn tell_described<T>(cbid: u32, context: Handle<Context>, description: &T) {
    let description = std::ptr::from_ref(description).cast();
    tell(domain::RESOURCE, cbid, &ResourceData { context, stream: 0, description });
}
