//! Subscribers and their callbacks.

#![expect(unsafe_code, reason = "the subscriber is a function of the profiler's")]

use crate::context::Context;
use crate::ffi::{Address, Handle};
use crate::graph::{ExecutableGraph, Graph, Node};
use crate::lock;
use crate::thread::counts;
use std::ffi::{c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Callback domains: `CUpti_CallbackDomain`.
pub(crate) mod domain {
    pub(crate) const DRIVER: u32 = 1;
    pub(crate) const RUNTIME: u32 = 2;
    pub(crate) const RESOURCE: u32 = 3;
    pub(crate) const SYNCHRONIZE: u32 = 4;
}
const DOMAIN_COUNT: usize = 8;

/// Resource callback ids: `CUpti_CallbackIdResource`.
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
    pub(crate) const NODE_DESTROY_STARTING: u32 = 14;
    pub(crate) const EXECUTABLE_CREATE_STARTING: u32 = 17;
    pub(crate) const EXECUTABLE_CREATED: u32 = 18;
    pub(crate) const EXECUTABLE_DESTROY_STARTING: u32 = 19;
    pub(crate) const NODE_CLONED: u32 = 20;
}

/// Words of 64 callback ids, enough for the largest domain.
const WORDS_PER_DOMAIN: usize = 20;

/// Subscriber callback: user data, domain, callback id, data.
pub(crate) type SubscriberCallback = extern "C" fn(Address, u32, u32, *const c_void);

pub(crate) const MAX_SUBSCRIBERS: usize = 4;

/// A subscriber. The profiler's handle is its address.
pub(crate) struct Subscriber {
    callback: AtomicUsize,
    user_data: AtomicPtr<c_void>,
    enabled_callbacks: [[AtomicU64; WORDS_PER_DOMAIN]; DOMAIN_COUNT],
    is_shared: AtomicBool,
    /// Name for other tools.
    name: Mutex<String>,
}

static SUBSCRIBERS: [Subscriber; MAX_SUBSCRIBERS] = [const { Subscriber::new() }; MAX_SUBSCRIBERS];

/// All subscribers in use are before this index.
static USED_END: AtomicUsize = AtomicUsize::new(0);

/// Serialises subscribing.
static SUBSCRIBE_LOCK: Mutex<()> = Mutex::new(());

/// Adds a subscriber, or returns the name of an existing one if either does not allow others.
pub(crate) fn subscribe(
    callback: SubscriberCallback,
    user_data: Address,
    name: &str,
    is_shared: bool,
) -> Result<&'static Subscriber, String> {
    let _guard = lock(&SUBSCRIBE_LOCK);
    let allows = |other: &Subscriber| is_shared && other.is_shared();
    if let Some(other) = first_subscriber().filter(|other| !allows(other)) {
        return Err(lock(&other.name).clone());
    }
    let free_index = SUBSCRIBERS.iter().position(|subscriber| !subscriber.is_subscribed());
    let Some(free_index) = free_index else { return Err(String::new()) };
    let subscriber = &SUBSCRIBERS[free_index];
    name.clone_into(&mut lock(&subscriber.name));
    subscriber.user_data.store(user_data, Ordering::Release);
    subscriber.is_shared.store(is_shared, Ordering::Release);
    subscriber.callback.store(callback as *const () as usize, Ordering::Release);
    USED_END.fetch_max(free_index + 1, Ordering::AcqRel);
    Ok(subscriber)
}

/// Returns the name of the first subscriber.
pub(crate) fn first_name() -> Option<String> {
    first_subscriber().map(|subscriber| lock(&subscriber.name).clone())
}

fn first_subscriber() -> Option<&'static Subscriber> {
    SUBSCRIBERS.iter().find(|subscriber| subscriber.is_subscribed())
}

pub(crate) fn is_any_shared() -> bool {
    subscribers().any(|subscriber| subscriber.is_subscribed() && subscriber.is_shared())
}

pub(crate) fn unsubscribe_all() {
    for subscriber in &SUBSCRIBERS {
        subscriber.leave();
    }
}

fn subscribers() -> impl Iterator<Item = &'static Subscriber> {
    SUBSCRIBERS[..USED_END.load(Ordering::Acquire)].iter()
}

/// Calls the subscribers that have enabled a callback.
#[inline]
pub(crate) fn notify<T>(domain: u32, cbid: u32, data: &T) {
    notify_each(domain, cbid, |_, notify| notify(data));
}

/// Calls the subscribers that have enabled a callback, with data that depends on the subscriber.
#[inline]
pub(crate) fn notify_each<T>(domain: u32, cbid: u32, each: impl Fn(usize, &dyn Fn(&T))) {
    for (index, subscriber) in subscribers().enumerate() {
        if subscriber.is_enabled(domain, cbid) {
            each(index, &|data| subscriber.call(domain, cbid, data));
        }
    }
}

impl Subscriber {
    const fn new() -> Self {
        Self {
            callback: AtomicUsize::new(0),
            user_data: AtomicPtr::new(std::ptr::null_mut()),
            enabled_callbacks: [const { [const { AtomicU64::new(0) }; WORDS_PER_DOMAIN] };
                DOMAIN_COUNT],
            is_shared: AtomicBool::new(false),
            name: Mutex::new(String::new()),
        }
    }

    /// Returns the index of the subscriber, below [`MAX_SUBSCRIBERS`].
    pub(crate) fn index(&'static self) -> usize {
        let this = std::ptr::from_ref(self);
        SUBSCRIBERS.iter().position(|subscriber| std::ptr::eq(this, subscriber)).unwrap_or_default()
    }

    /// Whether the slot is in use.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.callback.load(Ordering::Acquire) != 0
    }

    /// Whether the subscriber is in shared mode, and so allows others.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    /// Removes the subscriber. Returns whether it existed.
    pub(crate) fn leave(&self) -> bool {
        self.enable_all(false);
        self.callback.swap(0, Ordering::AcqRel) != 0
    }

    /// Enables or disables a callback. Returns whether it exists.
    pub(crate) fn enable(&self, domain: u32, cbid: u32, is_enabled: bool) -> bool {
        let Some(word) = self.enabled_word(domain, cbid) else { return false };
        let bit = 1 << (cbid % 64);
        if is_enabled {
            word.fetch_or(bit, Ordering::Release);
        } else {
            word.fetch_and(!bit, Ordering::Release);
        }
        true
    }

    /// Like [`Self::enable`], for a whole domain.
    pub(crate) fn enable_domain(&self, domain: u32, is_enabled: bool) -> bool {
        let Some(words) = self.enabled_callbacks.get(domain as usize) else { return false };
        for word in words {
            word.store(if is_enabled { u64::MAX } else { 0 }, Ordering::Release);
        }
        true
    }

    /// Like [`Self::enable_domain`], for all domains.
    pub(crate) fn enable_all(&self, is_enabled: bool) {
        for domain in 1..DOMAIN_COUNT as u32 {
            self.enable_domain(domain, is_enabled);
        }
    }

    #[inline]
    pub(crate) fn is_enabled(&self, domain: u32, cbid: u32) -> bool {
        let word = self.enabled_word(domain, cbid);
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (cbid % 64)) != 0)
    }

    /// Returns the word with the bit of a callback, if the callback exists.
    #[inline]
    fn enabled_word(&self, domain: u32, cbid: u32) -> Option<&AtomicU64> {
        self.enabled_callbacks.get(domain as usize)?.get(cbid as usize / 64)
    }

    #[inline]
    fn call<T>(&self, domain: u32, cbid: u32, data: &T) {
        let address = self.callback.load(Ordering::Acquire);
        if address == 0 {
            return;
        }
        counts().callback_count.add(1);
        // SAFETY: only `subscribe` stores this address, of a function of this type.
        let callback = unsafe { std::mem::transmute::<usize, SubscriberCallback>(address) };
        let user_data = self.user_data.load(Ordering::Acquire);
        callback(user_data, domain, cbid, std::ptr::from_ref(data).cast());
    }
}

/// Callback data of a driver or runtime call: `CUpti_CallbackData`.
#[repr(C)]
pub(crate) struct CallData {
    /// 0 at entry, 1 at exit.
    pub site: u32,
    pub function: *const c_char,
    pub parameters: *const c_void,
    pub result_code: *const i32,
    /// Name of the kernel, for launches.
    pub symbol: usize,
    pub context: Handle<Context>,
    pub context_id: u32,
    /// Word for the subscriber, the same at entry and exit.
    pub data: *mut u64,
    pub correlation_id: u32,
}

const _: () = {
    assert!(std::mem::offset_of!(CallData, function) == 8);
    assert!(std::mem::offset_of!(CallData, parameters) == 16);
    assert!(std::mem::offset_of!(CallData, result_code) == 24);
    assert!(std::mem::offset_of!(CallData, symbol) == 32);
    assert!(std::mem::offset_of!(CallData, context) == 40);
    assert!(std::mem::offset_of!(CallData, context_id) == 48);
    assert!(std::mem::offset_of!(CallData, data) == 56);
    assert!(std::mem::offset_of!(CallData, correlation_id) == 64);
    assert!(size_of::<CallData>() == 72);
};

/// Callback data of a resource: `CUpti_ResourceData`.
#[repr(C)]
pub(crate) struct ResourceData {
    pub context: Handle<Context>,
    /// Stream, for callbacks about streams.
    pub stream: usize,
    pub description: *const c_void,
}

/// Descriptor of a graph callback: `CUpti_GraphData`.
#[derive(Default)]
#[repr(C)]
pub(crate) struct GraphData {
    pub graph: Handle<Graph>,
    pub original: Handle<Graph>,
    pub node: Handle<Node>,
    pub original_node: Handle<Node>,
    pub node_kind: u32,
    pub dependency: Handle<Node>,
    pub executable: Handle<ExecutableGraph>,
}

const _: () = {
    assert!(std::mem::offset_of!(GraphData, node) == 16);
    assert!(std::mem::offset_of!(GraphData, node_kind) == 32);
    assert!(std::mem::offset_of!(GraphData, dependency) == 40);
    assert!(std::mem::offset_of!(GraphData, executable) == 48);
    assert!(size_of::<GraphData>() == 56);
};

/// Descriptor of a module: `CUpti_ModuleResourceData`.
#[repr(C)]
pub(crate) struct ModuleData {
    pub id: u32,
    pub size: usize,
    pub code: usize,
}

/// Callback data of a synchronisation: `CUpti_SynchronizeData`.
#[repr(C)]
pub(crate) struct SynchronizeData {
    pub context: Handle<Context>,
    pub stream: usize,
}

/// Calls the subscribers for a resource without a descriptor.
pub(crate) fn notify_resource(cbid: u32, context: Handle<Context>, stream: usize) {
    let description = std::ptr::null();
    notify(domain::RESOURCE, cbid, &ResourceData { context, stream, description });
}

/// Calls the subscribers for a resource with a descriptor.
pub(crate) fn notify_described<T>(cbid: u32, context: Handle<Context>, description: &T) {
    let description = std::ptr::from_ref(description).cast();
    notify(domain::RESOURCE, cbid, &ResourceData { context, stream: 0, description });
}
