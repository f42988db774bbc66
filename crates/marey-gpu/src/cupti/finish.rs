//! Waiting until devices have worked off what was launched.
//!
//! CUDA's call for that has no time limit, and behind a collective whose peer is gone it never returns. A
//! program that calls `finalize` asks for that; one that ends must end. Then a thread of its own makes the
//! call, and nobody waits for it longer than a few seconds.

use super::callback;
use super::driver::Driver;
use marey_record::{Worker, api, device};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Shorter than what a process that SIGTERM ends waits for files to grow.
const LONGEST: Duration = Duration::from_secs(3);

/// The key under which profiles and runs say that not all was waited for.
const NOTE: &str = "gpu end";

/// The thread that waits where the process ends.
static WAITER: Worker = Worker::new("marey-gpu-wait", wait_and_tell);

/// How far [`WAITER`] is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Done,
    Waiting,
    /// It was given up, and is waited for no more.
    GivenUp,
}

static PROGRESS: Mutex<Progress> = Mutex::new(Progress::Done);
static CHANGED: Condvar = Condvar::new();

/// Waits until every context has worked off what was launched in it; where the process ends, only so long.
/// Whether they have.
pub(super) fn wait_for_devices() -> bool {
    if !device::is_process_ending() {
        callback::ours(synchronize);
        return true;
    }
    let mut progress = PROGRESS.lock().unwrap_or_else(PoisonError::into_inner);
    if *progress == Progress::GivenUp {
        return false;
    }
    *progress = Progress::Waiting;
    api::start_source(&WAITER);
    let is_waiting = |progress: &mut Progress| *progress == Progress::Waiting;
    let (mut progress, _) = CHANGED
        .wait_timeout_while(progress, LONGEST, is_waiting)
        .unwrap_or_else(PoisonError::into_inner);
    if *progress == Progress::Done {
        return true;
    }
    *progress = Progress::GivenUp;
    device::note(
        NOTE,
        "the process ended while devices were at work: what they did last is missing",
    );
    false
}

fn wait_and_tell() {
    callback::ours(synchronize);
    *PROGRESS.lock().unwrap_or_else(PoisonError::into_inner) = Progress::Done;
    CHANGED.notify_all();
}

/// Waits without a limit, unless a stream is being captured: that would spoil the capture.
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
        // SAFETY: the context exists: the library told of its making and has not told of its end.
        if unsafe { push(context) } != 0 {
            continue;
        }
        // What fails here fails in the program's own calls too, which tell it.
        driver.synchronize().unwrap_or(());
        let mut before = std::ptr::null_mut();
        // SAFETY: the context was pushed above, and the address can be written.
        unsafe { pop(&raw mut before) };
    }
}
