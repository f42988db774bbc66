//! Loads and initialises the NVML library, once per process, and never unloads it.

use super::error::Unavailable;
use crate::lock;
use libloading::Library;
use marey_model::env;
use marey_record::environment;
use nvml_wrapper::Nvml;
use std::ffi::{OsStr, OsString};
use std::mem::ManuallyDrop;
use std::sync::Mutex;

/// The name that the system's loader resolves.
const DEFAULT_LIBRARY: &str = "libnvidia-ml.so.1";

/// An initialised library.
#[derive(Clone)]
struct InitializedLibrary {
    /// NVML is initialised per process; the child of a fork initialises it again.
    pid: u32,
    path: OsString,
    nvml: &'static Nvml,
}

static INITIALIZED: Mutex<Option<InitializedLibrary>> = Mutex::new(None);

fn path() -> OsString {
    environment::get(env::NVML_LIB)
        .filter(|path| !path.is_empty())
        .unwrap_or(DEFAULT_LIBRARY.into())
}

/// Loads the library without initialising it. Fast if there is none.
#[expect(unsafe_code, reason = "a library's initialisers run when it is loaded")]
pub(super) fn load() -> Result<(), Unavailable> {
    let path = path();
    // SAFETY: the file is NVML or the user's replacement, either of which any process may load.
    match unsafe { Library::new(&path) } {
        Ok(library) => {
            // Never unload the library, because its threads may be running.
            let _loaded = ManuallyDrop::new(library);
            Ok(())
        }
        Err(error) => Err(no_library(&path, &error)),
    }
}

/// Returns the library, initialised. The first call takes as long as the driver needs to wake its
/// devices.
pub(super) fn open() -> Result<&'static Nvml, Unavailable> {
    let path = path();
    let pid = std::process::id();
    let mut initialized = lock(&INITIALIZED);
    if let Some(initialized) = initialized.as_ref().filter(|it| it.pid == pid && it.path == path) {
        return Ok(initialized.nvml);
    }
    let nvml = Nvml::builder().lib_path(&path).init().map_err(|error| match error {
        nvml_wrapper::error::NvmlError::LibloadingError(error) => no_library(&path, &error),
        error => Unavailable::not_started(&path.to_string_lossy(), &error),
    })?;
    // Leak the library, because device handles refer to it and the program may use NVML too.
    let nvml: &'static Nvml = Box::leak(Box::new(nvml));
    *initialized = Some(InitializedLibrary { pid, path, nvml });
    Ok(nvml)
}

/// Returns the name of the library for messages.
pub(super) fn name() -> String {
    path().to_string_lossy().into_owned()
}

fn no_library(path: &OsStr, error: &libloading::Error) -> Unavailable {
    let library = path.to_string_lossy().into_owned();
    // The outer error's message contains only its kind.
    let reason =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Unavailable::NoLibrary { library, reason }
}
