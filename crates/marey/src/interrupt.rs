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

static STATE: Mutex<State> =
    Mutex::new(State { handling: Handling::Off, query: None, stop: None, unfinished: Vec::new() });

struct State {
    handling: Handling,
    /// Cancels the last query. `None` before the first query.
    query: Option<Canceller>,
    /// The channel of [`stop_on_interrupt`], until it has got its signal.
    stop: Option<SyncSender<()>>,
    unfinished: Vec<PathBuf>,
}

/// Whether this module handles signals.
#[derive(Clone, Copy, PartialEq)]
enum Handling {
    /// It does not, because it is part of another program, such as Python.
    Off,
    /// It will, once there is something to cancel or remove.
    OnDemand,
    /// It does.
    On,
}

/// Enables signal handling. Only for a process that is this program.
pub(crate) fn enable() {
    let mut state = state();
    if state.handling == Handling::Off {
        state.handling = Handling::OnDemand;
    }
}

/// Makes Ctrl-C cancel this query, in place of the previous one, and no longer end the program.
pub(crate) fn cancel_on_interrupt(query: Canceller) -> io::Result<()> {
    state().query = Some(query);
    start_thread()
}

/// Returns a channel that receives the next signal, such as Ctrl-C. That signal does not end the
/// program, and the one after it does.
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
