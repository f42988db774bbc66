//! Converts the error codes of the library's C function table to Python exceptions.

use marey_record::table::{ErrorBuffer, ErrorCode};
use pyo3::PyErr;
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};

const ARGUMENT: i32 = ErrorCode::Argument as i32;
const METRIC: i32 = ErrorCode::Metric as i32;
const NOT_FOUND: i32 = ErrorCode::NotFound as i32;
const IO: i32 = ErrorCode::Io as i32;

/// Calls `call` with an error buffer, and returns an error that it stores there as an exception.
pub(crate) fn try_call<T>(call: impl FnOnce(&mut ErrorBuffer) -> T) -> Result<T, PyErr> {
    let mut buffer = ErrorBuffer::default();
    let value = call(&mut buffer);
    if buffer.code == ErrorCode::Ok as i32 { Ok(value) } else { Err(to_exception(&buffer)) }
}

fn to_exception(buffer: &ErrorBuffer) -> PyErr {
    let end = buffer.message.iter().position(|&byte| byte == 0).unwrap_or(buffer.message.len());
    let message = String::from_utf8_lossy(buffer.message.get(..end).unwrap_or_default());
    let message = message.into_owned();
    match buffer.code {
        ARGUMENT | METRIC => PyValueError::new_err(message),
        NOT_FOUND => PyIndexError::new_err(message),
        IO => PyOSError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    }
}
