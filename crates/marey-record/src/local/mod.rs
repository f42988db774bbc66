//! The event path: what a thread does when it enters and leaves scopes.
//!
//! Everything here runs on the thread that owns the tree. An event is bracketed by
//! [`Seq::begin`](crate::seq::Seq::begin) and `end`. Inside the bracket the thread reads the global
//! masks once, updates its stack, and writes to the columns of the active sessions.
//!
//! This file contains the thread's recorder and the bracket. [`fast_path`] handles the common
//! events, [`slow_path`] all others. Both work on the frames of the [`stack`].

mod call;
mod counters;
mod entry;
mod fast_path;
mod inherit;
mod inputs;
mod launch;
mod slow_path;
mod stack;
mod steps;
mod task;
mod tls;
mod values;

pub use self::call::CudaApi;
pub(crate) use self::entry::CompletedEntry;
pub(crate) use self::inherit::{is_entered_by_program, restart_after_fork};
pub use self::inputs::OperatorCall;
pub(crate) use self::steps::{completed as completed_steps, is_slow as is_step_slow};

use crate::api;
use crate::clock;
use crate::control::CONTROL;
use crate::device;
use crate::handler_slot::HandlerSlot;
use crate::losses;
use crate::names;
use crate::os;
use crate::registry;
use crate::scope_frame::OpenScope;
use crate::settings;
use crate::thread::ThreadTree;
use crate::trace::{self, Log};
use crate::tree::{NodeIndex, PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::setting::Setting;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Flag: the frame was copied from the main thread, and no exit matches it.
const INHERITED: u32 = 1 << 8;
/// Flag: the frame is a training step that marey opened.
const STEP: u32 = 1 << 9;
/// Flag: the step has ended while scopes inside it were open. It is exited after the last of them.
const CLOSING: u32 = 1 << 10;
/// Flag: the frame was entered before the fork that made this process. Its exit records nothing.
const FORKED: u32 = 1 << 11;
/// Flag: a launch hook entered the frame, so kernels launched directly inside take its name.
const NAMES_KERNELS: u32 = 1 << 12;
/// Flag: the frame may end after the scopes around it, which then leave it open outside of the
/// stack.
const OUTLIVES: u32 = 1 << 13;

/// The number of scopes that a thread keeps open outside of its stack.
const MAX_OUTLIVING: usize = 1024;

/// A node in each of a thread's two trees: paths made of scopes, and paths made of Python frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodePair {
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
}

impl NodePair {
    /// Returns the same nodes, with the innermost Python frame as the Python node if there is one.
    #[inline(always)]
    pub(crate) fn with_python_leaf(self, python_leaf: u32) -> Self {
        let python_node = if python_leaf > PYTHON_ROOT { python_leaf } else { self.python_node };
        Self { python_node, ..self }
    }
}

pub(crate) const ROOTS: NodePair = NodePair { shadow_node: SHADOW_ROOT, python_node: PYTHON_ROOT };

/// The part of a thread's recorder that only its thread accesses.
pub(crate) struct Local {
    pub(crate) tree: Arc<ThreadTree>,
    index: NodeIndex,
    /// The number of inherited frames, which are the outermost ones of the stack.
    inherited_frames: u32,
    open_states: Vec<OpenState>,
    /// The number of operators of launch hooks on the stack, inherited frames excluded.
    open_operators: u32,
    /// The depth of operators inside the one in progress, which are not recorded.
    nested_operators: u32,
    open_launch: launch::OpenLaunch,
    open_calls: call::OpenCalls,
    /// Whether the thread copies the main thread's stack again whenever its own is empty.
    follows_main: bool,
    followed: Option<inherit::FollowedThread>,
    copied_nodes: task::CopiedNodes,
    open_counts: counters::OpenCounts,
    /// Scopes that are open although a scope around them has ended.
    outliving_scopes: Vec<OpenScope>,
    /// The part in a backward pass of the operator that is being exited.
    autograd: Option<AutogradCall>,
    /// A buffer, kept between calls to reuse its allocation.
    path: Vec<u32>,
}

/// The part that an operator has in a backward pass. A forward operator made a node of the autograd
/// graph; a backward operator is the call of such a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutogradCall {
    /// The number of the node. The thread that ran the forward operator has assigned it.
    pub sequence: u64,
    /// For the call of a node, the operating system's id of that thread; 0 for a forward operator.
    pub forward_os_id: u64,
}

struct OpenState {
    name_id: u32,
    nodes: NodePair,
    sessions: u64,
    start_ticks: u64,
}

/// The calling thread's tree, readable by signal handlers.
static TREE: HandlerSlot<ThreadTree> = HandlerSlot::new();

thread_local! {
    static THREAD_END_GUARD: ThreadEndGuard = const { ThreadEndGuard };
}

/// A thread-local value whose destructor runs when the thread ends.
struct ThreadEndGuard;

impl Drop for ThreadEndGuard {
    fn drop(&mut self) {
        if let Some(mut local) = uninstall() {
            local.exit_all_scopes();
            trace::end_thread(&local.tree);
            device::end_thread(&local.tree);
            registry::unregister(&local.tree);
        }
    }
}

/// Installs a recorder as the one of the calling thread.
fn install(local: Box<Local>) {
    let tree = Arc::clone(&local.tree);
    tree.local.store(Box::into_raw(local), Ordering::Relaxed);
    TREE.set(Arc::as_ptr(&tree));
    tls::set(Arc::as_ptr(&tree));
}

/// Removes the calling thread's recorder and returns it.
#[expect(unsafe_code, reason = "takes back the box that `install` gave away")]
fn uninstall() -> Option<Box<Local>> {
    let tree = thread_tree()?;
    tls::set(std::ptr::null());
    TREE.set(std::ptr::null());
    // SAFETY: `install` stored the pointer of a box together with the tree, and the tree has just
    // been removed, so the box is taken back once.
    Some(unsafe { Box::from_raw(tree.local.load(Ordering::Relaxed)) })
}

/// Returns the shared part of the calling thread's recorder. May be called in the middle of an
/// event.
#[inline(always)]
#[expect(unsafe_code, reason = "the thread-local pointer is the thread's own")]
fn thread_tree<'a>() -> Option<&'a ThreadTree> {
    // SAFETY: null, or the tree of the box that `install` leaked. The box keeps the tree alive
    // until the thread ends or, outside of events, gets a new recorder.
    unsafe { tls::get().as_ref() }
}

/// Returns the operating system's id of the calling thread, 0 if it has recorded nothing yet.
pub fn thread_os_id() -> u64 {
    thread_tree().map_or(0, |tree| tree.os_id)
}

/// Runs one event on this thread's recorder. Drops and counts the event if the thread can have no
/// recorder any more, or is already inside an event.
#[inline(always)]
#[expect(unsafe_code, reason = "the pointer is the thread's own")]
pub(crate) fn event<T: Default>(run: impl FnOnce(&mut Local) -> T) -> T {
    let Some(tree) = thread_tree().filter(is_current).or_else(renew_recorder) else {
        return T::default();
    };
    if !tree.seq.begin() {
        losses::count(LossCause::Reentrant);
        return T::default();
    }
    // SAFETY: the pointer is to the box of the tree's thread, which is this one, and no other
    // thread has it. `begin` succeeded, so this thread is in no other event and no other reference
    // exists.
    let local = unsafe { &mut *tree.local.load(Ordering::Relaxed) };
    if tree.remote_exits.are_waiting() {
        local.exit_ended_remotely();
    }
    let value = run(local);
    tree.seq.end();
    value
}

/// Runs an event on the [fast path](fast_path). Returns `None`, with nothing changed, if the event
/// needs the slow path.
#[inline(always)]
fn fast_event(run: impl FnOnce(&ThreadTree) -> Option<u64>) -> Option<u64> {
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

/// Enters a scope of a `NodeKind`. Returns its id, or 0 when nothing is recorded.
#[inline(always)]
pub(crate) fn enter(name_id: u32, kind: u8) -> u64 {
    match fast_event(|tree| tree.enter_fast(name_id, kind)) {
        Some(id) => id,
        None => enter_slow(name_id, kind),
    }
}

#[inline(never)]
fn enter_slow(name_id: u32, kind: u8) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = api::python_leaf();
    event(|local| local.enter(name_id, NodeKind::from_u8(kind), leaf))
}

/// Exits the innermost scope with that name (0: any name). Returns its id, or 0 when there is none.
#[inline(always)]
pub fn exit(name_id: u32) -> u64 {
    exit_at(name_id, clock::counter())
}

/// Enters a scope of a `NodeKind`. Returns when it began, in ticks, also when nothing is recorded.
pub fn enter_timed(name_id: u32, kind: u8) -> u64 {
    let is_recorded = enter(name_id, kind) != 0;
    let start_ticks =
        if is_recorded { thread_tree().and_then(ThreadTree::top_start_ticks) } else { None };
    start_ticks.unwrap_or_else(clock::ticks)
}

/// Exits the innermost scope with that name. Returns when it ended, in ticks, also when there is
/// none.
pub fn exit_timed(name_id: u32) -> u64 {
    let counter = clock::counter();
    exit_at(name_id, counter);
    clock::ticks_from_counter(counter)
}

/// Exits a scope as [`exit`] does. `counter` was just read.
#[inline(always)]
fn exit_at(name_id: u32, counter: u64) -> u64 {
    match fast_event(|tree| tree.exit_fast(name_id, counter)) {
        Some(id) => id,
        None => exit_slow(name_id, counter),
    }
}

#[inline(never)]
fn exit_slow(name_id: u32, counter: u64) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let now_ticks = clock::ticks_from_counter(counter);
    event(|local| local.exit(name_id, now_ticks))
}

/// Exits the scope called `name_id` with this id, and the scopes inside it, on the thread that has
/// entered it.
#[inline(always)]
pub(crate) fn exit_anywhere(name_id: u32, scope_id: u64) {
    let counter = clock::counter();
    let exit_top = |tree: &ThreadTree| {
        if tree.top_id() == scope_id { tree.exit_fast(name_id, counter) } else { None }
    };
    if fast_event(exit_top).is_none() {
        exit_anywhere_slow(scope_id, counter);
    }
}

/// Exits the scopes of the calling thread that other threads have ended.
pub(crate) fn exit_ended_remotely() {
    if thread_tree().is_some_and(|tree| tree.remote_exits.are_waiting()) {
        event(|_| ());
    }
}

#[inline(never)]
fn exit_anywhere_slow(scope_id: u64, counter: u64) {
    if !CONTROL.is_live() || scope_id == 0 {
        return;
    }
    let now_ticks = clock::ticks_from_counter(counter);
    // If the scope is of this thread and not open, the scope around it has ended it.
    let is_done =
        event(|local| local.exit_with_id(scope_id, now_ticks) != 0 || local.tree.owns_id(scope_id));
    if !is_done {
        registry::exit_remotely(scope_id, now_ticks);
    }
}

/// Whether a tree belongs to the current epoch.
#[inline(always)]
fn is_current(tree: &&ThreadTree) -> bool {
    tree.epoch == CONTROL.epoch.load(Ordering::Relaxed)
}

/// Gives the thread a new recorder, in place of one from an older epoch. Returns `None` if the
/// thread can have none any more.
#[cold]
#[inline(never)]
fn renew_recorder<'a>() -> Option<&'a ThreadTree> {
    if is_in_event() {
        // A signal handler has interrupted an event. The recorder in use must stay.
        losses::count(LossCause::Reentrant);
        return None;
    }
    if let Some(local) = uninstall() {
        registry::remove(&local.tree);
    }
    register_thread();
    thread_tree()
}

/// Whether the calling thread is in the middle of an event; async-signal-safe.
#[expect(unsafe_code, reason = "the thread's own pointer")]
pub(crate) fn is_in_event() -> bool {
    // SAFETY: null, or the tree of the thread's box; `uninstall` clears the pointer before the box
    // is freed.
    unsafe { TREE.get().as_ref() }.is_some_and(|tree| tree.seq.is_inside())
}

#[cold]
#[inline(never)]
fn register_thread() {
    // This fails while the thread's destructors run, when its end can no longer be observed. The
    // end of the main thread need not be observed, because the process ends with it. Destructors of
    // static objects may thus still record.
    if THREAD_END_GUARD.try_with(|_| ()).is_err()
        && os::thread_id() != u64::from(std::process::id())
    {
        losses::count(LossCause::ThreadGone);
        return;
    }
    let (tree, first_id) = registry::register();
    let mut local = Box::new(Local::new(tree, first_id));
    local.inherit_main_stack();
    install(local);
}

impl Local {
    fn new(tree: Arc<ThreadTree>, first_id: u64) -> Self {
        stack::init_bottom(&tree);
        tree.set_next_id(first_id);
        Self {
            follows_main: false,
            followed: None,
            copied_nodes: task::CopiedNodes::NONE,
            open_counts: counters::OpenCounts::default(),
            outliving_scopes: Vec::new(),
            path: Vec::new(),
            autograd: None,
            tree,
            index: NodeIndex::new(settings::whole(Setting::MaxNodes) as u32),
            inherited_frames: 0,
            open_states: Vec::with_capacity(8),
            open_operators: 0,
            nested_operators: 0,
            open_launch: launch::OpenLaunch::NONE,
            open_calls: call::OpenCalls::NONE,
        }
    }

    /// Returns a new scope id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.tree.next_id()
    }
}

/// Measures the cost of entering and leaving one scope, in nanoseconds, with the sessions that are
/// active now, on a tree that no reader sees. Returns the median of many short runs, so that
/// neither cold memory nor a preempted thread distorts it.
pub(crate) fn measure_scope_nanos() -> f64 {
    const RUNS: usize = 33;
    const SCOPES: u32 = 64;
    let tree = Arc::new(ThreadTree::new());
    let mut local = Local::new(Arc::clone(&tree), 0);
    if trace::has_sessions() {
        // No thread drains this log, so it must have room for one run in every kind of session.
        local.tree.create_log(Log::with_records(4 * u64::from(SCOPES)));
    }
    let mut run = || {
        let start_ticks = clock::ticks();
        for _ in 0..SCOPES {
            local.tree.seq.begin();
            if tree.enter_fast(names::LOST_NAME_ID, NodeKind::Scope as u8).is_none() {
                local.enter(names::LOST_NAME_ID, NodeKind::Scope, PYTHON_ROOT);
            }
            local.tree.seq.end();
            local.tree.seq.begin();
            let now = clock::counter();
            if tree.exit_fast(names::LOST_NAME_ID, now).is_none() {
                local.exit(names::LOST_NAME_ID, clock::ticks_from_counter(now));
            }
            local.tree.seq.end();
        }
        let nanos = clock::nanos(clock::ticks().saturating_sub(start_ticks));
        local.tree.log().map(Log::discard);
        nanos
    };
    // Warm-up: the first runs create the node and its statistics.
    (0..RUNS / 4).for_each(|_| _ = run());
    let mut nanos: [u64; RUNS] = std::array::from_fn(|_| run());
    nanos.sort_unstable();
    nanos[RUNS / 2] as f64 / f64::from(SCOPES)
}
