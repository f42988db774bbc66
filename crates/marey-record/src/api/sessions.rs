//! The functions of the API for the library and its sessions: loading, start and end, phases,
//! files, forks.

use crate::environment;
use crate::error::Error;
use crate::output::{self, DeviceEvent};
pub use crate::recorder::{
    activate, active_sessions, address, advance_phase, clear_phases, context_source, deactivate,
    discard, end_idle_threads, finalize, get_data, is_phase_complete, live_sessions, run_dir,
    set_quiet_if_empty, stack_depth, start as start_with_copied_environment, write_checkpoints,
};
use crate::session::{SessionId, SessionOptions};
use crate::{clock, device, fork, recorder, sync};
use std::path::Path;

/// Initialises what the library needs from the moment that it is loaded: the start of the clock's
/// calibration, the fork handlers, and the registration for `membarrier(2)`.
pub fn on_load() {
    clock::on_load();
    fork::on_load();
    sync::register_heavy_fences();
}

/// Copies the environment variables and starts a session, as [`start_with_copied_environment`]
/// does.
pub fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    environment::refresh();
    recorder::start(options)
}

/// Passes the device activities and API calls of a trace session of this process that has ended to
/// `receive`. `run` is the session's run directory. Events of an earlier session in the same slot
/// may be among them. Fails once 64 other sessions have started.
pub fn read_device_events(
    run: &Path,
    session: SessionId,
    mut receive: impl FnMut(DeviceEvent<'_>),
) -> std::io::Result<()> {
    let slot = recorder::slot_of(session)
        .ok_or_else(|| std::io::Error::other(Error::UnknownSession(session)))?;
    output::read_device_events(run, slot, &mut receive)
}

/// Notes that the process is exiting. From now on each wait for a device ends after a few seconds.
/// Exit handlers that run before the library's own should call this.
pub extern "C" fn begin_process_exit() {
    device::begin_process_exit();
}

/// Defers the restart of the background threads after this thread's next fork to the caller.
pub fn defer_fork_restart() {
    fork::defer_restart();
}

/// Restarts the background threads after a fork, in the parent.
pub fn after_fork_in_parent() {
    fork::restart_workers();
}
