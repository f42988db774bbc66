//! The subscribers, and what they are told.

#![expect(unsafe_code, reason = "the subscriber is a function of the profiler's")]

use crate::context::Context;
use crate::ffi::{Address, Handle};
use crate::graph::{Executable, Graph, Node};
use crate::lock;
use crate::thread::counts;
use std::ffi::{c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

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
    pub(crate) const NODE_DESTROY_STARTING: u32 = 14;
    pub(crate) const EXECUTABLE_CREATE_STARTING: u32 = 17;
    pub(crate) const EXECUTABLE_CREATED: u32 = 18;
    pub(crate) const EXECUTABLE_DESTROY_STARTING: u32 = 19;
    pub(crate) const NODE_CLONED: u32 = 20;
}

/// Words of 64 callback ids, for the highest that any domain has.
const WORDS: usize = 20;

/// The profiler's function: its own pointer, domain, callback id, what happened.
pub(crate) type Callback = extern "C" fn(Address, u32, u32, *const c_void);

/// Subscribers at a time.
pub(crate) const MOST: usize = 4;

/// Who is told. What the profiler gets to name its subscription by is the address of one.
pub(crate) struct Subscriber {
    callback: AtomicUsize,
    user_data: AtomicPtr<c_void>,
    enabled: [[AtomicU64; WORDS]; DOMAINS],
    is_beside_others: AtomicBool,
    /// What others are told of it.
    name: Mutex<String>,
}

static SUBSCRIBERS: [Subscriber; MOST] = [const { Subscriber::new() }; MOST];

/// No subscriber stands at or behind this one.
static END: AtomicUsize = AtomicUsize::new(0);

/// Held while subscribers come.
static DOOR: Mutex<()> = Mutex::new(());

/// Takes a subscriber, unless there is one and both do not bear others: then the name of that one.
pub(crate) fn subscribe(
    callback: Callback,
    user_data: Address,
    name: &str,
    is_beside_others: bool,
) -> Result<&'static Subscriber, String> {
    let _door = lock(&DOOR);
    let first = SUBSCRIBERS.iter().find(|subscriber| subscriber.is_there());
    let bears = |other: &Subscriber| is_beside_others && other.is_beside_others();
    if let Some(other) = first.filter(|other| !bears(other)) {
        return Err(lock(&other.name).clone());
    }
    let free = SUBSCRIBERS.iter().position(|subscriber| !subscriber.is_there());
    let Some(free) = free else { return Err(String::new()) };
    let subscriber = &SUBSCRIBERS[free];
    name.clone_into(&mut lock(&subscriber.name));
    subscriber.user_data.store(user_data, Ordering::Release);
    subscriber.is_beside_others.store(is_beside_others, Ordering::Release);
    subscriber.callback.store(callback as *const () as usize, Ordering::Release);
    END.fetch_max(free + 1, Ordering::AcqRel);
    Ok(subscriber)
}

/// The name of the first subscriber.
pub(crate) fn first_name() -> Option<String> {
    let first = SUBSCRIBERS.iter().find(|subscriber| subscriber.is_there());
    first.map(|first| lock(&first.name).clone())
}

/// Whether any subscriber is one beside others.
pub(crate) fn is_any_beside_others() -> bool {
    subscribers().any(|subscriber| subscriber.is_there() && subscriber.is_beside_others())
}

/// Lets all subscribers go.
pub(crate) fn unsubscribe_all() {
    for subscriber in &SUBSCRIBERS {
        subscriber.leave();
    }
}

fn subscribers() -> impl Iterator<Item = &'static Subscriber> {
    SUBSCRIBERS[..END.load(Ordering::Acquire)].iter()
}

/// Tells those who want to know.
#[inline]
pub(crate) fn tell<T>(domain: u32, cbid: u32, what: &T) {
    tell_each(domain, cbid, |_, tell| tell(what));
}

/// The same, of what differs by the number of the subscriber.
#[inline]
pub(crate) fn tell_each<T>(domain: u32, cbid: u32, each: impl Fn(usize, &dyn Fn(&T))) {
    for (number, subscriber) in subscribers().enumerate() {
        if subscriber.is_enabled(domain, cbid) {
            each(number, &|what| subscriber.call(domain, cbid, what));
        }
    }
}

impl Subscriber {
    const fn new() -> Self {
        Self {
            callback: AtomicUsize::new(0),
            user_data: AtomicPtr::new(std::ptr::null_mut()),
            enabled: [const { [const { AtomicU64::new(0) }; WORDS] }; DOMAINS],
            is_beside_others: AtomicBool::new(false),
            name: Mutex::new(String::new()),
        }
    }

    /// Its number, below [`MOST`].
    pub(crate) fn number(&'static self) -> usize {
        let own = std::ptr::from_ref(self);
        SUBSCRIBERS.iter().position(|subscriber| std::ptr::eq(own, subscriber)).unwrap_or_default()
    }

    /// Whether it has subscribed.
    pub(crate) fn is_there(&self) -> bool {
        self.callback.load(Ordering::Acquire) != 0
    }

    /// Whether it bears others.
    pub(crate) fn is_beside_others(&self) -> bool {
        self.is_beside_others.load(Ordering::Acquire)
    }

    /// Lets it go; whether it was there.
    pub(crate) fn leave(&self) -> bool {
        self.enable_all(false);
        self.callback.swap(0, Ordering::AcqRel) != 0
    }

    /// Whether the callback is known, and from now on made or not.
    pub(crate) fn enable(&self, domain: u32, cbid: u32, is_enabled: bool) -> bool {
        let word =
            self.enabled.get(domain as usize).and_then(|words| words.get(cbid as usize / 64));
        let Some(word) = word else { return false };
        let bit = 1 << (cbid % 64);
        if is_enabled {
            word.fetch_or(bit, Ordering::Release);
        } else {
            word.fetch_and(!bit, Ordering::Release);
        }
        true
    }

    /// As [`Self::enable`], for a whole domain.
    pub(crate) fn enable_domain(&self, domain: u32, is_enabled: bool) -> bool {
        let Some(words) = self.enabled.get(domain as usize) else { return false };
        for word in words {
            word.store(if is_enabled { u64::MAX } else { 0 }, Ordering::Release);
        }
        true
    }

    /// As [`Self::enable_domain`], for all of them.
    pub(crate) fn enable_all(&self, is_enabled: bool) {
        for domain in 1..DOMAINS as u32 {
            self.enable_domain(domain, is_enabled);
        }
    }

    #[inline]
    pub(crate) fn is_enabled(&self, domain: u32, cbid: u32) -> bool {
        let word =
            self.enabled.get(domain as usize).and_then(|words| words.get(cbid as usize / 64));
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (cbid % 64)) != 0)
    }

    #[inline]
    fn call<T>(&self, domain: u32, cbid: u32, what: &T) {
        let callback = self.callback.load(Ordering::Acquire);
        if callback == 0 {
            return;
        }
        counts().callbacks.add(1);
        // SAFETY: only `subscribe` stores here, and it stores a function of this type.
        let callback = unsafe { std::mem::transmute::<usize, Callback>(callback) };
        let user_data = self.user_data.load(Ordering::Acquire);
        callback(user_data, domain, cbid, std::ptr::from_ref(what).cast());
    }
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
