//! NVML, read from the double: what reaches the spool, and what is left out and counted.
//!
//! Each test runs in a process of its own, which has the double for NVML.

use marey_gpu::nvml::{self, ProbedDevice, State, Unavailable};
use marey_model::counter::DeviceCounter;
use marey_model::loss::LossCause;
use marey_model::spool::{Counter, Frame, Reader};
use marey_record::{Format, SessionId, SessionOptions, api};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

// Codes of NVML.
const NO_PERMISSION: u32 = 4;
const DRIVER_NOT_LOADED: u32 = 9;
const GPU_IS_LOST: u32 = 15;
const UNKNOWN: u32 = 999;

/// Runs a test in a process of its own, with this environment; whether this is that process.
fn alone(test: &str, env: &[(&str, &str)]) -> bool {
    const ALONE: &str = "MAREY_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1", "--include-ignored"])
        .env(ALONE, "1")
        .env("MAREY_NVML_LIB", double())
        .env("MAREY_NVML_PERIOD_MS", "10")
        .env("MAREY_KEEP_SPOOL", "1")
        .env("REPLAY_NVML_DEVICES", "1")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    false
}

/// The double lies beside this program.
fn double() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libmarey_replay_nvml.so")
}

/// The script of the double that this process has loaded.
#[derive(Debug)]
struct Script(libloading::Library);

static SCRIPT: LazyLock<Script> = LazyLock::new(Script::load);

#[expect(unsafe_code, reason = "the script is called from C")]
impl Script {
    fn load() -> Self {
        // SAFETY: the double does nothing when it is loaded.
        Self(unsafe { libloading::Library::new(double()) }.unwrap())
    }

    fn call<R>(&self, function: &str, call: impl FnOnce(*const (), &Self) -> R) -> R {
        // SAFETY: it is only cast to what the function is.
        let symbol = unsafe { self.0.get::<*const ()>(function.as_bytes()) }.unwrap();
        call(*symbol, self)
    }
}

type Set = extern "C" fn(u32, *const c_char, f64);
type Fail = extern "C" fn(u32, *const c_char, u32);
type Calls = extern "C" fn(u32, *const c_char) -> u64;
type Wait = extern "C" fn(u32, *const c_char, u64);

#[expect(unsafe_code, reason = "the script is called from C")]
fn set(device: u32, field: &str, value: f64) {
    let field = CString::new(field).unwrap();
    // SAFETY: the double declares it so.
    SCRIPT.call("replay_nvml_set", |function, _| unsafe {
        std::mem::transmute::<*const (), Set>(function)(device, field.as_ptr(), value);
    });
}

#[expect(unsafe_code, reason = "the script is called from C")]
fn fail(device: u32, field: &str, code: u32) {
    let field = CString::new(field).unwrap();
    // SAFETY: the double declares it so.
    SCRIPT.call("replay_nvml_fail", |function, _| unsafe {
        std::mem::transmute::<*const (), Fail>(function)(device, field.as_ptr(), code);
    });
}

#[expect(unsafe_code, reason = "the script is called from C")]
fn calls(device: u32, field: &str) -> u64 {
    let field = CString::new(field).unwrap();
    // SAFETY: the double declares it so.
    SCRIPT.call("replay_nvml_calls", |function, _| unsafe {
        std::mem::transmute::<*const (), Calls>(function)(device, field.as_ptr())
    })
}

/// Waits until a field has been asked for so often since the process began.
#[expect(unsafe_code, reason = "the script is called from C")]
fn wait(device: u32, field: &str, calls: u64) {
    let field = CString::new(field).unwrap();
    // SAFETY: the double declares it so.
    SCRIPT.call("replay_nvml_wait", |function, _| unsafe {
        std::mem::transmute::<*const (), Wait>(function)(device, field.as_ptr(), calls);
    });
}

/// Waits for a state, which the thread is about to be in.
fn wait_for(state: impl Fn(&State) -> bool) {
    while !state(&nvml::state()) {
        std::thread::yield_now();
    }
}

/// A trace session, and what is in its spool when it is over.
struct Trace {
    folder: TempDir,
    session: SessionId,
}

impl Trace {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let name = folder.path().join("trace");
        let options = SessionOptions {
            format: Format::ChromeTrace,
            ..SessionOptions::named(name.to_str().unwrap())
        };
        Self { session: api::start(&options).unwrap(), folder }
    }

    fn finish(self) -> Recorded {
        nvml::stop();
        api::finalize(self.session, Some(Format::Hatchet)).unwrap();
        let mut recorded = Recorded::default();
        let spools = self.folder.path().join("trace.marey/spool").read_dir().unwrap();
        spools.for_each(|spool| recorded.add(&spool.unwrap().path()));
        recorded
    }
}

/// What spools hold.
#[derive(Debug, Default)]
struct Recorded {
    /// By device and name, in order.
    values: BTreeMap<(u32, String), Vec<f64>>,
    times: Vec<i64>,
    counters_ended: u64,
}

impl Recorded {
    fn add(&mut self, spool: &Path) {
        let mut texts = BTreeMap::new();
        for frame in Reader::new(File::open(spool).unwrap()).unwrap() {
            match frame.unwrap() {
                Frame::Strings { first, texts: some } => texts.extend((first..).zip(some)),
                Frame::Counters(counters) => {
                    for Counter { time_nanos, name, device, value } in counters {
                        let key = (device.unwrap(), texts[&name].clone());
                        self.values.entry(key).or_default().push(value);
                        self.times.push(time_nanos);
                    }
                }
                Frame::Losses(losses) => {
                    let ended = losses.iter().find(|loss| loss.0 == LossCause::CountersEnded);
                    self.counters_ended = ended.map_or(0, |loss| loss.1);
                }
                _ => {}
            }
        }
    }

    fn of(&self, device: u32, counter: DeviceCounter) -> &[f64] {
        self.values.get(&(device, counter.name().to_owned())).map_or(&[], Vec::as_slice)
    }

    fn names(&self, device: u32) -> BTreeSet<&str> {
        let own = self.values.keys().filter(|key| key.0 == device);
        own.map(|key| key.1.as_str()).collect()
    }
}

/// What every device says: the field, the value, and what counter has which value of it.
const FIELDS: [(&str, f64, DeviceCounter, f64); 15] = [
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

/// The number of each metric of GPM, what is said of it, and what counter has which value.
const GPM: [(u32, f64, DeviceCounter, f64); 16] = [
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

/// The bits of reasons for low clocks, by their counters.
const THROTTLE: [(u32, DeviceCounter); 9] = [
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

fn set_fields(device: u32) {
    for (field, value, ..) in FIELDS {
        set(device, field, value);
    }
    // Every second one, and a bit that no reason has.
    set(device, "throttle_reasons", f64::from(0b1_0101_0101_u32 | 1 << 20));
}

fn set_gpm(device: u32) {
    set(device, "gpm", 1.0);
    for (metric, value, ..) in GPM {
        set(device, &format!("gpm:{metric}"), value);
    }
}

#[test]
fn every_counter_of_every_device_is_there() {
    if !alone("every_counter_of_every_device_is_there", &[("REPLAY_NVML_DEVICES", "2")]) {
        return;
    }
    (0..2).for_each(set_fields);
    set_gpm(0);
    // The other one is older.
    set(1, "pcie_rx", 1_500.0);
    set(1, "pcie_tx", 2_500.0);
    set(1, "nvlink_rx", 1_000.0);
    set(1, "nvlink_tx", 1_000.0);
    let trace = Trace::start();
    assert_eq!(nvml::start().unwrap().period, Duration::from_millis(10));
    wait(1, "nvlink_tx", 2);
    set(1, "nvlink_rx", 1_000_001_000.0);
    wait(1, "nvlink_tx", 5);
    assert_eq!(nvml::state(), State::Reading { devices: 2 });
    let recorded = trace.finish();
    assert_eq!(nvml::state(), State::Idle);

    for device in 0..2 {
        for (field, _, counter, value) in FIELDS {
            let values = recorded.of(device, counter);
            assert!(!values.is_empty() && values.iter().all(|&it| it == value), "{field}");
        }
        for (bit, counter) in THROTTLE {
            let values = recorded.of(device, counter);
            let value = f64::from(1 - bit % 2);
            assert!(!values.is_empty() && values.iter().all(|&it| it == value), "{counter:?}");
        }
    }
    for (metric, _, counter, value) in GPM {
        let values = recorded.of(0, counter);
        assert!(!values.is_empty() && values.iter().all(|&it| it == value), "{metric}");
    }
    // GPM tells what was between two readings, so the first one has none; the rest comes with each.
    let readings = recorded.of(0, DeviceCounter::Power).len();
    assert_eq!(recorded.of(0, DeviceCounter::SmActive).len(), readings - 1);
    assert_eq!(recorded.of(0, DeviceCounter::Utilization).len(), readings);
    // Slow questions come once in a hundred readings.
    assert_eq!(recorded.of(0, DeviceCounter::PowerLimit).len(), readings.div_ceil(100));

    assert_eq!(recorded.of(1, DeviceCounter::PcieReceived)[0], 1_500_000.0);
    assert_eq!(recorded.of(1, DeviceCounter::PcieSent)[0], 2_500_000.0);
    assert!(recorded.of(1, DeviceCounter::SmActive).is_empty());
    assert!(recorded.of(1, DeviceCounter::NvlinkSent).iter().all(|&rate| rate == 0.0));
    let rates = recorded.of(1, DeviceCounter::NvlinkReceived);
    assert!(rates.iter().any(|&rate| rate > 0.0), "{rates:?}");

    let both: BTreeSet<_> = recorded.names(0).union(&recorded.names(1)).copied().collect();
    assert_eq!(both, DeviceCounter::ALL.iter().map(|counter| counter.name()).collect());
    assert!(recorded.times.is_sorted() && recorded.counters_ended == 0);
}

#[test]
fn what_a_device_does_not_have_is_asked_once_and_left_out() {
    if !alone("what_a_device_does_not_have_is_asked_once_and_left_out", &[]) {
        return;
    }
    set(0, "power", 1000.0);
    set_gpm(0);
    // A metric that this device lacks, and one that has no value now.
    fail(0, "gpm:10", 3);
    fail(0, "gpm:2", UNKNOWN);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(0, "power", 6);
    let recorded = trace.finish();
    for field in ["utilization", "temperature", "energy", "throttle_reasons", "ecc_corrected"] {
        assert_eq!(calls(0, field), 1, "{field}");
    }
    // For what is used, and for what there is.
    assert_eq!(calls(0, "memory_total"), 2);
    assert_eq!((calls(0, "gpm:10"), calls(0, "pcie_rx"), calls(0, "nvlink_rx")), (1, 0, 0));
    assert!(calls(0, "gpm:2") >= 4);
    let gpm = GPM.iter().map(|metric| metric.2);
    let lacking = [DeviceCounter::DramActive, DeviceCounter::SmActive];
    let expected = gpm.filter(|counter| !lacking.contains(counter)).chain([DeviceCounter::Power]);
    assert_eq!(recorded.names(0), expected.map(DeviceCounter::name).collect());
    assert_eq!(recorded.counters_ended, 0);
}

#[test]
fn a_device_that_has_gpm_no_more_is_asked_as_one_without() {
    if !alone("a_device_that_has_gpm_no_more_is_asked_as_one_without", &[]) {
        return;
    }
    set(0, "power", 1000.0);
    set(0, "pcie_rx", 1.0);
    set(0, "pcie_tx", 1.0);
    set_gpm(0);
    // As where it is cut into parts.
    fail(0, "gpm", 3);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(0, "pcie_tx", 1);
    wait(0, "power", calls(0, "power") + 2);
    let recorded = trace.finish();
    assert_eq!(calls(0, "gpm"), 1);
    assert_eq!(recorded.of(0, DeviceCounter::PcieSent), [1000.0]);
}

#[test]
fn a_lost_device_ends_and_is_counted_once() {
    if !alone("a_lost_device_ends_and_is_counted_once", &[("REPLAY_NVML_DEVICES", "2")]) {
        return;
    }
    (0..2).for_each(set_fields);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(1, "power", 2);
    fail(1, "lost", GPU_IS_LOST);
    wait_for(|state| *state == State::Reading { devices: 1 });
    let asked = calls(1, "utilization");
    wait(0, "power", calls(0, "power") + 3);
    assert_eq!(calls(1, "utilization"), asked);
    fail(0, "lost", GPU_IS_LOST);
    wait_for(|state| *state == State::Ended(Unavailable::DevicesLost));
    let recorded = trace.finish();
    assert!(
        recorded.of(0, DeviceCounter::Power).len() > recorded.of(1, DeviceCounter::Power).len()
    );
    assert_eq!(recorded.counters_ended, 2);
}

#[test]
fn what_may_not_be_read_is_counted_once() {
    if !alone("what_may_not_be_read_is_counted_once", &[]) {
        return;
    }
    set_fields(0);
    set_gpm(0);
    fail(0, "energy", NO_PERMISSION);
    fail(0, "gpm", NO_PERMISSION);
    // This one fails now and then.
    fail(0, "temperature", UNKNOWN);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(0, "temperature", 3);
    set(0, "temperature", 71.0);
    wait(0, "temperature", calls(0, "temperature") + 2);
    let recorded = trace.finish();
    assert_eq!((calls(0, "energy"), calls(0, "gpm")), (1, 1));
    assert_eq!(recorded.counters_ended, 2);
    assert!(!recorded.of(0, DeviceCounter::Temperature).is_empty());
}

#[test]
fn nobody_is_asked_while_no_trace_records() {
    if !alone("nobody_is_asked_while_no_trace_records", &[]) {
        return;
    }
    set_fields(0);
    nvml::start().unwrap();
    wait_for(|state| *state == State::Reading { devices: 1 });
    assert_eq!(calls(0, "power"), 0);
    let trace = Trace::start();
    wait(0, "power", 1);
    let recorded = trace.finish();
    let asked = calls(0, "power");
    assert_eq!(recorded.of(0, DeviceCounter::Power).len() as u64, asked);
    // Once more, with the thread from the start.
    let trace = Trace::start();
    nvml::start().unwrap();
    nvml::start().unwrap();
    wait(0, "power", asked + 1);
    assert!(!trace.finish().of(0, DeviceCounter::Power).is_empty());
}

/// Forks; the child ends with what `child` says. Returns that.
#[expect(unsafe_code, reason = "std has no fork")]
fn fork(child: fn() -> i32) -> i32 {
    // SAFETY: the child calls what a forked child may, and does not return.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => {
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                libc::WEXITSTATUS(status)
            }
        }
    }
}

#[test]
fn the_parent_of_a_fork_reads_on_and_the_child_when_it_is_told_to() {
    const TEST: &str = "the_parent_of_a_fork_reads_on_and_the_child_when_it_is_told_to";
    if !alone(TEST, &[]) {
        return;
    }
    set(0, "power", 1000.0);
    fail(0, "energy", NO_PERMISSION);
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(0, "power", 2);
    let child = fork(|| {
        let is_idle = nvml::state() == State::Idle;
        let threads = Path::new("/proc/self/task").read_dir().unwrap().count();
        let before = calls(0, "power");
        nvml::start().unwrap();
        wait(0, "power", before + 2);
        nvml::stop();
        // Those of the recorder itself are there.
        i32::from(!is_idle || threads > 3)
    });
    assert_eq!(child, 0);
    wait(0, "power", calls(0, "power") + 2);
    // It is known already what the device refuses.
    assert_eq!((calls(0, "energy"), calls(0, "temperature")), (1, 1));
    let recorded = trace.finish();
    assert!(recorded.of(0, DeviceCounter::Power).len() >= 4);
}

#[test]
fn a_program_that_just_ends_is_not_held_up() {
    if alone("a_program_that_just_ends_is_not_held_up", &[]) {
        set_fields(0);
        let trace = Trace::start();
        nvml::start().unwrap();
        wait(0, "power", 1);
        std::mem::forget(trace.folder);
    }
}

#[test]
fn why_there_is_nothing_to_read_says_what_mends_it() {
    const TEST: &str = "why_there_is_nothing_to_read_says_what_mends_it";
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let refused = DRIVER_NOT_LOADED.to_string();
    for env in [
        ("MAREY_NVML_PERIOD_MS", "0"),
        ("MAREY_NVML_LIB", "/nowhere/libnvidia-ml.so.1"),
        ("MAREY_NVML_LIB", own),
        ("REPLAY_NVML_INIT", &refused),
        ("REPLAY_NVML_DEVICES", "0"),
    ] {
        if !alone(TEST, &[env]) {
            continue;
        }
        let set = |name| std::env::var(name).unwrap();
        let library = set("MAREY_NVML_LIB");
        let ended = || {
            let trace = Trace::start();
            nvml::start().unwrap();
            wait_for(|state| matches!(state, State::Ended(_)));
            let State::Ended(why) = nvml::state() else { panic!() };
            assert!(trace.finish().values.is_empty());
            why
        };
        if set("MAREY_NVML_PERIOD_MS") == "0" {
            assert_eq!(nvml::start(), Err(Unavailable::TurnedOff));
            assert_eq!(nvml::state(), State::Idle);
        } else if !library.ends_with("libmarey_replay_nvml.so") {
            let why = nvml::start().unwrap_err();
            assert_eq!(nvml::probe(), Err(why.clone()));
            let message = why.to_string();
            assert!(
                message.starts_with(&format!("cannot load NVML from `{library}`: ")),
                "{message}"
            );
            assert!(message.contains("cannot"), "{message}");
            assert!(why.hint().unwrap().contains("MAREY_NVML_LIB"));
        } else if std::env::var_os("REPLAY_NVML_INIT").is_some() {
            let why = ended();
            assert_eq!(nvml::probe(), Err(why.clone()));
            let text = format!("NVML in `{library}` cannot be used: NVIDIA driver is not loaded");
            assert_eq!(why.to_string(), text);
            assert_eq!(why.hint(), Some("load the driver: `modprobe nvidia`"));
        } else {
            assert_eq!(ended(), Unavailable::NoDevice { library });
            assert!(nvml::probe().unwrap().devices.is_empty());
        }
        return;
    }
}

#[test]
fn a_probe_tells_of_each_device_or_why_not() {
    if !alone("a_probe_tells_of_each_device_or_why_not", &[("REPLAY_NVML_DEVICES", "3")]) {
        return;
    }
    (0..2).for_each(|device| set(device, "name", 7.0));
    set_fields(0);
    set_gpm(0);
    fail(2, "name", GPU_IS_LOST);
    let probe = nvml::probe().unwrap();
    assert_eq!(probe.library, double().to_str().unwrap());
    assert_eq!(probe.driver_version.as_deref(), Some("550.1.2"));
    assert_eq!(probe.nvml_version.as_deref(), Some("12.550.1.2"));
    let about = |device: &ProbedDevice| {
        let about = device.about.clone().map_err(|why| why.contains("fell off the bus"));
        (device.index, about.map(|it| (it.name, it.uuid, it.memory_bytes, it.has_gpm)))
    };
    let named = |number, memory, gpm| {
        let uuid = format!("GPU-00000000-0000-0000-0000-{number:012}");
        (number, Ok(("Replay 7".to_owned(), uuid, memory, gpm)))
    };
    let expected = [named(0, Some(80_000_000_000), true), named(1, None, false), (2, Err(true))];
    assert_eq!(probe.devices.iter().map(about).collect::<Vec<_>>(), expected);
}

/// Readings of eight devices, a hundred times a second.
#[test]
#[ignore = "a measurement: what the thread costs, in the double"]
fn a_reading_costs_little() {
    const DEVICES: u32 = 8;
    const READINGS: u64 = 300;
    const MOST: Duration = Duration::from_micros(1_000);
    if !alone("a_reading_costs_little", &[("REPLAY_NVML_DEVICES", "8")]) {
        return;
    }
    for device in 0..DEVICES {
        set_fields(device);
        set_gpm(device);
    }
    let trace = Trace::start();
    nvml::start().unwrap();
    wait(DEVICES - 1, "power", READINGS);
    let spent = cpu_of("marey-nvml");
    let rows: usize = trace.finish().values.values().map(Vec::len).sum();
    let each = spent / READINGS as u32;
    assert!(rows > 8 * 30 * 300);
    assert!(each < MOST, "{each:?} a reading of {DEVICES} devices");
}

/// Processor time of a thread of this process.
fn cpu_of(thread: &str) -> Duration {
    for task in Path::new("/proc/self/task").read_dir().unwrap() {
        let task = task.unwrap().path();
        if std::fs::read_to_string(task.join("comm")).unwrap().trim() == thread {
            let spent = std::fs::read_to_string(task.join("schedstat")).unwrap();
            let nanos = spent.split(' ').next().unwrap().parse().unwrap();
            return Duration::from_nanos(nanos);
        }
    }
    panic!("no thread {thread}");
}
