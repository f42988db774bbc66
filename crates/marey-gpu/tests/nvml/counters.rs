//! Values of every counter.

use crate::harness::{FIELDS, GPM, THROTTLE, Trace, in_own_process, set_fields, set_gpm};
use crate::script::{set, wait_for_queries};
use marey_gpu::nvml::{self, NvmlState};
use marey_model::counter::DeviceCounter;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

#[test]
fn every_counter_of_every_device_is_recorded() {
    if !in_own_process(every_counter_of_every_device_is_recorded, &[("REPLAY_NVML_DEVICES", "2")]) {
        return;
    }
    (0..2).for_each(set_fields);
    set_gpm(0);
    // The other device is older and has no GPM.
    set(1, "pcie_rx", 1_500.0);
    set(1, "pcie_tx", 2_500.0);
    set(1, "nvlink_rx", 1_000.0);
    set(1, "nvlink_tx", 1_000.0);
    let trace = Trace::start();
    assert_eq!(nvml::start().unwrap(), Duration::from_millis(10));
    wait_for_queries(1, "nvlink_tx", 2);
    set(1, "nvlink_rx", 1_000_001_000.0);
    wait_for_queries(1, "nvlink_tx", 5);
    assert_eq!(nvml::state(), NvmlState::Reading { devices: 2 });
    let recorded = trace.finish();
    assert_eq!(nvml::state(), NvmlState::Idle);

    for device in 0..2 {
        for (field, _, counter, value) in FIELDS {
            let values = recorded.values_of(device, counter);
            assert!(!values.is_empty() && values.iter().all(|&it| it == value), "{field}");
        }
        for (bit, counter) in THROTTLE {
            let values = recorded.values_of(device, counter);
            let value = f64::from(1 - bit % 2);
            assert!(!values.is_empty() && values.iter().all(|&it| it == value), "{counter:?}");
        }
    }
    for (metric, _, counter, value) in GPM {
        let values = recorded.values_of(0, counter);
        assert!(!values.is_empty() && values.iter().all(|&it| it == value), "{metric}");
    }
    // GPM needs two samples, so the first reading has no GPM metrics.
    let readings = recorded.values_of(0, DeviceCounter::Power).len();
    assert_eq!(recorded.values_of(0, DeviceCounter::SmActive).len(), readings - 1);
    assert_eq!(recorded.values_of(0, DeviceCounter::Utilization).len(), readings);
    // Slow queries run once in a hundred readings.
    assert_eq!(recorded.values_of(0, DeviceCounter::PowerLimit).len(), readings.div_ceil(100));

    assert_eq!(recorded.values_of(1, DeviceCounter::PcieReceived)[0], 1_500_000.0);
    assert_eq!(recorded.values_of(1, DeviceCounter::PcieSent)[0], 2_500_000.0);
    assert!(recorded.values_of(1, DeviceCounter::SmActive).is_empty());
    assert!(recorded.values_of(1, DeviceCounter::NvlinkSent).iter().all(|&rate| rate == 0.0));
    let rates = recorded.values_of(1, DeviceCounter::NvlinkReceived);
    assert!(rates.iter().any(|&rate| rate > 0.0), "{rates:?}");

    let names: BTreeSet<_> = recorded.names(0).union(&recorded.names(1)).copied().collect();
    let is_missing = |counter: &&DeviceCounter| !names.contains(counter.name());
    let missing: Vec<_> = DeviceCounter::ALL.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "neither `FIELDS` nor `GPM` nor `THROTTLE` sets {missing:?}");
    assert!(recorded.times.is_sorted() && recorded.counters_ended == 0);
}

/// Reads eight devices a hundred times a second.
#[test]
#[ignore = "a measurement of the thread's cost with the double"]
fn a_reading_costs_little() {
    const DEVICES: u32 = 8;
    const READINGS: u64 = 300;
    const MAX_COST: Duration = Duration::from_millis(5);
    if !in_own_process(a_reading_costs_little, &[("REPLAY_NVML_DEVICES", "8")]) {
        return;
    }
    for device in 0..DEVICES {
        set_fields(device);
        set_gpm(device);
    }
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for_queries(DEVICES - 1, "power", READINGS);
    let cpu_time = cpu_time_of_thread("marey-nvml");
    let rows: usize = trace.finish().values.values().map(Vec::len).sum();
    let per_reading = cpu_time / READINGS as u32;
    assert!(rows > 8 * 30 * 300);
    assert!(per_reading < MAX_COST, "{per_reading:?} a reading of {DEVICES} devices");
}

/// Returns the processor time of a thread of this process.
fn cpu_time_of_thread(thread: &str) -> Duration {
    for task in Path::new("/proc/self/task").read_dir().unwrap() {
        let task = task.unwrap().path();
        if std::fs::read_to_string(task.join("comm")).unwrap().trim() == thread {
            let schedstat = std::fs::read_to_string(task.join("schedstat")).unwrap();
            let nanos = schedstat.split(' ').next().unwrap().parse().unwrap();
            return Duration::from_nanos(nanos);
        }
    }
    panic!("no thread {thread}");
}
