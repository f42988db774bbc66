//! The threads of the process that record, and those that have ended since anybody asked.
//!
//! Lock order: threads, then main. Nothing here waits for a thread while it holds a lock.

use crate::clock;
use crate::control::CONTROL;
use crate::lock::lock;
use crate::recorder;
use crate::sync::heavy_fence;
use crate::thread::{self, ThreadTree};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads that ended, kept until there are this many of them.
const ENDED_BEFORE_FOLD: usize = 64;

static THREADS: Mutex<Threads> = Mutex::new(Threads::new());
static MAIN: Mutex<Option<Arc<ThreadTree>>> = Mutex::new(None);

struct Threads {
    running: Vec<Arc<ThreadTree>>,
    ended: Vec<Arc<ThreadTree>>,
    started: u64,
    /// Of threads that have ended, in the present epoch.
    past: Activity,
}

/// What threads did since recording began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    pub(crate) events: u64,
    /// For how long they recorded, all of them together.
    pub(crate) ticks: u64,
}

impl Activity {
    const NONE: Self = Self { events: 0, ticks: 0 };

    /// Adds what a thread did up to a moment, unless its tree is of an earlier recording.
    fn add(&mut self, tree: &ThreadTree, now_ticks: u64) {
        if tree.epoch == CONTROL.epoch.load(Ordering::Relaxed) {
            self.events += tree.seq.events();
            self.ticks += now_ticks.saturating_sub(tree.began_ticks);
        }
    }
}

impl Threads {
    const fn new() -> Self {
        Self { running: Vec::new(), ended: Vec::new(), started: 0, past: Activity::NONE }
    }

    fn forget(&mut self, tree: &Arc<ThreadTree>) -> bool {
        let before = self.running.len();
        self.running.retain(|running| !Arc::ptr_eq(running, tree));
        self.running.len() < before
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
    threads.past.add(tree, clock::ticks());
    if !CONTROL.is_live() {
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
    lock(&THREADS).forget(tree);
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

/// Waits until every thread has left the event that it may be in, or is [stuck](ThreadTree::is_stuck).
/// Whether one can be sure of it.
#[expect(clippy::disallowed_methods, reason = "the end of an event wakes nobody")]
pub(crate) fn wait_outside_events(threads: &[Arc<ThreadTree>]) -> bool {
    /// Threads that have lost the processor get it back long before.
    const LONGEST: Duration = Duration::from_secs(1);
    /// After this, the one that waits may be what keeps the other from running.
    const BUSY: Duration = Duration::from_millis(1);
    let is_sure = heavy_fence();
    let began = Instant::now();
    let mut rest = || {
        let waited = began.elapsed();
        if waited < BUSY {
            std::thread::yield_now();
        } else {
            std::thread::sleep(BUSY);
        }
        waited < LONGEST
    };
    for thread in threads {
        thread.wait_outside_event(&mut rest);
    }
    is_sure
}

/// What all threads did since recording began.
pub(crate) fn activity() -> Activity {
    let threads = lock(&THREADS);
    let now = clock::ticks();
    let mut all = threads.past;
    threads.running.iter().for_each(|tree| all.add(tree, now));
    all
}

/// Recording starts from nothing: what has ended is forgotten, and the next thread is the main one.
pub(crate) fn begin_epoch() {
    let mut threads = lock(&THREADS);
    threads.ended.clear();
    threads.past = Activity::NONE;
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
