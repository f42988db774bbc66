//! Converts the errors of the Rust crates to the exceptions of `marey.errors`, or to built-in ones.
//! Hints follow the message in parentheses.

use std::fmt::Display;
use std::io;
use std::path::Path;

use marey::Failure;
use marey_formats::ImportError;
use marey_formats::hatchet::{ParseError, ReadError};
use marey_query::graph::{FilterError, MetricError, Side};
use marey_query::sql::SqlError;
use marey_store::StoreError;
use pyo3::exceptions::{PyKeyError, PyOSError, PyTypeError, PyValueError};
use pyo3::{PyErr, import_exception};

import_exception!(marey.errors, CannotExport);
import_exception!(marey.errors, EmptyFilter);
import_exception!(marey.errors, QueryError);
import_exception!(marey.errors, UnknownMetric);
import_exception!(marey.errors, UnreadableProfile);
import_exception!(marey.errors, UnreadableRun);

/// Most metrics that an error lists if no name is similar.
const MAX_AVAILABLE: usize = 20;

pub(crate) fn unreadable_file(error: ReadError) -> PyErr {
    match error {
        ReadError::Io { path, source } => os_error(source, &path),
        ReadError::Malformed { .. } => UnreadableProfile::new_err(error.to_string()),
    }
}

pub(crate) fn unreadable_bytes(error: &ParseError) -> PyErr {
    UnreadableProfile::new_err(format!("cannot read the profile: {error}"))
}

/// Returns the subclass of `OSError` for the error code, with the path.
pub(crate) fn os_error(error: io::Error, path: &Path) -> PyErr {
    hinted_os_error(error, path, None)
}

fn hinted_os_error(error: io::Error, path: &Path, hint: Option<String>) -> PyErr {
    let Some(code) = error.raw_os_error() else { return error.into() };
    let message = error.to_string();
    let reason = message.split(" (os error").next().unwrap_or_default();
    let reason = with_hint(reason, hint);
    PyOSError::new_err((code, reason, path.as_os_str().to_owned()))
}

pub(crate) fn unreadable_run(error: StoreError) -> PyErr {
    let hint = error.hint();
    match error {
        StoreError::Io { path, source, .. } | StoreError::ReadOnly { path, source } => {
            hinted_os_error(source, &path, hint)
        }
        StoreError::NotARun { .. }
        | StoreError::Uncollected { .. }
        | StoreError::Link { .. }
        | StoreError::Version { .. }
        | StoreError::Manifest { .. }
        | StoreError::Pack { .. }
        | StoreError::Part { .. }
        | StoreError::Parquet { .. }
        | StoreError::Arrow { .. } => UnreadableRun::new_err(with_hint(&error, hint)),
    }
}

pub(crate) fn unreadable_import(error: ImportError) -> PyErr {
    match error {
        ImportError::Store(error) => unreadable_run(error),
        ImportError::Io { path, source } => os_error(source, &path),
        ImportError::Unknown { .. } | ImportError::Unusable { .. } => {
            UnreadableRun::new_err(error.to_string())
        }
    }
}

pub(crate) fn cannot_export(Failure { message, hint }: Failure) -> PyErr {
    CannotExport::new_err(with_hint(message, hint))
}

pub(crate) fn bad_query(error: &SqlError) -> PyErr {
    let sentence = with_hint(error, error.hint());
    match error {
        SqlError::Unreadable { .. } | SqlError::Store(_) => UnreadableRun::new_err(sentence),
        SqlError::Syntax { .. }
        | SqlError::Empty
        | SqlError::ManyStatements { .. }
        | SqlError::TooDeep { .. }
        | SqlError::ReadOnly { .. }
        | SqlError::UnknownTable { .. }
        | SqlError::UnknownColumn { .. }
        | SqlError::UnknownFunction { .. }
        | SqlError::Plan { .. }
        | SqlError::Execution { .. }
        | SqlError::Memory { .. }
        | SqlError::Cancelled
        | SqlError::Internal { .. } => QueryError::new_err(sentence),
    }
}

pub(crate) fn answer_too_large(limit_bytes: usize) -> PyErr {
    let limit_mib = limit_bytes >> 20;
    let sentence = format!("the answer takes more than {limit_mib} MiB of memory");
    QueryError::new_err(with_hint(sentence, Some("raise `memory_limit`, or select less".into())))
}

fn with_hint(sentence: impl Display, hint: Option<String>) -> String {
    match hint {
        Some(hint) => format!("{sentence} ({hint})"),
        None => sentence.to_string(),
    }
}

pub(crate) fn bad_metric(error: &MetricError) -> PyErr {
    let sentence = error.to_string();
    match error {
        MetricError::Unknown { metric, needed_by, nearest, available } => {
            let needed = needed_by.as_ref().map(|metric| format!("`{metric}` needs it; "));
            let hint = metric_hint(metric, nearest, available);
            let needed = needed.unwrap_or_default();
            UnknownMetric::new_err(format!("{sentence} ({needed}{hint})"))
        }
        MetricError::Unit { .. } => PyValueError::new_err(sentence),
        MetricError::NotANumber { .. } => PyTypeError::new_err(sentence),
    }
}

/// Returns a hint with other metric names, but never the one that was refused.
fn metric_hint(metric: &str, nearest: &[String], available: &[String]) -> String {
    let quote_names = |names: &[String], separator: &str| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(separator)
    };
    if available.iter().any(|name| name.eq_ignore_ascii_case(metric)) {
        return "it has no column until it is derived".into();
    }
    if !nearest.is_empty() {
        return format!("did you mean {}?", quote_names(nearest, " or "));
    }
    let listed = &available[..available.len().min(MAX_AVAILABLE)];
    match available.len() - listed.len() {
        _ if listed.is_empty() => "the profile has no metrics".into(),
        0 => format!("there are {}", quote_names(listed, ", ")),
        more => format!("there are {} and {more} more", quote_names(listed, ", ")),
    }
}

pub(crate) fn bad_filter(error: &FilterError) -> PyErr {
    match error {
        FilterError::Pattern { .. } => PyValueError::new_err(error.to_string()),
        FilterError::Empty { .. } => EmptyFilter::new_err(error.to_string()),
        FilterError::Metric(error) => bad_metric(error),
    }
}

/// Returns the error for two graphs that cannot be combined because one lacks a column.
pub(crate) fn missing_column(label: &str, side: Side) -> PyErr {
    PyKeyError::new_err(match side {
        Side::Both => format!("neither graph has a column '{label}'"),
        Side::Left => format!("this graph has no column '{label}': derive it here too"),
        Side::Right => format!("the other graph has no column '{label}': derive it there too"),
    })
}
