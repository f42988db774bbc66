//! Tests that run in a process of their own, with another environment.

use std::any::type_name;
use std::ffi::OsStr;
use std::process::Command;

/// Set in the own process of a test.
const OWN_PROCESS: &str = "MAREY_TEST_OWN_PROCESS";

/// Whether this is the own process of a test.
pub(crate) fn is_own_process() -> bool {
    std::env::var_os(OWN_PROCESS).is_some()
}

/// Runs a test in its own process, with these variables.
pub(crate) fn run<F: Fn(), V: AsRef<OsStr>>(
    _test: F,
    variables: impl IntoIterator<Item = (&'static str, V)>,
) {
    // The crate of the tests is no part of a test's name.
    let (_, test) = type_name::<F>().split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1", "--include-ignored"])
        .env(OWN_PROCESS, "1")
        .env("MAREY_KEEP_SPOOL", "1")
        .envs(variables)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "there is no test {test}: {printed}");
}
