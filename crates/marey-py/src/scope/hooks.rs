//! The functions that marey's own hooks call thousands of times a second: scopes of any kind, and
//! training steps.

use super::c_function::{CFunction, add_c_function};
use super::{Scope, enter_name, exit_name, new_none, scope_for};
use crate::library::{is_live, table};
use marey_model::context::NodeKind;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ptr;

/// Adds the functions to the module.
pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_c_function(
        module,
        c"push",
        c"push(name, kind, /)\n--\n\nEnters a scope.",
        CFunction::Fast(push),
    )?;
    add_c_function(module, c"pop", c"pop(name, /)\n--\n\nLeaves a scope.", CFunction::Fast(pop))?;
    let doc = c"step_begin()\n--\n\nOpens a training step unless one is open.";
    add_c_function(module, c"step_begin", doc, CFunction::NoArgs(step_begin))?;
    let doc = c"step_end()\n--\n\nCloses the training step and opens the next.";
    add_c_function(module, c"step_end", doc, CFunction::NoArgs(step_end))
}

/// `push(name, kind)`: enters a scope of a kind.
unsafe extern "C" fn push(
    _module: *mut PyObject,
    args: *mut *mut PyObject,
    nargs: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: the interpreter passes `nargs` valid objects and holds the GIL.
    unsafe {
        if is_live() {
            let Some(scope) = hook_scope(args, nargs, 2) else { return ptr::null_mut() };
            let kind = ffi::PyLong_AsLong(*args.add(1));
            if kind == -1 && !ffi::PyErr_Occurred().is_null() {
                ffi::Py_DECREF(scope.cast());
                return ptr::null_mut();
            }
            enter_name((*scope).name_id, u8::try_from(kind).unwrap_or(NodeKind::Scope as u8));
            ffi::Py_DECREF(scope.cast());
        }
        new_none()
    }
}

/// `pop(name)`: exits the innermost scope with this name.
unsafe extern "C" fn pop(
    _module: *mut PyObject,
    args: *mut *mut PyObject,
    nargs: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: as in `push`.
    unsafe {
        if is_live() {
            let Some(scope) = hook_scope(args, nargs, 1) else { return ptr::null_mut() };
            exit_name((*scope).name_id);
            ffi::Py_DECREF(scope.cast());
        }
        new_none()
    }
}

/// # Safety
/// As for `push`.
unsafe fn hook_scope(
    args: *mut *mut PyObject,
    nargs: ffi::Py_ssize_t,
    expected: ffi::Py_ssize_t,
) -> Option<*mut Scope> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if nargs != expected {
            let py = Python::assume_attached();
            PyTypeError::new_err(format!("expected {expected} arguments, got {nargs}")).restore(py);
            return None;
        }
        let scope = scope_for(*args);
        (!scope.is_null()).then_some(scope)
    }
}

/// `step_begin()`.
unsafe extern "C" fn step_begin(_module: *mut PyObject, _no_args: *mut PyObject) -> *mut PyObject {
    (table().step_begin)();
    // SAFETY: the GIL is held.
    unsafe { new_none() }
}

/// `step_end()`.
unsafe extern "C" fn step_end(_module: *mut PyObject, _no_args: *mut PyObject) -> *mut PyObject {
    (table().step_end)();
    // SAFETY: the GIL is held.
    unsafe { new_none() }
}
