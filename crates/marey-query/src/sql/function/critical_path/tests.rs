//! Tests of the critical path: examples of each kind of wait, and properties of random events.

use super::event::{ALL_STREAMS, Bound, Event, EventKind, Segment};
use super::walk::{critical_path, find_window, split_by_step};
use proptest::prelude::*;

/// The lane of a stream of a device.
fn stream_lane(device: u32, stream: u32) -> u64 {
    u64::from(device) << 32 | u64::from(stream)
}

const MAIN: u64 = 1;
const AUTOGRAD: u64 = 2;
const STREAM: u64 = 7;
const OTHER_STREAM: u64 = 20;

fn event(kind: EventKind, lane: u64, start_nanos: i64, end_nanos: i64) -> Event {
    Event {
        kind,
        lane,
        start_nanos,
        end_nanos,
        correlation_id: 0,
        on_lane: 0,
        on_correlation_id: 0,
        id: 0,
    }
}

fn correlated(correlation_id: u64, event: Event) -> Event {
    Event { correlation_id, ..event }
}

fn kernel(correlation_id: u64, lane: u64, start_nanos: i64, end_nanos: i64) -> Event {
    correlated(correlation_id, event(EventKind::Compute, lane, start_nanos, end_nanos))
}

fn call(correlation_id: u64, lane: u64, start_nanos: i64, end_nanos: i64) -> Event {
    correlated(correlation_id, event(EventKind::Call, lane, start_nanos, end_nanos))
}

/// Bound, start, end, and the index of the event.
type Part = (&'static str, i64, i64, Option<usize>);

fn parts(events: &[Event], window: (i64, i64)) -> Vec<Part> {
    let path = critical_path(events, window.0, window.1);
    path.iter()
        .map(|part| (part.bound.name(), part.start_nanos, part.end_nanos, part.event_index))
        .collect()
}

const CPU: &str = "cpu_bound";
const COMPUTE: &str = "gpu_compute_bound";
const LAUNCH: &str = "gpu_kernel_launch_overhead";
const BETWEEN: &str = "gpu_kernel_kernel_overhead";
const SYNC: &str = "synchronization";

#[test]
fn on_a_thread_alone_the_innermost_span_is_the_bound() {
    let events = [
        event(EventKind::Host, MAIN, 0, 100),
        event(EventKind::DataLoading, MAIN, 20, 50),
        event(EventKind::Host, MAIN, 60, 70),
    ];
    let expected = [
        (CPU, 0, 20, Some(0)),
        ("data_loading", 20, 50, Some(1)),
        (CPU, 50, 60, Some(0)),
        (CPU, 60, 70, Some(2)),
        (CPU, 70, 100, Some(0)),
    ];
    assert_eq!(parts(&events, (0, 100)), expected);
}

#[test]
fn a_synchronising_call_leads_to_the_device_and_back_through_the_launch() {
    let events = [
        event(EventKind::Host, MAIN, 0, 200),
        call(5, MAIN, 10, 20),
        kernel(5, STREAM, 25, 90),
        event(EventKind::SyncDevice, MAIN, 30, 95),
    ];
    let expected = [
        (CPU, 0, 10, Some(0)),
        (LAUNCH, 10, 25, Some(2)),
        (COMPUTE, 25, 90, Some(2)),
        (SYNC, 90, 95, Some(3)),
        (CPU, 95, 200, Some(0)),
    ];
    assert_eq!(parts(&events, (0, 200)), expected);
}

#[test]
fn a_synchronising_call_with_nothing_to_wait_for_is_cpu_time() {
    let events = [
        event(EventKind::Host, MAIN, 0, 200),
        call(5, MAIN, 10, 20),
        kernel(5, STREAM, 25, 90),
        event(EventKind::SyncDevice, MAIN, 100, 110),
    ];
    assert!(parts(&events, (0, 200)).iter().all(|part| part.0 == CPU));
}

#[test]
fn a_kernel_follows_its_predecessor_on_the_stream() {
    let events = [
        call(5, MAIN, 0, 5),
        call(6, MAIN, 5, 10),
        kernel(5, STREAM, 10, 60),
        kernel(6, STREAM, 62, 100),
    ];
    let expected = [
        (LAUNCH, 0, 10, Some(2)),
        (COMPUTE, 10, 60, Some(2)),
        (BETWEEN, 60, 62, Some(3)),
        (COMPUTE, 62, 100, Some(3)),
    ];
    assert_eq!(parts(&events, (0, 100)), expected);
}

#[test]
fn a_kernel_launched_late_follows_its_launch() {
    let events = [
        call(5, MAIN, 0, 5),
        call(6, MAIN, 80, 90),
        kernel(5, STREAM, 10, 60),
        kernel(6, STREAM, 95, 100),
    ];
    let expected = [
        (CPU, 0, 5, Some(0)),
        (CPU, 5, 80, None),
        (LAUNCH, 80, 95, Some(3)),
        (COMPUTE, 95, 100, Some(3)),
    ];
    assert_eq!(parts(&events, (0, 100)), expected);
}

/// Two streams: the kernel on the second waits for the first kernel on the other, not for the later
/// one.
fn two_streams() -> Vec<Event> {
    vec![
        call(5, MAIN, 0, 5),
        call(6, MAIN, 5, 7), // records an event
        call(7, MAIN, 7, 9), // makes the other stream wait for it
        call(8, MAIN, 9, 12),
        call(9, MAIN, 12, 15),
        kernel(5, STREAM, 10, 60_000),
        kernel(9, STREAM, 60_100, 90_000),
        correlated(8, event(EventKind::Communication, OTHER_STREAM, 60_500, 100_000)),
    ]
}

#[test]
fn a_kernel_waits_for_the_event_of_another_stream() {
    let mut events = two_streams();
    events[7].start_nanos = 75_000; // too late to be inferred from times
    events[6].end_nanos = 61_000;
    events.push(Event {
        on_lane: STREAM,
        on_correlation_id: 6,
        ..correlated(7, event(EventKind::StreamWait, OTHER_STREAM, 7, 7))
    });
    let expected = [
        (LAUNCH, 0, 10, Some(5)),
        (COMPUTE, 10, 60_000, Some(5)),
        (BETWEEN, 60_000, 75_000, Some(7)),
        ("gpu_communication_bound", 75_000, 100_000, Some(7)),
    ];
    assert_eq!(parts(&events, (0, 100_000)), expected);
}

#[test]
fn without_wait_records_times_determine_what_a_kernel_waited_for() {
    let expected = [
        (LAUNCH, 0, 10, Some(5)),
        (COMPUTE, 10, 60_000, Some(5)),
        (BETWEEN, 60_000, 60_500, Some(7)),
        ("gpu_communication_bound", 60_500, 100_000, Some(7)),
    ];
    assert_eq!(parts(&two_streams(), (0, 100_000)), expected);
    let mut slow = two_streams();
    slow[7].start_nanos = 75_000; // long after the first kernel ended, while the later one runs
    assert_eq!(parts(&slow, (0, 100_000))[2], (BETWEEN, 60_000, 60_100, Some(6)));
    assert_eq!(parts(&slow, (0, 100_000))[3], (COMPUTE, 60_100, 75_000, Some(6)));
    slow.remove(6);
    assert!(parts(&slow, (0, 100_000)).contains(&(LAUNCH, 9, 75_000, Some(6))));
}

#[test]
fn a_call_waits_for_the_stream_or_event_in_its_record() {
    let mut events = vec![
        event(EventKind::Host, MAIN, 0, 1_000),
        call(5, MAIN, 10, 20),
        call(6, MAIN, 20, 30),
        call(7, MAIN, 30, 40),
        kernel(5, STREAM, 50, 400),
        kernel(7, STREAM, 400, 480),
        kernel(6, OTHER_STREAM, 60, 450),
        correlated(9, event(EventKind::SyncEvent, MAIN, 100, 500)),
    ];
    let sync_start = |events: &[Event]| {
        let path = parts(events, (0, 1_000));
        path.iter().find(|part| part.0 == SYNC).map(|part| part.1)
    };
    assert_eq!(sync_start(&events), Some(480)); // without a record, the latest end
    events[7].kind = EventKind::SyncStream;
    assert_eq!(sync_start(&events), Some(480)); // the stream of the last launch
    let wait = correlated(9, event(EventKind::HostWait, OTHER_STREAM, 100, 500));
    events.push(Event { on_lane: OTHER_STREAM, ..wait });
    assert_eq!(sync_start(&events), Some(450));
    events[8] = Event { on_lane: STREAM, on_correlation_id: 6, ..wait };
    assert_eq!(sync_start(&events), Some(400)); // the work launched before the event
    events[8] = Event { on_lane: stream_lane(0, ALL_STREAMS), ..wait };
    assert_eq!(sync_start(&events), Some(480));
    events[8] = Event { on_lane: stream_lane(1, ALL_STREAMS), ..wait };
    assert_eq!(sync_start(&events), None); // another device
}

#[test]
fn a_call_waits_for_its_copy_if_the_memory_is_pageable() {
    let copy = |kind, device| {
        let events = [
            correlated(5, event(kind, MAIN, 0, 100)),
            correlated(5, event(device, STREAM, 10, 90)),
            event(EventKind::Host, MAIN, 100, 150),
        ];
        parts(&events, (0, 150)).iter().any(|part| part.0 == "gpu_memory_bound")
    };
    assert!(copy(EventKind::Call, EventKind::Pageable));
    assert!(copy(EventKind::Copy, EventKind::Memory));
    assert!(!copy(EventKind::Call, EventKind::Memory));
}

#[test]
fn the_main_thread_and_autograd_wait_for_each_other() {
    let events = [
        event(EventKind::Host, MAIN, 0, 100),
        event(EventKind::Host, MAIN, 10, 30),
        event(EventKind::Backward, AUTOGRAD, 40, 60),
        event(EventKind::Backward, AUTOGRAD, 65, 80),
        event(EventKind::Host, MAIN, 90, 95),
    ];
    let expected = [
        (CPU, 0, 10, Some(0)),
        (CPU, 10, 30, Some(1)),
        (CPU, 30, 40, Some(0)),
        (CPU, 40, 60, Some(2)),
        (CPU, 60, 65, None), // between the spans of autograd, while no other thread works
        (CPU, 65, 80, Some(3)),
        (CPU, 80, 90, Some(0)),
        (CPU, 90, 95, Some(4)),
        (CPU, 95, 100, Some(0)),
    ];
    assert_eq!(parts(&events, (0, 100)), expected);
}

#[test]
fn the_path_ends_with_the_last_device_activity_and_is_cut_at_steps() {
    let mut events = vec![
        event(EventKind::Host, MAIN, 0, 40),
        call(5, MAIN, 1, 2),
        call(6, MAIN, 2, 3),
        kernel(5, STREAM, 4, 50),
        kernel(6, STREAM, 50, 90),
    ];
    events.push(Event { id: 0, ..event(EventKind::Step, MAIN, 0, 20) });
    events.push(Event { id: 1, ..event(EventKind::Step, MAIN, 25, 40) });
    assert_eq!(find_window(&events), Some((0, 40)));
    let path = critical_path(&events, 0, 40);
    let parts: Vec<_> = split_by_step(&path, &events)
        .iter()
        .map(|(step, part)| (*step, part.bound.name(), part.start_nanos, part.end_nanos))
        .collect();
    let expected = [
        (Some(5), CPU, 0, 1),
        (Some(5), LAUNCH, 1, 4),
        (Some(5), COMPUTE, 4, 20),
        (Some(6), COMPUTE, 25, 40),
    ];
    assert_eq!(parts, expected);
}

#[test]
fn without_a_host_the_path_follows_the_stream() {
    let events = [kernel(0, STREAM, 10, 20), kernel(0, STREAM, 25, 40)];
    assert_eq!(find_window(&events), Some((10, 40)));
    let expected =
        [(COMPUTE, 10, 20, Some(0)), (BETWEEN, 20, 25, Some(1)), (COMPUTE, 25, 40, Some(1))];
    assert_eq!(parts(&events, (10, 40)), expected);
    assert_eq!(parts(&events, (0, 40))[0], ("unknown", 0, 10, None));
}

#[test]
fn no_events_have_no_path() {
    assert_eq!(find_window(&[]), None);
    assert_eq!(parts(&[], (5, 5)), []);
    assert_eq!(parts(&[], (0, 5)), [("unknown", 0, 5, None)]);
}

#[test]
fn the_time_per_event_does_not_grow_with_their_number() {
    let count = 100_000;
    let mut events = Vec::new();
    for number in 0..count {
        let time_nanos = number * 100;
        events.push(call(number as u64 + 1, MAIN, time_nanos, time_nanos + 10));
        events.push(kernel(number as u64 + 1, number as u64 % 4, time_nanos + 20, time_nanos + 90));
        events.push(event(EventKind::SyncDevice, MAIN, time_nanos + 30, time_nanos + 95));
    }
    let start_time = std::time::Instant::now();
    let path = critical_path(&events, 0, count * 100);
    assert!(path.len() > 300_000, "{}", path.len());
    assert!(start_time.elapsed().as_secs() < 20);
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    prop::sample::select(vec![
        EventKind::Host,
        EventKind::DataLoading,
        EventKind::Backward,
        EventKind::Call,
        EventKind::Copy,
        EventKind::SyncDevice,
        EventKind::SyncStream,
        EventKind::SyncEvent,
        EventKind::Compute,
        EventKind::Communication,
        EventKind::Memory,
        EventKind::Pageable,
        EventKind::StreamWait,
        EventKind::HostWait,
        EventKind::Step,
    ])
}

fn any_event(times: impl Strategy<Value = i64>, length: i64) -> impl Strategy<Value = Event> {
    let lanes = || prop::sample::select(vec![0_u64, 1, 2, 3, 1 << 32, u64::from(ALL_STREAMS)]);
    (any_kind(), lanes(), times, -2..length, 0_u64..12, lanes(), 0_u64..12).prop_map(
        |(kind, lane, start_nanos, length, correlation_id, on_lane, on_correlation_id)| Event {
            kind,
            lane,
            start_nanos,
            end_nanos: start_nanos.saturating_add(length),
            correlation_id,
            on_lane,
            on_correlation_id,
            id: 0,
        },
    )
}

fn assert_covers_window(events: &[Event], start_nanos: i64, end_nanos: i64) {
    let path = critical_path(events, start_nanos, end_nanos);
    let mut reached = start_nanos;
    for part in &path {
        assert_eq!(part.start_nanos, reached);
        assert!(part.start_nanos < part.end_nanos);
        assert!(part.event_index.is_none_or(|event| event < events.len()));
        reached = part.end_nanos;
    }
    assert_eq!(reached, end_nanos.max(start_nanos));
    // With host events there is always a thread to continue on.
    if events.iter().any(|event| event.kind.is_host() && event.start_nanos < event.end_nanos) {
        assert!(path.iter().all(|part| part.bound != Bound::Unknown));
    }
    for pair in path.windows(2) {
        let merge_key = |part: &Segment| (part.bound, part.lane, part.event_index);
        assert_ne!(merge_key(&pair[0]), merge_key(&pair[1]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn each_moment_is_in_exactly_one_segment(
        events in prop::collection::vec(any_event(0_i64..200, 60), 0..40),
    ) {
        if let Some((start_nanos, end_nanos)) = find_window(&events) {
            assert_covers_window(&events, start_nanos, end_nanos);
        }
        assert_covers_window(&events, 50, 150);
    }

    /// Long gaps make the walk infer dependencies from times.
    #[test]
    fn each_moment_is_in_exactly_one_segment_with_long_gaps(
        events in prop::collection::vec(any_event(0_i64..400_000, 60_000), 0..40),
    ) {
        if let Some((start_nanos, end_nanos)) = find_window(&events) {
            assert_covers_window(&events, start_nanos, end_nanos);
        }
    }

    #[test]
    fn each_moment_is_in_exactly_one_segment_for_extreme_times(
        events in prop::collection::vec(any_event(any::<i64>(), i64::MAX), 0..20),
        start_nanos: i64,
        end_nanos: i64,
    ) {
        assert_covers_window(&events, start_nanos, end_nanos);
    }

    #[test]
    fn the_segments_of_a_step_add_up_to_its_duration(
        events in prop::collection::vec(any_event(0_i64..200, 60), 0..40),
    ) {
        if let Some((start_nanos, end_nanos)) = find_window(&events) {
            let path = critical_path(&events, start_nanos, end_nanos);
            let parts = split_by_step(&path, &events);
            for (number, step) in events.iter().enumerate() {
                if step.kind == EventKind::Step {
                    let segments = parts.iter().filter(|(step, _)| *step == Some(number));
                    let durations = segments.map(|(_, part)| part.end_nanos - part.start_nanos);
                    let nanos: i64 = durations.sum();
                    prop_assert_eq!(nanos, (step.end_nanos - step.start_nanos).max(0));
                }
            }
        }
    }
}
