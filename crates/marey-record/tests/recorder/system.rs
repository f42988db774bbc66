//! Counters of the process in the spool.

use crate::harness::{Fixture, fork, run_in_subprocess, scope, start, wait_until};
use crate::spool::Spool;
use marey_model::setting::Setting;
use marey_record::{Format, api, settings};
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::net::UdpSocket;

/// A reading every 50 ms, the minimum.
const OFTEN: (&str, &str) = ("MAREY_SYSTEM_METRICS_SECS", "0.05");

/// Computes, and calls `disturb`, until the spool has samples of `process_cpu (%)` at `count` times.
fn work_until_sampled(count: usize, disturb: impl Fn()) {
    wait_until("no samples", || {
        scope("work", &disturb);
        let counters = Spool::of("run").counters;
        counters.iter().filter(|(name, _)| name == "process_cpu (%)").count() >= count
    });
}

/// Returns the values of each counter of the spool in a test's folder.
fn counters(fixture: &Fixture) -> BTreeMap<String, Vec<f64>> {
    let mut values = BTreeMap::<_, Vec<_>>::new();
    for (name, counter) in Spool::of(fixture.path("run")).counters {
        assert_eq!(counter.device, None);
        values.entry(name).or_default().push(counter.value);
    }
    values
}

#[test]
fn counters_of_the_process_are_sampled_while_a_trace_records() {
    let Some(fixture) = run_in_subprocess(&[OFTEN], || {
        let session = start("run", Format::Run);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        work_until_sampled(3, || {
            // Too large to be memory that was used before, so that each page is a fault.
            black_box(vec![1_u8; 1 << 20]);
            fs::write("written", [0; 4096]).unwrap();
            socket.send_to(&[0; 512], address).unwrap();
        });
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let counters = counters(&fixture);
    let average = |name: &str| {
        let values = &counters[name];
        values.iter().sum::<f64>() / values.len() as f64
    };
    // The program computes on one thread, and marey's threads do little.
    assert!((1.0..400.0).contains(&average("process_cpu (%)")), "{counters:?}");
    assert!(average("process_rss (bytes)") > f64::from(1 << 20));
    assert!(average("process_vms (bytes)") >= average("process_rss (bytes)"));
    for name in [
        "process_read (bytes/s)",
        "process_written (bytes/s)",
        "process_minor_faults (1/s)",
        "network_tx[lo] (bytes/s)",
        "network_rx[lo] (bytes/s)",
    ] {
        assert!(average(name) > 0.0, "{name}: {counters:?}");
    }
    for name in ["major_faults", "voluntary_switches", "involuntary_switches"] {
        assert!(average(&format!("process_{name} (1/s)")) >= 0.0);
    }
    assert!(counters.keys().any(|name| name.starts_with("thread_cpu[")), "{counters:?}");
}

#[test]
fn a_program_that_closes_all_descriptors_and_forks_keeps_its_counters() {
    let Some(fixture) = run_in_subprocess(&[OFTEN], || {
        let session = start("run", Format::Run);
        work_until_sampled(2, || {
            // SAFETY: closes descriptors of this subprocess, which uses none above 2.
            #[expect(unsafe_code, reason = "std has no close_range(2)")]
            unsafe {
                libc::syscall(libc::SYS_close_range, 3, 1000, 0);
            }
            // Forks happen more often than readings, and the child has nothing to record.
            assert_eq!(fork(|| 0), 0);
        });
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    // Reads the only spool: the children have none.
    assert!(counters(&fixture)["process_cpu (%)"].len() >= 2);
}

#[test]
fn readings_begin_when_the_setting_changes() {
    let Some(fixture) = run_in_subprocess(&[("MAREY_SYSTEM_METRICS_SECS", "0")], || {
        let session = start("run", Format::Run);
        assert_eq!(settings::whole(Setting::SystemInterval), 0);
        settings::set(Setting::SystemInterval, 0.05).unwrap();
        work_until_sampled(1, || ());
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    assert!(!counters(&fixture).is_empty());
}
