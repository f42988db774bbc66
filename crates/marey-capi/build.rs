//! Sets the soname of the library, by which later bindings in the process find the loaded copy.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmarey.so");
    println!("cargo::rerun-if-changed=build.rs");
}
