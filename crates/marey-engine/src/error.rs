//! Errors of the crates below as Python's exceptions.

use std::io;
use std::path::Path;

use marey_formats::hatchet::{ParseError, ReadError};
use marey_query::graph::{FilterError, MetricError};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::{PyErr, import_exception};

import_exception!(marey.errors, EmptyFilter);
import_exception!(marey.errors, UnknownMetric);
import_exception!(marey.errors, UnreadableProfile);

pub(crate) fn unreadable_file(error: ReadError) -> PyErr {
    match error {
        ReadError::Io { path, source } => os_error(source, &path),
        ReadError::Malformed { .. } => UnreadableProfile::new_err(error.to_string()),
    }
}

pub(crate) fn unreadable_bytes(error: &ParseError) -> PyErr {
    UnreadableProfile::new_err(format!("cannot read the profile: {error}"))
}

/// The subclass of `OSError` that belongs to the error, with the file's name.
pub(crate) fn os_error(error: io::Error, path: &Path) -> PyErr {
    let Some(code) = error.raw_os_error() else { return error.into() };
    let message = error.to_string();
    let reason = message.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((code, reason, path.as_os_str().to_owned()))
}

pub(crate) fn bad_metric(error: &MetricError) -> PyErr {
    let sentence = error.to_string();
    match error {
        MetricError::Unknown { nearest, .. } if !nearest.is_empty() => {
            let nearest: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
            let hint = format!("{sentence} (did you mean {}?)", nearest.join(" or "));
            UnknownMetric::new_err(hint)
        }
        MetricError::Unknown { .. } => UnknownMetric::new_err(sentence),
        MetricError::Unit { .. } => PyValueError::new_err(sentence),
        MetricError::NotANumber { .. } => PyTypeError::new_err(sentence),
    }
}

pub(crate) fn bad_filter(error: &FilterError) -> PyErr {
    match error {
        FilterError::Pattern { .. } => PyValueError::new_err(error.to_string()),
        FilterError::Empty { .. } => EmptyFilter::new_err(error.to_string()),
        FilterError::Metric(error) => bad_metric(error),
    }
}
