//! Lets the linker keep one copy of functions whose machine code is equal, which takes 5 MB off the
//! library: Arrow's code for dates is that for integers.
//!
//! Only LLD folds functions. Rust's releases for Linux on x86-64 contain LLD and link with it.

#![expect(
    clippy::disallowed_methods,
    reason = "Cargo passes variables to this process, which is our own"
)]

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if links_with_lld() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}

/// Whether the compiler is such a release. Distributions build compilers without LLD.
fn links_with_lld() -> bool {
    let target = std::env::var("TARGET").unwrap_or_default();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(sysroot) = Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    target == "x86_64-unknown-linux-gnu"
        && sysroot.join("lib/rustlib").join(target).join("bin/gcc-ld/ld.lld").exists()
}
