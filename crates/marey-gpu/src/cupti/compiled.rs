//! For tests: libraries with the vendor's function names, made by the C compiler.

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a library at a path, with these functions, of which those that `source` does not define give 0.
pub(super) fn library(path: &Path, functions: &[&CStr], source: &str) -> PathBuf {
    let mut source = source.to_owned();
    for name in functions.iter().map(|name| name.to_str().expect("C names are ASCII")) {
        if !source.contains(&format!(" {name}(")) {
            source.extend(["\nunsigned ", name, "() { return 0; }"]);
        }
    }
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).expect("the test's folder can be written");
    let c_file = path.with_extension("c");
    fs::write(&c_file, source).expect("the test's folder can be written");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([path, &c_file])
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "the C compiler takes the source");
    path.to_owned()
}
