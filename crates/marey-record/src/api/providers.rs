//! The functions that bindings register. Through them the recorder finds the task and the Python
//! frame of the calling thread.

use crate::control::CONTROL;
use crate::detached::Detached;
use crate::local::{self, Local};
use crate::tree::PYTHON_ROOT;
use marey_model::context::NodeKind;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The function that finds the task of the calling thread. It calls `receive` once, before it
/// returns, with `receiver` and the task's innermost scope, or null if the thread runs none. It is
/// also called by threads that do not hold the GIL.
pub type TaskProvider = extern "C" fn(receive: TaskReceiver, receiver: *mut c_void);

/// The function that receives the scope, which is valid until it returns.
pub type TaskReceiver = unsafe extern "C" fn(receiver: *mut c_void, scope: *const Detached);

static TASK_PROVIDER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that finds the scope of a task. The recorder calls it outside of events,
/// on threads that launch work.
pub fn set_task_provider(provider: TaskProvider) {
    TASK_PROVIDER.store(provider as *mut (), Ordering::Release);
}

/// Enters a scope below the innermost scope of the task that this thread runs, or else of the
/// thread. The scope itself is on the thread's stack. For sources that call without the GIL, such
/// as operators.
#[inline(always)]
pub fn enter_in_current_task(name_id: u32, kind: NodeKind) {
    let provider = TASK_PROVIDER.load(Ordering::Acquire);
    if provider.is_null() {
        local::enter(name_id, kind as u8);
    } else if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_provided_task(provider, move |local, task| {
            local.enter_in_task(name_id, kind, leaf, task);
        });
    }
}

/// Enters a scope as [`enter_in_current_task`] does. If a scope around it ends first, it stays open
/// until [`exit_anywhere`](super::exit_anywhere). Returns its id, or 0 when nothing is recorded.
pub fn enter_outliving(name_id: u32, kind: NodeKind) -> u64 {
    let scope_id = Cell::new(0);
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(|local, task| scope_id.set(local.enter_outliving(name_id, kind, leaf, task)));
    }
    scope_id.get()
}

/// Runs an event with the innermost scope of the task that the calling thread runs, if it runs one.
#[inline(always)]
pub(super) fn event_in_task(run: impl Fn(&mut Local, Option<&Detached>)) {
    let provider = TASK_PROVIDER.load(Ordering::Acquire);
    if provider.is_null() {
        local::event(|local| run(local, None));
    } else {
        event_in_provided_task(provider, run);
    }
}

/// Runs an event with the scope that a registered provider finds. Takes the closure by value, so
/// that it can stay in registers on the caller's path without a provider.
#[inline(never)]
fn event_in_provided_task(provider: *mut (), run: impl Fn(&mut Local, Option<&Detached>)) {
    call_task_provider(provider, &mut |task| local::event(|local| run(local, task)));
}

#[inline(never)]
#[expect(unsafe_code, reason = "an atomic cannot hold a function pointer, and the function is C's")]
fn call_task_provider(provider: *mut (), mut run: &mut dyn FnMut(Option<&Detached>)) {
    unsafe extern "C" fn receive(receiver: *mut c_void, scope: *const Detached) {
        // SAFETY: `receiver` points to `run` below, which is not used elsewhere during this call.
        // The scope is null or valid until this returns, by the contract of `TaskReceiver`.
        unsafe { (*receiver.cast::<&mut dyn FnMut(Option<&Detached>)>())(scope.as_ref()) };
    }
    // SAFETY: only `set_task_provider` stores here, and it stores a `TaskProvider`.
    let provider = unsafe { std::mem::transmute::<*mut (), TaskProvider>(provider) };
    provider(receive, (&raw mut run).cast());
}

/// The function that returns the node of the calling thread's innermost Python frame. It is also
/// called by threads that do not hold the GIL.
pub type FrameProvider = extern "C" fn() -> u32;

static FRAME_PROVIDER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that walks Python frames. It is called only while a session asks for
/// Python paths, on the thread that enters a scope or launches.
pub fn set_frame_provider(provider: FrameProvider) {
    FRAME_PROVIDER.store(provider as *mut (), Ordering::Release);
}

#[inline(always)]
pub(crate) fn python_leaf() -> u32 {
    let (_, python_sessions) = CONTROL.recording_sessions();
    if python_sessions == 0 { PYTHON_ROOT } else { call_frame_provider() }
}

#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "an atomic cannot hold a function pointer")]
pub(super) fn call_frame_provider() -> u32 {
    let pointer = FRAME_PROVIDER.load(Ordering::Acquire);
    if pointer.is_null() {
        return PYTHON_ROOT;
    }
    // SAFETY: only `set_frame_provider` stores here, and it stores a `FrameProvider`.
    let provider = unsafe { std::mem::transmute::<*mut (), FrameProvider>(pointer) };
    provider()
}

/// Returns the root of this thread's Python paths and the generation of its tree. Nodes found in
/// another generation are invalid.
pub fn frame_root() -> (u32, u64) {
    (PYTHON_ROOT, local::event(|local| local.tree.generation))
}

/// Returns the node of a Python frame below another node.
pub fn frame_child(parent_id: u32, name_id: u32) -> u32 {
    // A frame belongs to no session, because any session may have scopes below it.
    local::event(|local| local.child(parent_id, name_id, NodeKind::Frame, u64::MAX))
}
