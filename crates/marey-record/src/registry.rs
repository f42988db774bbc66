//! The threads of the process that record, and those that have ended since anybody asked.
//!
//! Lock order: threads, then main. Nothing here waits for a thread while it holds a lock.

use crate::control::CONTROL;
use crate::recorder;
use crate::sync::heavy_fence;
use crate::thread::{self, ThreadTree};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Threads that ended, kept until there are this many of them.
const ENDED_BEFORE_FOLD: usize = 64;

static THREADS: Mutex<Threads> = Mutex::new(Threads::new());
static MAIN: Mutex<Option<Arc<ThreadTree>>> = Mutex::new(None);

struct Threads {
    running: Vec<Arc<ThreadTree>>,
    ended: Vec<Arc<ThreadTree>>,
    started: u64,
    /// Events of trees that are forgotten.
    past_events: u64,
}

impl Threads {
    const fn new() -> Self {
        Self { running: Vec::new(), ended: Vec::new(), started: 0, past_events: 0 }
    }

    fn forget(&mut self, tree: &Arc<ThreadTree>) -> bool {
        let before = self.running.len();
        self.running.retain(|running| !Arc::ptr_eq(running, tree));
        self.running.len() < before
    }
}

/// Locks; a panic elsewhere must not spread into the program, and the data is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, if nobody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A thread begins to record. Returns its tree and its first scope id.
pub(crate) fn started() -> (Arc<ThreadTree>, u64) {
    const IDS_PER_THREAD_LOG2: u32 = 40;
    let tree = Arc::new(ThreadTree::new());
    let mut threads = lock(&THREADS);
    threads.running.push(Arc::clone(&tree));
    let ordinal = threads.started;
    threads.started += 1;
    drop(threads);
    lock(&MAIN).get_or_insert_with(|| Arc::clone(&tree));
    (tree, (ordinal << IDS_PER_THREAD_LOG2) + 1)
}

/// A thread is over. Its tree is kept for the sessions that are alive.
pub(crate) fn ended(tree: &Arc<ThreadTree>) {
    let mut threads = lock(&THREADS);
    if !threads.forget(tree) {
        return;
    }
    if !CONTROL.is_live() {
        threads.past_events += tree.seq.events();
        return;
    }
    threads.ended.push(Arc::clone(tree));
    let is_time = threads.ended.len() >= ENDED_BEFORE_FOLD;
    drop(threads);
    if is_time {
        recorder::try_fold_ended();
    }
}

/// A tree of an older epoch is not needed any more.
pub(crate) fn forget(tree: &Arc<ThreadTree>) {
    let mut threads = lock(&THREADS);
    threads.forget(tree);
    threads.past_events += tree.seq.events();
}

/// The tree of the main thread, unless it is `own`.
pub(crate) fn main_tree(own: &Arc<ThreadTree>) -> Option<Arc<ThreadTree>> {
    lock(&MAIN).clone().filter(|main| !Arc::ptr_eq(main, own))
}

/// Takes the threads that have ended, and looks who runs at that very moment: a thread is in one of
/// the two, also if it ends meanwhile.
pub(crate) fn take_ended() -> (Vec<Arc<ThreadTree>>, Vec<Arc<ThreadTree>>) {
    let mut threads = lock(&THREADS);
    let running = threads.running.clone();
    let ended = std::mem::take(&mut threads.ended);
    threads.past_events += ended.iter().map(|tree| tree.seq.events()).sum::<u64>();
    (running, ended)
}

/// The threads that record now.
pub(crate) fn running() -> Vec<Arc<ThreadTree>> {
    lock(&THREADS).running.clone()
}

/// The bits of the sessions, over or not, that saw a scope entered which is open now.
pub(crate) fn sessions_of_open_scopes() -> u64 {
    let threads = running();
    let frames = threads.iter().flat_map(|thread| thread.open_frames());
    frames.fold(0, |bits, frame| bits | frame.sessions)
}

/// Waits until every thread has left the event that it may be in. Whether one can be sure of it.
pub(crate) fn wait_outside_events(threads: &[Arc<ThreadTree>]) -> bool {
    let is_sure = heavy_fence();
    for thread in threads {
        thread.seq.wait_outside_event();
    }
    is_sure
}

/// Events of all threads since recording began.
pub(crate) fn events() -> u64 {
    let threads = lock(&THREADS);
    let trees = threads.running.iter().chain(&threads.ended);
    threads.past_events + trees.map(|tree| tree.seq.events()).sum::<u64>()
}

/// Recording starts from nothing: what has ended is forgotten, and the next thread is the main one.
pub(crate) fn begin_epoch() {
    let mut threads = lock(&THREADS);
    threads.ended.clear();
    threads.past_events = 0;
    drop(threads);
    *lock(&MAIN) = None;
}

/// In the child of a fork, which has one thread: it begins anew.
pub(crate) fn begin_child() {
    let mut threads = lock(&THREADS);
    // Scopes that the parent entered keep their ids, which new ones must not have.
    *threads = Threads { started: threads.started, ..Threads::new() };
    drop(threads);
    *lock(&MAIN) = None;
    thread::begin_child();
}

/// Holds the locks over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    (lock(&THREADS), lock(&MAIN))
}
