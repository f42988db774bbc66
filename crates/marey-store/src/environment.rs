//! A snapshot of the environment variables and the temporary directory.
//!
//! In a program with threads, `getenv` may read memory that a concurrent `setenv` has freed. So the
//! environment is read only at times that the host program chooses.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use marey_model::env;

/// The parts of the environment that this crate uses.
#[derive(Clone, Debug)]
struct Environment {
    temp_dir: PathBuf,
    keeps_spools: bool,
}

static SNAPSHOT: Mutex<Option<Environment>> = Mutex::new(None);

/// Takes the snapshot. Call this while no other thread can set a variable, in Python under the GIL.
/// If it is never called, the environment is read on first use.
pub fn note_environment() {
    let now = read_environment();
    *snapshot() = Some(now);
}

/// Returns the directory for temporary files.
pub fn temp_dir() -> PathBuf {
    snapshot().get_or_insert_with(read_environment).temp_dir.clone()
}

/// Creates a temporary file. It has no name, and is freed when it is closed, even by a crash.
pub fn temp_file() -> io::Result<File> {
    tempfile::tempfile_in(temp_dir())
}

/// Whether collected spools are kept.
pub(crate) fn keeps_spools() -> bool {
    snapshot().get_or_insert_with(read_environment).keeps_spools
}

fn snapshot() -> MutexGuard<'static, Option<Environment>> {
    SNAPSHOT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "the only place that reads the environment")]
fn read_environment() -> Environment {
    let keeps_spools = env::is_on(std::env::var(env::KEEP_SPOOL).ok().as_deref());
    Environment { temp_dir: std::env::temp_dir(), keeps_spools }
}
