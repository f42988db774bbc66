//! The event path: what a thread does when it enters and leaves scopes.
//!
//! Everything here runs on the thread that owns the tree. An event is bracketed by
//! [`Seq::begin`](crate::seq::Seq::begin) and `end`; inside, the thread reads the global masks once,
//! moves its stack, and writes to the columns of the sessions that are concerned.

use crate::clock;
use crate::control::{CONTROL, bit, slots};
use crate::losses;
use crate::names;
use crate::recorder;
use crate::thread::{Frame, OpenFrame, ThreadTree};
use crate::tree::{Index, Key, PYTHON_ROOT, SHADOW_ROOT};
use marey_model::context::{NodeKind, STEP_NAME};
use marey_model::loss::LossCause;
use marey_model::metric::{MetricError, MetricValue};
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

/// A thread's place in both of its trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shadow: u32,
    pub(crate) python: u32,
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
    epoch: u64,
    /// Whether the thread takes the main thread's stack again whenever its own is empty.
    follows_main: bool,
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
            recorder::thread_ended(&local.tree);
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
    if pointer.is_null() || pointer == GONE {
        if !register(pointer) {
            return T::default();
        }
        pointer = LOCAL.get();
    }
    // SAFETY: neither null nor the mark, so it is the thread's own box.
    if !unsafe { tree_of(pointer) }.seq.begin() {
        losses::count(LossCause::Reentrant);
        return T::default();
    }
    // SAFETY: as above, and no other thread has the pointer. `begin` succeeded, so this thread is in
    // no other event: no other reference to the local exists.
    let local = unsafe { &mut *pointer };
    if local.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
        local.tree.seq.end();
        return begin_anew(run);
    }
    let value = run(local);
    local.tree.seq.end();
    value
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

/// The thread's tree is of an older epoch: whatever it holds belongs to sessions that are gone.
#[cold]
#[inline(never)]
fn begin_anew<T: Default>(run: impl FnOnce(&mut Local) -> T) -> T {
    if let Some(local) = take_local(std::ptr::null_mut()) {
        recorder::forget_thread(&local.tree);
    }
    event(run)
}

#[cold]
#[inline(never)]
fn register(pointer: *mut Local) -> bool {
    if pointer == GONE {
        losses::count(LossCause::ThreadGone);
        return false;
    }
    // Fails while the thread's destructors run: then there would be no end to see.
    if GUARD.try_with(|_| ()).is_err() {
        LOCAL.set(GONE);
        losses::count(LossCause::ThreadGone);
        return false;
    }
    let (tree, first_id) = recorder::thread_started();
    let mut local = Box::new(Local::new(tree, first_id));
    local.inherit();
    LOCAL.set(Box::into_raw(local));
    true
}

/// Whether this is a worker of PyTorch's autograd engine, which runs the backward pass of whatever
/// the main thread is in, again and again.
#[expect(unsafe_code, reason = "std does not tell the name of a thread it did not start")]
fn thread_is_autograd() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer, which has 16.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    !failed && name.starts_with(b"pt_autograd")
}

impl Local {
    fn new(tree: Arc<ThreadTree>, first_id: u64) -> Self {
        Self {
            tree,
            index: Index::new(recorder::max_nodes()),
            depth: 0,
            inherited: 0,
            states: Vec::with_capacity(8),
            nested_operators: 0,
            epoch: CONTROL.epoch.load(Ordering::Relaxed),
            follows_main: thread_is_autograd(),
            next_id: first_id,
        }
    }

    /// Enters a scope; returns its id. `python_leaf` is the innermost Python frame's node, where a
    /// session asks for such paths.
    #[inline(always)]
    pub(crate) fn enter(&mut self, name: u32, kind: NodeKind, python_leaf: u32) -> u64 {
        let active = CONTROL.active.load(Ordering::Relaxed);
        let python = active & CONTROL.python.load(Ordering::Relaxed);
        if self.depth == self.inherited && self.follows_main {
            self.inherit();
        }
        let mut above = self.place();
        let state = self.states.last().map_or(0, |state| state.name);
        let mut own_state = state;
        if kind == NodeKind::Operator && state != 0 {
            above = self.below(above, state, NodeKind::State, active, python);
            own_state = 0;
        }
        above.python = if python_leaf > PYTHON_ROOT { python_leaf } else { above.python };
        let place = self.below(above, name, kind, active, python);
        let id = self.next_id;
        self.next_id += 1;
        self.push(&OpenFrame {
            name,
            kind_flags: kind as u32,
            shadow_node: place.shadow,
            python_node: place.python,
            state: own_state,
            sessions: active,
            start_ticks: clock::ticks(),
            child_nanos: 0,
            id,
        });
        id
    }

    /// Leaves the innermost scope called `name` (0: whatever it is called); returns its id, or 0
    /// when there is none.
    #[inline(always)]
    pub(crate) fn exit(&mut self, name: u32) -> u64 {
        let now = clock::ticks();
        let Some(top) = self.top_own() else { return unmatched() };
        if top.kind_flags & (STEP | FOREIGN) == 0 && (name == 0 || top.name == name) {
            return self.leave(&top, now);
        }
        self.exit_below_top(name, now)
    }

    /// The thread's place: the innermost scope, or the roots.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        self.top().map_or(ROOTS, |top| place_of(&top))
    }

    /// Finds or makes a child below `place`, in the trees of the sessions concerned.
    #[inline(always)]
    pub(crate) fn below(
        &mut self,
        place: Place,
        name: u32,
        kind: NodeKind,
        active: u64,
        python: u64,
    ) -> Place {
        let shadow = active & !python;
        let mut child = place;
        if shadow != 0 {
            child.shadow = self.child(place.shadow, name, kind, shadow);
        }
        if python != 0 {
            child.python = self.child(place.python, name, kind, python);
        }
        child
    }

    /// Finds or makes one node; `<lost>` below the root when the tree is full.
    #[inline(always)]
    pub(crate) fn child(&mut self, parent: u32, name: u32, kind: NodeKind, sessions: u64) -> u32 {
        let key = Key { parent, name, kind, sessions };
        match self.index.child(&self.tree.nodes, &key) {
            Some(node) => node,
            None => self.lost(parent),
        }
    }

    #[cold]
    fn lost(&mut self, parent: u32) -> u32 {
        losses::count(LossCause::Nodes);
        let root = if self.is_python(parent) { PYTHON_ROOT } else { SHADOW_ROOT };
        let key =
            Key { parent: root, name: names::LOST, kind: NodeKind::Scope, sessions: u64::MAX };
        self.index.child_beyond_limit(&self.tree.nodes, &key).unwrap_or(root)
    }

    fn is_python(&self, mut node: u32) -> bool {
        while node > PYTHON_ROOT {
            node = self.tree.nodes.get(node).map_or(SHADOW_ROOT, super::tree::Node::parent);
        }
        node == PYTHON_ROOT
    }

    #[inline(always)]
    fn push(&mut self, frame: &OpenFrame) {
        let Some(slot) = self.tree.frames.ensure(self.depth) else { return };
        slot.set(frame);
        self.depth += 1;
        self.tree.depth.store(self.depth, Ordering::Release);
    }

    /// The innermost frame.
    #[inline(always)]
    fn top(&self) -> Option<OpenFrame> {
        self.frame(self.depth.checked_sub(1)?)
    }

    #[inline(always)]
    fn frame(&self, at: u32) -> Option<OpenFrame> {
        self.tree.frames.get(at).map(Frame::copy)
    }

    /// The innermost frame, if it is the thread's to leave.
    #[inline(always)]
    fn top_own(&self) -> Option<OpenFrame> {
        if self.depth <= self.inherited {
            return None;
        }
        self.top()
    }

    /// Takes the innermost frame off and records it.
    #[inline(always)]
    fn leave(&mut self, top: &OpenFrame, now: u64) -> u64 {
        let nanos = clock::nanos(now.saturating_sub(top.start_ticks));
        let own = nanos.saturating_sub(top.child_nanos);
        self.record(place_of(top), top.sessions, nanos, own);
        self.shrink(nanos);
        top.id
    }

    fn pop(&mut self, now: u64) -> u64 {
        self.top_own().map_or(0, |top| self.leave(&top, now))
    }

    /// Forgets the innermost frame, whose time goes to its parent's children.
    #[inline(always)]
    fn shrink(&mut self, nanos: u64) {
        self.depth -= 1;
        self.tree.depth.store(self.depth, Ordering::Release);
        let Some(parent) = self.depth.checked_sub(1).and_then(|at| self.tree.frames.get(at)) else {
            return;
        };
        parent.add_child_nanos(nanos);
        if parent.copy().kind_flags & CLOSING != 0 {
            self.close_step();
        }
    }

    /// Adds an entry to the columns of the sessions that saw it begin and are active now.
    #[inline(always)]
    pub(crate) fn record(&self, place: Place, sessions: u64, nanos: u64, own: u64) {
        let python = CONTROL.python.load(Ordering::Relaxed);
        for slot in slots(sessions & CONTROL.active.load(Ordering::Relaxed)) {
            let node = if python & bit(slot) == 0 { place.shadow } else { place.python };
            if let Some(column) = self.tree.column(slot) {
                column.record(node, nanos, own);
            }
        }
    }

    /// Leaves a scope that is not the innermost one, and those inside it that nobody has left: a step
    /// that marey opened, forgotten exits, scopes of another greenlet.
    #[cold]
    #[inline(never)]
    fn exit_below_top(&mut self, name: u32, now: u64) -> u64 {
        let own = self.inherited..self.depth;
        let is_called = |frame: OpenFrame| name == 0 || frame.name == name;
        let wanted =
            own.rev().find(|&at| !self.is_step(at) && self.frame(at).is_some_and(is_called));
        let Some(wanted) = wanted else { return unmatched() };
        while self.depth > wanted + 1 {
            self.close_inner(now);
        }
        if self.is(wanted, FOREIGN) { self.leave_foreign() } else { self.pop(now) }
    }

    /// Closes the innermost frame because one around it ends.
    fn close_inner(&mut self, now: u64) {
        let at = self.depth - 1;
        if self.is_step(at) {
            self.discard_step();
        } else if self.is(at, FOREIGN) {
            self.leave_foreign();
        } else {
            losses::count(LossCause::Unclosed);
            self.pop(now);
        }
    }

    fn is(&self, at: u32, flag: u32) -> bool {
        self.frame(at).is_some_and(|frame| frame.kind_flags & flag != 0)
    }

    fn change_flags(&self, at: u32, set: u32, clear: u32) {
        if let Some(frame) = self.tree.frames.get(at) {
            frame.change_flags(set, clear);
        }
    }

    fn is_step(&self, at: u32) -> bool {
        self.is(at, STEP)
    }

    /// Leaves a scope that the parent process entered and will record.
    fn leave_foreign(&mut self) -> u64 {
        let id = self.top_own().map_or(0, |frame| frame.id);
        self.shrink(0);
        id
    }

    /// Forgets a step that no optimizer closed; what ran inside it keeps its own time.
    fn discard_step(&mut self) {
        let children = self.top_own().map_or(0, |frame| frame.child_nanos);
        self.change_flags(self.depth - 1, 0, CLOSING);
        self.shrink(children);
    }

    /// Opens a training step, unless one is open.
    pub(crate) fn step_begin(&mut self) {
        if !(self.inherited..self.depth).any(|at| self.is_step(at)) {
            self.open_step();
        }
    }

    /// The optimizer has stepped: closes the open step and opens the next one in its place.
    pub(crate) fn step_end(&mut self) {
        let step = (self.inherited..self.depth).rev().find(|&at| self.is_step(at));
        match step {
            Some(at) if at + 1 == self.depth => self.close_step(),
            Some(at) => {
                self.change_flags(at, CLOSING, 0);
            }
            None => self.open_step(),
        }
    }

    #[cold]
    #[inline(never)]
    fn close_step(&mut self) {
        self.change_flags(self.depth - 1, 0, CLOSING);
        self.pop(clock::ticks());
        self.open_step();
    }

    fn open_step(&mut self) {
        self.enter(names::intern(STEP_NAME), NodeKind::Step, PYTHON_ROOT);
        self.change_flags(self.depth - 1, STEP, 0);
    }

    /// Enters an operator, unless one is in progress.
    pub(crate) fn enter_operator(&mut self, name: u32, python_leaf: u32) -> u64 {
        if self.operator_in_progress() {
            self.nested_operators += 1;
            return 0;
        }
        self.enter(name, NodeKind::Operator, python_leaf)
    }

    /// Leaves the operator in progress.
    pub(crate) fn exit_operator(&mut self, name: u32) -> u64 {
        if self.nested_operators > 0 {
            self.nested_operators -= 1;
            return 0;
        }
        self.exit(name)
    }

    fn operator_in_progress(&self) -> bool {
        (self.inherited..self.depth)
            .any(|at| self.frame(at).is_some_and(|frame| kind_of(&frame) == NodeKind::Operator))
    }

    /// Sets a state below the scopes until [`Local::exit_state`].
    pub(crate) fn enter_state(&mut self, name: u32, python_leaf: u32) {
        let active = CONTROL.active.load(Ordering::Relaxed);
        let python = active & CONTROL.python.load(Ordering::Relaxed);
        let mut above = self.place();
        above.python = if python_leaf > PYTHON_ROOT { python_leaf } else { above.python };
        let place = self.below(above, name, NodeKind::State, active, python);
        self.states.push(State { name, place, sessions: active, start_ticks: clock::ticks() });
    }

    /// Ends the innermost state; the one around it holds again. Whether there was one.
    pub(crate) fn exit_state(&mut self) -> bool {
        let now = clock::ticks();
        let Some(state) = self.states.pop() else { return false };
        let nanos = clock::nanos(now.saturating_sub(state.start_ticks));
        self.record(state.place, state.sessions, nanos, nanos);
        true
    }

    /// Adds user metrics to the innermost scope.
    pub(crate) fn add_metrics(&mut self, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
        let (place, state, sessions) = match self.top() {
            Some(top) => (place_of(&top), top.state, top.sessions),
            None => (ROOTS, self.states.last().map_or(0, |state| state.name), u64::MAX),
        };
        self.add_metrics_at(place, state, sessions, values)
    }

    /// Adds user metrics at a place, below `state` unless that is 0.
    pub(crate) fn add_metrics_at(
        &mut self,
        mut place: Place,
        state: u32,
        sessions: u64,
        values: &[(u32, MetricValue)],
    ) -> Result<(), MetricError> {
        let active = CONTROL.active.load(Ordering::Relaxed) & sessions;
        let python = active & CONTROL.python.load(Ordering::Relaxed);
        if state != 0 {
            place = self.below(place, state, NodeKind::State, active, python);
        }
        for (number, value) in values {
            let Some(name) = names::metric(*number) else { continue };
            for slot in slots(active) {
                let node = if python & bit(slot) == 0 { place.shadow } else { place.python };
                let Some(column) = self.tree.column(slot) else { continue };
                column
                    .add_metric(node, *number, &name, value)
                    .inspect_err(|_| losses::count(LossCause::MetricRefused))?;
            }
        }
        Ok(())
    }

    /// Name of the innermost scope that the thread itself entered; 0 for none.
    pub(crate) fn top_name(&self) -> u32 {
        (self.inherited..self.depth)
            .rev()
            .find(|&at| !self.is_step(at))
            .and_then(|at| self.frame(at))
            .map_or(0, |frame| frame.name)
    }

    /// Scopes of the stack that a session sees.
    pub(crate) fn depth_of(&self, slot: u32) -> u32 {
        let visible = (0..self.depth)
            .filter(|&at| self.frame(at).is_some_and(|frame| frame.sessions & bit(slot) != 0));
        visible.count() as u32
    }

    /// State that holds now; 0 for none.
    pub(crate) fn state_name(&self) -> u32 {
        self.states.last().map_or(0, |state| state.name)
    }

    /// A fresh scope id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Takes over the main thread's stack as it is now.
    #[cold]
    fn inherit(&mut self) {
        self.depth = 0;
        self.inherited = 0;
        self.tree.depth.store(0, Ordering::Release);
        let Some(main) = recorder::main_tree(&self.tree) else { return };
        self.take_over(&main.open_frames(), INHERITED);
        self.inherited = self.depth;
    }

    /// Stands below the given frames of another thread or process.
    fn take_over(&mut self, frames: &[OpenFrame], flag: u32) {
        let python = CONTROL.python.load(Ordering::Relaxed);
        let mut place = ROOTS;
        for frame in frames {
            let kind = NodeKind::from_u8(frame.kind_flags as u8);
            let sessions = frame.sessions & CONTROL.live.load(Ordering::Relaxed);
            place = self.below(place, frame.name, kind, sessions & !python, 0);
            let copy = OpenFrame {
                shadow_node: place.shadow,
                python_node: PYTHON_ROOT,
                kind_flags: kind as u32 | flag,
                state: 0,
                sessions,
                ..*frame
            };
            self.push(&copy);
        }
    }

    /// Closes everything that is open, because the thread ends.
    fn unwind(&mut self) {
        if !CONTROL.is_live() || self.epoch != CONTROL.epoch.load(Ordering::Relaxed) {
            return;
        }
        let now = clock::ticks();
        if !self.tree.seq.begin() {
            return;
        }
        while self.depth > self.inherited {
            self.close_inner(now);
        }
        self.tree.seq.end();
    }
}

#[inline(always)]
fn place_of(frame: &OpenFrame) -> Place {
    Place { shadow: frame.shadow_node, python: frame.python_node }
}

fn kind_of(frame: &OpenFrame) -> NodeKind {
    NodeKind::from_u8(frame.kind_flags as u8)
}

#[cold]
fn unmatched() -> u64 {
    losses::count(LossCause::UnmatchedExit);
    0
}

/// What entering and leaving one scope costs here, in nanoseconds. Measured on a tree that nobody
/// sees, with the sessions that are active now.
pub(crate) fn measure_scope_nanos() -> f64 {
    const SCOPES: u32 = 2000;
    let mut local = Local::new(Arc::new(ThreadTree::new()), 0);
    let mut run = |scopes: u32| {
        let began = clock::ticks();
        for _ in 0..scopes {
            local.tree.seq.begin();
            local.enter(names::LOST, NodeKind::Scope, PYTHON_ROOT);
            local.tree.seq.end();
            local.tree.seq.begin();
            local.exit(names::LOST);
            local.tree.seq.end();
        }
        clock::nanos(clock::ticks().saturating_sub(began)) as f64 / f64::from(scopes)
    };
    run(SCOPES / 10);
    run(SCOPES)
}

/// Whether a frame is an entry of this thread and process that is still running.
pub(crate) fn is_running_entry(frame: &OpenFrame) -> bool {
    frame.kind_flags & (INHERITED | STEP | FOREIGN) == 0
}

/// In the child of a fork: the thread begins anew below the scopes that it had open.
pub(crate) fn restart_after_fork() {
    let Some(old) = take_local(std::ptr::null_mut()) else { return };
    let frames = old.tree.open_frames();
    if !register(std::ptr::null_mut()) {
        return;
    }
    let Some(mut local) = take_local(std::ptr::null_mut()) else { return };
    local.take_over(&frames, FOREIGN);
    LOCAL.set(Box::into_raw(local));
}
