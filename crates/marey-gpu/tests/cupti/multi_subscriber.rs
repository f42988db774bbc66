//! Two tools that record at the same time, and tools that cannot.

use crate::harness::{Trace, alone, calls, level_text, play};
use crate::other_tool::{self, kernels};
use marey_gpu::cupti::abi::result;
use marey_gpu::cupti::interfaces::Interfaces;
use marey_gpu::cupti::unavailable::Unavailable;

/// A script of so many kernels, on a library and a driver with several subscribers.
fn script(kernels: u32) -> String {
    format!("version 130500\ndriver 13050\npart go {{\nrepeat {kernels} {{\nlaunch k\n}}\n}}\n")
}

fn start() -> Result<Trace, Unavailable> {
    Trace::start(Interfaces::default())
}

/// The error of a start that fails.
fn refusal() -> Unavailable {
    start().err().unwrap()
}

#[test]
fn two_tools_record_every_kernel_at_the_same_time() {
    if !alone("multi_subscriber::two_tools_record_every_kernel_at_the_same_time", &script(500)) {
        return;
    }
    let (code, other) = other_tool::subscribe(c"other", true);
    assert_eq!(code, 0);
    other_tool::record(other);
    play("go");
    let trace = start().unwrap();
    assert!(level_text().ends_with(", beside other tools"), "{}", level_text());
    play("go");
    other_tool::flush();
    assert_eq!(kernels(), 1000, "the other has those of before too");
    other_tool::leave(other);
    play("go");
    let recorded = trace.finish();
    assert_eq!(recorded.kernels.len(), 1000, "ours go on without the other");
    assert_eq!(recorded.calls.len(), 1000);
    assert_eq!(kernels(), 1000);
    assert_eq!((calls("cuptiActivityEnable"), calls("cuptiGetTimestamp")), (0, 0));

    let again = start().unwrap();
    play("go");
    assert_eq!(again.finish().kernels.len(), 500);
}

#[test]
fn a_tool_that_comes_later_is_beside_us() {
    if !alone("multi_subscriber::a_tool_that_comes_later_is_beside_us", &script(50)) {
        return;
    }
    let trace = start().unwrap();
    let (code, other) = other_tool::subscribe(c"other", true);
    assert_eq!(code, 0);
    other_tool::record(other);
    play("go");
    assert_eq!(trace.finish().kernels.len(), 50);
    play("go");
    other_tool::flush();
    assert_eq!(kernels(), 100, "our end is not the other's");
}

#[test]
fn a_tool_that_bears_no_other_is_named() {
    if !alone("multi_subscriber::a_tool_that_bears_no_other_is_named", &script(1)) {
        return;
    }
    let (code, other) = other_tool::subscribe(c"lonely", false);
    assert_eq!(code, 0);
    let refused = refusal();
    assert_eq!(refused.code(), Some(result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
    let text = refused.to_string();
    assert!(text.ends_with("another tool has subscribed, held by \"CUPTI for lonely\""), "{text}");
    other_tool::leave(other);

    let (code, old) = other_tool::subscribe_alone();
    assert_eq!(code, 0);
    assert_eq!(refusal().code(), Some(result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
    other_tool::leave(old);
    assert!(start().is_ok(), "whoever was refused may try again");
}

#[test]
fn an_old_driver_has_one_subscriber() {
    let script = "version 130500\ndriver 13000\npart go {\nlaunch k\n}\n";
    if !alone("multi_subscriber::an_old_driver_has_one_subscriber", script) {
        return;
    }
    let trace = start().unwrap();
    assert!(!level_text().contains("beside"), "{}", level_text());
    assert_eq!(other_tool::subscribe_alone().0, result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    play("go");
    assert_eq!(trace.finish().kernels.len(), 1);
    assert_eq!(calls("cuptiActivityEnable_v2"), 0);
}

#[test]
fn a_library_of_before_is_not_asked_for_several() {
    let script = "version 130001\ndriver 13050\npart go {\nlaunch k\n}\n";
    if !alone("multi_subscriber::a_library_of_before_is_not_asked_for_several", script) {
        return;
    }
    let trace = start().unwrap();
    play("go");
    assert_eq!(trace.finish().kernels.len(), 1);
    assert_eq!(calls("cuptiSubscribe_v2"), 0);
}

#[test]
fn beside_records_of_the_process_the_older_calls_are_used() {
    let test = "multi_subscriber::beside_records_of_the_process_the_older_calls_are_used";
    if !alone(test, &script(3)) {
        return;
    }
    assert_eq!(other_tool::record_process(), [0, 0]);
    let trace = start().unwrap();
    assert_eq!(calls("cuptiSubscribe_v2"), 1);
    assert!(!level_text().contains("beside"), "{}", level_text());
    play("go");
    assert_eq!(trace.finish().kernels.len(), 3);
}

#[test]
fn what_fails_after_subscribing_falls_back_too() {
    let script = format!("fail cuptiGetTimestamp_v2 27\n{}", script(2));
    if !alone("multi_subscriber::what_fails_after_subscribing_falls_back_too", &script) {
        return;
    }
    let trace = start().unwrap();
    assert!(!level_text().contains("beside"), "{}", level_text());
    play("go");
    assert_eq!(trace.finish().kernels.len(), 2);
}

#[test]
fn our_end_gives_the_other_no_record_without_an_end() {
    let script = "version 130500\ndriver 13050\npart go {\nlaunch k unfinished\n}\n\
        part end {\nfinish\n}\n";
    if !alone("multi_subscriber::our_end_gives_the_other_no_record_without_an_end", script) {
        return;
    }
    let (code, other) = other_tool::subscribe(c"other", true);
    assert_eq!(code, 0);
    other_tool::record(other);
    let trace = start().unwrap();
    play("go");
    trace.finish();
    assert_eq!(kernels(), 0);
    play("end");
    other_tool::flush();
    assert_eq!(kernels(), 1);
}

#[test]
fn no_later_tool_of_the_older_calls_is_let_in() {
    if !alone("multi_subscriber::no_later_tool_of_the_older_calls_is_let_in", &script(4)) {
        return;
    }
    let trace = start().unwrap();
    assert_eq!(other_tool::subscribe_alone().0, result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    assert_eq!(other_tool::record_process(), [result::NOT_COMPATIBLE; 2]);
    play("go");
    assert_eq!(trace.finish().kernels.len(), 4);
}
