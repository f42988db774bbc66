//! Device activities: attributed to the node and the phase of their launch, once.

use crate::harness::{
    Fixture, on_thread, phase_profile, profile_of, run_in_subprocess, scope, start_trace,
};
use crate::spool::{KEEP_SPOOL, Spool};
use marey_model::spool::{ActivityKind, Detail};
use marey_record::device::{self, Activity, ActivityDecoder, LaunchKind};
use marey_record::{ContextSource, Format, NodeKind, SessionOptions, api};
use serde_json::{Value, json};

/// Logs a launch with a correlation id.
pub(crate) fn launch(correlation: u32) {
    api::launch_enter(correlation, api::intern("cuLaunchKernel"), LaunchKind::Kernel);
    api::launch_exit(correlation, true);
}

pub(crate) fn kernel(correlation: u32, name: &str, nanos: u64) -> Activity<'static> {
    Activity {
        kind: ActivityKind::Kernel,
        name_id: api::intern(name),
        device: 0,
        stream: 7,
        start_ticks: device::now().0,
        duration_nanos: Some(nanos),
        bytes: 0,
        correlation_id: correlation,
        graph_node: 0,
        details: &[],
    }
}

/// Reports activities of the device.
pub(crate) fn report(activities: &[Activity]) {
    let mut decoder = ActivityDecoder::default();
    let mut batch = decoder.batch();
    for activity in activities {
        batch.add(activity);
    }
}

#[test]
fn kernels_are_below_the_scope_that_launched_them() {
    let (_fixture, session) = Fixture::with_session();
    scope("a", || {
        launch(1);
        launch(2);
        scope("b", || launch(3));
        on_thread("helper", || scope("a", || launch(4)));
    });
    launch(5);
    // In another order than the launches.
    report(&[3, 1, 5, 4, 2].map(|number| kernel(number, "k", 100 * u64::from(number))));
    let profile = profile_of(session);
    assert_eq!(profile.number("a/k", "time (ns)"), 100 + 200 + 400);
    assert_eq!(profile.number("a/k", "count"), 3);
    assert_eq!(profile.number("a/k", "gpu_min (ns)"), 100);
    assert_eq!(profile.number("a/k", "gpu_max (ns)"), 400);
    assert_eq!(profile.metric("a/k", "device_id"), "0");
    assert_eq!(profile.metric("a/k", "device_type"), "CUDA");
    assert_eq!(profile.kind("a/k"), "kernel");
    assert_eq!(profile.number("a/b/k", "time (ns)"), 300);
    assert_eq!(profile.number("k", "time (ns)"), 500);
    // Readers roll up the metrics that the root has.
    assert_eq!(*profile.metric("", "time (ns)"), json!(0));
    assert_eq!(*profile.metric("", "count"), json!(0));
}

#[test]
fn a_launch_hook_names_the_kernel_below_the_state() {
    let (_fixture, session) = Fixture::with_session();
    let operator = api::intern("matmul <128>");
    api::enter_state(api::intern("warm-up"));
    scope("a", || {
        api::enter_operator(operator);
        launch(1);
        api::exit_operator(operator);
        launch(2);
    });
    api::exit_state();
    report(&[kernel(1, "matmul_kernel", 10), kernel(2, "plain", 20)]);
    let profile = profile_of(session);
    assert_eq!(profile.number("a/warm-up/matmul <128>", "time (ns)"), 10);
    assert_eq!(profile.number("a/warm-up/matmul <128>", "wall_count"), 1);
    assert_eq!(profile.number("a/warm-up/plain", "time (ns)"), 20);
    assert!(!profile.paths().iter().any(|path| path.contains("matmul_kernel")));
}

#[test]
fn a_late_kernel_belongs_to_the_phase_of_its_launch() {
    let fixture = Fixture::begin();
    let session = fixture.start("late");
    scope("a", || launch(1));
    api::advance_phase(session).unwrap();
    scope("a", || launch(2));
    assert!(!api::is_phase_complete(session, 0).unwrap(), "the first kernel is still running");
    report(&[kernel(2, "k", 20)]);
    assert!(!api::is_phase_complete(session, 0).unwrap());
    report(&[kernel(1, "k", 10)]);
    assert!(api::is_phase_complete(session, 0).unwrap());
    assert_eq!(phase_profile(session, 0).number("a/k", "time (ns)"), 10);
    assert_eq!(phase_profile(session, 1).number("a/k", "time (ns)"), 20);
    api::clear_phases(session, 0..=0).unwrap();
    api::finalize(session, None).unwrap();
    assert_eq!(fixture.read("late.part_1.hatchet").number("a/k", "time (ns)"), 20);
}

#[test]
fn a_session_sees_kernels_launched_while_it_was_active() {
    let fixture = Fixture::begin();
    let first = fixture.start("first");
    scope("a", || launch(1));
    let second = fixture.start("second");
    scope("b", || launch(2));
    api::deactivate(first).unwrap();
    scope("c", || launch(3));
    api::deactivate(second).unwrap();
    scope("d", || launch(4));
    report(&[1, 2, 3, 4].map(|number| kernel(number, "k", u64::from(number))));
    let times = |session| {
        let profile = profile_of(session);
        ["a/k", "b/k", "c/k", "d/k"].map(|path| {
            profile.nodes.get(path).map(|node| node["metrics"]["time (ns)"].as_u64().unwrap())
        })
    };
    assert_eq!(times(first), [Some(1), Some(2), None, None]);
    assert_eq!(times(second), [None, Some(2), Some(3), None]);
    // Work that no session saw is no loss.
    assert_eq!(profile_of(first).nodes[""]["marey"]["losses"]["unmatched_activities"], 0);
    report(&[kernel(99, "not launched", 1)]);
    assert_eq!(profile_of(first).nodes[""]["marey"]["losses"]["unmatched_activities"], 1);
}

#[test]
fn each_device_has_its_own_node() {
    let (_fixture, session) = Fixture::with_session();
    device::announce(device::DeviceInfo {
        number: 1,
        device_type: "CUDA".to_owned(),
        arch: "90".to_owned(),
        name: "NVIDIA H200".to_owned(),
        bus_width_bits: 6144,
        clock_khz: 1_980_000,
        memory_clock_khz: 2_619_000,
        multiprocessors: 132,
        properties: Vec::new(),
    });
    scope("a", || (1..=4).for_each(launch));
    let kernel_on =
        |number: u32, device| Activity { device, ..kernel(number, "k", u64::from(number)) };
    report(&[kernel_on(1, 1), kernel_on(2, 0), kernel_on(3, 1), kernel_on(4, 0)]);
    let json: Value = {
        let bytes = api::get_data(session, 0, Format::Hatchet).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let kernels = json[0]["children"][0]["children"].as_array().unwrap();
    let seen: Vec<_> = kernels
        .iter()
        .map(|node| {
            let metrics = &node["metrics"];
            (metrics["device_id"].as_str().unwrap(), metrics["time (ns)"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(seen, [("1", 1 + 3), ("0", 2 + 4)]);
    assert_eq!(
        json[1]["CUDA"]["1"],
        json!({
            "arch": "90", "bus_width": 6144, "clock_rate": 1_980_000,
            "memory_clock_rate": 2_619_000, "num_sms": 132,
        })
    );
}

#[test]
fn kernels_of_a_graph_are_below_their_capture_site() {
    let (_fixture, session) = Fixture::with_session();
    let call = api::intern("cuLaunchKernel");
    scope("capture", || {
        scope("layer", || {
            api::launch_enter(1, call, LaunchKind::Kernel);
            device::record_captured_node(70);
            api::launch_exit(1, true);
        });
        let operator = api::intern("fused");
        api::enter_operator(operator);
        api::launch_enter(2, call, LaunchKind::Kernel);
        device::record_captured_node(71);
        api::launch_exit(2, true);
        api::exit_operator(operator);
    });
    device::record_cloned_node(70, 170);
    device::record_cloned_node(71, 171);
    scope("replay", || (3..=4).for_each(launch));
    let graph_kernel =
        |number, name, graph_node| Activity { graph_node, ..kernel(number, name, 5) };
    report(&[
        graph_kernel(3, "k", 170),
        graph_kernel(3, "raw", 171),
        graph_kernel(3, "unknown", 999),
        graph_kernel(4, "k", 170),
    ]);
    let profile = profile_of(session);
    assert_eq!(profile.number("replay/<captured_at>/capture/layer/k", "count"), 2);
    assert_eq!(profile.number("replay/<captured_at>/capture/fused", "time (ns)"), 5);
    assert_eq!(profile.number("replay/unknown", "time (ns)"), 5);
}

#[test]
fn kernels_of_excess_graph_nodes_are_below_the_launch_and_counted() {
    const MAX_GRAPH_NODES: u64 = 1 << 20;
    let (_fixture, session) = Fixture::with_session();
    scope("capture", || {
        api::launch_enter(1, api::intern("cuLaunchKernel"), LaunchKind::Kernel);
        device::record_captured_node(1);
        api::launch_exit(1, true);
    });
    (2..=MAX_GRAPH_NODES + 3).for_each(|copy| device::record_cloned_node(1, copy));
    // A known node needs no space, and a destroyed one frees its space.
    device::record_cloned_node(1, MAX_GRAPH_NODES);
    device::record_destroyed_node(2);
    device::record_cloned_node(1, MAX_GRAPH_NODES + 3);
    scope("replay", || launch(2));
    let graph_kernel = |name, graph_node| Activity { graph_node, ..kernel(2, name, 5) };
    report(&[
        graph_kernel("in", MAX_GRAPH_NODES),
        graph_kernel("late", MAX_GRAPH_NODES + 3),
        graph_kernel("beyond", MAX_GRAPH_NODES + 1),
    ]);
    let profile = profile_of(session);
    assert_eq!(profile.losses(), [("graph_nodes_full", 3)]);
    for path in ["replay/<captured_at>/capture/in", "replay/<captured_at>/capture/late"] {
        assert_eq!(profile.number(path, "count"), 1);
    }
    assert_eq!(profile.number("replay/beyond", "count"), 1);
}

#[test]
fn kernels_launched_before_a_clear_stay_cleared() {
    let (_fixture, session) = Fixture::with_session();
    scope("before", || launch(1));
    api::clear_phases(session, 0..=0).unwrap();
    scope("after", || launch(2));
    report(&[kernel(1, "k", 10), kernel(2, "k", 20)]);
    let profile = profile_of(session);
    assert_eq!(profile.number("after/k", "time (ns)"), 20);
    assert!(!profile.nodes.contains_key("before/k"));
}

#[test]
fn kernels_of_an_uncaptured_graph_keep_their_names_in_an_operator() {
    let (_fixture, session) = Fixture::with_session();
    let operator = api::intern("op");
    api::enter_operator(operator);
    api::launch_enter(1, api::intern("cuGraphLaunch"), LaunchKind::Graph);
    api::launch_exit(1, true);
    api::exit_operator(operator);
    let graph_kernel = |name| Activity { graph_node: 9, ..kernel(1, name, 5) };
    report(&[graph_kernel("k1"), graph_kernel("k2")]);
    let profile = profile_of(session);
    assert_eq!(profile.number("op/k1", "time (ns)"), 5);
    assert_eq!(profile.number("op/k2", "time (ns)"), 5);
}

#[test]
fn a_running_graph_is_found_after_many_launches() {
    let (_fixture, session) = Fixture::with_session();
    scope("graph", || {
        api::launch_enter(1, api::intern("cuGraphLaunch"), LaunchKind::Graph);
        api::launch_exit(1, true);
    });
    let graph_kernel = |graph_node| Activity { graph_node, ..kernel(1, "k", 5) };
    report(&[graph_kernel(1)]);
    scope("eager", || {
        for number in 2..=70_000 {
            launch(number);
            if number % 10_000 == 0 {
                report(&[kernel(number, "e", 1)]);
            }
        }
    });
    report(&[graph_kernel(2)]);
    assert_eq!(profile_of(session).number("graph/k", "count"), 2);
}

#[test]
fn python_sessions_have_their_own_paths() {
    let fixture = Fixture::begin();
    let shadow = fixture.start("shadow");
    let options = SessionOptions { context: ContextSource::Python, ..fixture.options("python") };
    let python = api::start(&options).unwrap();
    scope("a", || launch(1));
    report(&[kernel(1, "k", 9)]);
    assert_eq!(profile_of(shadow).number("a/k", "time (ns)"), 9);
    assert_eq!(profile_of(python).number("a/k", "time (ns)"), 9);
}

#[test]
fn many_short_threads_lose_nothing() {
    const THREADS: u32 = 2000;
    let (_fixture, session) = Fixture::with_session();
    let mut decoder = ActivityDecoder::default();
    scope("a", || {
        for number in 1..=THREADS {
            on_thread("short", move || scope("a", || launch(number)));
            // The device lags some threads behind.
            if number > 10 {
                decoder.batch().add(&kernel(number - 10, "k", 1));
            }
        }
    });
    (THREADS - 9..=THREADS).for_each(|number| decoder.batch().add(&kernel(number, "k", 1)));
    assert_eq!(profile_of(session).number("a/k", "count"), u64::from(THREADS));
}

#[test]
fn a_trace_contains_launches_and_activities() {
    let Some(fixture) = run_in_subprocess(&[KEEP_SPOOL], || {
        let session = start_trace("trace");
        device::note("gpu", "a \"script\"");
        device::note("trace_id", "of an earlier profile");
        device::note("trace_id", "");
        scope("a", || {
            launch(u32::MAX);
            api::enter(api::intern("b"), NodeKind::Scope);
            api::exit(api::intern("b"));
            launch(8);
        });
        let details = [(Detail::GridX, 12), (Detail::Registers, 32)];
        report(&[
            Activity { details: &details, ..kernel(u32::MAX, "k", 1000) },
            Activity { kind: ActivityKind::Memcpy, bytes: 4096, ..kernel(8, "Memcpy HtoD", 50) },
            kernel(77, "not launched", 1),
        ]);
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let spool = Spool::of(fixture.path("trace"));
    assert_eq!(spool.exited_paths(0, 0), ["a/cuLaunchKernel", "a/b", "a/cuLaunchKernel", "a"]);
    assert_eq!(spool.threads[&0].launches, [(0, u32::MAX), (2, 8)]);
    let activities: Vec<_> = spool
        .activities
        .iter()
        .map(|(name, launch, activity, sessions)| {
            let launch = launch.as_deref().unwrap_or("?");
            (name.as_str(), launch, activity.duration_nanos, activity.bytes, *sessions)
        })
        .collect();
    assert_eq!(
        activities,
        [("k", "a", 1000, 0, 1), ("Memcpy HtoD", "a", 50, 4096, 1), ("not launched", "?", 1, 0, 1)]
    );
    assert_eq!(spool.notes["gpu"], "\"a \\\"script\\\"\"");
    assert!(!spool.notes.contains_key("trace_id"), "a note with an empty text is removed");

    let trace: Value =
        serde_json::from_slice(&std::fs::read(fixture.path("trace.chrome_trace")).unwrap())
            .unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let kernel = events.iter().find(|event| event["cat"] == "kernel").unwrap();
    assert_eq!(kernel["args"]["call_stack"], json!(["ROOT", "a", "k"]));
    assert_eq!((&kernel["dur"], &kernel["tid"]), (&json!(1.0), &json!(200_007)));
    // A device may finish before the launch has returned.
    let mut flows: Vec<_> = events
        .iter()
        .filter(|event| event["cat"] == "flow")
        .map(|event| (event["ph"].as_str().unwrap(), event["id"].as_u64().unwrap()))
        .collect();
    flows.sort_unstable();
    let numbers = [8, u64::from(u32::MAX)];
    assert_eq!(flows, [("f", numbers[0]), ("f", numbers[1]), ("s", numbers[0]), ("s", numbers[1])]);
}
