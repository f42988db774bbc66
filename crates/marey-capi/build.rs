//! Gives the library its name for the loader: a second face in the process finds the copy that is
//! there by it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmarey.so");
    println!("cargo::rerun-if-changed=build.rs");
}
