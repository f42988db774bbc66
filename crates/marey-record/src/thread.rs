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
use crate::scope_frame::{OpenScope, ScopeFrame};
use crate::seq::Seq;
use crate::trace::Log;
use crate::tree::{Node, Nodes, SHADOW_ROOT};
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
    pub(crate) frames: Arena<ScopeFrame, 6>,
    pub(crate) task: TaskScope,
    /// The frame below all scopes.
    pub(crate) bottom: ScopeFrame,
    /// The innermost frame, or the bottom frame. Null before the owner has begun.
    pub(crate) top: Link<ScopeFrame>,
    /// The frame below `top`; `bottom` if `top` is `bottom`. Owner only, like the fields below.
    pub(crate) outer: Link<ScopeFrame>,
    /// The link to the node that was entered next on the last visit to this position. Null if the
    /// slow path must look first.
    pub(crate) expected: Link<Link<Node>>,
    /// The id of the next scope.
    next_id: AtomicU64,
    /// The id of the name of the innermost state, 0 for none.
    pub(crate) state_name_id: AtomicU32,
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
            bottom: ScopeFrame::default(),
            top: Link::default(),
            outer: Link::default(),
            expected: Link::default(),
            next_id: AtomicU64::new(0),
            state_name_id: AtomicU32::new(0),
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
    pub(crate) fn set_top(&self, frame: &ScopeFrame) {
        self.set_top_expecting(frame, frame.node().map(|node| &node.expected_child));
    }

    /// Makes a frame the innermost one, with the link to the node that is expected next.
    #[inline(always)]
    pub(crate) fn set_top_expecting(&self, frame: &ScopeFrame, expected: Option<&Link<Node>>) {
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
    fn frames_from_top(&self) -> impl Iterator<Item = &ScopeFrame> {
        let frames = std::iter::successors(self.top_frame(), |frame| frame.below());
        frames.filter(|frame| frame.depth() > 0)
    }

    /// Returns the innermost frame, or the bottom frame. `None` before the owner has begun.
    #[inline]
    #[expect(unsafe_code, reason = "the frame is reached through a link")]
    fn top_frame(&self) -> Option<&ScopeFrame> {
        // SAFETY: a frame of this tree, which `self` keeps alive.
        unsafe { self.top.get() }
    }

    /// Returns the id of the innermost scope, 0 for none. Only for the owner.
    #[inline(always)]
    pub(crate) fn top_id(&self) -> u64 {
        self.top_frame().map_or(0, ScopeFrame::id)
    }

    /// Whether this thread made the id of a scope.
    pub(crate) fn owns_id(&self, id: u64) -> bool {
        registry::are_ids_of_one_thread(id, self.next_id.load(Ordering::Relaxed))
    }

    /// Returns when the innermost scope was entered. Only for the owner.
    #[inline]
    pub(crate) fn top_start_ticks(&self) -> Option<u64> {
        self.top_frame().map(ScopeFrame::start_ticks)
    }

    /// Returns the open scopes, outermost first. The copy may be torn if the thread never paused
    /// for long enough.
    pub(crate) fn open_scopes(&self) -> Vec<OpenScope> {
        let mut frames = Vec::new();
        self.copy_open_scopes(&mut frames);
        frames
    }

    /// Copies the open scopes, outermost first, into `frames`, whose contents are replaced.
    pub(crate) fn copy_open_scopes(&self, frames: &mut Vec<OpenScope>) {
        const ATTEMPTS: u32 = 20;
        let mut copy = || {
            frames.clear();
            frames.extend(self.frames_from_top().map(ScopeFrame::copy));
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
