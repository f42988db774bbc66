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
mod usual;
mod values;
mod word;

pub use self::call::Interface;
pub(crate) use self::entry::Entry;
pub(crate) use self::inherit::{is_running_entry, restart_after_fork};

use crate::api;
use crate::clock;
use crate::control::CONTROL;
use crate::device;
use crate::handler_slot::HandlerSlot;
use crate::losses;
use crate::names;
use crate::recorder;
use crate::registry;
use crate::thread::ThreadTree;
use crate::trace::{self, Log};
use crate::tree::{Index, PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
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
    /// Frames that came with the thread, the outermost ones of its stack.
    inherited: u32,
    states: Vec<State>,
    /// Operators on the stack that did not come with the thread.
    open_operators: u32,
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
}

struct State {
    name: u32,
    place: Place,
    sessions: u64,
    start_ticks: u64,
}

/// The calling thread's tree, for signal handlers.
static TREE: HandlerSlot<ThreadTree> = HandlerSlot::new();

thread_local! {
    static GUARD: Guard = const { Guard };
}

/// Its destructor runs at the thread's end.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut local) = take_local() {
            local.unwind();
            trace::thread_ended(&local.tree);
            device::thread_ended(&local.tree);
            registry::ended(&local.tree);
        }
    }
}

/// Makes a recorder that of the calling thread.
fn give(local: Box<Local>) {
    let tree = Arc::clone(&local.tree);
    tree.owner.store(Box::into_raw(local), Ordering::Relaxed);
    TREE.set(Arc::as_ptr(&tree));
    word::set(Arc::as_ptr(&tree));
}

/// Takes the recorder away from the calling thread.
#[expect(unsafe_code, reason = "takes back the box that `give` gave away")]
fn take_local() -> Option<Box<Local>> {
    let tree = thread_tree()?;
    word::set(std::ptr::null());
    TREE.set(std::ptr::null());
    // SAFETY: `give` put the box there with the tree, and that has just been taken away.
    Some(unsafe { Box::from_raw(tree.owner.load(Ordering::Relaxed)) })
}

/// The shared part of the calling thread's recorder, which may be looked at also in the middle of an event.
#[inline(always)]
#[expect(unsafe_code, reason = "the thread-local pointer is the thread's own")]
fn thread_tree<'a>() -> Option<&'a ThreadTree> {
    // SAFETY: null, or the tree of the box that `give` gave away, which holds it until the thread ends
    // or, outside of events, begins anew.
    unsafe { word::get().as_ref() }
}

/// Runs one event on this thread's recorder, or drops it (and counts that) if the thread has none
/// any more or is inside an event already.
#[inline(always)]
#[expect(unsafe_code, reason = "the pointer is the thread's own")]
pub(crate) fn event<T: Default>(run: impl FnOnce(&mut Local) -> T) -> T {
    let Some(tree) = thread_tree().filter(is_current).or_else(renew) else { return T::default() };
    if !tree.seq.begin() {
        losses::count(LossCause::Reentrant);
        return T::default();
    }
    // SAFETY: the box of the thread that the tree is of, and no other thread has the pointer. `begin`
    // succeeded, so this thread is in no other event: no other reference to the local exists.
    let value = run(unsafe { &mut *tree.owner.load(Ordering::Relaxed) });
    tree.seq.end();
    value
}

/// Runs an event on this thread's tree if it turns out to be [usual]; `None` if it does not, which has
/// changed nothing.
#[inline(always)]
fn usual_event(run: impl FnOnce(&ThreadTree) -> Option<u64>) -> Option<u64> {
    let tree = thread_tree()?;
    if !tree.seq.begin() {
        return None;
    }
    let value = run(tree);
    if value.is_some() {
        tree.seq.end();
    } else {
        tree.seq.cancel();
    }
    value
}

/// Enters a scope of a `NodeKind`; returns its id, 0 when nothing is recorded.
#[inline(always)]
pub(crate) fn enter(name: u32, kind: u8) -> u64 {
    match usual_event(|tree| tree.enter_usual(name, kind)) {
        Some(id) => id,
        None => enter_otherwise(name, kind),
    }
}

#[inline(never)]
fn enter_otherwise(name: u32, kind: u8) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = api::python_leaf();
    event(|local| local.enter(name, NodeKind::from_u8(kind), leaf))
}

/// Leaves the innermost scope with that name (0: with any); returns its id, 0 when there is none.
#[inline(always)]
pub(crate) fn exit(name: u32) -> u64 {
    let counter = clock::counter();
    match usual_event(|tree| tree.exit_usual(name, counter)) {
        Some(id) => id,
        None => exit_otherwise(name, counter),
    }
}

#[inline(never)]
fn exit_otherwise(name: u32, counter: u64) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let now = clock::ticks_at(counter);
    event(|local| local.exit(name, now))
}

/// Whether a tree is of this epoch.
#[inline(always)]
fn is_current(tree: &&ThreadTree) -> bool {
    tree.epoch == CONTROL.epoch.load(Ordering::Relaxed)
}

/// Gives the thread a recorder, in place of one whose sessions are all gone; none if it may have none
/// any more.
#[cold]
#[inline(never)]
fn renew<'a>() -> Option<&'a ThreadTree> {
    if is_in_event() {
        // A signal handler: the recorder below it must stay.
        losses::count(LossCause::Reentrant);
        return None;
    }
    if let Some(local) = take_local() {
        registry::forget(&local.tree);
    }
    register();
    thread_tree()
}

/// Whether the calling thread is in the middle of an event; async-signal-safe.
#[expect(unsafe_code, reason = "the thread's own pointer")]
pub(crate) fn is_in_event() -> bool {
    // SAFETY: null, or the tree of the thread's box, which takes the pointer away before it goes.
    unsafe { TREE.get().as_ref() }.is_some_and(|tree| tree.seq.is_inside())
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
    give(local);
}

impl Local {
    fn new(tree: Arc<ThreadTree>, first_id: u64) -> Self {
        stack::lay_bottom(&tree);
        tree.begin_ids(first_id);
        Self {
            follows_main: false,
            followed: None,
            foreign: task::ForeignPlace::NONE,
            path: Vec::new(),
            tree,
            index: Index::new(recorder::max_nodes()),
            inherited: 0,
            states: Vec::with_capacity(8),
            open_operators: 0,
            nested_operators: 0,
            launching: launch::Launching::NONE,
            calls: call::OpenCalls::NONE,
        }
    }

    /// A fresh scope id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.tree.next_id()
    }
}

/// What entering and leaving one scope costs here, in nanoseconds. Measured on a tree that nobody
/// sees, with the sessions that are active now: the median of many short runs, so that neither cold
/// memory nor a thread that loses the processor counts.
pub(crate) fn measure_scope_nanos() -> f64 {
    const RUNS: usize = 33;
    const SCOPES: u32 = 64;
    let tree = Arc::new(ThreadTree::new());
    let mut local = Local::new(Arc::clone(&tree), 0);
    if trace::is_on() {
        // Nobody takes it over: it must hold what a run logs in every kind of session.
        local.tree.make_log(Log::with_records(4 * u64::from(SCOPES)));
    }
    let mut run = || {
        let began = clock::ticks();
        for _ in 0..SCOPES {
            local.tree.seq.begin();
            if tree.enter_usual(names::LOST, NodeKind::Scope as u8).is_none() {
                local.enter(names::LOST, NodeKind::Scope, PYTHON_ROOT);
            }
            local.tree.seq.end();
            local.tree.seq.begin();
            let now = clock::counter();
            if tree.exit_usual(names::LOST, now).is_none() {
                local.exit(names::LOST, clock::ticks_at(now));
            }
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
