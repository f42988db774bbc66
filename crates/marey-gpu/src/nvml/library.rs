//! The library: where it is, and that it is opened once in a process and never closed.

use super::error::Unavailable;
use libloading::Library;
use marey_model::env;
use marey_record::environment;
use nvml_wrapper::Nvml;
use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the system's loader looks, by its rules.
const DEFAULT: &str = "libnvidia-ml.so.1";

/// A library that has begun.
#[derive(Clone)]
struct Opened {
    /// NVML begins in each process: the child of a fork does not share its parent's.
    pid: u32,
    path: OsString,
    nvml: &'static Nvml,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

fn path() -> OsString {
    environment::get(env::NVML_LIB).filter(|path| !path.is_empty()).unwrap_or(DEFAULT.into())
}

/// Loads the library, which takes no time where there is none, and does not begin with it.
#[expect(unsafe_code, reason = "a library's initialisers run when it is loaded")]
pub(super) fn load() -> Result<(), Unavailable> {
    let path = path();
    // SAFETY: NVML, or what the user names in its place, is made to be loaded into any process.
    match unsafe { Library::new(&path) } {
        Ok(library) => {
            // What was loaded stays: threads of it may run.
            let _kept = ManuallyDrop::new(library);
            Ok(())
        }
        Err(error) => Err(no_library(&path, &error)),
    }
}

/// The library, begun. Takes as long as the driver does to wake its devices.
pub(super) fn open() -> Result<&'static Nvml, Unavailable> {
    let path = path();
    let pid = std::process::id();
    let mut opened = lock(&OPENED);
    if let Some(opened) = opened.as_ref().filter(|it| it.pid == pid && it.path == path) {
        return Ok(opened.nvml);
    }
    let nvml = Nvml::builder().lib_path(&path).init().map_err(|error| match error {
        nvml_wrapper::error::NvmlError::LibloadingError(error) => no_library(&path, &error),
        error => Unavailable::not_started(&path.to_string_lossy(), &error),
    })?;
    // Handles of devices live as long as it does, and closing it would end it for nobody else.
    let nvml: &'static Nvml = Box::leak(Box::new(nvml));
    *opened = Some(Opened { pid, path, nvml });
    Ok(nvml)
}

/// What the library is called in messages.
pub(super) fn name() -> String {
    path().to_string_lossy().into_owned()
}

fn no_library(path: &OsStr, error: &libloading::Error) -> Unavailable {
    let library = path.to_string_lossy().into_owned();
    // The error's own text is only that of its kind.
    let reason =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Unavailable::NoLibrary { library, reason }
}

/// Locks, whatever a panic has left.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
