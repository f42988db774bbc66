//! The entries of the C function table that start, control and end sessions, and that read
//! their data.

use crate::ptr::{self, Failure, call_with_error, call_with_status, catch_panic, read_text, send};
use marey_record::table::{DeviceEventArg, DeviceEventReceiver, ErrorBuffer, Sink, StartOptions};
use marey_record::{ContextSource, Detached, Error, Format, SessionId, SessionOptions, api};
use std::ffi::{c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The session number that means all sessions.
const ALL_SESSIONS: i64 = -1;

fn session_id(session: i64) -> Result<SessionId, Failure> {
    let id = SessionId::try_from(session);
    id.map_err(|_negative_or_too_large| Error::UnknownSession(u32::MAX).into())
}

/// Calls `call` with one session, or with each live session. Skips a session that another thread
/// ends meanwhile. An error does not stop the loop; the first one is returned.
fn for_each_session(
    session: i64,
    mut call: impl FnMut(SessionId) -> Result<(), Error>,
) -> Result<(), Failure> {
    if session != ALL_SESSIONS {
        return Ok(call(session_id(session)?)?);
    }
    let mut first_error = Ok(());
    for id in api::live_sessions() {
        match call(id) {
            Err(Error::UnknownSession(_)) => {}
            outcome => first_error = first_error.and(outcome),
        }
    }
    Ok(first_error?)
}

pub(crate) unsafe extern "C" fn start(
    options: *const StartOptions,
    error: Option<&mut ErrorBuffer>,
) -> i64 {
    // SAFETY: the caller passes a filled-in struct or null.
    unsafe {
        call_with_error(error, -1, || {
            let options = read_options(options)?;
            let name = read_text(options.name, options.name_len, "options.name")?;
            let session_options = SessionOptions {
                name: name.into_owned(),
                context: match options.context {
                    0 => ContextSource::Shadow,
                    1 => ContextSource::Python,
                    other => return Err(Error::UnknownContext(other.to_string()).into()),
                },
                format: *Format::ALL
                    .get(options.format as usize)
                    .ok_or_else(|| Error::UnknownFormat(options.format.to_string()))?,
                flush_phases: options.flush_phases != 0,
                quiet_if_empty: options.quiet_if_empty != 0,
                is_addressed_only: options.is_addressed_only != 0,
                is_ring: options.is_ring != 0,
            };
            let is_environment_copied = options.environment_noted != 0;
            let start =
                if is_environment_copied { api::start_with_copied_environment } else { api::start };
            Ok(i64::from(start(&session_options)?))
        })
    }
}

/// Returns the caller's options, completed to the fields of this version. The fields that an older
/// caller does not know are zero.
///
/// # Safety
/// `options` is null or points to as many readable bytes as its first field says. The last of them
/// ends a field.
unsafe fn read_options(options: *const StartOptions) -> Result<StartOptions, Failure> {
    // SAFETY: guaranteed by the caller; the first field is the size.
    let size = ptr::non_null(unsafe { options.cast::<usize>().as_ref() }, "options")?;
    // SAFETY: the struct has only numbers and pointers, for which zero is a valid value.
    let mut complete: StartOptions = unsafe { std::mem::zeroed() };
    let len = (*size).min(size_of::<StartOptions>());
    // SAFETY: the caller's struct has at least `len` bytes, and so has `complete`.
    unsafe { std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut complete).cast(), len) };
    Ok(complete)
}

pub(crate) extern "C" fn activate(session: i64, error: Option<&mut ErrorBuffer>) -> i32 {
    call_with_status(error, || for_each_session(session, api::activate))
}

pub(crate) extern "C" fn deactivate(session: i64, error: Option<&mut ErrorBuffer>) -> i32 {
    call_with_status(error, || for_each_session(session, api::deactivate))
}

pub(crate) unsafe extern "C" fn finalize(
    session: i64,
    format: *const c_char,
    format_len: usize,
    paths: Option<Sink>,
    context: *mut c_void,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes a readable text or null as `format`, and a function that takes bytes
    // and `context` as `paths`.
    unsafe {
        call_with_status(error, || {
            let format = optional_format(format, format_len)?;
            for_each_session(session, |id| {
                for path in api::finalize(id, format)? {
                    send(paths, context, path.as_os_str().as_bytes());
                }
                Ok(())
            })
        })
    }
}

/// # Safety
/// `format` is null or points to `len` readable bytes.
unsafe fn optional_format(format: *const c_char, len: usize) -> Result<Option<Format>, Failure> {
    if format.is_null() || len == 0 {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    Ok(Some(unsafe { read_text(format, len, "format") }?.parse()?))
}

pub(crate) extern "C" fn advance_phase(session: i64, error: Option<&mut ErrorBuffer>) -> i64 {
    call_with_error(error, -1, || Ok(i64::from(api::advance_phase(session_id(session)?)?)))
}

pub(crate) extern "C" fn is_phase_complete(
    session: i64,
    phase: u32,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    let is_complete = || Ok(i32::from(api::is_phase_complete(session_id(session)?, phase)?));
    call_with_error(error, -1, is_complete)
}

pub(crate) extern "C" fn clear(
    session: i64,
    phase: u32,
    includes_earlier: bool,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    call_with_status(error, || {
        let first_phase = if includes_earlier { 0 } else { phase };
        Ok(api::clear_phases(session_id(session)?, first_phase..=phase)?)
    })
}

pub(crate) unsafe extern "C" fn get_data(
    session: i64,
    phase: u32,
    format: *const c_char,
    format_len: usize,
    sink: Option<Sink>,
    context: *mut c_void,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes a readable text or null as `format`, and a function that takes bytes
    // and `context`.
    unsafe {
        call_with_status(error, || {
            let format = optional_format(format, format_len)?.unwrap_or_default();
            let bytes = api::get_data(session_id(session)?, phase, format)?;
            send(sink, context, &bytes);
            Ok(())
        })
    }
}

pub(crate) extern "C" fn depth(session: i64, error: Option<&mut ErrorBuffer>) -> i64 {
    call_with_error(error, -1, || Ok(i64::from(api::stack_depth(session_id(session)?)?)))
}

pub(crate) extern "C" fn context(session: i64, error: Option<&mut ErrorBuffer>) -> i32 {
    call_with_error(error, -1, || Ok(api::context_source(session_id(session)?)? as i32))
}

pub(crate) extern "C" fn set_quiet_if_empty(session: i64, error: Option<&mut ErrorBuffer>) -> i32 {
    call_with_status(error, || Ok(api::set_quiet_if_empty(session_id(session)?)?))
}

pub(crate) extern "C" fn session_scope(
    session: i64,
    scope: Option<&Detached>,
    error: Option<&mut ErrorBuffer>,
) -> *const Detached {
    call_with_error(error, std::ptr::null(), || {
        let scope = api::address(session_id(session)?, scope)?;
        Ok(scope.map_or(std::ptr::null(), Arc::into_raw))
    })
}

pub(crate) unsafe extern "C" fn sessions(sessions: *mut i64, len: usize) -> usize {
    // SAFETY: the caller passes null or an array of `len` writable numbers.
    unsafe { write_ids(&catch_panic(Vec::new(), api::live_sessions), sessions, len) }
}

pub(crate) unsafe extern "C" fn active_sessions(sessions: *mut i64, len: usize) -> usize {
    // SAFETY: the caller passes null or an array of `len` writable numbers.
    unsafe { write_ids(&catch_panic(Vec::new(), api::active_sessions), sessions, len) }
}

/// Writes ids to an array and returns how many there are, which may be more than `len`.
///
/// # Safety
/// `array` is null or has `len` writable numbers.
unsafe fn write_ids(ids: &[u32], array: *mut i64, len: usize) -> usize {
    if !array.is_null() {
        // SAFETY: guaranteed by the caller.
        let array = unsafe { std::slice::from_raw_parts_mut(array, len) };
        for (slot, &id) in array.iter_mut().zip(ids) {
            *slot = i64::from(id);
        }
    }
    ids.len()
}

pub(crate) extern "C" fn checkpoint() {
    catch_panic((), api::write_checkpoints);
}

pub(crate) extern "C" fn end_idle_threads() {
    catch_panic((), api::end_idle_threads);
}

pub(crate) extern "C" fn after_fork_in_parent() {
    catch_panic((), api::after_fork_in_parent);
}

pub(crate) extern "C" fn defer_fork_restart() {
    catch_panic((), api::defer_fork_restart);
}

pub(crate) unsafe extern "C" fn run_dir(
    session: i64,
    sink: Option<Sink>,
    context: *mut c_void,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes a function that takes bytes and `context`.
    unsafe {
        call_with_status(error, || {
            if let Some(path) = api::run_dir(session_id(session)?)? {
                send(sink, context, path.as_os_str().as_bytes());
            }
            Ok(())
        })
    }
}

pub(crate) unsafe extern "C" fn device_events(
    run: *const c_char,
    run_len: usize,
    session: i64,
    receive: Option<DeviceEventReceiver>,
    context: *mut c_void,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes a readable path, and a function that takes an event and this
    // context.
    unsafe {
        call_with_status(error, || {
            let run = read_text(run, run_len, "run")?;
            let Some(receive) = receive else {
                return Err(Failure::argument("receive", "is null"));
            };
            let session = session_id(session)?;
            let result = api::read_device_events(Path::new(&*run), session, |event| {
                let event = device_event_arg(&event);
                receive(context, &raw const event);
            });
            result.map_err(|error| Failure::io(format!("cannot read the run {run}: {error}")))
        })
    }
}

/// Returns an event in the layout of the C ABI. Its pointers are valid as long as `event`.
fn device_event_arg(event: &api::DeviceEvent<'_>) -> DeviceEventArg {
    let saturate = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    DeviceEventArg {
        name: event.name.as_ptr().cast(),
        name_len: event.name.len(),
        thread: event.thread,
        start_nanos: event.start_nanos,
        duration_nanos: event.duration_nanos,
        bytes: event.bytes,
        kind: event.kind.map_or(-1, |kind| kind as i32),
        device: event.device,
        stream: event.stream,
        correlation: event.correlation,
        sizes: event.sizes.map(saturate),
        registers: saturate(event.registers),
        reserved: 0,
    }
}
