//! Counters of the machine in the spool, and the threads that sample them.

use crate::harness::{fork, run_in_subprocess, scope, start, start_trace};
use crate::spool::spool_of_subprocess;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::spool::Counter;
use marey_record::api::{
    Collective, CollectiveState, CounterSample, LineVariables, SampleCause, StackSample,
    VariableValue,
};
use marey_record::{Format, STOP, Worker, api};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

/// Records samples of one counter on two devices, and of one without a device, at the same time.
fn record_samples(value: f64) {
    let time_ticks = api::now_ticks();
    let sample = |name, device, value| CounterSample {
        name_id: api::intern(name),
        device,
        time_ticks,
        value,
    };
    api::record_counters(&[
        sample("power (W)", Some(0), value),
        sample("power (W)", Some(1), value + 0.5),
        sample("load", None, value),
    ]);
}

#[test]
fn samples_of_stacks_are_recorded_while_a_trace_is_active() {
    let record = |os_id| {
        let (root, _) = api::frame_root();
        let outer = api::frame_child(root, api::intern("train.py:7@main"));
        let node = api::frame_child(outer, api::intern("train.py:3@step"));
        let thread_name = api::intern("MainThread");
        let samples = [StackSample { os_id, thread_name, node, duration_nanos: 100 }];
        api::record_samples(&samples, SampleCause::Interval);
    };
    let Some(spool) = spool_of_subprocess(&[], || {
        record(1);
        let session = start_trace("trace");
        record(2);
        api::deactivate(session).unwrap();
        record(3);
        api::activate(session).unwrap();
        record(4);
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let rows = spool.samples.iter().map(|(name, path, sample)| (&**name, &**path, sample.os_id));
    let path = "train.py:7@main/train.py:3@step";
    assert_eq!(rows.collect::<Vec<_>>(), [("MainThread", path, 2), ("MainThread", path, 4)]);
    assert!(spool.samples.iter().all(|(_, _, sample)| sample.duration_nanos == 100));
}

#[test]
fn collectives_are_recorded_while_a_trace_is_active() {
    let record = |created_unix_nanos| {
        api::record_collectives(vec![Collective {
            name_id: api::intern("all_reduce"),
            group_id: api::intern("world"),
            group_ranks_id: Some(api::intern("0-3")),
            group_size: Some(4),
            sequence: Some(1),
            dtype_id: None,
            in_elements: None,
            out_elements: None,
            created_unix_nanos,
            started_unix_nanos: None,
            duration_nanos: None,
            state: CollectiveState::Completed,
            is_p2p: false,
        }]);
    };
    let Some(spool) = spool_of_subprocess(&[], || {
        let trace = start_trace("trace");
        record(1);
        api::deactivate(trace).unwrap();
        assert!(api::active_sessions().is_empty());
        record(2);
        api::activate(trace).unwrap();
        assert_eq!(api::active_sessions(), [trace]);
        record(3);
        api::finalize(trace, None).unwrap();
        record(4);
    }) else {
        return;
    };
    let texts: Vec<_> = spool
        .collectives
        .iter()
        .map(|(name, group, row)| (name.as_str(), group.as_str(), row.created_unix_nanos))
        .collect();
    assert_eq!(texts, [("all_reduce", "world", 1), ("all_reduce", "world", 3)]);
}

#[test]
fn variables_are_recorded_while_a_trace_is_active() {
    let record = |os_id, value| {
        let [thread_name_id, file_id, function_id, name_id, type_id] =
            ["MainThread", "/app/train.py", "step", "loss", "float"].map(api::intern);
        let variables = &[VariableValue { name_id, type_id, value }];
        api::record_variables(&LineVariables {
            os_id,
            thread_name_id,
            file_id,
            function_id,
            line: 7,
            variables,
        });
    };
    let Some(spool) = spool_of_subprocess(&[], || {
        record(1, MetricValue::Int(1));
        let session = start_trace("trace");
        record(2, MetricValue::Float(0.5));
        api::deactivate(session).unwrap();
        record(3, MetricValue::Int(1));
        api::activate(session).unwrap();
        record(4, MetricValue::Text("nan".into()));
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let rows: Vec<_> = spool
        .variables
        .iter()
        .map(|(texts, variable)| (texts.join(" "), variable.os_id, variable.value.clone()))
        .collect();
    let texts = || "MainThread /app/train.py step loss float".to_owned();
    let expected =
        [(texts(), 2, MetricValue::Float(0.5)), (texts(), 4, MetricValue::Text("nan".into()))];
    assert_eq!(rows, expected);
    assert!(spool.variables[0].1.time_nanos < spool.variables[1].1.time_nanos);
    assert_eq!(spool.variables[0].1.line, 7);
}

#[test]
fn counters_are_recorded_while_a_trace_is_active() {
    let Some(spool) = spool_of_subprocess(&[], || {
        record_samples(1.0);
        let tree = start("tree", Format::Hatchet);
        record_samples(2.0);
        assert!(!api::is_tracing());
        let trace = start_trace("trace");
        assert!(api::is_tracing());
        record_samples(3.0);
        api::deactivate(trace).unwrap();
        record_samples(4.0);
        api::activate(trace).unwrap();
        // The names of counters and scopes are defined once.
        scope("load", || record_samples(5.0));
        for session in [tree, trace] {
            api::finalize(session, Some(Format::Hatchet)).unwrap();
        }
        record_samples(6.0);
    }) else {
        return;
    };
    let describe =
        |counter: &(String, Counter)| (counter.0.clone(), counter.1.device, counter.1.value);
    let expected = |value| {
        let power = || "power (W)".to_owned();
        [
            (power(), Some(0), value),
            (power(), Some(1), value + 0.5),
            ("load".to_owned(), None, value),
        ]
    };
    let counters: Vec<_> = spool.counters.iter().map(describe).collect();
    assert_eq!(counters, [expected(3.0), expected(5.0)].concat());
    let times: Vec<_> = spool.counters.iter().map(|counter| counter.1.time_nanos).collect();
    assert!(times[0] == times[2] && times[2] < times[3] && times[3] == times[5]);
    assert!(spool.clocks[0].0 <= times[0] && spool.losses.is_empty() && spool.has_end);
}

#[test]
fn dropped_counters_are_counted() {
    let Some(spool) = spool_of_subprocess(&[("MAREY_SPOOL_BYTES", "1000")], || {
        let trace = start_trace("trace");
        (0..100).for_each(|value| record_samples(value.into()));
        api::finalize(trace, Some(Format::Hatchet)).unwrap();
    }) else {
        return;
    };
    assert!(!spool.counters.is_empty() && spool.loss_count(LossCause::Spool) > 0);
    assert_eq!(spool.counters.len() as u64 + spool.loss_count(LossCause::Spool), 300);
}

/// The number of starts of the source's thread.
static STARTS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
static RUNNING: AtomicBool = AtomicBool::new(false);
static RAN_AT_FORK: AtomicBool = AtomicBool::new(true);
static SOURCE: Worker = Worker::new("source", run_source);

fn run_source() {
    RUNNING.store(true, Ordering::SeqCst);
    *STARTS.0.lock().unwrap() += 1;
    STARTS.1.notify_all();
    while SOURCE.wait(None) & STOP == 0 {}
    RUNNING.store(false, Ordering::SeqCst);
}

fn wait_for_starts(count: u32) {
    drop(STARTS.1.wait_while(STARTS.0.lock().unwrap(), |starts| *starts < count).unwrap());
}

extern "C" fn note_running_at_fork() {
    RAN_AT_FORK.store(RUNNING.load(Ordering::SeqCst), Ordering::SeqCst);
}

#[test]
#[expect(unsafe_code, reason = "pthread_atfork takes C functions")]
fn a_source_stops_for_a_fork_and_does_not_start_in_the_child() {
    run_in_subprocess(&[], || {
        // SAFETY: the function lives as long as the program. Prepare handlers that are registered
        // later run before it.
        unsafe { libc::pthread_atfork(Some(note_running_at_fork), None, None) };
        let trace = start_trace("trace");
        api::start_source(&SOURCE);
        api::start_source(&SOURCE);
        wait_for_starts(1);
        let child = fork(|| {
            let is_absent = !RUNNING.load(Ordering::SeqCst) && !SOURCE.stop();
            api::start_source(&SOURCE);
            wait_for_starts(2);
            i32::from(!is_absent || !SOURCE.stop())
        });
        assert_eq!(child, 0);
        assert!(!RAN_AT_FORK.load(Ordering::SeqCst));
        wait_for_starts(2);
        assert!(SOURCE.stop() && !SOURCE.stop());
        assert_eq!(fork(|| i32::from(SOURCE.stop())), 0);
        assert_eq!(*STARTS.0.lock().unwrap(), 2);
        api::discard(trace).unwrap();
    });
}
