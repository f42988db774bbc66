//! Ctrl-C, which stops the query that runs and nothing else.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use marey_query::sql::Canceller;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

/// What stops the query that ran last; none before the first, which ends the program as usual.
static RUNNING: Mutex<Option<Canceller>> = Mutex::new(None);

/// Lets Ctrl-C stop this query, in place of the one before.
pub(super) fn stops(query: Canceller) -> io::Result<()> {
    let is_first = running().replace(query).is_none();
    if is_first { listen() } else { Ok(()) }
}

/// From here on Ctrl-C no longer ends the program.
fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    let listen = move || {
        for _ in &mut signals {
            if let Some(query) = running().as_ref() {
                query.cancel();
            }
        }
    };
    thread::Builder::new().name("marey-ctrl-c".into()).spawn(listen).map(drop)
}

fn running() -> MutexGuard<'static, Option<Canceller>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
