//! The functions of the Python package for sessions: start, end, phases, checkpoints, forks and
//! settings. Each one is a call of the library's C function table.
//!
//! Calls that may write files or wait for a lock release the GIL.

use crate::error::try_call;
use crate::frames;
use crate::library::{self, intern, is_live, receive, table};
use crate::torch;
use marey_model::loss::LossCause;
use marey_model::setting::{Declaration, SettingKind};
use marey_record::Format;
use marey_record::table::{ErrorBuffer, Sink, StartOptions};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::{OsString, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::ptr::null_mut;

/// The session number that means all sessions.
const ALL_SESSIONS: i64 = -1;

/// Starts a session and returns its number.
#[pyfunction]
#[pyo3(signature = (name, *, python_context, output_format, flush_phases, quiet_if_empty))]
#[expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts from an argument is owned")]
pub(crate) fn start(
    py: Python<'_>,
    name: PathBuf,
    python_context: bool,
    output_format: &str,
    flush_phases: bool,
    quiet_if_empty: bool,
) -> PyResult<i64> {
    let is_ring = output_format == "ring";
    let format = if is_ring { Ok(Format::Run) } else { output_format.parse::<Format>() };
    let format = format.map_err(|error| PyValueError::new_err(error.to_string()))?;
    if python_context {
        frames::enable_frames(py)?;
    }
    (table().note_environment)();
    let name = name.as_os_str().as_bytes();
    let session = py.detach(|| {
        let options = StartOptions {
            size: size_of::<StartOptions>(),
            name: name.as_ptr().cast(),
            name_len: name.len(),
            context: u32::from(python_context),
            format: format as u32,
            flush_phases: u32::from(flush_phases),
            quiet_if_empty: u32::from(quiet_if_empty),
            environment_noted: 1,
            is_addressed_only: 0,
            is_ring: u32::from(is_ring),
        };
        // SAFETY: the options and the name live until the call returns.
        try_call(|error| unsafe { (table().start)(&raw const options, Some(error)) })
    })?;
    torch::follow_sessions();
    Ok(session)
}

/// Returns the numbers of the live sessions, lowest first.
#[pyfunction]
pub(crate) fn sessions(py: Python<'_>) -> Vec<i64> {
    list_sessions(py, table().sessions)
}

/// Returns the numbers of the live sessions that record, lowest first.
#[pyfunction]
pub(crate) fn active_sessions(py: Python<'_>) -> Vec<i64> {
    list_sessions(py, table().active_sessions)
}

fn list_sessions(
    py: Python<'_>,
    list: unsafe extern "C" fn(sessions: *mut i64, len: usize) -> usize,
) -> Vec<i64> {
    const MAX_SESSIONS: usize = 64;
    let mut ids = [0; MAX_SESSIONS];
    // SAFETY: the array has the given length.
    let len = py.detach(|| unsafe { list(ids.as_mut_ptr(), ids.len()) });
    ids.into_iter().take(len).collect()
}

/// Adds a note about how the process is recorded to profiles and runs.
#[pyfunction]
pub(crate) fn note(key: &str, text: &str) {
    // SAFETY: the texts live until the call returns.
    unsafe {
        (table().note)(key.as_ptr().cast(), key.len(), text.as_ptr().cast(), text.len());
    }
}

/// Activates a session, or all of them.
#[pyfunction]
#[pyo3(signature = (session=None))]
pub(crate) fn activate(py: Python<'_>, session: Option<i64>) -> PyResult<()> {
    let session = session.unwrap_or(ALL_SESSIONS);
    py.detach(|| try_call(|error| (table().activate)(session, Some(error))))?;
    torch::follow_sessions();
    Ok(())
}

/// Deactivates a session, or all of them.
#[pyfunction]
#[pyo3(signature = (session=None))]
pub(crate) fn deactivate(py: Python<'_>, session: Option<i64>) -> PyResult<()> {
    let session = session.unwrap_or(ALL_SESSIONS);
    py.detach(|| try_call(|error| (table().deactivate)(session, Some(error))))?;
    torch::follow_sessions();
    Ok(())
}

/// Ends a session, or all of them, and writes the files. Returns their paths.
#[pyfunction]
#[pyo3(signature = (session=None, output_format=""))]
pub(crate) fn finalize(
    py: Python<'_>,
    session: Option<i64>,
    output_format: &str,
) -> PyResult<Vec<OsString>> {
    // The program may have set the rank in the environment since the start.
    (table().note_environment)();
    let (session, format) = (session.unwrap_or(ALL_SESSIONS), output_format.as_bytes());
    let finalized = receive_without_gil(py, |sink, context, error| {
        // SAFETY: the text lives until the call returns, and the sink and its context belong
        // together.
        unsafe {
            let (format, len) = (format.as_ptr().cast(), format.len());
            (table().finalize)(session, format, len, sink, context, Some(error))
        }
    });
    torch::follow_sessions();
    Ok(finalized?.into_iter().map(OsString::from_vec).collect())
}

/// Calls a function of the table without the GIL. Returns what it has passed to the sink.
fn receive_without_gil(
    py: Python<'_>,
    call: impl FnOnce(Option<Sink>, *mut c_void, &mut ErrorBuffer) -> i32 + Send,
) -> PyResult<Vec<Vec<u8>>> {
    let (result, received) =
        py.detach(|| receive(|sink, context| try_call(|error| call(sink, context, error))));
    result.map(|_| received)
}

/// Returns the profile of a phase as a document in `output_format`.
#[pyfunction]
pub(crate) fn get_data<'py>(
    py: Python<'py>,
    session: i64,
    phase: u32,
    output_format: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let format = output_format.as_bytes();
    let received = receive_without_gil(py, |sink, context, error| {
        // SAFETY: the text lives until the call returns, and the sink and its context belong
        // together.
        unsafe {
            let (format, len) = (format.as_ptr().cast(), format.len());
            (table().get_data)(session, phase, format, len, sink, context, Some(error))
        }
    })?;
    Ok(PyBytes::new(py, &received.concat()))
}

/// Closes a session's phase. Returns the number of the next phase.
#[pyfunction]
pub(crate) fn advance_phase(py: Python<'_>, session: i64) -> PyResult<i64> {
    py.detach(|| try_call(|error| (table().advance_phase)(session, Some(error))))
}

/// Whether a phase is complete, so that no data will be added to it.
#[pyfunction]
pub(crate) fn is_phase_complete(py: Python<'_>, session: i64, phase: u32) -> PyResult<bool> {
    let call = || try_call(|error| (table().is_phase_complete)(session, phase, Some(error)));
    Ok(py.detach(call)? == 1)
}

/// Drops the data of a phase, and with `includes_earlier` also those of all phases before it.
#[pyfunction]
pub(crate) fn clear(
    py: Python<'_>,
    session: i64,
    phase: u32,
    includes_earlier: bool,
) -> PyResult<()> {
    let clear = table().clear;
    py.detach(|| try_call(|error| clear(session, phase, includes_earlier, Some(error)))).map(drop)
}

/// Returns the depth of this thread's context in a session: the Python frames or the scopes,
/// whichever the session records. `None` if no session is alive.
#[pyfunction]
pub(crate) fn depth(py: Python<'_>, session: i64) -> PyResult<Option<i64>> {
    if !is_live() {
        return Ok(None);
    }
    let context_source = || try_call(|error| (table().context)(session, Some(error)));
    let is_python = py.detach(context_source)? == 1;
    if is_python {
        return Ok(Some(i64::from(frames::stack_depth(py)?)));
    }
    py.detach(|| try_call(|error| (table().depth)(session, Some(error)))).map(Some)
}

/// Returns the run directory that contains a session's events, `None` if it records no trace.
#[pyfunction]
pub(crate) fn run_dir(py: Python<'_>, session: i64) -> PyResult<Option<OsString>> {
    let mut received = receive_without_gil(py, |sink, context, error| {
        // SAFETY: the sink and its context belong together.
        unsafe { (table().run_dir)(session, sink, context, Some(error)) }
    })?;
    Ok(received.pop().map(OsString::from_vec))
}

/// Makes a session write no file if it records nothing.
#[pyfunction]
pub(crate) fn set_quiet_if_empty(py: Python<'_>, session: i64) -> PyResult<()> {
    py.detach(|| try_call(|error| (table().set_quiet_if_empty)(session, Some(error)))).map(drop)
}

/// Writes the current state of every session to its file.
#[pyfunction]
pub(crate) fn checkpoint(py: Python<'_>) {
    py.detach(|| (table().checkpoint)());
}

/// Ends the background threads if no session is alive. The next session starts them again.
#[pyfunction]
pub(crate) fn end_idle_threads(py: Python<'_>) {
    py.detach(|| (table().end_idle_threads)());
}

/// Notes that the process exits. From now on each wait for a device ends after a few seconds.
#[pyfunction]
pub(crate) fn begin_process_exit() {
    (table().begin_process_exit)();
}

/// Prepares a fork. The caller must call [`after_fork_in_parent`] after it.
#[pyfunction]
pub(crate) fn before_fork() {
    (table().defer_fork_restart)();
}

/// Restarts the background threads in the parent after a fork.
///
/// CPython 3.13 counts the threads of the process when this returns, and warns of more than one. So
/// on the main thread the restart is a pending call, which runs at its next line of Python.
#[pyfunction]
pub(crate) fn after_fork_in_parent() {
    extern "C" fn restart(_argument: *mut c_void) -> c_int {
        (table().after_fork_in_parent)();
        0
    }
    // SAFETY: the system calls have no preconditions, and `restart` may be called at any time.
    let is_deferred_to_main_thread = unsafe {
        libc::gettid() == libc::getpid() && ffi::Py_AddPendingCall(Some(restart), null_mut()) == 0
    };
    if !is_deferred_to_main_thread {
        restart(null_mut());
    }
}

/// Whether any session is alive.
#[pyfunction]
pub(crate) fn is_recording() -> bool {
    is_live()
}

/// Whether any session records now.
#[pyfunction]
pub(crate) fn is_active() -> bool {
    library::is_active()
}

/// Counts losses that the Python package has detected.
#[pyfunction]
pub(crate) fn count_losses(cause: &str, losses: u64) -> PyResult<()> {
    let known_cause = LossCause::ALL.into_iter().find(|candidate| candidate.as_str() == cause);
    let cause = known_cause
        .ok_or_else(|| PyValueError::new_err(format!("unknown cause of loss: {cause}")))?;
    (table().count_losses)(cause as u8, losses);
    Ok(())
}

/// Returns the value of a setting. A switch is 1 or 0.
#[pyfunction]
pub(crate) fn setting(key: &str) -> PyResult<f64> {
    Ok((table().setting)(declaration(key)?.setting.number() as u32))
}

/// Sets a setting to a number in its range, or to a name where the setting is a name.
#[pyfunction]
pub(crate) fn set_setting(key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let declared = declaration(key)?;
    let number = match declared.kind {
        SettingKind::Name => match value.extract::<&str>()? {
            "" => 0.0,
            name => f64::from(intern(name)),
        },
        _ => value.extract::<f64>()?,
    };
    if (table().set_setting)(declared.setting.number() as u32, number) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("setting {key} cannot have the value {value} now")))
}

fn declaration(key: &str) -> PyResult<&'static Declaration> {
    marey_model::setting::find(key)
        .ok_or_else(|| PyValueError::new_err(format!("there is no setting {key}")))
}
