//! Contexts: the primary context of each device, and the threads on which it is current.

use crate::callback::{notify_resource, resource};
use crate::cuda::start;
use crate::device::Device;
use crate::ffi::Handle;
use crate::record::{ContextRecord, kind};
use crate::{activity, output, settings};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};

/// `CUpti_ActivityComputeApiKind` of CUDA.
const CUDA_API_KIND: u16 = 1;
/// Stream id of a context's default stream.
pub(crate) const DEFAULT_STREAM: u32 = 7;

/// Maximum number of devices in a script.
pub(crate) const MAX_DEVICES: usize = 16;

/// The primary context of a device.
pub(crate) struct Context {
    pub id: u32,
    pub device_id: u32,
    references: AtomicU32,
}

static CONTEXTS: [Context; MAX_DEVICES] = {
    let mut contexts =
        [const { Context { id: 1, device_id: 0, references: AtomicU32::new(0) } }; MAX_DEVICES];
    let mut device = 0;
    while device < MAX_DEVICES {
        contexts[device].id = device as u32 + 1;
        contexts[device].device_id = device as u32;
        device += 1;
    }
    contexts
};

thread_local! {
    /// Whether a context was made current on this thread, by the program or by us.
    static HAS_CURRENT_CONTEXT: Cell<bool> = const { Cell::new(false) };
    /// Never dropped: profilers call us from exit handlers, after a thread's destructors have run.
    static CONTEXT_STACK: ManuallyDrop<RefCell<Vec<Handle<Context>>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

pub(crate) fn device_count() -> usize {
    settings::script().settings.devices.len()
}

pub(crate) fn device(index: u32) -> Option<Device> {
    settings::script().settings.devices.get(index as usize).cloned()
}

/// Returns the context of a device; for an invalid number, the context of device 0.
#[inline]
pub(crate) fn for_device(device_id: u32) -> Handle<Context> {
    Handle::to(CONTEXTS.get(device_id as usize).unwrap_or(&CONTEXTS[0]))
}

/// Returns the calling thread's context, or NULL.
pub(crate) fn current() -> Handle<Context> {
    CONTEXT_STACK.with(|stack| stack.borrow().last().copied()).unwrap_or_default()
}

/// Returns the calling thread's context, or else the context of device 0.
pub(crate) fn current_or_first() -> &'static Context {
    current().get().unwrap_or(&CONTEXTS[0])
}

/// Makes a device's context current if none is, as the runtime does before it calls the driver.
#[inline]
pub(crate) fn ensure_current(device_id: u32) {
    if !HAS_CURRENT_CONTEXT.replace(true) {
        start::start();
        if current().get().is_none() {
            set_current(for_device(device_id));
        }
    }
}

pub(crate) fn set_current(context: Handle<Context>) {
    pop_current();
    push_current(context);
}

pub(crate) fn push_current(context: Handle<Context>) {
    CONTEXT_STACK.with(|stack| stack.borrow_mut().push(context));
}

pub(crate) fn pop_current() -> Handle<Context> {
    CONTEXT_STACK.with(|stack| stack.borrow_mut().pop()).unwrap_or_default()
}

impl Context {
    /// Increments the reference count; the first reference creates the context.
    pub(crate) fn retain(&'static self) {
        if self.references.fetch_add(1, Ordering::AcqRel) == 0 {
            self.announce();
        }
    }

    pub(crate) fn release(&self) {
        let fewer = |references: u32| Some(references.saturating_sub(1));
        let _previous = self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }

    pub(crate) fn is_active(&self) -> bool {
        self.references.load(Ordering::Acquire) > 0
    }

    /// Notifies subscribers of the context, and records it and its device.
    pub(crate) fn announce(&'static self) {
        notify_resource(resource::CONTEXT_CREATED, Handle::to(self), 0);
        if activity::is_enabled(kind::DEVICE)
            && let Some(device) = device(self.device_id)
        {
            output::send(output::output(), device.record(self.device_id));
        }
        if activity::is_enabled(kind::CONTEXT) {
            let record = ContextRecord {
                kind: kind::CONTEXT,
                context_id: self.id,
                device_id: self.device_id,
                api: CUDA_API_KIND,
                null_stream_id: DEFAULT_STREAM as u16,
                parent: u32::MAX,
                process_id: std::process::id().into(),
                ..ContextRecord::default()
            };
            output::send(output::output(), record);
        }
    }
}
