//! What Ctrl-C, and being ended, do first: stop the query that runs, or else remove what is unfinished.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use marey_query::sql::Canceller;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Threads may still write into a folder that goes; once it is gone, they fail.
const MAX_TRIES: usize = 100;

static STATE: Mutex<State> =
    Mutex::new(State { listens: Listens::Never, query: None, unfinished: Vec::new() });

struct State {
    listens: Listens,
    /// What stops the query that ran last; none before the first.
    query: Option<Canceller>,
    unfinished: Vec<PathBuf>,
}

/// Who answers signals.
#[derive(Clone, Copy, PartialEq)]
enum Listens {
    /// Not this: it is a library of another program.
    Never,
    /// This, as soon as there is something to do.
    WhenNeeded,
    /// This.
    Now,
}

/// Says that the process is this program, whose signals are answered here.
pub(crate) fn answers_signals() {
    let mut state = state();
    if state.listens == Listens::Never {
        state.listens = Listens::WhenNeeded;
    }
}

/// Lets Ctrl-C stop this query, in place of the one before, and no longer end the program.
pub(crate) fn stops(query: Canceller) -> io::Result<()> {
    state().query = Some(query);
    listen()
}

/// Something that must not stay if the program is ended now. Who makes it removes it in all other cases.
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        state().unfinished.push(path.to_owned());
        let unfinished = Self(path.to_owned());
        listen()?;
        Ok(unfinished)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        state().unfinished.retain(|path| *path != self.0);
    }
}

/// Does something that no signal may end halfway.
pub(crate) fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _state = state();
    work()
}

fn listen() -> io::Result<()> {
    {
        let mut state = state();
        if state.listens != Listens::WhenNeeded {
            return Ok(());
        }
        state.listens = Listens::Now;
    }
    let ignored = ignored_signals();
    let answered = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let mut signals = Signals::new(answered.filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    let listen = move || signals.forever().for_each(answer);
    thread::Builder::new().name("marey-signals".into()).spawn(listen).map(drop)
}

/// The signals that whoever started the program keeps from it, as `nohup` does: a bit each, from 1 on.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn answer(signal: i32) {
    let state = state();
    if let Some(query) = state.query.as_ref().filter(|_| signal == SIGINT) {
        query.cancel();
        return;
    }
    for path in &state.unfinished {
        for _try in 0..MAX_TRIES {
            let removed =
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            if removed.is_ok() || !path.exists() {
                break;
            }
        }
    }
    // Ends the program, or fails where somebody else answers the signal.
    drop(emulate_default_handler(signal));
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
