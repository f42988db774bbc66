//! The environment, as the program had it when it last called us.
//!
//! Who looks a variable up while another thread sets one may read memory that `setenv` has freed. A
//! background thread that did would take the program with it, so none does: what anybody here wants is
//! copied on a thread of the program that is about to begin or end something.

use crate::lock::lock;
use marey_model::{env, rank};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;

/// Where temporary files go.
const TMPDIR: &str = "TMPDIR";

/// Variables of others: where their libraries are, which devices are seen, and temporary files.
const OF_OTHERS: [&str; 4] = ["CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", TMPDIR];

/// Those that are set; `None` before the first look, when nothing of ours runs yet.
static COPY: Mutex<Option<BTreeMap<&'static str, OsString>>> = Mutex::new(None);

/// Looks again. To be called where the program knows of no thread that sets a variable: under the GIL, if
/// there is one.
pub(crate) fn note() {
    let copy = copy();
    *lock(&COPY) = Some(copy);
}

#[expect(clippy::disallowed_methods, reason = "this is the one place")]
fn copy() -> BTreeMap<&'static str, OsString> {
    let ours = env::ALL.iter().map(|variable| variable.name);
    let names = ours.chain(rank::RANK_VARS).chain(OF_OTHERS);
    names.filter_map(|name| Some((name, std::env::var_os(name)?))).collect()
}

/// What a variable says, if it is set.
pub fn get(name: &str) -> Option<OsString> {
    lock(&COPY).get_or_insert_with(copy).get(name).cloned()
}

/// The same of one that is text.
pub fn text(name: &str) -> Option<String> {
    get(name)?.into_string().ok()
}

/// Where temporary files go.
pub(crate) fn temp_dir() -> PathBuf {
    get(TMPDIR).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// The number that a variable holds.
pub fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    text(name)?.trim().parse().ok()
}

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized {
    lock(&COPY)
}
