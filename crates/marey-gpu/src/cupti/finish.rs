//! Waits until the devices have finished their work.
//!
//! `cuCtxSynchronize` has no timeout, and never returns if a collective's peer has died. A program
//! that calls `finalize` asks to wait, but a program that exits must exit. At exit a separate
//! thread therefore synchronises, and the exit waits only a few seconds for it.

use super::callback;
use super::driver::Driver;
use crate::lock;
use marey_record::{Worker, api, device};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The longest wait for the devices at exit. It is shorter than the time after which a process that
/// SIGTERM ends leaves files unwritten (`Progress` in `marey-record`).
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The key of the note in a run whose last activities are missing.
const NOTE_KEY: &str = "gpu end";

/// The thread that synchronises at exit.
static WAITER: Worker = Worker::new("marey-gpu-wait", wait_and_notify);

/// Progress of [`WAITER`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Done,
    Waiting,
    /// The wait has timed out and is not repeated.
    GivenUp,
}

static PROGRESS: Mutex<Progress> = Mutex::new(Progress::Done);
static PROGRESS_CHANGED: Condvar = Condvar::new();

/// Waits until every context has finished its work, with a timeout if the process is exiting.
/// Returns whether it has.
pub(super) fn wait_for_devices() -> bool {
    if !device::is_process_exiting() {
        callback::without_recording(synchronize);
        return true;
    }
    let mut progress = lock(&PROGRESS);
    if *progress == Progress::GivenUp {
        return false;
    }
    *progress = Progress::Waiting;
    api::start_source(&WAITER);
    let is_waiting = |progress: &mut Progress| *progress == Progress::Waiting;
    let (mut progress, _) = PROGRESS_CHANGED
        .wait_timeout_while(progress, EXIT_TIMEOUT, is_waiting)
        .unwrap_or_else(PoisonError::into_inner);
    if *progress == Progress::Done {
        return true;
    }
    *progress = Progress::GivenUp;
    device::note(
        NOTE_KEY,
        "the process ended while devices were busy: their last activities are missing",
    );
    false
}

fn wait_and_notify() {
    callback::without_recording(synchronize);
    *lock(&PROGRESS) = Progress::Done;
    PROGRESS_CHANGED.notify_all();
}

/// Synchronises every context without a timeout. Does nothing while a stream is in capture, which
/// synchronising would invalidate.
#[expect(unsafe_code, reason = "calls of the driver")]
fn synchronize() {
    let Ok(driver) = Driver::get() else { return };
    if callback::is_capturing() {
        return;
    }
    let functions = &driver.functions;
    let (Some(push), Some(pop)) = (functions.ctx_push_current, functions.ctx_pop_current) else {
        driver.synchronize().unwrap_or(());
        return;
    };
    for context in callback::contexts() {
        // SAFETY: the context exists: CUPTI reported its use and has not reported its destruction.
        if unsafe { push(context) } != 0 {
            continue;
        }
        // An error here also occurs in the program's own calls, which report it.
        driver.synchronize().unwrap_or(());
        let mut popped = std::ptr::null_mut();
        // SAFETY: the context was pushed above, and the address is writable.
        unsafe { pop(&raw mut popped) };
    }
}
