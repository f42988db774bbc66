//! Conversion of the pointers that C callers pass, and of results and panics to C error codes.
//! Each error names the argument that is wrong. All other files of this crate use it.

use marey_model::metric::{MetricError, MetricValue};
use marey_record::Error;
use marey_record::perf::PerfError;
use marey_record::table::{ErrorBuffer, ErrorCode, MetricArg, Sink, ValueTag};
use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// The error of a failed call, as the caller will find it in its error buffer.
pub(crate) struct Failure {
    code: ErrorCode,
    message: String,
}

impl Failure {
    pub(crate) fn argument(name: &str, problem: &str) -> Self {
        Self { code: ErrorCode::Argument, message: format!("argument `{name}` {problem}") }
    }

    /// Creates the error of a file that cannot be read.
    pub(crate) fn io(message: String) -> Self {
        Self { code: ErrorCode::Io, message }
    }

    /// Creates the error of a call that is not supported here, for this reason.
    pub(crate) fn unsupported(reason: impl Display) -> Self {
        Self { code: ErrorCode::Unsupported, message: reason.to_string() }
    }
}

impl From<MetricError> for Failure {
    fn from(error: MetricError) -> Self {
        Self { code: ErrorCode::Metric, message: error.to_string() }
    }
}

impl From<PerfError> for Failure {
    fn from(error: PerfError) -> Self {
        let code = match &error {
            PerfError::Unknown(_) | PerfError::TooMany(_) => ErrorCode::Argument,
            PerfError::Refused(_) => ErrorCode::Unsupported,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::UnknownSession(_) | Error::PhaseWithoutData(_) => ErrorCode::NotFound,
            Error::TooManySessions(_) => ErrorCode::Limit,
            Error::UnknownContext(_)
            | Error::UnknownFormat(_)
            | Error::FormatNeedsTrace(_)
            | Error::RunToStdout
            | Error::RingFormat => ErrorCode::Argument,
            Error::DataNeedsTree | Error::RingBesideTrace => ErrorCode::Unsupported,
            Error::Metric(_) => ErrorCode::Metric,
            Error::Write { .. } => ErrorCode::Io,
        };
        Self { code, message: error.to_string() }
    }
}

/// Returns the reference, or an error that names the argument if it is null.
pub(crate) fn non_null<'a, T>(reference: Option<&'a T>, name: &str) -> Result<&'a T, Failure> {
    reference.ok_or_else(|| Failure::argument(name, "is null"))
}

/// Returns the text at a pointer. Replaces invalid UTF-8 rather than refusing it.
///
/// # Safety
/// `data` is null or points to `len` readable bytes that outlive the result.
pub(crate) unsafe fn read_text<'a>(
    data: *const c_char,
    len: usize,
    name: &str,
) -> Result<Cow<'a, str>, Failure> {
    if data.is_null() {
        return Err(Failure::argument(name, "is null"));
    }
    // SAFETY: not null; the caller guarantees `len` readable elements.
    let bytes = unsafe { slice::from_raw_parts(data.cast::<u8>(), len) };
    Ok(String::from_utf8_lossy(bytes))
}

/// Returns the values of user metrics.
///
/// # Safety
/// `values` is null or points to `len` readable values, whose `data` each points to `len` readable
/// elements of the tag's type.
pub(crate) unsafe fn read_metrics(
    values: *const MetricArg,
    len: usize,
) -> Result<Vec<(u32, MetricValue)>, Failure> {
    if values.is_null() {
        return Err(Failure::argument("values", "is null"));
    }
    // SAFETY: not null; the caller guarantees `len` readable elements.
    let values = unsafe { slice::from_raw_parts(values, len) };
    values
        .iter()
        // SAFETY: guaranteed by the caller for each value.
        .map(|argument| Ok((argument.metric, unsafe { read_metric(argument) }?)))
        .collect()
}

/// Returns the value of a user metric.
///
/// # Safety
/// As for [`read_metrics`].
pub(crate) unsafe fn read_metric(argument: &MetricArg) -> Result<MetricValue, Failure> {
    const INT: u32 = ValueTag::Int as u32;
    const FLOAT: u32 = ValueTag::Float as u32;
    const TEXT: u32 = ValueTag::Text as u32;
    const INTS: u32 = ValueTag::Ints as u32;
    const FLOATS: u32 = ValueTag::Floats as u32;
    if argument.data.is_null() {
        return Err(Failure::argument("values[].data", "is null"));
    }
    let (data, len) = (argument.data, argument.len);
    // SAFETY: the caller guarantees `len` elements of the tag's type at `data`, which is not null.
    unsafe {
        match argument.tag {
            INT | FLOAT if len != 1 => {
                Err(Failure::argument("values[].len", "is not 1 for a scalar"))
            }
            INT => Ok(MetricValue::Int(*data.cast())),
            FLOAT => Ok(MetricValue::Float(*data.cast())),
            TEXT => {
                let text = String::from_utf8_lossy(slice::from_raw_parts(data.cast(), len));
                Ok(MetricValue::Text(text.into()))
            }
            INTS => Ok(MetricValue::Ints(slice::from_raw_parts(data.cast(), len).to_vec())),
            FLOATS => Ok(MetricValue::Floats(slice::from_raw_parts(data.cast(), len).to_vec())),
            _ => Err(Failure::argument("values[].tag", "is not a value tag")),
        }
    }
}

/// Passes bytes to the caller's sink, if there is one.
///
/// # Safety
/// `sink` is null or may be called with this context and any bytes.
pub(crate) unsafe fn send(sink: Option<Sink>, context: *mut c_void, bytes: &[u8]) {
    if let Some(sink) = sink {
        // SAFETY: guaranteed by the caller.
        unsafe { sink(context, bytes.as_ptr(), bytes.len()) };
    }
}

/// Calls `run`. Returns `fallback` if it panics.
pub(crate) fn catch_panic<T>(fallback: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(fallback)
}

/// Calls `run` and returns its value. If `run` fails or panics, stores the error in the caller's
/// buffer and returns `fallback`.
pub(crate) fn call_with_error<T>(
    error: Option<&mut ErrorBuffer>,
    fallback: T,
    run: impl FnOnce() -> Result<T, Failure>,
) -> T {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let message = "internal error in marey; please report this bug".to_owned();
        Err(Failure { code: ErrorCode::Internal, message })
    });
    match result {
        Ok(value) => {
            if let Some(buffer) = error {
                buffer.code = ErrorCode::Ok as i32;
                buffer.message[0] = 0;
            }
            value
        }
        Err(failure) => {
            if let Some(buffer) = error {
                write_failure(buffer, &failure);
            }
            fallback
        }
    }
}

/// Calls `run` like [`call_with_error`], and returns an [`ErrorCode`].
pub(crate) fn call_with_status(
    error: Option<&mut ErrorBuffer>,
    run: impl FnOnce() -> Result<(), Failure>,
) -> i32 {
    let mut code = ErrorCode::Internal as i32;
    let run = || {
        let result = run();
        code = result.as_ref().err().map_or(ErrorCode::Ok, |failure| failure.code) as i32;
        result
    };
    call_with_error(error, (), run);
    code
}

fn write_failure(buffer: &mut ErrorBuffer, failure: &Failure) {
    buffer.code = failure.code as i32;
    let max_len = buffer.message.len() - 1;
    let mut end = failure.message.len().min(max_len);
    while !failure.message.is_char_boundary(end) {
        end -= 1;
    }
    buffer.message[..end].copy_from_slice(&failure.message.as_bytes()[..end]);
    buffer.message[end] = 0;
}
