//! Signal handling: Ctrl-C cancels a running query; otherwise signals remove unfinished files
//! first.

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

/// Attempts to remove a folder: threads may still write into it, and fail once it is removed.
const MAX_ATTEMPTS: usize = 100;

static STATE: Mutex<State> =
    Mutex::new(State { handling: Handling::Off, query: None, stop: None, unfinished: Vec::new() });

struct State {
    handling: Handling,
    /// Cancels the last query; `None` before the first.
    query: Option<Canceller>,
    /// Receives the next Ctrl-C or request to end, which does not end the program.
    stop: Option<SyncSender<()>>,
    unfinished: Vec<PathBuf>,
}

/// Whether this module handles signals.
#[derive(Clone, Copy, PartialEq)]
enum Handling {
    /// No: it is part of another program.
    Off,
    /// Once there is something to cancel or remove.
    OnDemand,
    /// Yes.
    On,
}

/// Enables signal handling, for a process that is this program.
pub(crate) fn enable() {
    let mut state = state();
    if state.handling == Handling::Off {
        state.handling = Handling::OnDemand;
    }
}

/// Makes Ctrl-C cancel this query instead of the previous one, and no longer end the program.
pub(crate) fn cancel_on_interrupt(query: Canceller) -> io::Result<()> {
    state().query = Some(query);
    start_thread()
}

/// Returns a channel that receives the next Ctrl-C or request to end, which does not end the program.
/// The one after it does.
pub(crate) fn stop_on_interrupt() -> io::Result<Receiver<()>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    state().stop = Some(sender);
    start_thread()?;
    Ok(receiver)
}

/// A path to remove if a signal ends the program. In all other cases the creator removes it.
pub(crate) struct UnfinishedPath(PathBuf);

impl UnfinishedPath {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        state().unfinished.push(path.to_owned());
        let unfinished = Self(path.to_owned());
        start_thread()?;
        Ok(unfinished)
    }
}

impl Drop for UnfinishedPath {
    fn drop(&mut self) {
        state().unfinished.retain(|path| *path != self.0);
    }
}

/// Runs `work` while no signal can end the program.
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

/// Returns the signals that the parent process ignores for this one, as `nohup` does: bit 0 is
/// signal 1.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn handle_signal(signal: i32) {
    let mut state = state();
    if state.stop.take().is_some_and(|stop| stop.try_send(()).is_ok()) {
        return;
    }
    if let Some(query) = state.query.as_ref().filter(|_| signal == SIGINT) {
        query.cancel();
        return;
    }
    for path in &state.unfinished {
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

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
