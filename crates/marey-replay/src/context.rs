//! Contexts: one a device, the primary one, current on the threads that made it so.

use crate::callback::{resource, tell_resource};
use crate::cuda::start;
use crate::device::Device;
use crate::ffi::Handle;
use crate::lock;
use crate::record::{ContextRecord, kind};
use crate::{activity, output};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// `CUpti_ActivityComputeApiKind` of CUDA, and the stream id that a context's default stream has.
const CUDA: u16 = 1;
pub(crate) const DEFAULT_STREAM: u32 = 7;

/// The most devices that a script may declare.
pub(crate) const MOST_DEVICES: usize = 16;

/// A device's primary context.
pub(crate) struct Context {
    pub id: u32,
    pub device: u32,
    holders: AtomicU32,
}

static CONTEXTS: [Context; MOST_DEVICES] = {
    let mut contexts =
        [const { Context { id: 1, device: 0, holders: AtomicU32::new(0) } }; MOST_DEVICES];
    let mut device = 0;
    while device < MOST_DEVICES {
        contexts[device].id = device as u32 + 1;
        contexts[device].device = device as u32;
        device += 1;
    }
    contexts
};

static DEVICES: Mutex<Vec<Device>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether one was made current on this thread, if only by us.
    static HAS_CURRENT: Cell<bool> = const { Cell::new(false) };
    /// Never dropped: profilers call from handlers of the process's end, when a thread's own have run.
    static CURRENT: ManuallyDrop<RefCell<Vec<Handle<Context>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

pub(crate) fn set_devices(devices: &[Device]) {
    *lock(&DEVICES) = devices.to_vec();
}

/// How many devices there are.
pub(crate) fn devices() -> usize {
    lock(&DEVICES).len()
}

/// The device of this number.
pub(crate) fn device(index: u32) -> Option<Device> {
    lock(&DEVICES).get(index as usize).cloned()
}

/// The context of a device; device 0's of numbers that no machine has.
#[inline]
pub(crate) fn of_device(device: u32) -> Handle<Context> {
    Handle::to(CONTEXTS.get(device as usize).unwrap_or(&CONTEXTS[0]))
}

/// The context that is current on this thread, or NULL.
pub(crate) fn current() -> Handle<Context> {
    CURRENT.with(|stack| stack.borrow().last().copied().unwrap_or(Handle::NULL))
}

/// The current context or, as in a program that has made none so, device 0's.
pub(crate) fn current_or_first() -> &'static Context {
    current().get().unwrap_or(&CONTEXTS[0])
}

/// Makes a device's context current where none is, as the runtime does before it calls the driver.
#[inline]
pub(crate) fn ensure_current(device: u32) {
    if !HAS_CURRENT.replace(true) {
        start::start();
        if current().get().is_none() {
            set_current(of_device(device));
        }
    }
}

pub(crate) fn set_current(context: Handle<Context>) {
    pop_current();
    push_current(context);
}

pub(crate) fn push_current(context: Handle<Context>) {
    CURRENT.with(|stack| stack.borrow_mut().push(context));
}

pub(crate) fn pop_current() -> Handle<Context> {
    CURRENT.with(|stack| stack.borrow_mut().pop()).unwrap_or(Handle::NULL)
}

impl Context {
    /// Counts a holder; the first one makes the context.
    pub(crate) fn retain(&'static self) {
        if self.holders.fetch_add(1, Ordering::AcqRel) == 0 {
            self.created();
        }
    }

    pub(crate) fn release(&self) {
        let fewer = |holders: u32| Some(holders.saturating_sub(1));
        let _held = self.holders.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }

    pub(crate) fn is_active(&self) -> bool {
        self.holders.load(Ordering::Acquire) > 0
    }

    /// Tells of the context, and records it and its device.
    pub(crate) fn created(&'static self) {
        tell_resource(resource::CONTEXT_CREATED, Handle::to(self), 0);
        if activity::is_enabled(kind::DEVICE)
            && let Some(device) = device(self.device)
        {
            output::send(output::output(), device.record(self.device));
        }
        if activity::is_enabled(kind::CONTEXT) {
            let record = ContextRecord {
                kind: kind::CONTEXT,
                context: self.id,
                device: self.device,
                api: CUDA,
                null_stream: DEFAULT_STREAM as u16,
                parent: u32::MAX,
                process: std::process::id().into(),
                ..ContextRecord::default()
            };
            output::send(output::output(), record);
        }
    }
}
