//! Lifetime of the thread: only while a trace records, across forks, and at exit.

use crate::harness::{Trace, in_own_process, set_fields, wait_for};
use crate::script::{NO_PERMISSION, fail, query_count, set, wait_for_queries};
use marey_gpu::nvml::{self, NvmlState};
use marey_model::counter::DeviceCounter;
use std::path::Path;

#[test]
fn devices_are_not_read_unless_a_trace_records() {
    if !in_own_process(devices_are_not_read_unless_a_trace_records, &[]) {
        return;
    }
    set_fields(0);
    nvml::start().unwrap();
    wait_for(|state| *state == NvmlState::Reading { devices: 1 });
    assert_eq!(query_count(0, "power"), 0);
    let trace = Trace::start();
    wait_for_queries(0, "power", 1);
    let recorded = trace.finish();
    let queries = query_count(0, "power");
    assert_eq!(recorded.values_of(0, DeviceCounter::Power).len() as u64, queries);
    // Again, with the thread running from the start.
    let trace = Trace::start();
    nvml::start().unwrap();
    nvml::start().unwrap();
    wait_for_queries(0, "power", queries + 1);
    assert!(!trace.finish().values_of(0, DeviceCounter::Power).is_empty());
}

/// Forks and runs `child` in the child process. Returns its exit status.
#[expect(unsafe_code, reason = "std has no fork")]
fn fork(child: fn() -> i32) -> i32 {
    // SAFETY: the child calls only functions that are allowed after a fork, and does not return.
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
fn the_parent_of_a_fork_continues_and_the_child_starts_on_request() {
    if !in_own_process(the_parent_of_a_fork_continues_and_the_child_starts_on_request, &[]) {
        return;
    }
    set(0, "power", 1000.0);
    fail(0, "energy", NO_PERMISSION);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for_queries(0, "power", 2);
    let child = fork(|| {
        let is_idle = nvml::state() == NvmlState::Idle;
        let threads = Path::new("/proc/self/task").read_dir().unwrap().count();
        let before = query_count(0, "power");
        nvml::start().unwrap();
        wait_for_queries(0, "power", before + 2);
        nvml::stop();
        // The recorder's own threads exist.
        i32::from(!is_idle || threads > 4)
    });
    assert_eq!(child, 0);
    wait_for_queries(0, "power", query_count(0, "power") + 2);
    // Rejected queries were not repeated.
    assert_eq!((query_count(0, "energy"), query_count(0, "temperature")), (1, 1));
    let recorded = trace.finish();
    assert!(recorded.values_of(0, DeviceCounter::Power).len() >= 4);
}

#[test]
fn the_thread_does_not_delay_exit() {
    if in_own_process(the_thread_does_not_delay_exit, &[]) {
        set_fields(0);
        let trace = Trace::start();
        nvml::start().unwrap();
        wait_for_queries(0, "power", 1);
        // The session and the thread are still running.
        drop(trace);
    }
}
