//! The list of the threads that record, and of the threads that have ended since their data was
//! last folded into the sessions.
//!
//! Lock order: threads, then main. No lock is held here while waiting for a thread.

use crate::clock;
use crate::control::CONTROL;
use crate::lock::lock;
use crate::recorder;
use crate::sync::heavy_fence;
use crate::thread::{self, ThreadTree};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The number of ended threads after which their data is folded.
const ENDED_BEFORE_FOLD: usize = 64;

static THREADS: Mutex<ThreadRegistry> = Mutex::new(ThreadRegistry::new());
static MAIN_THREAD: Mutex<Option<Arc<ThreadTree>>> = Mutex::new(None);

struct ThreadRegistry {
    running: Vec<Arc<ThreadTree>>,
    ended: Vec<Arc<ThreadTree>>,
    started_count: u64,
    /// Totals of the threads that have ended in the current epoch.
    ended_totals: Totals,
}

/// Totals over threads since recording began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) events: u64,
    /// The sum of the lifetimes of the threads.
    pub(crate) lifetime_ticks: u64,
}

impl Totals {
    const NONE: Self = Self { events: 0, lifetime_ticks: 0 };

    /// Adds the totals of a thread until `now_ticks`, unless its tree is of an older epoch.
    fn add(&mut self, tree: &ThreadTree, now_ticks: u64) {
        if tree.epoch == CONTROL.epoch.load(Ordering::Relaxed) {
            self.events += tree.seq.completed_events();
            self.lifetime_ticks += now_ticks.saturating_sub(tree.created_ticks);
        }
    }
}

impl ThreadRegistry {
    const fn new() -> Self {
        Self {
            running: Vec::new(),
            ended: Vec::new(),
            started_count: 0,
            ended_totals: Totals::NONE,
        }
    }

    fn remove(&mut self, tree: &Arc<ThreadTree>) -> bool {
        let before = self.running.len();
        self.running.retain(|running| !Arc::ptr_eq(running, tree));
        self.running.len() < before
    }
}

/// Each thread has a range of scope ids.
const IDS_PER_THREAD_LOG2: u32 = 40;

/// Whether two ids are of scopes of one thread, and one epoch.
pub(crate) fn are_ids_of_one_thread(id: u64, other: u64) -> bool {
    id >> IDS_PER_THREAD_LOG2 == other >> IDS_PER_THREAD_LOG2
}

/// Registers the calling thread. Returns its tree and its first scope id.
pub(crate) fn register() -> (Arc<ThreadTree>, u64) {
    let tree = Arc::new(ThreadTree::new());
    let mut threads = lock(&THREADS);
    threads.running.push(Arc::clone(&tree));
    let ordinal = threads.started_count;
    threads.started_count += 1;
    drop(threads);
    lock(&MAIN_THREAD).get_or_insert_with(|| Arc::clone(&tree));
    (tree, (ordinal << IDS_PER_THREAD_LOG2) + 1)
}

/// Exits a scope of another thread: that thread does it at its next event, as of `ticks`.
pub(crate) fn exit_remotely(scope: u64, ticks: u64) {
    let threads = lock(&THREADS);
    if let Some(owner) = threads.running.iter().find(|tree| tree.owns_id(scope)) {
        owner.remote_exits.add(scope, ticks);
    }
}

/// Moves a thread that has ended to the list of ended threads, for the sessions that are alive.
pub(crate) fn unregister(tree: &Arc<ThreadTree>) {
    let mut threads = lock(&THREADS);
    if !threads.remove(tree) {
        return;
    }
    threads.ended_totals.add(tree, clock::ticks());
    if !CONTROL.is_live() {
        return;
    }
    threads.ended.push(Arc::clone(tree));
    let is_fold_due = threads.ended.len() >= ENDED_BEFORE_FOLD;
    drop(threads);
    if is_fold_due {
        recorder::try_fold_ended_threads();
    }
}

/// Removes a tree of an older epoch.
pub(crate) fn remove(tree: &Arc<ThreadTree>) {
    lock(&THREADS).remove(tree);
}

/// Returns the tree of the main thread, unless it is `except`.
pub(crate) fn main_tree(except: &Arc<ThreadTree>) -> Option<Arc<ThreadTree>> {
    lock(&MAIN_THREAD).clone().filter(|main| !Arc::ptr_eq(main, except))
}

/// Returns the running threads, and takes the ended ones. Both are read under one lock, so each
/// thread is in exactly one of the lists.
pub(crate) fn take_ended() -> (Vec<Arc<ThreadTree>>, Vec<Arc<ThreadTree>>) {
    let mut threads = lock(&THREADS);
    let running = threads.running.clone();
    let ended = std::mem::take(&mut threads.ended);
    (running, ended)
}

/// Returns the threads that record now.
pub(crate) fn running_threads() -> Vec<Arc<ThreadTree>> {
    lock(&THREADS).running.clone()
}

/// Returns the bits of all sessions, live or ended, that saw the entry of a scope that is open now.
pub(crate) fn sessions_of_open_scopes() -> u64 {
    let threads = running_threads();
    threads.iter().fold(0, |bits, thread| {
        let scopes = thread.open_scopes().into_iter();
        let outliving = thread.outliving_sessions.load(Ordering::Relaxed);
        scopes.fold(bits | outliving, |bits, scope| bits | scope.sessions)
    })
}

/// Waits until every thread has left the event that it may be in, or is
/// [stuck](ThreadTree::is_stuck). Returns whether this is certain.
#[expect(clippy::disallowed_methods, reason = "the end of an event notifies no thread")]
pub(crate) fn wait_outside_events(threads: &[Arc<ThreadTree>]) -> bool {
    /// Long enough for a preempted thread to run again.
    const TIMEOUT: Duration = Duration::from_secs(1);
    /// After this time the waiting thread sleeps, because it may be what keeps the other thread
    /// from running.
    const SPIN_TIME: Duration = Duration::from_millis(1);
    let is_certain = heavy_fence();
    let start = Instant::now();
    let mut pause = || {
        let waited = start.elapsed();
        if waited < SPIN_TIME {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SPIN_TIME);
        }
        waited < TIMEOUT
    };
    for thread in threads {
        thread.wait_outside_event(&mut pause);
    }
    is_certain
}

/// Returns the totals of all threads since recording began.
pub(crate) fn totals() -> Totals {
    let threads = lock(&THREADS);
    let now = clock::ticks();
    let mut totals = threads.ended_totals;
    threads.running.iter().for_each(|tree| totals.add(tree, now));
    totals
}

/// Begins an epoch: drops the ended threads. The next thread to register is the main one.
pub(crate) fn begin_epoch() {
    let mut threads = lock(&THREADS);
    threads.ended.clear();
    threads.ended_totals = Totals::NONE;
    drop(threads);
    *lock(&MAIN_THREAD) = None;
}

/// Drops all threads in the child of a fork, whose one thread registers again.
pub(crate) fn begin_child() {
    let mut threads = lock(&THREADS);
    // Scopes that the parent entered keep their ids, so new ids must differ from them.
    *threads = ThreadRegistry { started_count: threads.started_count, ..ThreadRegistry::new() };
    drop(threads);
    *lock(&MAIN_THREAD) = None;
    thread::begin_child();
}

/// Takes the locks for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    (lock(&THREADS), lock(&MAIN_THREAD))
}
