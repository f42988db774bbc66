//! The part of a thread's recorder that other threads read.

use crate::arena::Arena;
use crate::clock;
use crate::column::{Column, NodeData};
use crate::control::{CONTROL, MAX_SESSIONS};
use crate::device::Launches;
use crate::losses;
use crate::os;
use crate::published::Published;
use crate::seq::Seq;
use crate::trace::Log;
use crate::tree::{Nodes, SHADOW_ROOT};
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
    pub(crate) depth: AtomicU32,
    pub(crate) task: TaskScope,
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
    /// The node in the shadow tree in the low half, that in the Python tree above.
    nodes: AtomicU64,
    state: AtomicU64,
    sessions: AtomicU64,
    start_ticks: AtomicU64,
    child_nanos: AtomicU64,
    id: AtomicU64,
}

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
        let name_kind = self.name_kind.load(Ordering::Relaxed);
        let nodes = self.nodes.load(Ordering::Relaxed);
        OpenFrame {
            name: name_kind as u32,
            kind_flags: (name_kind >> 32) as u32,
            shadow_node: nodes as u32,
            python_node: (nodes >> 32) as u32,
            state: self.state.load(Ordering::Relaxed) as u32,
            sessions: self.sessions.load(Ordering::Relaxed),
            start_ticks: self.start_ticks.load(Ordering::Relaxed),
            child_nanos: self.child_nanos.load(Ordering::Relaxed),
            id: self.id.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, frame: &OpenFrame) {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        self.name_kind.store(pair(frame.name, frame.kind_flags), Ordering::Relaxed);
        self.nodes.store(pair(frame.shadow_node, frame.python_node), Ordering::Relaxed);
        self.state.store(u64::from(frame.state), Ordering::Relaxed);
        self.sessions.store(frame.sessions, Ordering::Relaxed);
        self.start_ticks.store(frame.start_ticks, Ordering::Relaxed);
        self.child_nanos.store(frame.child_nanos, Ordering::Relaxed);
        self.id.store(frame.id, Ordering::Relaxed);
    }

    /// The kind in the low byte, flags above.
    #[inline(always)]
    pub(crate) fn kind_flags(&self) -> u32 {
        (self.name_kind.load(Ordering::Relaxed) >> 32) as u32
    }

    /// The nodes in the shadow tree and in the Python tree.
    #[inline(always)]
    pub(crate) fn nodes(&self) -> (u32, u32) {
        let nodes = self.nodes.load(Ordering::Relaxed);
        (nodes as u32, (nodes >> 32) as u32)
    }

    /// Sessions that saw the entry.
    #[inline(always)]
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Adds to the time of the completed children.
    #[inline(always)]
    pub(crate) fn add_child_nanos(&self, nanos: u64) {
        let sum = self.child_nanos.load(Ordering::Relaxed).wrapping_add(nanos);
        self.child_nanos.store(sum, Ordering::Relaxed);
    }

    /// Sets and clears flags. The owner's call, so no other thread writes meanwhile.
    pub(crate) fn change_flags(&self, set: u32, clear: u32) {
        let name_kind = self.name_kind.load(Ordering::Relaxed);
        let changed = (name_kind | u64::from(set) << 32) & !(u64::from(clear) << 32);
        self.name_kind.store(changed, Ordering::Relaxed);
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
            depth: AtomicU32::new(0),
            task: TaskScope::default(),
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
            let depth = self.depth.load(Ordering::Relaxed);
            let top = depth.checked_sub(1).and_then(|at| self.frames.get(at));
            let innermost = top.map_or(0, |frame| frame.id.load(Ordering::Relaxed));
            let is_inside = self.task.host.load(Ordering::Relaxed) == innermost;
            let task_node = self.task.node.load(Ordering::Relaxed);
            Position {
                depth,
                innermost,
                task_node: if is_inside { task_node } else { SHADOW_ROOT },
            }
        })
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
            let depth = self.depth.load(Ordering::Relaxed);
            frames.clear();
            frames.extend((0..depth).filter_map(|at| Some(self.frames.get(at)?.copy())));
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
