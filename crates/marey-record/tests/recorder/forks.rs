//! Forks with a source of activities, which has a lock of its own.

use crate::harness::{enter, exit, fork, profile_of, run_in_subprocess, start};
use marey_record::device::{self, ActivitySource, FlushMode};
use marey_record::{Detached, Format, NodeKind, api};
use std::any::Any;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// A source that only has a lock.
struct LockingSource;

static LOCK: Mutex<()> = Mutex::new(());

fn lock_source() -> MutexGuard<'static, ()> {
    device::set_source(&LockingSource);
    LOCK.lock().unwrap()
}

impl ActivitySource for LockingSource {
    fn flush(&self, _mode: FlushMode) {}
    fn request_drain(&self) {}
    fn stop(&self) {}

    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new(lock_source())
    }

    fn begin_child(&self) {
        drop(lock_source());
    }
}

/// Registers a function that is called before forks.
#[expect(unsafe_code, reason = "pthread_atfork takes C functions")]
fn call_before_forks(function: unsafe extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::pthread_atfork(Some(function), None, None) };
}

static IS_FORKING: AtomicBool = AtomicBool::new(false);
static IS_LOCKED: AtomicBool = AtomicBool::new(false);
static IS_FORK_DONE: AtomicBool = AtomicBool::new(false);

fn wait_for(flag: &AtomicBool, timeout: Duration) {
    let deadline = Instant::now() + timeout;
    while !flag.load(Ordering::SeqCst) && Instant::now() < deadline {
        thread::yield_now();
    }
}

/// Lets the other thread set the source, and gives it time to take the lock, which must not
/// succeed.
extern "C" fn wait_for_other_thread_to_lock() {
    IS_FORKING.store(true, Ordering::SeqCst);
    wait_for(&IS_LOCKED, Duration::from_millis(300));
}

#[test]
fn a_source_set_during_a_fork_is_not_locked_in_the_child() {
    run_in_subprocess(&[], || {
        call_before_forks(wait_for_other_thread_to_lock); // after the recorder's, which come later
        start("profile", Format::Hatchet);
        let set_and_lock = || {
            wait_for(&IS_FORKING, Duration::from_mins(1));
            let _locked = lock_source();
            IS_LOCKED.store(true, Ordering::SeqCst);
            wait_for(&IS_FORK_DONE, Duration::from_mins(2));
        };
        let other =
            thread::Builder::new().name("sets the source".to_owned()).spawn(set_and_lock).unwrap();
        let child = fork(|| i32::from(IS_LOCKED.load(Ordering::SeqCst)));
        IS_FORK_DONE.store(true, Ordering::SeqCst);
        other.join().unwrap();
        assert_eq!(child, 0);
        assert!(IS_LOCKED.load(Ordering::SeqCst));
    });
}

static WAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// A prepare handler of a library, which takes the library's lock.
extern "C" fn note_whether_locked() {
    WAS_LOCKED.store(LOCK.try_lock().is_err(), Ordering::SeqCst);
}

#[test]
fn a_fork_takes_our_locks_before_those_of_the_source_s_library() {
    run_in_subprocess(&[], || {
        api::on_load();
        drop(lock_source());
        call_before_forks(note_whether_locked); // it is loaded, and then the session begins
        start("profile", Format::Hatchet);
        assert_eq!(fork(|| i32::from(LOCK.try_lock().is_err())), 0);
        assert!(WAS_LOCKED.load(Ordering::SeqCst) && LOCK.try_lock().is_ok());
    });
}

/// The operator and the detached scope that the parent is in when it forks.
static OPERATOR: AtomicU64 = AtomicU64::new(0);
static TASK: Mutex<Option<Arc<Detached>>> = Mutex::new(None);

/// Exits both, and enters another scope. Returns the counts by path.
fn exit_and_continue() -> Vec<(String, u64)> {
    let (operator, task) = (OPERATOR.load(Ordering::SeqCst), TASK.lock().unwrap().take().unwrap());
    task.exit();
    assert_eq!(api::exit_operator_with_id(operator), operator);
    let later = enter("later");
    assert!(later != operator && later != task.id(), "{later} is the id of an older scope");
    exit("later");
    let profile = profile_of(api::live_sessions()[0]);
    profile.counts().into_iter().map(|(path, count)| (path.to_owned(), count)).collect()
}

#[test]
fn scopes_open_at_a_fork_are_recorded_only_by_the_parent() {
    run_in_subprocess(&[], || {
        start("profile", Format::Hatchet);
        OPERATOR.store(api::enter_operator(api::intern("operator")), Ordering::SeqCst);
        let task = api::enter_detached(None, api::intern("task"), NodeKind::Scope);
        *TASK.lock().unwrap() = task;
        let child = fork(|| i32::from(exit_and_continue() != [("later".to_owned(), 1)]));
        assert_eq!(child, 0, "the child recorded a scope that the parent entered");
        let expected = ["later", "operator", "operator/task"].map(|path| (path.to_owned(), 1));
        assert_eq!(exit_and_continue(), expected);
    });
}

static THREADS_AT_FORK: AtomicUsize = AtomicUsize::new(0);

/// Returns how many threads of this process the kernel lists.
fn count_threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

extern "C" fn note_threads() {
    THREADS_AT_FORK.store(count_threads(), Ordering::SeqCst);
}

/// Forks a child that exits at once, and waits for it without a further thread.
#[expect(unsafe_code, reason = "std has no fork")]
fn fork_and_reap() {
    // SAFETY: the child calls nothing but `_exit`.
    let child = unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            child => child,
        }
    };
    // SAFETY: a null status is not written.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
}

#[test]
fn the_kernel_lists_no_background_thread_at_a_fork() {
    // A fork that waited for longer may have left threads: on a busy machine they have not run.
    const LONGEST_WAIT: Duration = Duration::from_millis(100);
    run_in_subprocess(&[], || {
        call_before_forks(note_threads); // after the recorder's, which come later
        let threads = count_threads();
        start("trace", Format::ChromeTrace);
        let mut checked = 0;
        while checked < 500 {
            let began = Instant::now();
            fork_and_reap();
            if began.elapsed() < LONGEST_WAIT {
                assert_eq!(THREADS_AT_FORK.load(Ordering::SeqCst), threads);
                checked += 1;
            }
        }
        assert!(count_threads() > threads, "no background thread runs");
    });
}
