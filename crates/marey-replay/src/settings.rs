//! Settings of a script, which describe the machine.

use crate::clock::{self, Clock};
use crate::device::Device;
use crate::export::{self, Failure};
use crate::operation::Kernel;
use crate::record::Version;
use crate::script::Script;
use crate::{api, graph, lock, name, output, play, thread, tool, worker};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};

/// The simulated machine.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings of the script")]
pub(crate) struct Settings {
    pub version: u32,
    pub driver_version: i32,
    pub is_delivered_by_worker: bool,
    /// Whether each launching thread has its own buffer.
    pub is_buffer_per_thread: bool,
    pub clock: Clock,
    pub devices: Vec<Device>,
    /// Kernels that programs launch through the driver, by name.
    pub kernels: Vec<(String, Kernel, u64)>,
    pub failures: Vec<Failure>,
    /// Host time of a call.
    pub call_nanos: u64,
    /// Whether scripted calls go through the runtime, like torch's.
    pub calls_go_through_runtime: bool,
    /// Whether a runtime call and the driver call in it have different correlation ids.
    pub has_separate_runtime_ids: bool,
    /// Whether names in records and callbacks end with their delivery.
    pub are_names_temporary: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: 130_001,
            driver_version: 13_000,
            is_delivered_by_worker: false,
            is_buffer_per_thread: false,
            clock: Clock::Virtual { start_nanos: 1_000_000_000 },
            devices: vec![Device::default()],
            kernels: Vec::new(),
            failures: Vec::new(),
            call_nanos: 1_000,
            calls_go_through_runtime: false,
            has_separate_runtime_ids: false,
            are_names_temporary: false,
        }
    }
}

static SCRIPT: Mutex<Option<Arc<Script>>> = Mutex::new(None);
static VERSION: AtomicU32 = AtomicU32::new(130_001);
static IS_DELIVERED_BY_WORKER: AtomicBool = AtomicBool::new(false);
static IS_BUFFER_PER_THREAD: AtomicBool = AtomicBool::new(false);
static LOAD_ONCE: Once = Once::new();

#[inline]
pub(crate) fn version() -> Version {
    Version(VERSION.load(Ordering::Relaxed))
}

#[inline]
pub(crate) fn is_delivered_by_worker() -> bool {
    IS_DELIVERED_BY_WORKER.load(Ordering::Relaxed)
}

#[inline]
pub(crate) fn is_buffer_per_thread() -> bool {
    IS_BUFFER_PER_THREAD.load(Ordering::Relaxed)
}

pub(crate) fn script() -> Arc<Script> {
    ensure_loaded();
    Arc::clone(lock(&SCRIPT).get_or_insert_default())
}

/// Loads the script in the environment, unless one was loaded before.
#[expect(clippy::disallowed_methods, reason = "the double is made for tests")]
pub(crate) fn ensure_loaded() {
    LOAD_ONCE.call_once(|| {
        let script = std::env::var_os("MAREY_REPLAY").map_or_else(
            || Ok(Script::default()),
            |path| {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                Script::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
            },
        );
        apply(script.unwrap_or_else(|error| {
            eprintln!("marey-replay: {error}; every call fails");
            let fail = Failure { function: "*".to_owned(), code: 999, call_number: None };
            let settings = Settings { failures: vec![fail], ..Settings::default() };
            Script { settings, ..Script::default() }
        }));
    });
}

/// Loads a script and resets the machine. Subscribers stay.
pub(crate) fn load(script: Script) {
    LOAD_ONCE.call_once(|| {});
    worker::stop();
    apply(script);
}

fn apply(script: Script) {
    let settings = &script.settings;
    VERSION.store(settings.version, Ordering::Relaxed);
    IS_DELIVERED_BY_WORKER.store(settings.is_delivered_by_worker, Ordering::Relaxed);
    IS_BUFFER_PER_THREAD.store(settings.is_buffer_per_thread, Ordering::Relaxed);
    clock::configure(settings.clock, settings.call_nanos);
    api::configure(settings.calls_go_through_runtime, settings.has_separate_runtime_ids);
    name::set_temporary(settings.are_names_temporary);
    graph::reset();
    play::reset();
    tool::leave();
    export::reset(settings.failures.clone());
    thread::reset();
    output::reset();
    let needs_worker = settings.is_delivered_by_worker;
    *lock(&SCRIPT) = Some(Arc::new(script));
    if needs_worker {
        worker::ensure_running();
    }
}
