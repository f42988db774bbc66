//! Exit of a process while a device hangs.

use crate::harness::{in_own_process, play};
use marey_gpu::cupti::interfaces::CudaInterfaces;
use marey_gpu::cupti::search::Hints;
use marey_gpu::level::{self, Request};
use marey_record::{SessionOptions, api};
use std::path::PathBuf;

/// A launch after a collective that never ends.
const SCRIPT: &str = "
version 130001
fail cuCtxSynchronize -2147483648
part go {
    launch ends duration 5
    launch hangs unfinished
}
";

/// Returns the folder of this test process.
fn folder() -> PathBuf {
    std::env::var_os("LD_LIBRARY_PATH").unwrap().into()
}

#[test]
#[expect(unsafe_code, reason = "atexit takes a C function")]
fn a_process_exits_although_a_device_hangs() {
    if !in_own_process(a_process_exits_although_a_device_hangs, SCRIPT) {
        return;
    }
    // SAFETY: a plain number, and a function that lives as long as the process. It runs after the
    // recorder's exit handlers, which are registered later.
    unsafe {
        libc::alarm(60);
        libc::atexit(check_profile);
    }
    api::start(&SessionOptions::named(folder().join("profile").to_str().unwrap())).unwrap();
    let (calls, hints) = (CudaInterfaces::default(), Hints::from_env(Vec::new()));
    let request = Request { is_required: true, keeps_activities: false, calls, hints };
    level::start(&request).unwrap();
    play("go");
}

extern "C" fn check_profile() {
    let profile = std::fs::read_to_string(folder().join("profile.hatchet")).unwrap_or_default();
    let is_counted = !profile.contains("\"device_records_dropped\": 0");
    for text in ["\"name\": \"ends\"", "\"complete\": true", "\"gpu end\": "] {
        if !(profile.contains(text) && is_counted) {
            eprintln!("no {text}, or no loss, in {profile}");
            // SAFETY: takes a plain number.
            #[expect(unsafe_code, reason = "the test has already reported success")]
            unsafe {
                libc::_exit(1)
            };
        }
    }
}
