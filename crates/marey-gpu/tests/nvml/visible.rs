//! Selection and numbering of the devices that are read.

use crate::double;
use crate::harness::{Trace, in_own_process, wait_for};
use crate::script::{set, wait_for_queries};
use marey_gpu::nvml::{self, NvmlState, Unavailable};
use marey_model::counter::DeviceCounter;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const DEVICES: (&str, &str) = ("REPLAY_NVML_DEVICES", "4");

/// Gives each device another power draw, which identifies it.
fn set_power() {
    (0..4).for_each(|device| set(device, "power", 1_000.0 * f64::from(device)));
}

#[test]
fn the_variable_selects_and_orders_the_devices() {
    let uuid = |kind, number: u32| format!("{kind}-00000000-0000-0000-0000-{number:012}");
    let cases = [
        ("3,1".to_owned(), vec![3, 1]),
        (format!("{},0", uuid("GPU", 2)), vec![2, 0]),
        (uuid("MIG", 1), vec![1]),
        // As in CUDA, names after an invalid one are ignored.
        (" 2, 9, 0".to_owned(), vec![2]),
        ("GPU-0".to_owned(), vec![]),
        ("-1".to_owned(), vec![]),
        (String::new(), vec![]),
    ];
    for (variable, physical) in cases {
        if !in_own_process(
            the_variable_selects_and_orders_the_devices,
            &[DEVICES, ("CUDA_VISIBLE_DEVICES", &variable)],
        ) {
            continue;
        }
        if std::env::var("CUDA_VISIBLE_DEVICES").unwrap() != variable {
            continue;
        }
        set_power();
        let trace = Trace::start();
        nvml::start().unwrap();
        if physical.is_empty() {
            wait_for(|state| matches!(state, NvmlState::Ended(Unavailable::Hidden(_))));
        } else {
            wait_for_queries(*physical.last().unwrap(), "power", 2);
        }
        let recorded = trace.finish();
        for (number, physical) in (0..).zip(&physical) {
            let power = recorded.values_of(number, DeviceCounter::Power);
            assert_eq!(power.first(), Some(&f64::from(*physical)), "{variable}: {number}");
        }
        assert!(recorded.values.keys().all(|key| (key.0 as usize) < physical.len()), "{variable}");
        return;
    }
}

#[test]
#[expect(unsafe_code, reason = "calls of the double")]
fn the_driver_determines_visible_and_used_devices() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    symlink(double::path("libmarey_replay.so"), path("libcuda.so.1")).unwrap();
    // The devices under CUDA_VISIBLE_DEVICES=3,1.
    std::fs::write(path("script"), "device a uuid 3\ndevice b uuid 1\n").unwrap();
    let library_path = path("");
    let env =
        [DEVICES, ("LD_LIBRARY_PATH", library_path.as_str()), ("MAREY_REPLAY", &path("script"))];
    if !in_own_process(the_driver_determines_visible_and_used_devices, &env) {
        return;
    }
    set_power();
    let trace = Trace::start();
    nvml::start().unwrap();
    wait_for(|state| *state == NvmlState::Reading { devices: 4 });
    // SAFETY: the function takes and returns a number.
    let init: extern "C" fn(u32) -> u32 = unsafe { double::function("libcuda.so.1", c"cuInit") };
    assert_eq!(init(0), 0);
    wait_for(|state| *state == NvmlState::Reading { devices: 2 });
    nvml::stop();
    let mut context = std::ptr::null_mut();
    // SAFETY: the function takes the address of a context, and a number.
    let retain: extern "C" fn(*mut *mut u8, i32) -> u32 =
        unsafe { double::function("libcuda.so.1", c"cuDevicePrimaryCtxRetain") };
    assert_eq!(retain(&raw mut context, 0), 0);
    nvml::start().unwrap();
    wait_for(|state| *state == NvmlState::Reading { devices: 1 });
    let recorded = trace.finish();
    let power_of = |number| recorded.values_of(number, DeviceCounter::Power);
    // First with NVML's numbers, then with CUDA's.
    assert_eq!((power_of(0).first(), power_of(0).last()), (Some(&0.0), Some(&3.0)));
    assert_eq!((power_of(1).first(), power_of(1).last()), (Some(&1.0), Some(&1.0)));
    assert_eq!((power_of(3).first(), power_of(3).last()), (Some(&3.0), Some(&3.0)));
}
