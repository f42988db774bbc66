//! Handles SIGINT, SIGTERM and SIGHUP on a thread.
//!
//! Ctrl-C cancels a running query. A command such as `marey record` can ask for the first signal,
//! to end in order. In all other cases the unfinished files are removed and the signal ends the
//! program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use marey_query::sql::Canceller;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The maximum number of attempts to remove a folder. An attempt fails while threads write into it.
const MAX_ATTEMPTS: usize = 100;

static STATE: Mutex<SignalState> = Mutex::new(SignalState {
    handling: Handling::Off,
    query_canceller: None,
    stop_sender: None,
    unfinished_paths: Vec::new(),
});

struct SignalState {
    handling: Handling,
    /// Cancels the last query. `None` before the first query.
    query_canceller: Option<Canceller>,
    /// The channel of [`stop_on_interrupt`], until it has got its signal.
    stop_sender: Option<SyncSender<()>>,
    unfinished_paths: Vec<PathBuf>,
}

/// Whether this module handles signals.
#[derive(Clone, Copy, PartialEq)]
enum Handling {
    /// Signals are not handled, because marey is part of another program, such as Python.
    Off,
    /// Signals are handled once there is something to cancel or remove.
    OnDemand,
    /// Signals are handled.
    On,
}

/// Enables signal handling while the value lives. Only for a command line of this program.
#[must_use]
pub(crate) fn enable() -> EnabledHandling {
    let mut state = state();
    if state.handling == Handling::Off {
        state.handling = Handling::OnDemand;
    }
    EnabledHandling
}

/// Signal handling on demand. Where the command line was a call of another program, such as Python,
/// nothing is handled from its end on, unless the command itself has begun to.
pub(crate) struct EnabledHandling;

impl Drop for EnabledHandling {
    fn drop(&mut self) {
        let mut state = state();
        if state.handling == Handling::OnDemand {
            state.handling = Handling::Off;
        }
    }
}

/// Makes Ctrl-C cancel this query, in place of the previous one, and no longer end the program.
pub(crate) fn cancel_on_interrupt(canceller: Canceller) -> io::Result<()> {
    state().query_canceller = Some(canceller);
    start_thread()
}

/// Returns a channel that receives the next signal, such as Ctrl-C. That signal does not end the
/// program, and the one after it does.
pub(crate) fn stop_on_interrupt() -> io::Result<Receiver<()>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    state().stop_sender = Some(sender);
    start_thread()?;
    Ok(receiver)
}

/// A path to remove if a signal ends the program. In all other cases the creator removes it.
pub(crate) struct UnfinishedPath(PathBuf);

impl UnfinishedPath {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        state().unfinished_paths.push(path.to_owned());
        let unfinished = Self(path.to_owned());
        start_thread()?;
        Ok(unfinished)
    }
}

impl Drop for UnfinishedPath {
    fn drop(&mut self) {
        state().unfinished_paths.retain(|path| *path != self.0);
    }
}

/// Runs `work`. A signal that arrives meanwhile waits for the lock, so it cannot end the program.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let _state = state();
    work()
}

fn start_thread() -> io::Result<()> {
    {
        let mut state = state();
        if state.handling != Handling::OnDemand {
            return Ok(());
        }
        state.handling = Handling::On;
    }
    let ignored = ignored_signals();
    let handled = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let mut signals = Signals::new(handled.filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    let listen = move || signals.forever().for_each(handle_signal);
    thread::Builder::new().name("marey-signals".into()).spawn(listen).map(drop)
}

/// Returns a mask of the signals that this process was started to ignore, as `nohup` does. Bit 0 is
/// signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn handle_signal(signal: i32) {
    let mut state = state();
    if state.stop_sender.take().is_some_and(|sender| sender.try_send(()).is_ok()) {
        return;
    }
    if let Some(canceller) = state.query_canceller.as_ref().filter(|_| signal == SIGINT) {
        canceller.cancel();
        return;
    }
    for path in &state.unfinished_paths {
        for _attempt in 0..MAX_ATTEMPTS {
            let removed =
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            if removed.is_ok() || !path.exists() {
                break;
            }
        }
    }
    // Ends the program, or fails where another handler is installed.
    drop(emulate_default_handler(signal));
}

fn state() -> MutexGuard<'static, SignalState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
