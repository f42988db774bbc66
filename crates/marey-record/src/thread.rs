//! The part of a thread's recorder that other threads read.

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
use crate::seq::Seq;
use crate::trace::Log;
use crate::tree::{Node, Nodes, SHADOW_ROOT, name_kind};
use marey_model::loss::LossCause;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A thread's tree, its open scopes, and its columns. The owner is the only writer, except that
/// [`ThreadTree::take_column`] takes a column away.
#[derive(Debug)]
pub(crate) struct ThreadTree {
    /// Tells this tree from every other one of the process, also from an older one of its thread.
    pub(crate) generation: u64,
    /// The epoch of recording that it was made in; void in any other.
    pub(crate) epoch: u64,
    /// Of the thread that owns it, as the system has it.
    pub(crate) os_id: u64,
    /// As above, when the tree was made.
    pub(crate) name: String,
    /// When the tree was made.
    pub(crate) began_ticks: u64,
    pub(crate) seq: Seq,
    /// The sequence number of the event that nobody waits for any more; 0 for none.
    given_up: AtomicU64,
    pub(crate) nodes: Nodes,
    pub(crate) frames: Arena<Frame, 6>,
    pub(crate) task: TaskScope,
    /// Below all scopes.
    pub(crate) bottom: Frame,
    /// The innermost frame, or the one below all scopes; none before the owner has begun.
    pub(crate) top: Link<Frame>,
    /// The frame below that, which is the bottom's own. Owner only, as what follows.
    pub(crate) outer: Link<Frame>,
    /// The link to the node that was entered next the last time that the thread was here; none where it
    /// has to look first.
    pub(crate) expected: Link<Link<Node>>,
    /// The id of the next scope.
    next_id: AtomicU64,
    /// Name of the innermost state; 0 for none.
    pub(crate) state: AtomicU32,
    /// What nobody else looks at, once the thread has it.
    pub(crate) owner: AtomicPtr<Local>,
    columns: [AtomicPtr<Column>; MAX_SESSIONS as usize],
    /// Made when a trace session first sees the thread.
    log: Published<Log>,
    /// Made when the thread first launches something.
    launches: Published<Launches>,
}

static NEXT_GENERATION: AtomicU64 = AtomicU64::new(1);
/// The first of this process: trees before it are the parent's.
static FIRST_GENERATION: AtomicU64 = AtomicU64::new(1);

/// In the child of a fork: what was entered in the trees so far is the parent's to record.
pub(crate) fn begin_child() {
    FIRST_GENERATION.store(NEXT_GENERATION.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// How often a reader looks for a gap between two events before it does something else.
const TRIES: u32 = 100;

/// The innermost scope of the task that a thread runs, as the thread knew it last: tasks change without
/// an event of ours.
#[derive(Debug, Default)]
pub(crate) struct TaskScope {
    /// Its node in the thread's shadow tree; [`SHADOW_ROOT`] where the thread runs none.
    node: AtomicU32,
    /// Id of the innermost scope of the thread's stack at that time.
    host: AtomicU64,
}

/// The open scopes of a thread: as long as they are the same, so is this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    depth: u32,
    innermost: u64,
    /// The scope of a task inside the stack; [`SHADOW_ROOT`] for none.
    pub(crate) task_node: u32,
}

/// An entered scope. Whoever reads it from another thread must do so inside [`Seq::read`].
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The name in the low half; above it a `NodeKind` in the low byte, and flags.
    name_kind: AtomicU64,
    shadow_node: AtomicU32,
    python_node: AtomicU32,
    state: AtomicU32,
    sessions: AtomicU64,
    start_ticks: AtomicU64,
    child_nanos: AtomicU64,
    id: AtomicU64,
    /// The node in the shadow tree if it is the scope's own, and not one further up. Owner only.
    pub(crate) node: Link<Node>,
    /// The name by which the scope is left in the usual way; [`NOBODY`] if that is not all there is to it.
    /// It has a node of its own then, and a frame below. Owner only.
    pub(crate) left_as: AtomicU64,
    /// Frames below this one; as what follows, the same whatever the frame holds.
    depth: AtomicU32,
    below: Link<Frame>,
    /// Owner only.
    pub(crate) above: Link<Frame>,
}

/// No name, whatever a caller takes for one.
pub(crate) const NOBODY: u64 = u64::MAX;

/// A copy of an entered scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFrame {
    pub(crate) name: u32,
    /// A `NodeKind` in the low byte, flags above.
    pub(crate) kind_flags: u32,
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
    /// Name of the state below which this frame's metrics go; 0 for none.
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

    /// Becomes that of a scope that begins now, with a node of its own.
    #[inline(always)]
    pub(crate) fn enter(&self, node: &Node, python_node: u32, state: u32, id: u64) {
        self.name_kind.store(node.name_kind(), Ordering::Relaxed);
        self.left_as.store(node.name().into(), Ordering::Relaxed);
        self.shadow_node.store(node.number(), Ordering::Relaxed);
        self.python_node.store(python_node, Ordering::Relaxed);
        self.state.store(state, Ordering::Relaxed);
        self.sessions.store(node.sessions(), Ordering::Relaxed);
        self.child_nanos.store(0, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
        self.node.set(Some(node));
        self.start_ticks.store(clock::counter(), Ordering::Relaxed);
    }

    /// Frames below this one.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// The node in the shadow tree, if the frame has one of its own.
    #[inline(always)]
    #[expect(unsafe_code, reason = "nodes are reached through links")]
    pub(crate) fn own_node(&self) -> Option<&Node> {
        // SAFETY: a node of the tree that the frame is of, whose parts live as long as one another.
        unsafe { self.node.get() }
    }

    /// The frame's own node, if it is a child of the node of the frame below.
    #[inline(always)]
    pub(crate) fn node_in(&self, below: &Self) -> Option<&Node> {
        let (node, outer) = (self.own_node()?, below.own_node()?);
        (node.parent() == outer.number()).then_some(node)
    }

    /// The frame below; none below the bottom.
    #[inline(always)]
    #[expect(unsafe_code, reason = "frames are reached through links")]
    pub(crate) fn below(&self) -> Option<&Self> {
        // SAFETY: `lay_on` set a frame of the same tree, whose frames live as long as one another.
        unsafe { self.below.get() }
    }

    /// Makes this the frame above another one.
    #[inline(always)]
    pub(crate) fn lay_on(&self, below: &Self) {
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

    /// The node in the shadow tree.
    #[inline(always)]
    pub(crate) fn shadow_node(&self) -> u32 {
        self.shadow_node.load(Ordering::Relaxed)
    }

    /// Sessions that saw the entry.
    #[inline(always)]
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Adds to the time of the completed children.
    #[inline(always)]
    pub(crate) fn add_child_nanos(&self, nanos: u64) {
        self.child_nanos.store(self.child_nanos().wrapping_add(nanos), Ordering::Relaxed);
    }

    /// Sets and clears flags. The owner's call, so no other thread writes meanwhile.
    pub(crate) fn change_flags(&self, set: u32, clear: u32) {
        let (name, kind_flags) = self.name_and_kind_flags();
        self.name_kind.store(name_kind(name, (kind_flags | set) & !clear), Ordering::Relaxed);
    }
}

impl TaskScope {
    /// The thread is in this scope of a task. The owner's call.
    #[inline(always)]
    pub(crate) fn set(&self, node: u32, host: u64) {
        self.node.store(node, Ordering::Relaxed);
        self.host.store(host, Ordering::Relaxed);
    }

    /// Its node, [`SHADOW_ROOT`] for none.
    #[inline(always)]
    pub(crate) fn node(&self) -> u32 {
        self.node.load(Ordering::Relaxed)
    }
}

impl ThreadTree {
    /// The calling thread's tree.
    pub(crate) fn new() -> Self {
        Self {
            generation: NEXT_GENERATION.fetch_add(1, Ordering::Relaxed),
            epoch: CONTROL.epoch.load(Ordering::Relaxed),
            os_id: os::thread_id(),
            name: os::thread_name(),
            began_ticks: clock::ticks(),
            seq: Seq::default(),
            given_up: AtomicU64::new(0),
            nodes: Nodes::default(),
            frames: Arena::default(),
            task: TaskScope::default(),
            bottom: Frame::default(),
            top: Link::default(),
            outer: Link::default(),
            expected: Link::default(),
            next_id: AtomicU64::new(0),
            state: AtomicU32::new(0),
            owner: AtomicPtr::new(std::ptr::null_mut()),
            columns: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            log: Published::default(),
            launches: Published::default(),
        }
    }

    /// Whether the tree was made before the fork that made this process.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.generation < FIRST_GENERATION.load(Ordering::Relaxed)
    }

    /// Waits until the owner is outside the event that it is in, if any, as long as `rest` returns `true`
    /// between two looks; an event that was waited for in vain is not waited for again.
    pub(crate) fn wait_outside_event(&self, rest: impl FnMut() -> bool) {
        if !self.is_stuck()
            && let Err(event) = self.seq.wait_outside_event(rest)
        {
            self.given_up.store(event, Ordering::Relaxed);
            losses::count(LossCause::StuckThread);
        }
    }

    /// Whether the owner is still in an event that was waited for in vain: it was interrupted there, and
    /// the signal's handler has jumped elsewhere, or it gets no processor. It may write to what it had.
    pub(crate) fn is_stuck(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) == self.seq.number()
    }

    /// Makes a frame the innermost one.
    #[inline(always)]
    pub(crate) fn stand_on(&self, frame: &Frame) {
        self.stand_at(frame, frame.own_node().map(|node| &node.first));
    }

    /// The same, where another node than the first one in the frame is expected.
    #[inline(always)]
    pub(crate) fn stand_at(&self, frame: &Frame, expected: Option<&Link<Node>>) {
        self.outer.set(Some(frame.below().unwrap_or(frame)));
        self.top.set(Some(frame));
        self.expected.set(expected);
    }

    /// Has scopes numbered from here on.
    pub(crate) fn begin_ids(&self, first: u64) {
        self.next_id.store(first, Ordering::Relaxed);
    }

    /// A fresh scope id.
    #[inline(always)]
    pub(crate) fn next_id(&self) -> u64 {
        let id = self.next_id.load(Ordering::Relaxed);
        self.next_id.store(id + 1, Ordering::Relaxed);
        id
    }

    /// The owner's column of a session, made if there is none. Only inside an event.
    #[inline(always)]
    #[expect(unsafe_code, reason = "columns are reached through published pointers")]
    pub(crate) fn column(&self, slot: u32) -> Option<&Column> {
        let pointer = self.columns.get(slot as usize)?;
        let mut column = pointer.load(Ordering::Relaxed);
        if column.is_null() {
            column = make_column(pointer);
        }
        // SAFETY: the pointer came from `Box::into_raw`. It is freed only after `take_column`, whose
        // caller first waits until this thread has left the event it is in, and later events load
        // the pointer again.
        Some(unsafe { &*column })
    }

    /// What a session holds about `node`; whole, unless the thread never paused for long enough.
    ///
    /// The caller holds the recorder's fold lock, so that no column is taken away meanwhile.
    #[expect(unsafe_code, reason = "columns are reached through published pointers")]
    pub(crate) fn copy_node(&self, slot: u32, node: u32) -> NodeData {
        let Some(pointer) = self.columns.get(slot as usize) else { return NodeData::default() };
        let column = pointer.load(Ordering::Acquire);
        if column.is_null() {
            return NodeData::default();
        }
        // SAFETY: as in `column`; columns are taken away and freed under the fold lock only, which
        // the caller holds.
        let column = unsafe { &*column };
        let copy = || column.copy(node);
        // A thread that does nothing but enter scopes leaves no gap, and the next of many nodes waits.
        self.seq.read(TRIES, copy).unwrap_or_else(copy)
    }

    /// Takes a session's column away from the thread, together with the right to free it.
    ///
    /// The owner may be in an event that uses it: nobody may drop the box before that is over.
    #[expect(unsafe_code, reason = "takes back the box that `column` gave away")]
    pub(crate) fn take_column(&self, slot: u32) -> Option<Box<Column>> {
        let pointer = self.columns.get(slot as usize)?;
        let column = pointer.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Box::into_raw`, and the swap gave it to us alone.
        (!column.is_null()).then(|| unsafe { Box::from_raw(column) })
    }

    /// The thread's log, if it has one. Only for the owner, and under the tracer's lock.
    #[inline(always)]
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.get()
    }

    /// The owner's log, made if there is none.
    #[inline(always)]
    pub(crate) fn own_log(&self) -> Option<&Log> {
        self.log.get().or_else(|| self.make_log(Log::new()))
    }

    /// Gives the owner a log. Only the owner may call this, when it has none.
    #[cold]
    pub(crate) fn make_log(&self, log: Log) -> Option<&Log> {
        self.log.make(log)
    }

    /// Takes the log away. The owner's call, when it logs no more, or that of somebody who holds the
    /// tracer's lock while no session wants the owner to log.
    pub(crate) fn take_log(&self) -> Option<Box<Log>> {
        self.log.take()
    }

    /// What the thread has launched, if it ever launched anything. Only for the owner, and under the
    /// devices' lock.
    #[inline(always)]
    pub(crate) fn launches(&self) -> Option<&Launches> {
        self.launches.get()
    }

    /// Takes it away, when the owner is over.
    pub(crate) fn take_launches(&self) -> Option<Box<Launches>> {
        self.launches.take()
    }

    /// The owner's, made if there is none.
    #[inline(always)]
    pub(crate) fn own_launches(&self) -> Option<&Launches> {
        self.launches.get().or_else(|| self.launches.make(Launches::new()))
    }

    /// Returns which scopes are open; `None` if the thread never paused for long enough.
    #[inline]
    pub(crate) fn position(&self) -> Option<Position> {
        self.seq.read(TRIES, || {
            let (depth, innermost) = self.innermost().map_or((0, 0), |top| (top.depth(), top.id()));
            let is_inside = self.task.host.load(Ordering::Relaxed) == innermost;
            let task_node = self.task.node.load(Ordering::Relaxed);
            Position {
                depth,
                innermost,
                task_node: if is_inside { task_node } else { SHADOW_ROOT },
            }
        })
    }

    /// The frames, innermost first, without the one below all scopes.
    fn frames_from_top(&self) -> impl Iterator<Item = &Frame> {
        let frames = std::iter::successors(self.innermost(), |frame| frame.below());
        frames.filter(|frame| frame.depth() > 0)
    }

    /// The innermost frame, or the one below all scopes; none before the owner has begun.
    #[inline]
    #[expect(unsafe_code, reason = "the frame is reached through a link")]
    fn innermost(&self) -> Option<&Frame> {
        // SAFETY: a frame of this tree.
        unsafe { self.top.get() }
    }

    /// The entered scopes, outermost first; whole, unless the thread never paused for long enough.
    pub(crate) fn open_frames(&self) -> Vec<OpenFrame> {
        let mut frames = Vec::new();
        self.copy_open_frames(&mut frames);
        frames
    }

    /// Puts the same into `frames`, in the place of what is there.
    pub(crate) fn copy_open_frames(&self, frames: &mut Vec<OpenFrame>) {
        const PATIENCE: u32 = 20;
        let mut copy = || {
            frames.clear();
            frames.extend(self.frames_from_top().map(Frame::copy));
            frames.reverse();
        };
        for _ in 0..PATIENCE {
            if self.seq.read(TRIES, &mut copy).is_some() {
                return;
            }
            // The thread may have lost the processor in the middle of an event.
            std::thread::yield_now();
        }
        copy();
    }
}

#[cold]
#[inline(never)]
fn make_column(pointer: &AtomicPtr<Column>) -> *mut Column {
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
