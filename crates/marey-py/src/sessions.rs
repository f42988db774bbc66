//! The functions of the Python package for sessions: start, end, phases, checkpoints, forks and
//! settings. Each one is a call of the library's C function table.
//!
//! Calls that may write files or wait for a lock release the GIL.

use crate::error::try_call;
use crate::frames;
use crate::library::{self, is_live, table};
use crate::torch;
use marey_model::loss::LossCause;
use marey_model::setting::{Declaration, SettingKind};
use marey_record::table::StartOptions;
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
fn start(
    py: Python<'_>,
    name: PathBuf,
    python_context: bool,
    output_format: &str,
    flush_phases: bool,
    quiet_if_empty: bool,
) -> PyResult<i64> {
    let format = match output_format {
        "hatchet" => 0,
        "hatchet_msgpack" => 1,
        "chrome_trace" => 2,
        "marey" | "ring" => 3,
        other => return Err(PyValueError::new_err(format!("Unknown output format: {other}"))),
    };
    if python_context {
        frames::enable_frames(py)?;
    }
    (table().note_environment)();
    let name = name.as_os_str().as_bytes();
    let options = StartOptions {
        size: size_of::<StartOptions>(),
        name: name.as_ptr().cast(),
        name_len: name.len(),
        context: u32::from(python_context),
        format,
        flush_phases: u32::from(flush_phases),
        quiet_if_empty: u32::from(quiet_if_empty),
        environment_noted: 1,
        is_addressed_only: 0,
        is_ring: u32::from(output_format == "ring"),
    };
    let options = SendPtr(&raw const options);
    let session = py.detach(|| {
        let options = &options;
        // SAFETY: the options live until the call returns.
        try_call(|error| unsafe { (table().start)(options.0, error) })
    })?;
    torch::follow_sessions();
    Ok(session)
}

/// Returns the numbers of the live sessions, lowest first.
#[pyfunction]
fn sessions(py: Python<'_>) -> Vec<i64> {
    list_sessions(py, table().sessions)
}

/// Returns the numbers of the live sessions that record, lowest first.
#[pyfunction]
fn active_sessions(py: Python<'_>) -> Vec<i64> {
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
fn note(key: &str, text: &str) {
    // SAFETY: the texts live until the call returns.
    unsafe {
        (table().note)(key.as_ptr().cast(), key.len(), text.as_ptr().cast(), text.len());
    }
}

/// Activates a session, or all of them.
#[pyfunction]
#[pyo3(signature = (session=None))]
fn activate(py: Python<'_>, session: Option<i64>) -> PyResult<()> {
    py.detach(|| {
        // SAFETY: the error buffer is writable until the call returns.
        try_call(|error| unsafe { (table().activate)(session.unwrap_or(ALL_SESSIONS), error) })
    })?;
    torch::follow_sessions();
    Ok(())
}

/// Deactivates a session, or all of them.
#[pyfunction]
#[pyo3(signature = (session=None))]
fn deactivate(py: Python<'_>, session: Option<i64>) -> PyResult<()> {
    py.detach(|| {
        // SAFETY: the error buffer is writable until the call returns.
        try_call(|error| unsafe { (table().deactivate)(session.unwrap_or(ALL_SESSIONS), error) })
    })?;
    torch::follow_sessions();
    Ok(())
}

/// Ends a session, or all of them, and writes the files. Returns their paths.
#[pyfunction]
#[pyo3(signature = (session=None, output_format=""))]
fn finalize(py: Python<'_>, session: Option<i64>, output_format: &str) -> PyResult<Vec<OsString>> {
    // The program may have set the rank in the environment since the start.
    (table().note_environment)();
    let mut paths: Vec<OsString> = Vec::new();
    let context = SendPtr((&raw mut paths).cast());
    let finalized = py.detach(|| {
        let context = &context;
        try_call(|error| {
            // SAFETY: the text and the list live until the call returns; `push_path` expects the
            // list as its context.
            unsafe {
                (table().finalize)(
                    session.unwrap_or(ALL_SESSIONS),
                    output_format.as_ptr().cast(),
                    output_format.len(),
                    Some(push_path),
                    context.0,
                    error,
                )
            }
        })
    });
    torch::follow_sessions();
    finalized?;
    Ok(paths)
}

/// A pointer for a closure of `Python::detach`, which demands `Send`. The closure runs on the
/// calling thread.
struct SendPtr<P>(P);

// SAFETY: the closures that capture the pointer run on the thread that made it.
unsafe impl<P> Send for SendPtr<P> {}
// SAFETY: no other thread gets a reference, because the closures run on the thread that made it.
unsafe impl<P> Sync for SendPtr<P> {}

/// Appends the path to the `Vec<OsString>` that is the context.
unsafe extern "C" fn push_path(context: *mut c_void, bytes: *const u8, len: usize) {
    // SAFETY: the callers in this file pass a list, and the library passes `len` readable bytes.
    unsafe {
        let bytes = std::slice::from_raw_parts(bytes, len);
        (*context.cast::<Vec<OsString>>()).push(OsString::from_vec(bytes.to_vec()));
    }
}

/// Appends the library's bytes to the `Vec<u8>` that is the context.
pub(crate) unsafe extern "C" fn push_bytes(context: *mut c_void, bytes: *const u8, len: usize) {
    // SAFETY: all callers pass a vector of bytes, and the library passes `len` readable bytes.
    unsafe {
        let bytes = std::slice::from_raw_parts(bytes, len);
        (*context.cast::<Vec<u8>>()).extend_from_slice(bytes);
    }
}

/// Returns the profile of a phase as a document in `output_format`.
#[pyfunction]
fn get_data<'py>(
    py: Python<'py>,
    session: i64,
    phase: u32,
    output_format: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut document: Vec<u8> = Vec::new();
    let context = SendPtr((&raw mut document).cast());
    py.detach(|| {
        let context = &context;
        try_call(|error| {
            // SAFETY: the text and the vector live until the call returns; `push_bytes` expects a
            // vector of bytes as its context.
            unsafe {
                (table().get_data)(
                    session,
                    phase,
                    output_format.as_ptr().cast(),
                    output_format.len(),
                    Some(push_bytes),
                    context.0,
                    error,
                )
            }
        })
    })?;
    Ok(PyBytes::new(py, &document))
}

/// Closes a session's phase. Returns the number of the next phase.
#[pyfunction]
fn advance_phase(py: Python<'_>, session: i64) -> PyResult<i64> {
    // SAFETY: the error buffer is writable until the call returns.
    py.detach(|| try_call(|error| unsafe { (table().advance_phase)(session, error) }))
}

/// Whether a phase is complete, so that no data will be added to it.
#[pyfunction]
fn is_phase_complete(py: Python<'_>, session: i64, phase: u32) -> PyResult<bool> {
    // SAFETY: the error buffer is writable until the call returns.
    let call = || try_call(|error| unsafe { (table().is_phase_complete)(session, phase, error) });
    Ok(py.detach(call)? == 1)
}

/// Drops the data of a phase, and with `includes_earlier` also those of all phases before it.
#[pyfunction]
fn clear(py: Python<'_>, session: i64, phase: u32, includes_earlier: bool) -> PyResult<()> {
    let clear = table().clear;
    // SAFETY: the error buffer is writable until the call returns.
    py.detach(|| try_call(|error| unsafe { clear(session, phase, includes_earlier, error) }))?;
    Ok(())
}

/// Returns the depth of this thread's context in a session: the Python frames or the scopes,
/// whichever the session records. `None` if no session is alive.
#[pyfunction]
fn depth(py: Python<'_>, session: i64) -> PyResult<Option<i64>> {
    if !is_live() {
        return Ok(None);
    }
    // SAFETY: the error buffer is writable until the call returns.
    let context_source = || try_call(|error| unsafe { (table().context)(session, error) });
    let is_python = py.detach(context_source)? == 1;
    if is_python {
        return Ok(Some(i64::from(frames::stack_depth(py)?)));
    }
    // SAFETY: the error buffer is writable until the call returns.
    py.detach(|| try_call(|error| unsafe { (table().depth)(session, error) })).map(Some)
}

/// Returns the run directory that contains a session's events, `None` if it records no trace.
#[pyfunction]
fn run_dir(py: Python<'_>, session: i64) -> PyResult<Option<OsString>> {
    let mut paths: Vec<OsString> = Vec::new();
    let context = SendPtr((&raw mut paths).cast());
    py.detach(|| {
        let context = &context;
        // SAFETY: the list lives until the call returns; `push_path` expects the list as its
        // context.
        try_call(|error| unsafe { (table().run_dir)(session, Some(push_path), context.0, error) })
    })?;
    Ok(paths.pop())
}

/// Makes a session write no file if it records nothing.
#[pyfunction]
fn set_quiet_if_empty(py: Python<'_>, session: i64) -> PyResult<()> {
    // SAFETY: the error buffer is writable until the call returns.
    py.detach(|| try_call(|error| unsafe { (table().set_quiet_if_empty)(session, error) }))?;
    Ok(())
}

/// Writes the current state of every session to its file.
#[pyfunction]
fn checkpoint(py: Python<'_>) {
    py.detach(|| (table().checkpoint)());
}

/// Ends the background threads if no session is alive. The next session starts them again.
#[pyfunction]
fn end_idle_threads(py: Python<'_>) {
    py.detach(|| (table().end_idle_threads)());
}

/// Notes that the process exits. From now on each wait for a device ends after a few seconds.
#[pyfunction]
fn begin_process_exit() {
    (table().begin_process_exit)();
}

/// Prepares a fork. The caller must call [`after_fork_in_parent`] after it.
#[pyfunction]
fn before_fork() {
    (table().defer_fork_restart)();
}

/// Restarts the background threads in the parent after a fork.
///
/// CPython 3.13 counts the threads of the process when this returns, and warns of more than one. So
/// on the main thread the restart is a pending call, which runs at its next line of Python.
#[pyfunction]
fn after_fork_in_parent() {
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
fn is_recording() -> bool {
    is_live()
}

/// Whether any session records now.
#[pyfunction]
fn is_active() -> bool {
    library::is_active()
}

/// Counts losses that the Python package has detected.
#[pyfunction]
fn count_losses(cause: &str, losses: u64) -> PyResult<()> {
    let known_cause = LossCause::ALL.into_iter().find(|candidate| candidate.as_str() == cause);
    let cause = known_cause
        .ok_or_else(|| PyValueError::new_err(format!("unknown cause of loss: {cause}")))?;
    (table().count_losses)(cause as u8, losses);
    Ok(())
}

/// Returns the value of a setting. A switch is 1 or 0.
#[pyfunction]
fn setting(key: &str) -> PyResult<f64> {
    Ok((table().setting)(declaration(key)?.setting.number() as u32))
}

/// Sets a setting to a number in its range, or to a name where the setting is a name.
#[pyfunction]
fn set_setting(key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let declared = declaration(key)?;
    let number = match declared.kind {
        SettingKind::Name => match value.extract::<&str>()? {
            "" => 0.0,
            // SAFETY: the name lives until the call returns.
            name => f64::from(unsafe { (table().intern)(name.as_ptr().cast(), name.len()) }),
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

/// Adds the functions to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(start, module)?,
        wrap_pyfunction!(sessions, module)?,
        wrap_pyfunction!(active_sessions, module)?,
        wrap_pyfunction!(note, module)?,
        wrap_pyfunction!(activate, module)?,
        wrap_pyfunction!(deactivate, module)?,
        wrap_pyfunction!(finalize, module)?,
        wrap_pyfunction!(get_data, module)?,
        wrap_pyfunction!(advance_phase, module)?,
        wrap_pyfunction!(is_phase_complete, module)?,
        wrap_pyfunction!(clear, module)?,
        wrap_pyfunction!(depth, module)?,
        wrap_pyfunction!(run_dir, module)?,
        wrap_pyfunction!(set_quiet_if_empty, module)?,
        wrap_pyfunction!(checkpoint, module)?,
        wrap_pyfunction!(end_idle_threads, module)?,
        wrap_pyfunction!(begin_process_exit, module)?,
        wrap_pyfunction!(before_fork, module)?,
        wrap_pyfunction!(after_fork_in_parent, module)?,
        wrap_pyfunction!(is_recording, module)?,
        wrap_pyfunction!(is_active, module)?,
        wrap_pyfunction!(count_losses, module)?,
        wrap_pyfunction!(setting, module)?,
        wrap_pyfunction!(set_setting, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
