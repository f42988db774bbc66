//! Compiles fake vendor libraries for tests with the C compiler.

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a library with these functions. Functions that `source` does not define return 0.
pub(super) fn compile(path: &Path, functions: &[&CStr], source: &str) -> PathBuf {
    let mut source = source.to_owned();
    for name in functions.iter().map(|name| name.to_str().expect("C names are ASCII")) {
        if !source.contains(&format!(" {name}(")) {
            source.extend(["\nunsigned ", name, "() { return 0; }"]);
        }
    }
    let folder = path.parent().expect("the path has a parent");
    fs::create_dir_all(folder).expect("the test folder is writable");
    let c_file = path.with_extension("c");
    fs::write(&c_file, source).expect("the test folder is writable");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([path, &c_file])
        .status()
        .expect("a C compiler is installed");
    assert!(status.success(), "the C compiler failed");
    path.to_owned()
}
