//! How devices are recorded in this process, and why so.
//!
//! A process that was forked after its parent has started the driver cannot use CUDA. So, unless a
//! program asks for a backend by name, nothing is started here before the program uses CUDA itself: if
//! it does already, at once, else when the driver tells so ([`driver_starts`]), before the first launch.

use crate::cupti::driver::Driver;
use crate::cupti::interfaces::Interfaces;
use crate::cupti::library::Library;
use crate::cupti::search::Hints;
use crate::cupti::session::{self, Wanted};
use crate::cupti::unavailable::Unavailable;
use crate::nvml;
use marey_record::device::{Flush, Source};
use marey_record::{Worker, api, device};
use std::any::Any;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Whether the caller named the backend: then the driver is started if it must be.
    pub is_required: bool,
    /// Whether single activities are kept, and not only sums of kernels.
    pub keeps_activities: bool,
    /// The interfaces of CUDA whose every call is kept, where single activities are.
    pub calls: Interfaces,
    /// Where libraries lie.
    pub hints: Hints,
}

impl Request {
    fn wanted(&self) -> Wanted {
        Wanted { activities: self.keeps_activities, calls: self.calls }
    }
}

/// How devices are recorded.
#[derive(Clone, Debug, Default)]
pub enum Level {
    /// Nobody has asked.
    #[default]
    Idle,
    /// As soon as the program uses CUDA.
    Waiting(Request),
    /// By CUPTI; the text says which.
    Cupti(String),
    /// Not at all.
    Host(Unavailable),
}

/// Held by whoever begins or ends anything here: NVML's locks are taken under it, and a fork that waits
/// for it waits for them.
static LEVEL: Mutex<Level> = Mutex::new(Level::Idle);

/// The thread that begins CUPTI after the driver's start, where it could not begin within it.
static STARTER: Worker = Worker::new("marey-gpu-start", begin_late);

/// All sources of devices, as the recorder sees them.
#[derive(Debug)]
struct Devices;

impl Source for Devices {
    fn flush(&self, how: Flush) {
        session::flush(how);
    }

    fn ask_for_drain(&self) {
        session::ask_for_drain();
    }

    fn stop(&self) {
        let mut level = lock();
        session::stop();
        nvml::stop();
        *level = Level::Idle;
    }

    fn lock_for_fork(&self) -> Box<dyn Any> {
        Box::new((lock(), session::hold()))
    }

    fn begin_child(&self) {
        if !matches!(mem::take(&mut *lock()), Level::Idle) {
            device::note(NOTE, "a process that was forked: the host side only");
        }
        session::begin_child();
    }
}

/// The key under which profiles and runs say how devices were recorded.
const NOTE: &str = "gpu";

/// Locks, known to the recorder, which has forks wait.
fn lock() -> MutexGuard<'static, Level> {
    device::set_source(&Devices);
    LEVEL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How devices are recorded now.
pub fn level() -> Level {
    lock().clone()
}

/// Says how devices are recorded, where that is not by what is here.
pub fn note(text: &str) {
    device::note(NOTE, text);
}

/// Has devices recorded from now on, or from when the program uses CUDA. Fails only where the backend is
/// required; else [`level`] tells why there is none.
pub fn start(request: &Request) -> Result<(), Unavailable> {
    let mut level = lock();
    if request.keeps_activities {
        // Counters come beside what CUPTI tells, and without it; their state says why not.
        drop(nvml::start());
    }
    if !request.is_required && !Driver::is_started() {
        let mut request = request.clone();
        match &*level {
            // What a session waits for, another does not take away.
            Level::Waiting(earlier) => request.keeps_activities |= earlier.keeps_activities,
            _ => device::note(NOTE, "the program had not used CUDA"),
        }
        *level = Level::Waiting(request);
        return Ok(());
    }
    *level = begin(request, "");
    match &*level {
        Level::Host(reason) if request.is_required => Err(reason.clone()),
        _ => Ok(()),
    }
}

/// Begins to record; `more` ends the note where that is by CUPTI.
fn begin(request: &Request, more: &str) -> Level {
    match api::in_library(|| session::start(&request.hints, request.wanted())) {
        Ok(library) => begun(library, more),
        Err(reason) => {
            device::note(NOTE, format!("host only: {reason}; {}", reason.hint()));
            Level::Host(reason)
        }
    }
}

/// Returns the level of recording by this library, and notes it with `more` at the end.
fn begun(library: &Library, more: &str) -> Level {
    let (path, version) = (library.path.display(), library.api_version);
    let beside = if session::is_beside_others() { ", beside other tools" } else { "" };
    let text = format!("CUPTI {version}, {path}{beside}{more}");
    device::note(NOTE, text.clone());
    Level::Cupti(text)
}

/// The driver is being started, on this thread, which holds its locks and perhaps ours. CUPTI begins at once
/// where that can be, so that no launch is missed; else on another thread, which waits for both.
pub fn driver_starts() {
    if api::is_live() && !begin_within_start() {
        api::start_source(&STARTER);
    }
}

/// Begins without waiting for anybody who may wait for this thread. Returns whether that was possible.
fn begin_within_start() -> bool {
    let Ok(mut level) = LEVEL.try_lock() else { return false };
    let Level::Waiting(request) = &*level else { return false };
    let start = || session::start_within_start(&request.hints, request.wanted());
    let begun = api::in_library(start).map(|library| begun(library, ""));
    let has_begun = begun.is_some();
    if let Some(begun) = begun {
        *level = begun;
    }
    has_begun
}

/// Added to the note where the program may have launched something before.
const LATE: &str = "; it began after the driver, and what was launched before it is missing";

fn begin_late() {
    let mut level = lock();
    // The session may have ended meanwhile.
    if let Level::Waiting(request) = &*level
        && api::is_live()
    {
        *level = begin(&request.clone(), LATE);
    }
}
