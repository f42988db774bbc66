//! NVIDIA: NVML, which tells how busy, hot and hungry the devices are.
//!
//! A thread of its own asks each device that the process uses, or sees as long as it uses none, every 100 ms
//! (`MAREY_NVML_PERIOD_MS`) while a trace session records, and hands the answers to the recorder; what
//! they are is declared in [`marey_model::counter`]. A question that a device refuses is not asked
//! again. Devices have CUDA's numbers, as kernels have: see `visible.rs`.
//!
//! NVML is loaded when it is first wanted, begun on that thread, and never shut down: the program
//! may use it too. The thread is gone while the process forks, and the child has none.

mod error;
mod gpm;
mod library;
mod nvlink;
mod probe;
mod query;
mod sampler;
mod visible;

pub use self::error::Unavailable;
pub use self::probe::{AboutDevice, Probe, ProbedDevice, probe};

use self::library::lock;
use self::sampler::Sampler;
use marey_model::env;
use marey_record::{STOP, Worker, api, environment};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two readings, unless the environment says otherwise.
const DEFAULT_PERIOD: Duration = Duration::from_millis(100);
/// The least: NVML itself looks no more often.
const LEAST_PERIOD: Duration = Duration::from_millis(10);

static READER: Worker = Worker::new("marey-nvml", run);
/// The state, and the process that it is of: the child of a fork has no thread.
static STATE: Mutex<(u32, State)> = Mutex::new((0, State::Idle));
/// What is known of the devices, while a fork has stopped the thread.
static KEPT: Mutex<Option<Sampler>> = Mutex::new(None);

/// Where the readings stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody wants any.
    Idle,
    /// The driver wakes the devices.
    Starting,
    /// So many devices are read.
    Reading {
        /// How many.
        devices: usize,
    },
    /// There are none, or no more.
    Ended(Unavailable),
}

/// The thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Time between two readings.
    pub period: Duration,
}

/// Has the devices read from now on, while trace sessions record. Does not wait for the driver:
/// [`state`] tells what came of it. Once it runs, starting it again changes nothing.
pub fn start() -> Result<Started, Unavailable> {
    let period = period().ok_or(Unavailable::TurnedOff)?;
    library::load()?;
    if state() == State::Idle {
        set_state(State::Starting);
    }
    api::start_source(&READER);
    Ok(Started { period })
}

/// Has the devices read no more, after the reading that is going on.
pub fn stop() {
    READER.stop();
    lock(&KEPT).take();
    set_state(State::Idle);
}

/// Where the readings stand.
pub fn state() -> State {
    let state = lock(&STATE);
    if state.0 == std::process::id() { state.1.clone() } else { State::Idle }
}

fn set_state(state: State) {
    *lock(&STATE) = (std::process::id(), state);
}

fn period() -> Option<Duration> {
    match environment::number(env::NVML_PERIOD_MS) {
        Some(0) => None,
        Some(millis) => Some(Duration::from_millis(millis).max(LEAST_PERIOD)),
        None => Some(DEFAULT_PERIOD),
    }
}

/// The thread.
fn run() {
    let period = period().unwrap_or(DEFAULT_PERIOD);
    let kept = lock(&KEPT).take().filter(Sampler::is_own);
    let mut sampler = match kept.map_or_else(|| Sampler::open(period), Ok) {
        Ok(sampler) => sampler,
        Err(why) => return set_state(State::Ended(why)),
    };
    match read_until_stopped(&mut sampler, period) {
        Ok(()) => *lock(&KEPT) = Some(sampler),
        Err(why) => set_state(State::Ended(why)),
    }
}

/// Reads until somebody calls for the end, or no device answers.
fn read_until_stopped(sampler: &mut Sampler, period: Duration) -> Result<(), Unavailable> {
    let mut due = Instant::now();
    loop {
        if api::is_tracing() {
            sampler.read();
        }
        let devices = sampler.device_count();
        if devices == 0 {
            return Err(Unavailable::DevicesLost);
        }
        set_state(State::Reading { devices });
        // What was missed is not made up for.
        due = (due + period).max(Instant::now());
        while let rest = due.saturating_duration_since(Instant::now())
            && !rest.is_zero()
        {
            if READER.wait(Some(rest)) & STOP != 0 {
                return Ok(());
            }
        }
    }
}
