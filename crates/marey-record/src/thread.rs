//! The tree of a thread, its open scopes and its columns: the part of a thread's recorder that
//! other threads may read.

use crate::arena::Arena;
use crate::clock;
use crate::column::{Column, NodeData};
use crate::control::{CONTROL, MAX_SESSIONS};
use crate::device::Launches;
use crate::link::Link;
use crate::local::Local;
use crate::losses;
use crate::os;
use crate::published::Published;
use crate::registry;
use crate::remote_exits::RemoteExits;
use crate::seq::Seq;
use crate::trace::Log;
use crate::tree::{Node, Nodes, SHADOW_ROOT, name_kind};
use marey_model::loss::LossCause;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A thread's tree, open scopes and columns. The owner thread is the only writer, except that
/// [`ThreadTree::replace_column`] takes a column, and of [`ThreadTree::remote_exits`].
#[derive(Debug)]
pub(crate) struct ThreadTree {
    /// A number unique among all trees of the process, including older trees of the same thread.
    pub(crate) generation: u64,
    /// The epoch in which the tree was made. The tree is invalid in all others.
    pub(crate) epoch: u64,
    /// The kernel's id of the owner thread.
    pub(crate) os_id: u64,
    /// The kernel's name of the owner thread, read when the tree was made.
    pub(crate) name: String,
    /// When the tree was made.
    pub(crate) created_ticks: u64,
    pub(crate) seq: Seq,
    /// The sequence number of an event that a waiting thread gave up on; 0 for none.
    abandoned_event: AtomicU64,
    pub(crate) nodes: Nodes,
    pub(crate) frames: Arena<Frame, 6>,
    pub(crate) task: TaskScope,
    /// The frame below all scopes.
    pub(crate) bottom: Frame,
    /// The innermost frame, or the bottom frame. Null before the owner has begun.
    pub(crate) top: Link<Frame>,
    /// The frame below `top`; `bottom` if `top` is `bottom`. Owner only, like the fields below.
    pub(crate) outer: Link<Frame>,
    /// The link to the node that was entered next on the last visit to this position. Null if the
    /// slow path must look first.
    pub(crate) expected: Link<Link<Node>>,
    /// The id of the next scope.
    next_id: AtomicU64,
    /// The name of the innermost state, 0 for none.
    pub(crate) state: AtomicU32,
    /// The part of the recorder that only the owner accesses.
    pub(crate) local: AtomicPtr<Local>,
    columns: [AtomicPtr<Column>; MAX_SESSIONS as usize],
    /// Created when the thread first logs an event.
    log: Published<Log>,
    /// Created when the thread first launches work.
    launches: Published<Launches>,
    /// Written by other threads.
    pub(crate) remote_exits: RemoteExits,
    /// The sessions that saw the entries of scopes which are open outside of the stack.
    pub(crate) outliving_sessions: AtomicU64,
}

static NEXT_GENERATION: AtomicU64 = AtomicU64::new(1);
/// The first generation of this process. Trees of older generations are the parent's.
static FIRST_GENERATION: AtomicU64 = AtomicU64::new(1);

/// Marks the existing trees as the parent's, in the child of a fork: the parent records their open
/// scopes.
pub(crate) fn begin_child() {
    FIRST_GENERATION.store(NEXT_GENERATION.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The number of attempts of a reader to find a gap between two events.
const READ_ATTEMPTS: u32 = 100;

/// The innermost scope of the task that a thread runs, as of the thread's last event. The switch to
/// another task is no event, so the scope may be outdated.
#[derive(Debug, Default)]
pub(crate) struct TaskScope {
    /// The scope's node in the thread's shadow tree; [`SHADOW_ROOT`] for none.
    node: AtomicU32,
    /// The id of the innermost scope of the thread's stack at that time.
    stack_top_id: AtomicU64,
}

/// Identifies the open scopes of a thread: equal positions mean the same open scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackPosition {
    depth: u32,
    innermost_id: u64,
    /// The node of a task's scope inside the stack; [`SHADOW_ROOT`] for none.
    pub(crate) task_node: u32,
}

/// An entered scope. Other threads must read it inside [`Seq::read`].
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The name in the low half. In the high half, a `NodeKind` in the low byte and flags above it.
    name_kind: AtomicU64,
    shadow_node: AtomicU32,
    python_node: AtomicU32,
    state: AtomicU32,
    sessions: AtomicU64,
    start_ticks: AtomicU64,
    child_nanos: AtomicU64,
    id: AtomicU64,
    /// The node in the shadow tree, if it belongs to this very scope and not to an ancestor. Owner
    /// only.
    pub(crate) node: Link<Node>,
    /// The name by which the fast path may exit the scope, or [`NO_FAST_EXIT`]. With a name, the
    /// frame has a node and a frame below. Owner only.
    pub(crate) exit_name: AtomicU64,
    /// The number of frames below this one. Like the fields below, it does not change when the
    /// frame is reused.
    depth: AtomicU32,
    below: Link<Frame>,
    /// Owner only.
    pub(crate) above: Link<Frame>,
}

/// A value that equals no `u32` name.
pub(crate) const NO_FAST_EXIT: u64 = u64::MAX;

/// A copy of an entered scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFrame {
    pub(crate) name: u32,
    /// A `NodeKind` in the low byte, flags above.
    pub(crate) kind_flags: u32,
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
    /// The name of the state below which this frame's metrics are stored; 0 for none.
    pub(crate) state: u32,
    /// Sessions that saw the entry.
    pub(crate) sessions: u64,
    pub(crate) start_ticks: u64,
    /// Time of the completed children.
    pub(crate) child_nanos: u64,
    pub(crate) id: u64,
}

impl Frame {
    #[inline(always)]
    pub(crate) fn copy(&self) -> OpenFrame {
        let (name, kind_flags) = self.name_and_kind_flags();
        OpenFrame {
            name,
            kind_flags,
            shadow_node: self.shadow_node.load(Ordering::Relaxed),
            python_node: self.python_node(),
            state: self.state.load(Ordering::Relaxed),
            sessions: self.sessions.load(Ordering::Relaxed),
            start_ticks: self.start_ticks(),
            child_nanos: self.child_nanos(),
            id: self.id(),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, frame: &OpenFrame) {
        self.name_kind.store(name_kind(frame.name, frame.kind_flags), Ordering::Relaxed);
        self.shadow_node.store(frame.shadow_node, Ordering::Relaxed);
        self.python_node.store(frame.python_node, Ordering::Relaxed);
        self.state.store(frame.state, Ordering::Relaxed);
        self.sessions.store(frame.sessions, Ordering::Relaxed);
        self.start_ticks.store(frame.start_ticks, Ordering::Relaxed);
        self.child_nanos.store(frame.child_nanos, Ordering::Relaxed);
        self.id.store(frame.id, Ordering::Relaxed);
    }

    /// Fills the frame for a scope with its own node that begins now. Used by the fast path.
    #[inline(always)]
    pub(crate) fn enter(&self, node: &Node, python_node: u32, state: u32, id: u64) {
        self.name_kind.store(node.name_kind(), Ordering::Relaxed);
        self.exit_name.store(node.name().into(), Ordering::Relaxed);
        self.shadow_node.store(node.number(), Ordering::Relaxed);
        self.python_node.store(python_node, Ordering::Relaxed);
        self.state.store(state, Ordering::Relaxed);
        self.sessions.store(node.sessions(), Ordering::Relaxed);
        self.child_nanos.store(0, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.node.set(Some(node));
        self.start_ticks.store(clock::counter(), Ordering::Relaxed);
    }

    /// Returns the number of frames below this one.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Returns the node in the shadow tree, if it belongs to this very scope.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes are reached through links")]
    pub(crate) fn node(&self) -> Option<&Node> {
        // SAFETY: nodes and frames of one tree live equally long.
        unsafe { self.node.get() }
    }

    /// Returns the frame's node, if it is a child of the node of the frame below.
    #[inline(always)]
    pub(crate) fn child_node_of(&self, below: &Self) -> Option<&Node> {
        let (node, outer) = (self.node()?, below.node()?);
        (node.parent() == outer.number()).then_some(node)
    }

    /// Returns the frame below, `None` for the bottom frame.
    #[inline(always)]
    #[expect(unsafe_code, reason = "frames are reached through links")]
    pub(crate) fn below(&self) -> Option<&Self> {
        // SAFETY: `link_above` set a frame of the same tree; all its frames live equally long.
        unsafe { self.below.get() }
    }

    /// Makes this the frame above another one.
    #[inline(always)]
    pub(crate) fn link_above(&self, below: &Self) {
        self.depth.store(below.depth() + 1, Ordering::Relaxed);
        self.below.set(Some(below));
        below.above.set(Some(self));
    }

    #[inline(always)]
    pub(crate) fn name_and_kind_flags(&self) -> (u32, u32) {
        let name_kind = self.name_kind.load(Ordering::Relaxed);
        (name_kind as u32, (name_kind >> 32) as u32)
    }

    #[inline(always)]
    pub(crate) fn kind_flags(&self) -> u32 {
        self.name_and_kind_flags().1
    }

    #[inline(always)]
    pub(crate) fn python_node(&self) -> u32 {
        self.python_node.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn start_ticks(&self) -> u64 {
        self.start_ticks.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn child_nanos(&self) -> u64 {
        self.child_nanos.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Returns the node in the shadow tree.
    #[inline(always)]
    pub(crate) fn shadow_node(&self) -> u32 {
        self.shadow_node.load(Ordering::Relaxed)
    }

    /// Returns the sessions that saw the entry.
    #[inline(always)]
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Adds to the time of the completed children.
    #[inline(always)]
    pub(crate) fn add_child_nanos(&self, nanos: u64) {
        self.child_nanos.store(self.child_nanos().wrapping_add(nanos), Ordering::Relaxed);
    }

    /// Sets and clears flags. Only the owner may call this, so no other thread writes at the same
    /// time.
    pub(crate) fn change_flags(&self, set: u32, clear: u32) {
        let (name, kind_flags) = self.name_and_kind_flags();
        self.name_kind.store(name_kind(name, (kind_flags | set) & !clear), Ordering::Relaxed);
    }
}

impl TaskScope {
    /// Sets the scope. Only the owner may call this.
    #[inline(always)]
    pub(crate) fn set(&self, node: u32, stack_top_id: u64) {
        self.node.store(node, Ordering::Relaxed);
        self.stack_top_id.store(stack_top_id, Ordering::Relaxed);
    }

    /// Returns the scope's node, [`SHADOW_ROOT`] for none.
    #[inline(always)]
    pub(crate) fn node(&self) -> u32 {
        self.node.load(Ordering::Relaxed)
    }
}

impl ThreadTree {
    /// Creates a tree for the calling thread.
    pub(crate) fn new() -> Self {
        Self {
            generation: NEXT_GENERATION.fetch_add(1, Ordering::Relaxed),
            epoch: CONTROL.epoch.load(Ordering::Relaxed),
            os_id: os::thread_id(),
            name: os::thread_name(),
            created_ticks: clock::ticks(),
            seq: Seq::default(),
            abandoned_event: AtomicU64::new(0),
            nodes: Nodes::default(),
            frames: Arena::default(),
            task: TaskScope::default(),
            bottom: Frame::default(),
            top: Link::default(),
            outer: Link::default(),
            expected: Link::default(),
            next_id: AtomicU64::new(0),
            state: AtomicU32::new(0),
            local: AtomicPtr::new(std::ptr::null_mut()),
            columns: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            log: Published::default(),
            launches: Published::default(),
            remote_exits: RemoteExits::default(),
            outliving_sessions: AtomicU64::new(0),
        }
    }

    /// Whether the tree was made before the fork that made this process.
    pub(crate) fn belongs_to_parent(&self) -> bool {
        self.generation < FIRST_GENERATION.load(Ordering::Relaxed)
    }

    /// Waits until the owner is outside the event that it is in, if any, while `pause` returns
    /// `true`. After a failed wait the same event is not waited for again.
    pub(crate) fn wait_outside_event(&self, pause: impl FnMut() -> bool) {
        if !self.is_stuck()
            && let Err(event) = self.seq.wait_outside_event(pause)
        {
            self.abandoned_event.store(event, Ordering::Relaxed);
            losses::count(LossCause::StuckThread);
        }
    }

    /// Whether the owner is the process's main thread.
    pub(crate) fn is_of_main_thread(&self) -> bool {
        self.os_id == u64::from(std::process::id())
    }

    /// Whether the owner is still in an event that was waited for without success: a signal
    /// interrupted it and the handler jumped elsewhere, or the thread gets no processor. It may
    /// still write to its columns.
    pub(crate) fn is_stuck(&self) -> bool {
        self.abandoned_event.load(Ordering::Relaxed) == self.seq.number()
    }

    /// Makes a frame the innermost one.
    #[inline(always)]
    pub(crate) fn set_top(&self, frame: &Frame) {
        self.set_top_expecting(frame, frame.node().map(|node| &node.expected_child));
    }

    /// Makes a frame the innermost one, with the link to the node that is expected next.
    #[inline(always)]
    pub(crate) fn set_top_expecting(&self, frame: &Frame, expected: Option<&Link<Node>>) {
        self.outer.set(Some(frame.below().unwrap_or(frame)));
        self.top.set(Some(frame));
        self.expected.set(expected);
    }

    /// Sets the id of the next scope.
    pub(crate) fn set_next_id(&self, first: u64) {
        self.next_id.store(first, Ordering::Relaxed);
    }

    /// Returns a new scope id.
    #[inline(always)]
    pub(crate) fn next_id(&self) -> u64 {
        let id = self.next_id.load(Ordering::Relaxed);
        self.next_id.store(id + 1, Ordering::Relaxed);
        id
    }

    /// Returns the owner's column of a session, made if there is none. Only inside an event.
    #[inline(always)]
    #[expect(unsafe_code, reason = "columns are reached through published pointers")]
    pub(crate) fn column(&self, slot: u32) -> Option<&Column> {
        let pointer = self.columns.get(slot as usize)?;
        let mut column = pointer.load(Ordering::Acquire);
        if column.is_null() {
            column = create_column(pointer);
        }
        // SAFETY: the pointer came from `Box::into_raw`. The column is freed only after
        // `replace_column`, whose caller first waits until this thread has left the event that it
        // is in; later events load the pointer again.
        Some(unsafe { &*column })
    }

    /// Returns a session's data of `node`. The copy may be torn if the thread never paused for long
    /// enough.
    ///
    /// The caller holds the sessions' lock, so that no column is taken at the same time.
    #[expect(unsafe_code, reason = "columns are reached through published pointers")]
    pub(crate) fn copy_node(&self, slot: u32, node: u32) -> NodeData {
        let Some(pointer) = self.columns.get(slot as usize) else { return NodeData::default() };
        let column = pointer.load(Ordering::Acquire);
        if column.is_null() {
            return NodeData::default();
        }
        // SAFETY: the pointer came from `Box::into_raw`. Columns are taken and freed only under the
        // sessions' lock, which the caller holds.
        let column = unsafe { &*column };
        let copy = || column.copy(node);
        // A thread that only enters scopes may leave no gap, and many nodes are still to be copied.
        // A torn copy is better than waiting.
        self.seq.read(READ_ATTEMPTS, copy).unwrap_or_else(copy)
    }

    /// Returns an empty column for [`Self::replace_column`], as large as the session's column, if
    /// that contains anything.
    ///
    /// The caller holds the sessions' lock, so that no column is taken at the same time.
    #[expect(unsafe_code, reason = "columns are reached through published pointers")]
    pub(crate) fn next_column(&self, slot: u32) -> Option<Box<Column>> {
        let column = self.columns.get(slot as usize)?.load(Ordering::Acquire);
        // SAFETY: null, or a column that is not freed while the caller holds the sessions' lock.
        unsafe { column.as_ref() }.and_then(Column::empty_copy)
    }

    /// Takes a session's column from the thread, and with it the duty to free it. `next` becomes
    /// the session's column; without it the owner makes one. `next` comes from
    /// [`Self::next_column`], under the same lock.
    ///
    /// The owner may be in an event that uses the column: the box must not be dropped before the
    /// event is over.
    #[expect(unsafe_code, reason = "takes back the box that `column` gave away")]
    pub(crate) fn replace_column(
        &self,
        slot: u32,
        next: Option<Box<Column>>,
    ) -> Option<Box<Column>> {
        let pointer = self.columns.get(slot as usize)?;
        // The owner stores a column only where there is none. If `next` is given, there is one.
        let column =
            pointer.swap(next.map_or(std::ptr::null_mut(), Box::into_raw), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Box::into_raw`, and only the caller of `swap`
        // received it.
        (!column.is_null()).then(|| unsafe { Box::from_raw(column) })
    }

    /// Takes a session's column from the thread, as [`Self::replace_column`] does.
    pub(crate) fn take_column(&self, slot: u32) -> Option<Box<Column>> {
        self.replace_column(slot, None)
    }

    /// Returns the thread's log, if it has one. Only for the owner, or with the tracer's lock.
    #[inline(always)]
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.get()
    }

    /// Returns the owner's log, created if there is none.
    #[inline(always)]
    pub(crate) fn log_or_create(&self) -> Option<&Log> {
        self.log.get().or_else(|| self.create_log(Log::new()))
    }

    /// Creates the owner's log. Only the owner may call this, while it has none.
    #[cold]
    pub(crate) fn create_log(&self, log: Log) -> Option<&Log> {
        self.log.publish(log)
    }

    /// Takes the log from the thread. The owner may call this when it logs no more, or a thread
    /// with the tracer's lock while no session traces.
    pub(crate) fn take_log(&self) -> Option<Box<Log>> {
        self.log.take()
    }

    /// Returns the thread's launches, if it ever launched work. Only for the owner, or with the
    /// devices' lock.
    #[inline(always)]
    pub(crate) fn launches(&self) -> Option<&Launches> {
        self.launches.get()
    }

    /// Takes the launches from the thread, once the owner has ended.
    pub(crate) fn take_launches(&self) -> Option<Box<Launches>> {
        self.launches.take()
    }

    /// Returns the owner's launches, created if there is none.
    #[inline(always)]
    pub(crate) fn launches_or_create(&self) -> Option<&Launches> {
        self.launches.get().or_else(|| self.launches.publish(Launches::new()))
    }

    /// Returns the position of the thread, `None` if the thread never paused for long enough.
    #[inline]
    pub(crate) fn stack_position(&self) -> Option<StackPosition> {
        self.seq.read(READ_ATTEMPTS, || {
            let (depth, innermost_id) =
                self.top_frame().map_or((0, 0), |top| (top.depth(), top.id()));
            let is_in_task = self.task.stack_top_id.load(Ordering::Relaxed) == innermost_id;
            let task_node = self.task.node.load(Ordering::Relaxed);
            StackPosition {
                depth,
                innermost_id,
                task_node: if is_in_task { task_node } else { SHADOW_ROOT },
            }
        })
    }

    /// Iterates over the frames, innermost first, without the bottom frame.
    fn frames_from_top(&self) -> impl Iterator<Item = &Frame> {
        let frames = std::iter::successors(self.top_frame(), |frame| frame.below());
        frames.filter(|frame| frame.depth() > 0)
    }

    /// Returns the innermost frame, or the bottom frame. `None` before the owner has begun.
    #[inline]
    #[expect(unsafe_code, reason = "the frame is reached through a link")]
    fn top_frame(&self) -> Option<&Frame> {
        // SAFETY: a frame of this tree, which `self` keeps alive.
        unsafe { self.top.get() }
    }

    /// Returns the id of the innermost scope, 0 for none. Only for the owner.
    #[inline(always)]
    pub(crate) fn top_id(&self) -> u64 {
        self.top_frame().map_or(0, Frame::id)
    }

    /// Whether this thread made the id of a scope.
    pub(crate) fn owns_id(&self, id: u64) -> bool {
        registry::are_ids_of_one_thread(id, self.next_id.load(Ordering::Relaxed))
    }

    /// Returns when the innermost scope was entered. Only for the owner.
    #[inline]
    pub(crate) fn top_start_ticks(&self) -> Option<u64> {
        self.top_frame().map(Frame::start_ticks)
    }

    /// Returns the open scopes, outermost first. The copy may be torn if the thread never paused
    /// for long enough.
    pub(crate) fn open_frames(&self) -> Vec<OpenFrame> {
        let mut frames = Vec::new();
        self.copy_open_frames(&mut frames);
        frames
    }

    /// Copies the open scopes, outermost first, into `frames`, whose contents are replaced.
    pub(crate) fn copy_open_frames(&self, frames: &mut Vec<OpenFrame>) {
        const ATTEMPTS: u32 = 20;
        let mut copy = || {
            frames.clear();
            frames.extend(self.frames_from_top().map(Frame::copy));
            frames.reverse();
        };
        for _ in 0..ATTEMPTS {
            if self.seq.read(READ_ATTEMPTS, &mut copy).is_some() {
                return;
            }
            // The thread may have been preempted in the middle of an event.
            std::thread::yield_now();
        }
        copy();
    }
}

#[cold]
#[inline(never)]
fn create_column(pointer: &AtomicPtr<Column>) -> *mut Column {
    let column = Box::into_raw(Box::default());
    pointer.store(column, Ordering::Release);
    column
}

impl Drop for ThreadTree {
    fn drop(&mut self) {
        for slot in 0..MAX_SESSIONS {
            drop(self.take_column(slot));
        }
    }
}
