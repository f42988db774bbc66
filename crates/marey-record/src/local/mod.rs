//! The event path: what a thread does when it enters and leaves scopes.
//!
//! Everything here runs on the thread that owns the tree. An event is bracketed by
//! [`Seq::begin`](crate::seq::Seq::begin) and `end`; inside, the thread reads the global masks once,
//! moves its stack, and writes to the columns of the sessions that are concerned.
//!
//! This file holds the thread's handle and the bracket; [`stack`] holds what happens inside it.

mod call;
mod entry;
mod inherit;
mod launch;
mod stack;
mod steps;
mod task;
mod values;

pub use self::call::Interface;
pub(crate) use self::entry::Entry;
pub(crate) use self::inherit::{is_running_entry, restart_after_fork};

use crate::clock;
use crate::control::CONTROL;
use crate::device;
use crate::losses;
use crate::names;
use crate::recorder;
use crate::registry;
use crate::thread::ThreadTree;
use crate::trace::{self, Log};
use crate::tree::{Index, PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The frame came with the thread; it is nobody's to leave.
const INHERITED: u32 = 1 << 8;
/// A training step that marey opened by itself.
const STEP: u32 = 1 << 9;
/// The step ended while scopes inside it were open; it closes when they do.
const CLOSING: u32 = 1 << 10;
/// The frame was entered before the fork that made this process; leaving it records nothing.
const FOREIGN: u32 = 1 << 11;
/// What is launched directly inside the frame bears its name: a launch hook entered it.
const LAUNCHES: u32 = 1 << 12;

/// A thread's place in both of its trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shadow: u32,
    pub(crate) python: u32,
}

impl Place {
    /// The same place, below the innermost Python frame if there is one.
    #[inline(always)]
    pub(crate) fn below_frame(self, python_leaf: u32) -> Self {
        let python = if python_leaf > PYTHON_ROOT { python_leaf } else { self.python };
        Self { python, ..self }
    }
}

const ROOTS: Place = Place { shadow: SHADOW_ROOT, python: PYTHON_ROOT };

/// What only the owner touches.
pub(crate) struct Local {
    pub(crate) tree: Arc<ThreadTree>,
    index: Index,
    /// Frames on the stack, inherited ones included.
    depth: u32,
    inherited: u32,
    states: Vec<State>,
    /// Operators inside the one in progress; they are not recorded.
    nested_operators: u32,
    launching: launch::Launching,
    calls: call::OpenCalls,
    /// Whether the thread takes the main thread's stack again whenever its own is empty.
    follows_main: bool,
    followed: Option<inherit::Followed>,
    foreign: task::ForeignPlace,
    /// Kept for its memory.
    path: Vec<u32>,
    next_id: u64,
}

struct State {
    name: u32,
    place: Place,
    sessions: u64,
    start_ticks: u64,
}

thread_local! {
    static LOCAL: Cell<*mut Local> = const { Cell::new(std::ptr::null_mut()) };
    static GUARD: Guard = const { Guard };
}

/// Marks a thread whose recorder is gone.
const GONE: *mut Local = std::ptr::without_provenance_mut(1);

/// Its destructor runs at the thread's end.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut local) = take_local(GONE) {
            local.unwind();
            trace::thread_ended(&local.tree);
            device::thread_ended(&local.tree);
            registry::ended(&local.tree);
        }
    }
}

#[expect(unsafe_code, reason = "takes back the box behind the thread-local pointer")]
fn take_local(next: *mut Local) -> Option<Box<Local>> {
    let pointer = LOCAL.replace(next);
    if pointer.is_null() || pointer == GONE {
        return None;
    }
    // SAFETY: `register` put a leaked box there, and the pointer has just been replaced.
    Some(unsafe { Box::from_raw(pointer) })
}

/// Runs one event on this thread's recorder, or drops it (and counts that) if the thread has none
/// any more or is inside an event already.
#[inline(always)]
#[expect(unsafe_code, reason = "the thread-local pointer is the thread's own")]
pub(crate) fn event<T: Default>(run: impl FnOnce(&mut Local) -> T) -> T {
    let mut pointer = LOCAL.get();
    if !is_current(pointer) {
        pointer = renew(pointer);
        if pointer.is_null() {
            return T::default();
        }
    }
    // SAFETY: current, so it is the thread's own box.
    let tree = unsafe { tree_of(pointer) };
    if !tree.seq.begin() {
        losses::count(LossCause::Reentrant);
        return T::default();
    }
    // SAFETY: as above, and no other thread has the pointer. `begin` succeeded, so this thread is in
    // no other event: no other reference to the local exists.
    let value = run(unsafe { &mut *pointer });
    tree.seq.end();
    value
}

/// Whether the pointer is a recorder with a tree of this epoch.
#[inline(always)]
#[expect(unsafe_code, reason = "the thread-local pointer is the thread's own")]
fn is_current(pointer: *const Local) -> bool {
    if pointer.is_null() || std::ptr::eq(pointer, GONE) {
        return false;
    }
    // SAFETY: neither null nor the mark, so it is the thread's own box.
    unsafe { tree_of(pointer) }.epoch == CONTROL.epoch.load(Ordering::Relaxed)
}

/// Gives the thread a recorder, in place of one whose sessions are all gone; null if it may have none
/// any more.
#[cold]
#[inline(never)]
fn renew(pointer: *mut Local) -> *mut Local {
    if pointer == GONE {
        losses::count(LossCause::ThreadGone);
        return std::ptr::null_mut();
    }
    if is_in_event() {
        // A signal handler: the recorder below it must stay.
        losses::count(LossCause::Reentrant);
        return std::ptr::null_mut();
    }
    if let Some(local) = take_local(std::ptr::null_mut()) {
        registry::forget(&local.tree);
    }
    register();
    LOCAL.get()
}

/// The shared part of a thread's recorder, which may be looked at also in the middle of an event.
///
/// # Safety
/// `pointer` is the box that `register` leaked on this thread, which lives until the thread-local
/// destructor takes it back.
#[inline(always)]
#[expect(unsafe_code, reason = "the thread-local pointer is the thread's own")]
unsafe fn tree_of<'a>(pointer: *const Local) -> &'a ThreadTree {
    // SAFETY: as the caller promises. The field is never written after the box was made, and behind
    // the Arc are atomics.
    unsafe {
        let tree = &raw const (*pointer).tree;
        &*Arc::as_ptr(&*tree)
    }
}

/// Whether the calling thread is in the middle of an event. For signal handlers.
#[expect(unsafe_code, reason = "the thread-local pointer is the thread's own")]
pub(crate) fn is_in_event() -> bool {
    let pointer = LOCAL.get();
    if pointer.is_null() || pointer == GONE {
        return false;
    }
    // SAFETY: neither null nor the mark, so it is the thread's own box.
    unsafe { tree_of(pointer) }.seq.is_inside()
}

#[cold]
#[inline(never)]
fn register() {
    // Fails while the thread's destructors run: then there would be no end to see.
    if GUARD.try_with(|_| ()).is_err() {
        losses::count(LossCause::ThreadGone);
        return;
    }
    let (tree, first_id) = registry::started();
    let mut local = Box::new(Local::new(tree, first_id));
    local.begin_below_main();
    LOCAL.set(Box::into_raw(local));
}

impl Local {
    fn new(tree: Arc<ThreadTree>, first_id: u64) -> Self {
        Self {
            follows_main: false,
            followed: None,
            foreign: task::ForeignPlace::NONE,
            path: Vec::new(),
            tree,
            index: Index::new(recorder::max_nodes()),
            depth: 0,
            inherited: 0,
            states: Vec::with_capacity(8),
            nested_operators: 0,
            launching: launch::Launching::NONE,
            calls: call::OpenCalls::NONE,
            next_id: first_id,
        }
    }

    /// A fresh scope id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}

/// What entering and leaving one scope costs here, in nanoseconds. Measured on a tree that nobody
/// sees, with the sessions that are active now: the median of many short runs, so that neither cold
/// memory nor a thread that loses the processor counts.
pub(crate) fn measure_scope_nanos() -> f64 {
    const RUNS: usize = 33;
    const SCOPES: u32 = 64;
    let mut local = Local::new(Arc::new(ThreadTree::new()), 0);
    if trace::is_on() {
        // Nobody takes it over: it must hold what a run logs in every kind of session.
        local.tree.make_log(Log::with_records(4 * u64::from(SCOPES)));
    }
    let mut run = || {
        let began = clock::ticks();
        for _ in 0..SCOPES {
            local.tree.seq.begin();
            local.enter(names::LOST, NodeKind::Scope, PYTHON_ROOT);
            local.tree.seq.end();
            local.tree.seq.begin();
            local.exit(names::LOST);
            local.tree.seq.end();
        }
        let nanos = clock::nanos(clock::ticks().saturating_sub(began));
        local.tree.log().map(Log::discard);
        nanos
    };
    // The first make what the others find.
    (0..RUNS / 4).for_each(|_| _ = run());
    let mut nanos: [u64; RUNS] = std::array::from_fn(|_| run());
    nanos.sort_unstable();
    nanos[RUNS / 2] as f64 / f64::from(SCOPES)
}
