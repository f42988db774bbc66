//! The function by which the Python package turns the counting of performance events on and off.

use crate::error::try_call;
use crate::library::table;
use pyo3::prelude::*;

/// Counts performance events in the scopes that any thread enters from now on. The counts become
/// metrics with the names of the events. `names` is a list separated by commas, and an empty one
/// stops the counting. Raises `ValueError` for an unknown name or too many names. Raises
/// `RuntimeError` if the system refuses an event. The previous events are then still counted.
#[pyfunction]
pub(crate) fn count_events(names: &str) -> PyResult<()> {
    // SAFETY: the text lives until the call returns.
    try_call(|error| unsafe {
        (table().performance_events)(names.as_ptr().cast(), names.len(), Some(error))
    })
    .map(drop)
}
