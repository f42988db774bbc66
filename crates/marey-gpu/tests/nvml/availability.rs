//! Reasons for missing counters, and the probe of devices.

use crate::harness::{Trace, double_path, in_own_process, set_fields, set_gpm, wait_for};
use crate::script::{DRIVER_NOT_LOADED, GPU_IS_LOST, fail, set};
use marey_gpu::nvml::{self, NvmlState, ProbedDevice, Unavailable};

#[test]
fn the_reason_for_missing_counters_has_a_hint() {
    let executable = std::env::current_exe().unwrap();
    let executable = executable.to_str().unwrap();
    let refused = DRIVER_NOT_LOADED.to_string();
    for env in [
        ("MAREY_NVML_PERIOD_MS", "0"),
        ("MAREY_NVML_LIB", "/nowhere/libnvidia-ml.so.1"),
        ("MAREY_NVML_LIB", executable),
        ("REPLAY_NVML_INIT", &refused),
        ("REPLAY_NVML_DEVICES", "0"),
    ] {
        if !in_own_process(the_reason_for_missing_counters_has_a_hint, &[env]) {
            continue;
        }
        let variable = |name| std::env::var(name).unwrap();
        let library = variable("MAREY_NVML_LIB");
        let reason_of_end = || {
            let trace = Trace::start();
            nvml::start().unwrap();
            wait_for(|state| matches!(state, NvmlState::Ended(_)));
            let NvmlState::Ended(reason) = nvml::state() else { panic!() };
            assert!(trace.finish().values.is_empty());
            reason
        };
        if variable("MAREY_NVML_PERIOD_MS") == "0" {
            assert_eq!(nvml::start(), Err(Unavailable::TurnedOff));
            assert_eq!(nvml::state(), NvmlState::Idle);
        } else if !library.ends_with("libmarey_replay_nvml.so") {
            let reason = nvml::start().unwrap_err();
            assert_eq!(nvml::probe(), Err(reason.clone()));
            let message = reason.to_string();
            assert!(
                message.starts_with(&format!("cannot load NVML from `{library}`: ")),
                "{message}"
            );
            assert!(message.contains("cannot"), "{message}");
            assert!(reason.hint().unwrap().contains("MAREY_NVML_LIB"));
        } else if std::env::var_os("REPLAY_NVML_INIT").is_some() {
            let reason = reason_of_end();
            assert_eq!(nvml::probe(), Err(reason.clone()));
            let text = format!("NVML in `{library}` cannot be used: NVIDIA driver is not loaded");
            assert_eq!(reason.to_string(), text);
            assert_eq!(reason.hint(), Some("load the driver: `modprobe nvidia`"));
        } else {
            assert_eq!(reason_of_end(), Unavailable::NoDevice(library));
            assert!(nvml::probe().unwrap().devices.is_empty());
        }
        return;
    }
}

#[test]
fn a_probe_lists_each_device_or_its_error() {
    if !in_own_process(a_probe_lists_each_device_or_its_error, &[("REPLAY_NVML_DEVICES", "3")]) {
        return;
    }
    (0..2).for_each(|device| set(device, "name", 7.0));
    set_fields(0);
    set_gpm(0);
    fail(2, "name", GPU_IS_LOST);
    let probe = nvml::probe().unwrap();
    assert_eq!(probe.library, double_path().to_str().unwrap());
    assert_eq!(probe.driver_version.as_deref(), Some("550.1.2"));
    assert_eq!(probe.nvml_version.as_deref(), Some("12.550.1.2"));
    let summary = |device: &ProbedDevice| {
        let properties =
            device.properties.clone().map_err(|reason| reason.contains("fell off the bus"));
        (device.index, properties.map(|it| (it.name, it.uuid, it.memory_bytes, it.has_gpm)))
    };
    let expected_device = |number, memory, gpm| {
        let uuid = format!("GPU-00000000-0000-0000-0000-{number:012}");
        (number, Ok(("Replay 7".to_owned(), uuid, memory, gpm)))
    };
    let expected = [
        expected_device(0, Some(80_000_000_000), true),
        expected_device(1, None, false),
        (2, Err(true)),
    ];
    assert_eq!(probe.devices.iter().map(summary).collect::<Vec<_>>(), expected);
}
