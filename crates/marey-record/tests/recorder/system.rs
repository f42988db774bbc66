//! Counters of the process in the spool.

use crate::harness::{Fixture, Subprocess, fork, scope, subprocess_part};
use crate::spool::{Spool, spool_of};
use marey_model::setting::Setting;
use marey_record::{Format, SessionId, SessionOptions, api, settings};
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

/// A reading every 50 ms, the minimum.
const OFTEN: (&str, &str) = ("MAREY_SYSTEM_METRICS_SECS", "0.05");

fn start(folder: &Path) -> SessionId {
    let name = folder.join("run");
    let options =
        SessionOptions { format: Format::Run, ..SessionOptions::named(name.to_str().unwrap()) };
    api::start(&options).unwrap()
}

/// Computes, and calls `disturb`, until the spool has samples of `process_cpu (%)` at `count` times.
fn work_until_sampled(folder: &Path, count: usize, disturb: &dyn Fn()) {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let start = Instant::now();
    let is_cpu = |name: &str| name == "process_cpu (%)";
    let spool = || Spool::read(&spool_of(&folder.join("run")));
    while spool().counters.iter().filter(|(name, _)| is_cpu(name)).count() < count {
        assert!(start.elapsed() < TIMEOUT, "no samples");
        scope("work", disturb);
    }
}

/// Returns the values of each counter of the spool in a test's folder.
fn counters(fixture: &Fixture) -> BTreeMap<String, Vec<f64>> {
    let mut values = BTreeMap::<_, Vec<_>>::new();
    for (name, counter) in Spool::read(&spool_of(&fixture.path("run"))).counters {
        assert_eq!(counter.device, None);
        values.entry(name).or_default().push(counter.value);
    }
    values
}

#[test]
fn counters_of_the_process_are_sampled_while_a_trace_records() {
    const TEST: &str = "system::counters_of_the_process_are_sampled_while_a_trace_records";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        work_until_sampled(&folder, 3, &|| {
            // Too large to be memory that was used before, so that each page is a fault.
            black_box(vec![1_u8; 1 << 20]);
            fs::write(folder.join("written"), [0; 4096]).unwrap();
            socket.send_to(&[0; 512], address).unwrap();
        });
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    Subprocess::new(TEST, "run", &fixture).run(&[OFTEN]);
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
    const TEST: &str = "system::a_program_that_closes_all_descriptors_and_forks_keeps_its_counters";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        work_until_sampled(&folder, 2, &|| {
            // SAFETY: closes descriptors of this subprocess, which uses none above 2.
            #[expect(unsafe_code, reason = "std has no close_range(2)")]
            unsafe {
                libc::syscall(libc::SYS_close_range, 3, 1000, 0);
            }
            // Forks happen more often than readings, and the child has nothing to record.
            assert_eq!(fork(|| 0), 0);
        });
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    Subprocess::new(TEST, "run", &fixture).run(&[OFTEN]);
    // Reads the only spool: the children have none.
    assert!(counters(&fixture)["process_cpu (%)"].len() >= 2);
}

#[test]
fn readings_begin_when_the_setting_changes() {
    const TEST: &str = "system::readings_begin_when_the_setting_changes";
    if let Some((_, folder)) = subprocess_part() {
        let session = start(&folder);
        assert_eq!(settings::whole(Setting::SystemInterval), 0);
        settings::set(Setting::SystemInterval, 0.05).unwrap();
        work_until_sampled(&folder, 1, &|| {});
        api::finalize(session, None).unwrap();
        return;
    }
    let fixture = Fixture::begin();
    Subprocess::new(TEST, "run", &fixture).run(&[("MAREY_SYSTEM_METRICS_SECS", "0")]);
    assert!(!counters(&fixture).is_empty());
}
