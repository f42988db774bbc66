//! Pauses, in which another profiler has CUPTI for itself.

use crate::harness::{Trace, in_own_process, level_text, play};
use crate::other_tool;
use marey_gpu::level::{self, Level};
use std::time::{Duration, Instant};

/// Three launches, on a library that supports one subscriber.
const EXCLUSIVE: &str = "version 130001\ndriver 13050\npart go {\nrepeat 3 {\nlaunch k\n}\n}\n";

/// Three launches, on a library that supports several.
const SHARED: &str = "version 130500\ndriver 13050\npart go {\nrepeat 3 {\nlaunch k\n}\n}\n";

#[test]
fn another_tool_has_cupti_in_a_pause_and_no_kernel_before_or_after_is_lost() {
    if !in_own_process(
        another_tool_has_cupti_in_a_pause_and_no_kernel_before_or_after_is_lost,
        EXCLUSIVE,
    ) {
        return;
    }
    let trace = Trace::start();
    play("go");
    assert!(level::pause());
    let (code, other) = other_tool::subscribe_exclusive();
    assert_eq!(code, 0, "the subscription is free");
    play("go");
    other_tool::unsubscribe(other);
    level::resume();
    assert!(level_text().contains("paused for windows of torch.profiler"), "{}", level_text());
    play("go");
    let recorded = trace.finish();
    assert_eq!((recorded.kernels.len(), recorded.calls.len()), (6, 6));
    assert!(recorded.losses.values().all(|count| *count == 0), "{:?}", recorded.losses);
}

#[test]
fn cupti_is_taken_back_when_the_other_tool_gives_it_up_later() {
    if !in_own_process(cupti_is_taken_back_when_the_other_tool_gives_it_up_later, EXCLUSIVE) {
        return;
    }
    let trace = Trace::start();
    assert!(level::pause());
    let (code, other) = other_tool::subscribe_exclusive();
    assert_eq!(code, 0, "the subscription is free");
    level::resume();
    assert!(matches!(level::level(), Level::Paused(_)), "{}", level_text());
    other_tool::unsubscribe(other);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !matches!(level::level(), Level::Cupti(..)) {
        assert!(Instant::now() < deadline, "{}", level_text());
        std::thread::yield_now();
    }
    assert!(level_text().contains("launches in between are missing"), "{}", level_text());
    play("go");
    assert_eq!(trace.finish().kernels.len(), 3);
}

#[test]
fn a_pause_that_is_not_ended_ends_with_the_session() {
    if !in_own_process(a_pause_that_is_not_ended_ends_with_the_session, EXCLUSIVE) {
        return;
    }
    let trace = Trace::start();
    play("go");
    assert!(level::pause());
    assert!(!level::pause(), "there is nothing to pause");
    assert_eq!(trace.finish().kernels.len(), 3);
    level::resume();
    assert_eq!(other_tool::subscribe_exclusive().0, 0, "nothing was resumed");
}

#[test]
fn recording_beside_other_tools_is_not_paused() {
    if !in_own_process(recording_beside_other_tools_is_not_paused, SHARED) {
        return;
    }
    let trace = Trace::start();
    assert!(!level::pause());
    play("go");
    level::resume();
    assert_eq!(trace.finish().kernels.len(), 3);
}
