//! Test processes, their recordings, and the values of the double's devices.

use crate::script::set;
use crate::{double, own_process};
use marey_gpu::nvml::{self, NvmlState};
use marey_model::counter::DeviceCounter;
use marey_model::loss::LossCause;
use marey_model::spool::{Counter, SpoolFrame, SpoolReader};
use marey_record::{Format, SessionId, SessionOptions, api};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Runs a test in its own process, with these variables. Returns whether this is that process.
pub(crate) fn in_own_process(test: impl Fn(), variables: &[(&'static str, &str)]) -> bool {
    if own_process::is_own_process() {
        return true;
    }
    let double = double_path();
    let defaults = [
        ("MAREY_NVML_LIB", double.to_str().unwrap()),
        ("MAREY_NVML_PERIOD_MS", "10"),
        ("MAREY_SYSTEM_METRICS_SECS", "0"), // counters without a device
        ("MAREY_ENDPOINT", "0"),            // a thread
        ("REPLAY_NVML_DEVICES", "1"),
    ];
    own_process::run(test, defaults.into_iter().chain(variables.iter().copied()));
    false
}

pub(crate) fn double_path() -> PathBuf {
    double::path("libmarey_replay_nvml.so")
}

/// Waits until the thread is in a state.
pub(crate) fn wait_for(is_reached: impl Fn(&NvmlState) -> bool) {
    const TIMEOUT: Duration = Duration::from_mins(1);
    let start = Instant::now();
    while !is_reached(&nvml::state()) {
        assert!(start.elapsed() < TIMEOUT, "the state is {:?}", nvml::state());
        std::thread::yield_now();
    }
}

/// A trace session with device counters.
pub(crate) struct Trace {
    pub(crate) folder: TempDir,
    session: SessionId,
}

impl Trace {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let name = folder.path().join("trace");
        let options = SessionOptions {
            format: Format::ChromeTrace,
            ..SessionOptions::named(name.to_str().unwrap())
        };
        Self { session: api::start(&options).unwrap(), folder }
    }

    pub(crate) fn finish(self) -> Recorded {
        nvml::stop();
        api::finalize(self.session, Some(Format::Hatchet)).unwrap();
        let mut recorded = Recorded::default();
        let spools = self.folder.path().join("trace.marey/spool").read_dir().unwrap();
        spools.for_each(|spool| recorded.add(&spool.unwrap().path()));
        recorded
    }
}

/// The content of a spool.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Values by device and name, in order of time.
    pub(crate) values: BTreeMap<(u32, String), Vec<f64>>,
    pub(crate) times: Vec<i64>,
    pub(crate) counters_ended: u64,
}

impl Recorded {
    pub(crate) fn add(&mut self, spool: &Path) {
        let mut texts = BTreeMap::new();
        for frame in SpoolReader::new(File::open(spool).unwrap()).unwrap() {
            match frame.unwrap() {
                SpoolFrame::Strings { first_id, texts: names } => {
                    texts.extend((first_id..).zip(names));
                }
                SpoolFrame::Counters(counters) => {
                    for Counter { time_nanos, name_id: name, device, value } in counters {
                        let key = (device.unwrap(), texts[&name].clone());
                        self.values.entry(key).or_default().push(value);
                        self.times.push(time_nanos);
                    }
                }
                SpoolFrame::Losses(losses) => {
                    let loss = losses.iter().find(|loss| loss.0 == LossCause::CountersEnded);
                    self.counters_ended = loss.map_or(0, |loss| loss.1);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn values_of(&self, device: u32, counter: DeviceCounter) -> &[f64] {
        self.values.get(&(device, counter.name().to_owned())).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn names(&self, device: u32) -> BTreeSet<&str> {
        let keys = self.values.keys().filter(|key| key.0 == device);
        keys.map(|key| key.1.as_str()).collect()
    }
}

/// Fields of every device: name, value, and the resulting counter with its value.
pub(crate) const FIELDS: [(&str, f64, DeviceCounter, f64); 15] = [
    ("utilization", 61.0, DeviceCounter::Utilization, 61.0),
    ("memory_utilization", 17.0, DeviceCounter::MemoryUtilization, 17.0),
    ("memory_used", 3e9, DeviceCounter::MemoryUsed, 3e9),
    ("memory_free", 76e9, DeviceCounter::MemoryFree, 76e9),
    ("memory_total", 80e9, DeviceCounter::MemoryTotal, 80e9),
    ("power", 312_500.0, DeviceCounter::Power, 312.5),
    ("power_limit", 700_000.0, DeviceCounter::PowerLimit, 700.0),
    ("energy", 123_456_789.0, DeviceCounter::Energy, 123_456.789),
    ("temperature", 71.0, DeviceCounter::Temperature, 71.0),
    ("sm_clock", 1980.0, DeviceCounter::SmClock, 1980.0),
    ("memory_clock", 2619.0, DeviceCounter::MemoryClock, 2619.0),
    ("ecc_corrected", 2.0, DeviceCounter::EccCorrected, 2.0),
    ("ecc_uncorrected", 1.0, DeviceCounter::EccUncorrected, 1.0),
    ("pcie_generation", 5.0, DeviceCounter::PcieGeneration, 5.0),
    ("pcie_width", 16.0, DeviceCounter::PcieWidth, 16.0),
];

/// GPM metrics: number, value, and the resulting counter with its value.
pub(crate) const GPM: [(u32, f64, DeviceCounter, f64); 16] = [
    (1, 91.5, DeviceCounter::GraphicsActive, 91.5),
    (2, 90.5, DeviceCounter::SmActive, 90.5),
    (3, 44.25, DeviceCounter::SmOccupancy, 44.25),
    (4, 4.5, DeviceCounter::IntegerActive, 4.5),
    (5, 55.5, DeviceCounter::TensorActive, 55.5),
    (6, 6.5, DeviceCounter::TensorFp64Active, 6.5),
    (7, 7.5, DeviceCounter::TensorFp16Active, 7.5),
    (9, 9.5, DeviceCounter::TensorIntegerActive, 9.5),
    (10, 33.0, DeviceCounter::DramActive, 33.0),
    (11, 11.5, DeviceCounter::Fp64Active, 11.5),
    (12, 12.5, DeviceCounter::Fp32Active, 12.5),
    (13, 13.5, DeviceCounter::Fp16Active, 13.5),
    (20, 2.0, DeviceCounter::PcieSent, 2_097_152.0),
    (21, 3.0, DeviceCounter::PcieReceived, 3_145_728.0),
    (60, 5.0, DeviceCounter::NvlinkReceived, 5_242_880.0),
    (61, 4.0, DeviceCounter::NvlinkSent, 4_194_304.0),
];

/// Bits of throttle reasons, with their counters.
pub(crate) const THROTTLE: [(u32, DeviceCounter); 9] = [
    (0, DeviceCounter::ThrottleIdle),
    (1, DeviceCounter::ThrottleApplicationClocks),
    (2, DeviceCounter::ThrottleSwPowerCap),
    (3, DeviceCounter::ThrottleHwSlowdown),
    (4, DeviceCounter::ThrottleSyncBoost),
    (5, DeviceCounter::ThrottleSwThermal),
    (6, DeviceCounter::ThrottleHwThermal),
    (7, DeviceCounter::ThrottleHwPowerBrake),
    (8, DeviceCounter::ThrottleDisplayClocks),
];

pub(crate) fn set_fields(device: u32) {
    for (field, value, ..) in FIELDS {
        set(device, field, value);
    }
    // Every second reason, and a bit without a reason.
    set(device, "throttle_reasons", f64::from(0b1_0101_0101_u32 | 1 << 20));
}

pub(crate) fn set_gpm(device: u32) {
    set(device, "gpm", 1.0);
    for (metric, value, ..) in GPM {
        set(device, &format!("gpm:{metric}"), value);
    }
}
