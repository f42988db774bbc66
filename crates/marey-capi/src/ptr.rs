//! Pointers of strangers become references here, or errors that name the argument.

use marey_model::metric::{MetricError, MetricValue};
use marey_record::Error;
use marey_record::table::{ErrorBuffer, ErrorCode, MetricArg, Sink, ValueTag};
use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failed call, ready to be told.
pub(crate) struct Failure {
    code: ErrorCode,
    message: String,
}

impl Failure {
    pub(crate) fn argument(name: &str, problem: &str) -> Self {
        Self { code: ErrorCode::Argument, message: format!("argument `{name}` {problem}") }
    }
}

impl Failure {
    /// What is asked for cannot be had here.
    pub(crate) fn unsupported(message: String) -> Self {
        Self { code: ErrorCode::Unsupported, message }
    }
}

impl From<MetricError> for Failure {
    fn from(error: MetricError) -> Self {
        Self { code: ErrorCode::Metric, message: error.to_string() }
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
            | Error::RunToStdout => ErrorCode::Argument,
            Error::DataNeedsTree => ErrorCode::Unsupported,
            Error::Metric(_) => ErrorCode::Metric,
            Error::Write { .. } => ErrorCode::Io,
        };
        Self { code, message: error.to_string() }
    }
}

/// A reference that must be there.
pub(crate) fn present<'a, T>(reference: Option<&'a T>, name: &str) -> Result<&'a T, Failure> {
    reference.ok_or_else(|| Failure::argument(name, "is null"))
}

/// A text. What is not UTF-8 in it is replaced: a name is a name.
///
/// # Safety
/// `data` is null or points to `len` readable bytes that outlive the result.
pub(crate) unsafe fn text<'a>(
    data: *const c_char,
    len: usize,
    name: &str,
) -> Result<Cow<'a, str>, Failure> {
    if data.is_null() {
        return Err(Failure::argument(name, "is null"));
    }
    // SAFETY: not null; the caller promises the rest.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
    Ok(String::from_utf8_lossy(bytes))
}

/// The values of user metrics.
///
/// # Safety
/// `values` is null or points to `len` readable values, each of which points to as many readable
/// elements of its tag's type as it says.
pub(crate) unsafe fn metrics(
    values: *const MetricArg,
    len: usize,
) -> Result<Vec<(u32, MetricValue)>, Failure> {
    if values.is_null() {
        return Err(Failure::argument("values", "is null"));
    }
    // SAFETY: not null; the caller promises the rest.
    let values = unsafe { std::slice::from_raw_parts(values, len) };
    values
        .iter()
        // SAFETY: the caller's promise about each value.
        .map(|argument| Ok((argument.metric, unsafe { metric(argument) }?)))
        .collect()
}

/// # Safety
/// As for [`metrics`].
unsafe fn metric(argument: &MetricArg) -> Result<MetricValue, Failure> {
    if argument.data.is_null() {
        return Err(Failure::argument("values[].data", "is null"));
    }
    // SAFETY: the caller promises `len` elements of the tag's type at `data`, which is not null.
    let (bytes, ints, floats) = unsafe {
        let (data, len) = (argument.data, argument.len);
        match argument.tag {
            tag if tag == ValueTag::Text as u32 => {
                (Some(std::slice::from_raw_parts(data.cast::<u8>(), len)), None, None)
            }
            tag if tag == ValueTag::Int as u32 || tag == ValueTag::Ints as u32 => {
                (None, Some(std::slice::from_raw_parts(data.cast::<i64>(), len)), None)
            }
            tag if tag == ValueTag::Float as u32 || tag == ValueTag::Floats as u32 => {
                (None, None, Some(std::slice::from_raw_parts(data.cast::<f64>(), len)))
            }
            _ => return Err(Failure::argument("values[].tag", "is no value tag")),
        }
    };
    let is_scalar = argument.tag == ValueTag::Int as u32 || argument.tag == ValueTag::Float as u32;
    match (bytes, ints, floats) {
        (Some(bytes), _, _) => Ok(MetricValue::Text(String::from_utf8_lossy(bytes).into())),
        (_, Some(&[value]), _) if is_scalar => Ok(MetricValue::Int(value)),
        (_, _, Some(&[value])) if is_scalar => Ok(MetricValue::Float(value)),
        (_, Some(values), _) if !is_scalar => Ok(MetricValue::Ints(values.to_vec())),
        (_, _, Some(values)) if !is_scalar => Ok(MetricValue::Floats(values.to_vec())),
        _ => Err(Failure::argument("values[].len", "is not 1 for a scalar")),
    }
}

/// Gives bytes to a caller who wants them.
///
/// # Safety
/// `sink` takes bytes and this context.
pub(crate) unsafe fn give(sink: Option<Sink>, context: *mut c_void, bytes: &[u8]) {
    if let Some(sink) = sink {
        // SAFETY: the caller's promise.
        unsafe { sink(context, bytes.as_ptr(), bytes.len()) };
    }
}

/// Runs `run`; a panic becomes `otherwise`.
pub(crate) fn guarded<T>(otherwise: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(otherwise)
}

/// Runs `run`, tells its failure, and returns its value or `otherwise`.
///
/// # Safety
/// `error` is null or points to a writable buffer.
pub(crate) unsafe fn told<T>(
    error: *mut ErrorBuffer,
    otherwise: T,
    run: impl FnOnce() -> Result<T, Failure>,
) -> T {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let message = "marey failed inside; this is a defect, please report it".to_owned();
        Err(Failure { code: ErrorCode::Internal, message })
    });
    // SAFETY: the caller's promise.
    let buffer = unsafe { error.as_mut() };
    match result {
        Ok(value) => {
            if let Some(buffer) = buffer {
                buffer.code = ErrorCode::Ok as i32;
                buffer.message[0] = 0;
            }
            value
        }
        Err(failure) => {
            if let Some(buffer) = buffer {
                fill(buffer, &failure);
            }
            otherwise
        }
    }
}

/// As [`told`], for calls whose value is their [`ErrorCode`].
///
/// # Safety
/// As for [`told`].
pub(crate) unsafe fn status(
    error: *mut ErrorBuffer,
    run: impl FnOnce() -> Result<(), Failure>,
) -> i32 {
    let mut code = ErrorCode::Internal as i32;
    let run = || {
        let result = run();
        code = result.as_ref().err().map_or(ErrorCode::Ok, |failure| failure.code) as i32;
        result
    };
    // SAFETY: the caller's promise.
    unsafe { told(error, (), run) };
    code
}

fn fill(buffer: &mut ErrorBuffer, failure: &Failure) {
    buffer.code = failure.code as i32;
    let room = buffer.message.len() - 1;
    let mut end = failure.message.len().min(room);
    while !failure.message.is_char_boundary(end) {
        end -= 1;
    }
    buffer.message[..end].copy_from_slice(&failure.message.as_bytes()[..end]);
    buffer.message[end] = 0;
}
