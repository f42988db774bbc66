//! The functions besides the context manager: entering and exiting by hand, states, metrics.

use super::{add_to_innermost, enter_name, exit_name, scope_for};
use crate::library::{is_live, receive_text, table};
use crate::task;
use marey_model::context::NodeKind;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Enters a scope. Returns its id, or `None` when nothing is recorded.
#[pyfunction]
pub(crate) fn enter_scope(name: &Bound<'_, PyString>) -> PyResult<Option<u64>> {
    if !is_live() {
        return Ok(None);
    }
    let name_id = intern(name)?;
    Ok(Some(enter_name(name_id, NodeKind::Scope as u8)).filter(|&id| id != 0))
}

/// Exits the innermost scope. Returns its id, or `None` when there is none.
#[pyfunction]
pub(crate) fn exit_scope() -> Option<u64> {
    if is_live() { Some(exit_name(0)).filter(|&id| id != 0) } else { None }
}

/// Enters an operator. Returns its id, or `None` when nothing is recorded.
#[pyfunction]
pub(crate) fn enter_op(name: &Bound<'_, PyString>) -> PyResult<Option<u64>> {
    if !is_live() {
        return Ok(None);
    }
    let operator = intern(name)?;
    let id = match task::innermost_token(name.py()) {
        Some(token) => token.get().enter_operator(operator),
        None => (table().operator_enter)(operator),
    };
    Ok(Some(id).filter(|&id| id != 0))
}

/// Exits the innermost operator, or the one with this id if it is still open on this thread, and
/// the scopes inside it. Returns its id, or `None` when there is none.
#[pyfunction]
#[pyo3(signature = (id = None))]
pub(crate) fn exit_op(id: Option<u64>) -> Option<u64> {
    if !is_live() {
        return None;
    }
    let exited = match id {
        Some(id) => (table().operator_exit_id)(id),
        None => (table().operator_exit)(0),
    };
    Some(exited).filter(|&id| id != 0)
}

/// Enters a state on this thread.
#[pyfunction]
pub(crate) fn enter_state(name: &Bound<'_, PyString>) -> PyResult<()> {
    if is_live() {
        (table().state_enter)(intern(name)?);
    }
    Ok(())
}

/// Exits the innermost state of this thread.
#[pyfunction]
pub(crate) fn exit_state() {
    if is_live() {
        (table().state_exit)();
    }
}

/// Adds metrics to the innermost scope.
#[pyfunction]
pub(crate) fn add_metrics(metrics: &Bound<'_, PyDict>) -> PyResult<()> {
    if is_live() { add_to_innermost(metrics) } else { Ok(()) }
}

/// Returns the name of the innermost scope of this task or thread, `None` if there is none.
#[pyfunction]
pub(crate) fn innermost_name(py: Python<'_>) -> Option<String> {
    let name_id = match task::innermost_token(py) {
        Some(token) => token.get().name_id(),
        None => (table().top_name)(),
    };
    if name_id == 0 {
        return None;
    }
    // SAFETY: the sink and its context belong together.
    let call = |sink, context| unsafe { (table().name_text)(name_id, sink, context) };
    Some(receive_text(call).1)
}

fn intern(name: &Bound<'_, PyString>) -> PyResult<u32> {
    // SAFETY: a valid object; the GIL is held.
    unsafe {
        let scope = scope_for(name.as_ptr());
        if scope.is_null() {
            return Err(PyErr::fetch(name.py()));
        }
        let name_id = (*scope).name_id;
        ffi::Py_DECREF(scope.cast());
        Ok(name_id)
    }
}
