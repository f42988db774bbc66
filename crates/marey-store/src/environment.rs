//! The environment, as the program had it when it last called us.
//!
//! A program that analyses runs may have threads of its own, and who looks a variable up while one of them
//! sets another may read memory that `setenv` has freed. So they are looked up when the program says.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use marey_model::env;

/// What is wanted of it.
#[derive(Clone, Debug)]
struct Environment {
    temp_dir: PathBuf,
    keeps_spools: bool,
}

static COPY: Mutex<Option<Environment>> = Mutex::new(None);

/// Looks at it. To be called where no other thread sets a variable: in Python, under the GIL. Until then
/// it is looked at when something is wanted of it.
pub fn note_environment() {
    let now = look();
    *copy() = Some(now);
}

/// Where temporary files go.
pub fn temp_dir() -> PathBuf {
    copy().get_or_insert_with(look).temp_dir.clone()
}

/// A file for what memory does not hold. It has no name, and goes when it is closed, however that
/// comes about.
pub fn temp_file() -> io::Result<File> {
    tempfile::tempfile_in(temp_dir())
}

/// Whether spools stay when their content is in tables.
pub(crate) fn keeps_spools() -> bool {
    copy().get_or_insert_with(look).keeps_spools
}

fn copy() -> MutexGuard<'static, Option<Environment>> {
    COPY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place")]
fn look() -> Environment {
    let keeps_spools = env::is_on(std::env::var(env::KEEP_SPOOL).ok().as_deref());
    Environment { temp_dir: std::env::temp_dir(), keeps_spools }
}
