//! Unsupported and forbidden counters, and lost devices.

use crate::harness::{GPM, Trace, in_own_process, set_fields, set_gpm, wait_for};
use crate::script::{
    GPU_IS_LOST, NO_PERMISSION, UNKNOWN, fail, query_count, set, wait_for_queries,
};
use marey_gpu::nvml::{self, NvmlState, Unavailable};
use marey_model::counter::DeviceCounter;

#[test]
fn unsupported_queries_are_not_repeated() {
    if !in_own_process(unsupported_queries_are_not_repeated, &[]) {
        return;
    }
    set(0, "power", 1000.0);
    set_gpm(0);
    // A metric that this device does not support, and one without a value at this time.
    fail(0, "gpm:10", 3);
    fail(0, "gpm:2", UNKNOWN);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for_queries(0, "power", 6);
    let recorded = trace.finish();
    for field in ["utilization", "temperature", "energy", "throttle_reasons", "ecc_corrected"] {
        assert_eq!(query_count(0, field), 1, "{field}");
    }
    // One call for the memory in use, one for the total.
    assert_eq!(query_count(0, "memory_total"), 2);
    assert_eq!(
        (query_count(0, "gpm:10"), query_count(0, "pcie_rx"), query_count(0, "nvlink_rx")),
        (1, 0, 0)
    );
    assert!(query_count(0, "gpm:2") >= 4);
    let gpm = GPM.iter().map(|metric| metric.2);
    let missing = [DeviceCounter::DramActive, DeviceCounter::SmActive];
    let expected = gpm.filter(|counter| !missing.contains(counter)).chain([DeviceCounter::Power]);
    assert_eq!(recorded.names(0), expected.map(DeviceCounter::name).collect());
    assert_eq!(recorded.counters_ended, 0);
}

#[test]
fn a_device_that_loses_gpm_uses_the_other_queries() {
    if !in_own_process(a_device_that_loses_gpm_uses_the_other_queries, &[]) {
        return;
    }
    set(0, "power", 1000.0);
    set(0, "pcie_rx", 1.0);
    set(0, "pcie_tx", 1.0);
    set_gpm(0);
    // As when MIG is enabled.
    fail(0, "gpm", 3);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for_queries(0, "pcie_tx", 1);
    wait_for_queries(0, "power", query_count(0, "power") + 2);
    let recorded = trace.finish();
    assert_eq!(query_count(0, "gpm"), 1);
    assert_eq!(recorded.values_of(0, DeviceCounter::PcieSent), [1000.0]);
}

#[test]
fn a_lost_device_is_counted_once() {
    if !in_own_process(a_lost_device_is_counted_once, &[("REPLAY_NVML_DEVICES", "2")]) {
        return;
    }
    (0..2).for_each(set_fields);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for_queries(1, "power", 2);
    fail(1, "lost", GPU_IS_LOST);
    wait_for(|state| *state == NvmlState::Reading { devices: 1 });
    let queries = query_count(1, "utilization");
    wait_for_queries(0, "power", query_count(0, "power") + 3);
    assert_eq!(query_count(1, "utilization"), queries);
    fail(0, "lost", GPU_IS_LOST);
    wait_for(|state| *state == NvmlState::Ended(Unavailable::DevicesLost));
    let recorded = trace.finish();
    assert!(
        recorded.values_of(0, DeviceCounter::Power).len()
            > recorded.values_of(1, DeviceCounter::Power).len()
    );
    assert_eq!(recorded.counters_ended, 2);
}

#[test]
fn forbidden_queries_are_counted_once() {
    if !in_own_process(forbidden_queries_are_counted_once, &[]) {
        return;
    }
    set_fields(0);
    set_gpm(0);
    fail(0, "energy", NO_PERMISSION);
    fail(0, "gpm", NO_PERMISSION);
    // This query fails temporarily.
    fail(0, "temperature", UNKNOWN);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for_queries(0, "temperature", 3);
    set(0, "temperature", 71.0);
    wait_for_queries(0, "temperature", query_count(0, "temperature") + 2);
    let recorded = trace.finish();
    assert_eq!((query_count(0, "energy"), query_count(0, "gpm")), (1, 1));
    assert_eq!(recorded.counters_ended, 2);
    assert!(!recorded.values_of(0, DeviceCounter::Temperature).is_empty());
}
