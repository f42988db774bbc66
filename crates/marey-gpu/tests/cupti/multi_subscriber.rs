//! Several subscribers at the same time, and tools that do not allow others.

use crate::harness::{LAUNCHES_ONLY, Trace, call_count, in_own_process, level_text, play};
use crate::other_tool::{self, kernel_count};
use marey_gpu::cupti::abi::result;
use marey_gpu::cupti::unavailable::Unavailable;

/// Returns a script with `kernels` launches, on a library and driver that support several
/// subscribers.
fn script(kernels: u32) -> String {
    format!("version 130500\ndriver 13050\npart go {{\nrepeat {kernels} {{\nlaunch k\n}}\n}}\n")
}

/// Returns the error of a failing start.
fn refusal() -> Unavailable {
    Trace::start_with(LAUNCHES_ONLY).err().unwrap()
}

#[test]
fn two_tools_record_every_kernel_at_the_same_time() {
    if !in_own_process(two_tools_record_every_kernel_at_the_same_time, &script(500)) {
        return;
    }
    let other = other_tool::start();
    play("go");
    let trace = Trace::start();
    assert!(level_text().ends_with(", beside other tools"), "{}", level_text());
    play("go");
    other_tool::flush();
    assert_eq!(kernel_count(), 1000, "the other tool also has earlier kernels");
    other_tool::unsubscribe(other);
    play("go");
    let recorded = trace.finish();
    assert_eq!(recorded.kernels.len(), 1000, "recording continues without the other tool");
    assert_eq!(recorded.calls.len(), 1000);
    assert_eq!(kernel_count(), 1000);
    assert_eq!((call_count("cuptiActivityEnable"), call_count("cuptiGetTimestamp")), (0, 0));

    let again = Trace::start();
    play("go");
    assert_eq!(again.finish().kernels.len(), 500);
}

#[test]
fn a_later_tool_can_subscribe_too() {
    if !in_own_process(a_later_tool_can_subscribe_too, &script(50)) {
        return;
    }
    let trace = Trace::start();
    other_tool::start();
    play("go");
    assert_eq!(trace.finish().kernels.len(), 50);
    play("go");
    other_tool::flush();
    assert_eq!(kernel_count(), 100, "our end does not end the other tool");
}

#[test]
fn an_exclusive_tool_is_named_in_the_error() {
    if !in_own_process(an_exclusive_tool_is_named_in_the_error, &script(1)) {
        return;
    }
    let (code, other) = other_tool::subscribe(c"lonely", false);
    assert_eq!(code, 0);
    let error = refusal();
    assert_eq!(error.code(), Some(result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
    let text = error.to_string();
    assert!(text.ends_with("another tool has subscribed, held by \"CUPTI for lonely\""), "{text}");
    other_tool::unsubscribe(other);

    let (code, exclusive) = other_tool::subscribe_exclusive();
    assert_eq!(code, 0);
    assert_eq!(refusal().code(), Some(result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
    other_tool::unsubscribe(exclusive);
    assert!(Trace::start_with(LAUNCHES_ONLY).is_ok(), "a failed start can be repeated");
}

#[test]
fn an_old_driver_has_one_subscriber() {
    let script = "version 130500\ndriver 13000\npart go {\nlaunch k\n}\n";
    if !in_own_process(an_old_driver_has_one_subscriber, script) {
        return;
    }
    let trace = Trace::start();
    assert!(!level_text().contains("beside"), "{}", level_text());
    assert_eq!(other_tool::subscribe_exclusive().0, result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    play("go");
    assert_eq!(trace.finish().kernels.len(), 1);
    assert_eq!(call_count("cuptiActivityEnable_v2"), 0);
}

#[test]
fn older_libraries_use_the_exclusive_functions() {
    let script = "version 130001\ndriver 13050\npart go {\nlaunch k\n}\n";
    if !in_own_process(older_libraries_use_the_exclusive_functions, script) {
        return;
    }
    let trace = Trace::start();
    play("go");
    assert_eq!(trace.finish().kernels.len(), 1);
    assert_eq!(call_count("cuptiSubscribe_v2"), 0);
}

#[test]
fn process_wide_records_of_another_tool_select_exclusive_mode() {
    if !in_own_process(process_wide_records_of_another_tool_select_exclusive_mode, &script(3)) {
        return;
    }
    assert_eq!(other_tool::record_kernels_of_process(), [0, 0]);
    let trace = Trace::start();
    assert_eq!(call_count("cuptiSubscribe_v2"), 1);
    assert!(!level_text().contains("beside"), "{}", level_text());
    play("go");
    assert_eq!(trace.finish().kernels.len(), 3);
}

#[test]
fn a_failure_after_subscribing_falls_back_too() {
    let script = format!("fail cuptiGetTimestamp_v2 27\n{}", script(2));
    if !in_own_process(a_failure_after_subscribing_falls_back_too, &script) {
        return;
    }
    let trace = Trace::start();
    assert!(!level_text().contains("beside"), "{}", level_text());
    play("go");
    assert_eq!(trace.finish().kernels.len(), 2);
}

#[test]
fn our_end_delivers_no_unfinished_record_to_others() {
    let script = "version 130500\ndriver 13050\npart go {\nlaunch k unfinished\n}\n\
        part end {\nfinish\n}\n";
    if !in_own_process(our_end_delivers_no_unfinished_record_to_others, script) {
        return;
    }
    other_tool::start();
    let trace = Trace::start();
    play("go");
    trace.finish();
    assert_eq!(kernel_count(), 0);
    play("end");
    other_tool::flush();
    assert_eq!(kernel_count(), 1);
}

#[test]
fn a_later_exclusive_tool_is_rejected() {
    if !in_own_process(a_later_exclusive_tool_is_rejected, &script(4)) {
        return;
    }
    let trace = Trace::start();
    assert_eq!(other_tool::subscribe_exclusive().0, result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    assert_eq!(other_tool::record_kernels_of_process(), [result::NOT_COMPATIBLE; 2]);
    play("go");
    assert_eq!(trace.finish().kernels.len(), 4);
}
