//! A copy of the environment variables, which the background threads read instead of the
//! environment.
//!
//! Reading a variable while another thread sets one may read memory that `setenv` has freed, and
//! crash the program. Therefore a thread of the program copies the variables when it is about to
//! begin or end something.

use crate::lock::lock;
use marey_model::{env, rank};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;

/// The variable with the folder for temporary files.
const TMPDIR: &str = "TMPDIR";

/// The variable with the folder for sockets of the user.
const RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";

/// The variables of other software that are copied.
const THIRD_PARTY: [&str; 5] =
    ["CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", RUNTIME_DIR, TMPDIR];

/// The variables that are set; `None` before the first copy, when no background thread runs yet.
static VARIABLES: Mutex<Option<BTreeMap<&'static str, OsString>>> = Mutex::new(None);

/// Copies the variables again. Call it where no other thread sets a variable: under the GIL, if
/// there is one.
pub fn refresh() {
    let variables = read_variables();
    *lock(&VARIABLES) = Some(variables);
}

#[expect(clippy::disallowed_methods, reason = "the only reader of the environment in this crate")]
fn read_variables() -> BTreeMap<&'static str, OsString> {
    let marey_names = env::ALL.iter().map(|variable| variable.name);
    let names = marey_names.chain(rank::RANK_VARS).chain(THIRD_PARTY);
    names.filter_map(|name| Some((name, std::env::var_os(name)?))).collect()
}

/// Returns the value of a variable, if it is set.
pub fn get(name: &str) -> Option<OsString> {
    lock(&VARIABLES).get_or_insert_with(read_variables).get(name).cloned()
}

/// Returns the value of a variable, if it is set and is UTF-8.
pub fn text(name: &str) -> Option<String> {
    get(name)?.into_string().ok()
}

/// Returns the folder for temporary files.
pub(crate) fn temp_dir() -> PathBuf {
    get(TMPDIR).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// Returns the folder for sockets of the user, if there is one.
pub(crate) fn runtime_dir() -> Option<PathBuf> {
    get(RUNTIME_DIR).map(PathBuf::from)
}

/// Returns the number in a variable, if it is set and parses.
pub fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    text(name)?.trim().parse().ok()
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    lock(&VARIABLES)
}
