//! Decides how the devices of this process are recorded, and starts, pauses and ends that
//! recording.
//!
//! A process that is forked after its parent has initialised the driver cannot use CUDA. So unless
//! a program requests a backend by name, nothing here initialises the driver before the program
//! does. If the driver is already initialised, recording begins at once. Otherwise it begins during
//! the initialisation ([`on_driver_start`]), before the first launch.

use crate::cupti::driver::Driver;
use crate::cupti::interfaces::CudaInterfaces;
use crate::cupti::library::Library;
use crate::cupti::search::Hints;
use crate::cupti::session::{self, RecordingOptions};
use crate::cupti::unavailable::{StartStep, Unavailable};
use crate::nvml;
use marey_record::device::{ActivitySource, FlushMode};
use marey_record::{STOP, Worker, api, device};
use std::any::Any;
use std::mem;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// A request to record devices.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Whether the caller named the backend. The driver is then initialised if necessary.
    pub is_required: bool,
    /// Whether to record single activities, in addition to sums of kernels.
    pub keeps_activities: bool,
    /// CUDA interfaces whose calls are recorded, along with single activities.
    pub calls: CudaInterfaces,
    /// The places to search for libraries.
    pub hints: Hints,
}

impl Request {
    fn options(&self) -> RecordingOptions {
        RecordingOptions { keeps_activities: self.keeps_activities, calls: self.calls }
    }
}

/// The state of the recording of devices.
#[derive(Clone, Debug, Default)]
pub enum Level {
    /// Recording was not requested.
    #[default]
    Idle,
    /// Recording begins when the program initialises CUDA.
    Waiting(Request),
    /// Recording by CUPTI; the text describes the library.
    Cupti(String, Request),
    /// CUPTI is left to another profiler until [`resume`].
    Paused(Request),
    /// Only the host side is recorded.
    Host(Unavailable),
}

/// The current level. The lock is held while recording begins or ends. NVML's locks are taken under
/// it, and a fork waits for it.
static LEVEL: Mutex<Level> = Mutex::new(Level::Idle);

/// Thread that starts CUPTI after the driver's initialisation, if CUPTI could not start during it.
static STARTER: Worker = Worker::new("marey-gpu-start", begin_late);

/// All device sources, as an interface for the recorder.
#[derive(Debug)]
struct Devices;

impl ActivitySource for Devices {
    fn flush(&self, flush_mode: FlushMode) {
        session::flush(flush_mode);
    }

    fn request_drain(&self) {
        session::request_drain();
    }

    fn stop(&self) {
        let mut level = lock();
        session::stop();
        nvml::stop();
        *level = Level::Idle;
    }

    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new((lock(), session::lock_for_fork()))
    }

    fn begin_child(&self) {
        if !matches!(mem::take(&mut *lock()), Level::Idle) {
            device::note(NOTE_KEY, "forked process: host side only");
        }
        session::begin_child();
    }
}

/// Key of the note in profiles and runs that describes how devices were recorded.
const NOTE_KEY: &str = "gpu";

/// Locks the level, after registering the source with the recorder, which locks it around forks.
fn lock() -> MutexGuard<'static, Level> {
    device::set_source(&Devices);
    crate::lock(&LEVEL)
}

/// Returns how devices are recorded now.
pub fn level() -> Level {
    lock().clone()
}

/// Sets the note that says how a source outside this crate records devices.
pub fn note(text: &str) {
    device::note(NOTE_KEY, text);
}

/// Begins recording devices, or waits for the program to initialise CUDA. Fails only if the backend
/// is required; otherwise [`level`] contains the reason why there is none.
pub fn start(request: &Request) -> Result<(), Unavailable> {
    let mut level = lock();
    if request.keeps_activities {
        // Device counters do not depend on CUPTI. If they fail, their own note has the reason.
        drop(nvml::start());
    }
    if !request.is_required && !Driver::is_started() {
        let mut request = request.clone();
        match &*level {
            // A request of an earlier session stays valid.
            Level::Waiting(earlier) => request.keeps_activities |= earlier.keeps_activities,
            _ => device::note(NOTE_KEY, "the program had not used CUDA"),
        }
        *level = Level::Waiting(request);
        return Ok(());
    }
    *level = begin_recording(request, "");
    match &*level {
        Level::Host(reason) if request.is_required => Err(reason.clone()),
        _ => Ok(()),
    }
}

/// Leaves CUPTI to another profiler, which needs it for itself: records everything that was
/// launched before, then unsubscribes. Returns whether devices were being recorded and now are not.
/// Launches until [`resume`] are not recorded.
pub fn pause() -> bool {
    let is_exclusive = || matches!(level(), Level::Cupti(..)) && !session::is_shared();
    if !is_exclusive() {
        return false;
    }
    // Do not hold the lock while waiting for the devices, because a fork and each reader of the
    // level take it.
    session::flush(FlushMode::Final);
    let mut level = lock();
    let Level::Cupti(_, request) = &*level else { return false };
    let request = request.clone();
    session::stop();
    *level = Level::Paused(request);
    true
}

/// Continues the recording that [`pause`] has ended, unless the session has ended since. If the
/// other profiler still has CUPTI, recording continues as soon as it has given it up:
/// torch.profiler does so in a later CUDA call.
pub fn resume() {
    if !try_resume(PAUSE_SUFFIX) {
        api::start_source(&RESUMER);
    }
}

/// Thread that takes CUPTI back from a profiler that has not given it up in time.
static RESUMER: Worker = Worker::new("marey-gpu-resume", resume_late);

/// The time between two attempts to take CUPTI back.
const RESUME_PERIOD: Duration = Duration::from_millis(10);

/// The number of attempts to take CUPTI back, which last half a minute. A program that has not used
/// CUDA for so long has nothing to record.
const RESUME_ATTEMPTS: u32 = 3_000;

fn resume_late() {
    for _ in 0..RESUME_ATTEMPTS {
        if RESUMER.wait(Some(RESUME_PERIOD)) & STOP != 0 || try_resume(LATE_RESUME_SUFFIX) {
            return;
        }
    }
    let mut level = lock();
    if let Level::Paused(request) = &*level {
        *level = begin_recording(request, LATE_RESUME_SUFFIX);
    }
}

/// Continues a paused recording and appends `suffix` to its note. Returns whether no recording is
/// paused any more.
fn try_resume(suffix: &str) -> bool {
    let mut level = lock();
    let Level::Paused(request) = &*level else { return true };
    match api::call_library(|| session::start(&request.hints, request.options())) {
        Ok(library) => *level = cupti_level(library, request, suffix),
        Err(reason) if reason.step() == StartStep::Subscribe => {
            device::note(NOTE_KEY, format!("{reason}; paused since a window of torch.profiler"));
            return false;
        }
        Err(reason) => *level = host_level(reason),
    }
    true
}

/// Appended to the note if the other profiler gave up CUPTI after its window.
const LATE_RESUME_SUFFIX: &str = "; recording was paused for windows of torch.profiler, and until it gave up CUPTI: launches in \
     between are missing";

/// Appended to the note if recording was paused.
const PAUSE_SUFFIX: &str =
    "; recording was paused for windows of torch.profiler, which has recorded them";

/// Begins recording. `suffix` is appended to the note if CUPTI is used.
fn begin_recording(request: &Request, suffix: &str) -> Level {
    match api::call_library(|| session::start(&request.hints, request.options())) {
        Ok(library) => cupti_level(library, request, suffix),
        Err(reason) => host_level(reason),
    }
}

/// Returns the level without devices, after writing the note with the reason.
fn host_level(reason: Unavailable) -> Level {
    device::note(NOTE_KEY, format!("host only: {reason}; {}", reason.hint()));
    Level::Host(reason)
}

/// Returns the level of recording by this library, after writing the note with `suffix`.
fn cupti_level(library: &Library, request: &Request, suffix: &str) -> Level {
    let (path, version) = (library.path.display(), library.api_version);
    let shared = if session::is_shared() { ", beside other tools" } else { "" };
    let text = format!("CUPTI {version}, {path}{shared}{suffix}");
    device::note(NOTE_KEY, text.clone());
    Level::Cupti(text, request.clone())
}

/// Begins recording if a session waits for CUDA. Called while the driver is being initialised, on
/// the thread that does so, which holds the driver's locks and possibly marey's. CUPTI starts at
/// once if possible, so that no launch is missed. Otherwise it starts on another thread, which
/// waits for the locks.
pub fn on_driver_start() {
    if api::is_live() && !begin_during_driver_start() {
        api::start_source(&STARTER);
    }
}

/// Begins recording without waiting for locks whose owners may wait for this thread. Returns
/// whether that succeeded.
fn begin_during_driver_start() -> bool {
    let Ok(mut level) = LEVEL.try_lock() else { return false };
    let Level::Waiting(request) = &*level else { return false };
    let start = || session::start_during_driver_start(&request.hints, request.options());
    let Some(library) = api::call_library(start) else { return false };
    *level = cupti_level(library, request, "");
    true
}

/// Appended to the note if launches may have preceded the start of recording.
const LATE_START_SUFFIX: &str =
    "; recording began after the driver was initialised, earlier launches are missing";

fn begin_late() {
    let mut level = lock();
    // The session may have ended since the thread was started.
    if let Level::Waiting(request) = &*level
        && api::is_live()
    {
        *level = begin_recording(request, LATE_START_SUFFIX);
    }
}
