//! References to the innermost scope, for values that become available later.

use crate::library::{is_active, table};
use crate::metrics;
use marey_record::Detached;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A reference to a scope, returned by [`innermost_scope`].
#[pyclass(frozen, module = "marey._native")]
pub(crate) struct ScopeRef {
    scope: *const Detached,
}

// SAFETY: the pointer is an `Arc<Detached>`, which is Send and Sync.
unsafe impl Send for ScopeRef {}
// SAFETY: as above.
unsafe impl Sync for ScopeRef {}

impl Drop for ScopeRef {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference that `detached_here` returned.
        unsafe { (table().detached_release)(self.scope) };
    }
}

#[pymethods]
impl ScopeRef {
    /// Adds metrics to the scope, which may have ended since, in the sessions that were active then
    /// and are now.
    fn add_metrics(&self, metrics: &Bound<'_, PyDict>) -> PyResult<()> {
        metrics::convert_and_add(metrics, |values, error| {
            let (values, len) = (values.as_ptr(), values.len());
            // SAFETY: `self` owns the scope; the values live until the call returns.
            unsafe { (table().detached_add_metrics)(self.scope.as_ref(), values, len, Some(error)) }
        })
    }
}

/// Returns the innermost scope of this thread's stack, `None` when nothing is recorded.
#[pyfunction]
pub(crate) fn innermost_scope() -> Option<ScopeRef> {
    if !is_active() {
        return None;
    }
    let scope = (table().detached_here)();
    (!scope.is_null()).then_some(ScopeRef { scope })
}
