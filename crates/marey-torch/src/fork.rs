//! Forks of a process in which PyTorch's list of callbacks changes.
//!
//! PyTorch guards the list by a mutex, which a thread takes at its first operator after a change. A child
//! would wait for it for ever if another thread held it at the fork. So a fork waits until the threads that
//! are running have read the list. The thread that forks reads the list as well, so that it needs the mutex
//! in the child only after a further change.

use crate::callbacks::LIBRARY;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

/// The time after a change in which a running thread may not have read the list. A thread of Python that
/// has not begun an operator waits for the GIL, which a fork by Python holds.
const SETTLING: Duration = Duration::from_millis(100);

/// The origin of [`LAST_CHANGE`].
static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// The time of the last change, in nanoseconds after [`ORIGIN`].
static LAST_CHANGE: AtomicU64 = AtomicU64::new(0);

/// Notes that the list of callbacks changes.
pub(crate) fn note_change() {
    static REGISTERED: Once = Once::new();
    LAST_CHANGE.store(nanos(), Ordering::Relaxed);
    REGISTERED.call_once(|| {
        // SAFETY: the function lives as long as the library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), None, None) };
    });
}

fn nanos() -> u64 {
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[expect(clippy::disallowed_methods, reason = "nothing can wait for threads of PyTorch")]
extern "C" fn before_fork() {
    const PAUSE: Duration = Duration::from_micros(100);
    let Some(library) = LIBRARY.get() else { return };
    let settled = LAST_CHANGE.load(Ordering::Relaxed) + SETTLING.as_nanos() as u64;
    while nanos() < settled && another_thread_runs() {
        std::thread::sleep(PAUSE);
    }
    library.read_callbacks();
}

/// Whether the kernel runs another thread of this process, or would if a processor were free.
fn another_thread_runs() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    // SAFETY: a system call without arguments that always succeeds.
    let own_id = unsafe { libc::gettid() }.to_string();
    threads.flatten().filter(|thread| thread.file_name() != *own_id).any(|thread| {
        // The state follows the name, which may contain parentheses. D is the wait for a page of memory.
        std::fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| {
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['R', 'D']))
        })
    })
}
