//! Traces recorded by other programs, with all rows of their runs.

use crate::dump::{dump, import_data};

fn check(name: &str, expected: &str) {
    let imported = import_data(&format!("trace_event/{name}.json.gz"));
    assert_eq!(imported.imported.files[0].warnings, []);
    let dump = dump(&imported.run);
    for (line, (actual, expected)) in (1..).zip(dump.lines().zip(expected.lines())) {
        assert_eq!(actual, expected, "{name}, line {line}");
    }
    assert_eq!(dump.lines().count(), expected.lines().count(), "{name}");
}

#[test]
fn a_trace_without_devices_is_read() {
    check("cpu-only-gloo", include_str!("../../data/trace_event/cpu-only-gloo.txt"));
}

#[test]
fn a_trace_with_waits_is_read() {
    check("cuda-event-sync", include_str!("../../data/trace_event/cuda-event-sync.txt"));
}

#[test]
fn a_trace_of_triton_is_read() {
    check("triton-kernel-args", include_str!("../../data/trace_event/triton-kernel-args.txt"));
}

#[test]
fn a_trace_of_rocm_is_read() {
    check("mi250-rocm", include_str!("../../data/trace_event/mi250-rocm.txt"));
}
