//! Samples the counters of the process and its machine: CPU, memory, page faults, I/O, network,
//! context switches.
//!
//! While a trace session records, a thread reads them every second (`system.interval`) and writes
//! them to the spool. [`marey_model::counter`] declares the counters. Files of `/proc` are opened
//! for each reading, because the program may close every descriptor that it finds. What cannot be
//! read is skipped and tried again with the next reading.

mod proc_files;
mod sampler;
mod threads;

use self::sampler::SystemSampler;
use crate::lock::lock;
use crate::settings;
use crate::trace;
use crate::worker::{STOP, Worker};
use marey_model::setting::Setting;
use std::sync::Mutex;
use std::time::Duration;

/// The thread that reads the counters.
pub(crate) static WORKER: Worker = Worker::new("marey-system", run);

/// The request to check for a session that has started.
const CHECK: u32 = 2;
/// The longest time between two checks of the setting and the sessions.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Minimum time between readings.
const MIN_PERIOD: Duration = Duration::from_millis(50);

/// The sampler while the thread is stopped for a fork. Rates then continue from its last reading.
static PAUSED_SAMPLER: Mutex<Option<SystemSampler>> = Mutex::new(None);

/// Starts the thread if it is not running, and makes it look at the sessions.
pub(crate) fn ensure_running() {
    WORKER.ensure_running();
    WORKER.request(CHECK);
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    lock(&PAUSED_SAMPLER)
}

fn run() {
    let paused = lock(&PAUSED_SAMPLER).take();
    let mut sampler = paused.filter(SystemSampler::belongs_to_this_process);
    loop {
        let timeout = read_if_due(&mut sampler);
        if WORKER.wait(timeout) & STOP != 0 {
            break;
        }
    }
    // If the last session has ended, the sampler is not kept, so no rate continues.
    let paused = sampler.filter(|_| trace::has_sessions());
    *lock(&PAUSED_SAMPLER) = paused;
}

/// Reads the counters if they are due. Returns the time until the next check, `None` without a
/// session. While nothing is recorded there is no sampler, so that no rate spans a pause.
fn read_if_due(sampler: &mut Option<SystemSampler>) -> Option<Duration> {
    if !trace::has_sessions() {
        *sampler = None;
        return None;
    }
    let Some(period) = period().filter(|_| trace::is_recording()) else {
        *sampler = None;
        return Some(CHECK_PERIOD);
    };
    match sampler {
        None => *sampler = Some(SystemSampler::begin()),
        Some(sampler) => {
            let remaining = period.saturating_sub(sampler.since_reading());
            if !remaining.is_zero() {
                return Some(remaining.min(CHECK_PERIOD));
            }
            sampler.read(trace::write_counters_to_existing_spool);
        }
    }
    Some(period.min(CHECK_PERIOD))
}

/// Returns the time between readings, `None` if there are none.
fn period() -> Option<Duration> {
    let secs = settings::value(Setting::SystemInterval);
    let period = Duration::try_from_secs_f64(secs).ok().filter(|period| !period.is_zero());
    period.map(|period| period.max(MIN_PERIOD))
}
