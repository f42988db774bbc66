//! When the thread reads: while a trace records, beside forks, and until the program ends.

use crate::harness::{Trace, alone, set_fields, wait_for};
use crate::script::{NO_PERMISSION, calls, fail, set, wait};
use marey_gpu::nvml::{self, State};
use marey_model::counter::DeviceCounter;
use std::path::Path;

#[test]
fn nobody_is_asked_while_no_trace_records() {
    if !alone("lifetime::nobody_is_asked_while_no_trace_records", &[]) {
        return;
    }
    set_fields(0);
    nvml::start().unwrap();
    wait_for(|state| *state == State::Reading { devices: 1 });
    assert_eq!(calls(0, "power"), 0);
    let trace = Trace::start();
    wait(0, "power", 1);
    let recorded = trace.finish();
    let asked = calls(0, "power");
    assert_eq!(recorded.of(0, DeviceCounter::Power).len() as u64, asked);
    // Once more, with the thread from the start.
    let trace = Trace::start();
    nvml::start().unwrap();
    nvml::start().unwrap();
    wait(0, "power", asked + 1);
    assert!(!trace.finish().of(0, DeviceCounter::Power).is_empty());
}

/// Forks; the child ends with what `child` says. Returns that.
#[expect(unsafe_code, reason = "std has no fork")]
fn fork(child: fn() -> i32) -> i32 {
    // SAFETY: the child calls what a forked child may, and does not return.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => {
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                libc::WEXITSTATUS(status)
            }
        }
    }
}

#[test]
fn the_parent_of_a_fork_reads_on_and_the_child_when_it_is_told_to() {
    const TEST: &str = "lifetime::the_parent_of_a_fork_reads_on_and_the_child_when_it_is_told_to";
    if !alone(TEST, &[]) {
        return;
    }
    set(0, "power", 1000.0);
    fail(0, "energy", NO_PERMISSION);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(0, "power", 2);
    let child = fork(|| {
        let is_idle = nvml::state() == State::Idle;
        let threads = Path::new("/proc/self/task").read_dir().unwrap().count();
        let before = calls(0, "power");
        nvml::start().unwrap();
        wait(0, "power", before + 2);
        nvml::stop();
        // Those of the recorder itself are there.
        i32::from(!is_idle || threads > 3)
    });
    assert_eq!(child, 0);
    wait(0, "power", calls(0, "power") + 2);
    // It is known already what the device refuses.
    assert_eq!((calls(0, "energy"), calls(0, "temperature")), (1, 1));
    let recorded = trace.finish();
    assert!(recorded.of(0, DeviceCounter::Power).len() >= 4);
}

#[test]
fn a_program_that_just_ends_is_not_held_up() {
    if alone("lifetime::a_program_that_just_ends_is_not_held_up", &[]) {
        set_fields(0);
        let trace = Trace::start();
        nvml::start().unwrap();
        wait(0, "power", 1);
        // The session is alive, and the thread too.
        drop(trace);
    }
}
