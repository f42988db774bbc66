//! Samples device counters through NVML: utilisation, clocks, power, temperature and throughput.
//!
//! While a trace session records, a thread reads the counters of each device that the process uses,
//! every 100 ms (`MAREY_NVML_PERIOD_MS`), and passes them to the recorder. Before the process uses
//! any device, it reads every visible one. [`marey_model::counter`] declares the counters. A query
//! that a device rejects is not repeated. Devices have CUDA's numbers, as for kernels: see
//! `visible.rs`.
//!
//! The thread loads and initialises NVML on first use. It never shuts NVML down, because the
//! program may use it too. The thread is stopped while the process forks, and does not exist in the
//! child.

mod error;
mod gpm;
mod library;
mod nvlink;
mod probe;
mod query;
mod sampler;
mod visible;

pub use self::error::Unavailable;
pub use self::probe::{DeviceProperties, Probe, ProbedDevice, probe};

use self::sampler::NvmlSampler;
use crate::lock;
use marey_model::setting::Setting;
use marey_record::{STOP, Worker, api, settings};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time between two checks of the setting while no counters are to be read.
const IDLE_PERIOD: Duration = Duration::from_secs(1);
/// The minimum period. NVML itself samples no more often.
const MIN_PERIOD: Duration = Duration::from_millis(10);

static READER: Worker = Worker::new("marey-nvml", run_reader);
/// The state, and the id of its process. The child of a fork has no thread.
static STATE: Mutex<(u32, NvmlState)> = Mutex::new((0, NvmlState::Idle));
/// The sampler, kept while the thread is stopped for a fork.
static PAUSED_SAMPLER: Mutex<Option<NvmlSampler>> = Mutex::new(None);

/// The state of the readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvmlState {
    /// Not started.
    Idle,
    /// NVML is being initialised, which wakes the devices.
    Starting,
    /// Devices are being read.
    Reading {
        /// Number of devices.
        devices: usize,
    },
    /// Unavailable, or ended.
    Ended(Unavailable),
}

/// Starts reading devices while trace sessions record. Does not wait for the driver: [`state`]
/// returns the result. Does nothing if it is already running. Returns the period of readings.
pub fn start() -> Result<Duration, Unavailable> {
    let period = period().ok_or(Unavailable::TurnedOff)?;
    library::load()?;
    if state() == NvmlState::Idle {
        set_state(NvmlState::Starting);
    }
    api::start_source(&READER);
    Ok(period)
}

/// Stops reading, after the current reading.
pub fn stop() {
    READER.stop();
    lock(&PAUSED_SAMPLER).take();
    set_state(NvmlState::Idle);
}

/// Returns the state of the readings.
pub fn state() -> NvmlState {
    let state = lock(&STATE);
    if state.0 == std::process::id() { state.1.clone() } else { NvmlState::Idle }
}

fn set_state(state: NvmlState) {
    *lock(&STATE) = (std::process::id(), state);
}

/// Returns the period that is set, `None` if no counters are to be read.
fn period() -> Option<Duration> {
    match settings::whole(Setting::DeviceCounterInterval) {
        0 => None,
        millis => Some(Duration::from_millis(millis).max(MIN_PERIOD)),
    }
}

/// Main function of the thread.
fn run_reader() {
    let period = period().unwrap_or(IDLE_PERIOD);
    let paused = lock(&PAUSED_SAMPLER).take().filter(NvmlSampler::belongs_to_this_process);
    let mut sampler = match paused.map_or_else(|| NvmlSampler::open(period), Ok) {
        Ok(sampler) => sampler,
        Err(reason) => return set_state(NvmlState::Ended(reason)),
    };
    match read_until_stopped(&mut sampler) {
        Ok(()) => *lock(&PAUSED_SAMPLER) = Some(sampler),
        Err(reason) => set_state(NvmlState::Ended(reason)),
    }
}

/// Reads until the thread is stopped or no device responds.
fn read_until_stopped(sampler: &mut NvmlSampler) -> Result<(), Unavailable> {
    let mut next_reading = Instant::now();
    loop {
        let period = period();
        if period.is_some() && api::is_tracing() {
            sampler.read();
        }
        let devices = sampler.device_count();
        if devices == 0 {
            return Err(Unavailable::DevicesLost);
        }
        set_state(NvmlState::Reading { devices });
        // Do not make up for missed readings.
        next_reading = (next_reading + period.unwrap_or(IDLE_PERIOD)).max(Instant::now());
        while let remaining = next_reading.saturating_duration_since(Instant::now())
            && !remaining.is_zero()
        {
            if READER.wait(Some(remaining)) & STOP != 0 {
                return Ok(());
            }
        }
    }
}
