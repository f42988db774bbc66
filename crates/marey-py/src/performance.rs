//! The switch for performance counters.

use crate::error::try_call;
use crate::library::table;
use pyo3::prelude::*;

/// Counts performance events in the scopes that are entered from now on, on every thread, as
/// metrics with the names of the events. `names` are separated by commas; none: stops. Raises `ValueError` for an unknown name or
/// too many, and `RuntimeError` if the system refuses an event; the previous events are then still
/// counted.
#[pyfunction]
fn count_events(names: &str) -> PyResult<()> {
    // SAFETY: the text and the error buffer are ours.
    try_call(|error| unsafe {
        (table().performance_events)(names.as_ptr().cast(), names.len(), error)
    })?;
    Ok(())
}

/// Adds the function to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(count_events, module)?)
}
