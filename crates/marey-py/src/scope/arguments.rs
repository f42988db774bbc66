//! Parsing of the arguments of `scope` and `measure_time`, if they are more than a name.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ptr;

/// Parses `(name, metrics=None)`. Returns `None` with an exception set if the arguments do not
/// match.
///
/// # Safety
/// The arguments are those of a fastcall function with keywords, and the GIL is held.
#[cold]
#[inline(never)]
pub(super) unsafe fn parse_name_and_metrics(
    args: *const *mut PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut PyObject,
) -> Option<(*mut PyObject, *mut PyObject)> {
    // SAFETY: the GIL is held.
    let py = unsafe { Python::assume_attached() };
    let mut values = [ptr::null_mut(); 2];
    let raise = |text: String| {
        PyTypeError::new_err(text).restore(py);
        None
    };
    let positional = usize::try_from(nargs).unwrap_or(0);
    if positional > values.len() {
        return raise(format!("scope() takes at most 2 arguments, {positional} were given"));
    }
    for (index, slot) in values.iter_mut().enumerate().take(positional) {
        // SAFETY: `index` is below `nargs`.
        *slot = unsafe { *args.add(index) };
    }
    if !kwnames.is_null() {
        // SAFETY: the interpreter passes a tuple of strings.
        let names = unsafe { Bound::from_borrowed_ptr(py, kwnames) };
        for (offset, name) in names.try_iter().ok()?.flatten().enumerate() {
            let name = name.to_string();
            let slot = match name.as_str() {
                "name" => &mut values[0],
                "metrics" => &mut values[1],
                _ => return raise(format!("scope() got an unexpected argument {name:?}")),
            };
            if !slot.is_null() {
                return raise(format!("scope() got two values for {name:?}"));
            }
            // SAFETY: the values of the keywords follow the positional arguments.
            *slot = unsafe { *args.add(positional + offset) };
        }
    }
    let [name, mut metrics] = values;
    if name.is_null() {
        return raise("scope() missing required argument 'name'".to_owned());
    }
    // SAFETY: None and the arguments are valid objects.
    unsafe {
        if metrics == ffi::Py_None() {
            metrics = ptr::null_mut();
        }
        if !metrics.is_null() && ffi::PyDict_Check(metrics) == 0 {
            return raise("scope() argument 'metrics' must be a dict or None".to_owned());
        }
        // An empty dict is kept, because the program may fill it before entry.
    }
    Some((name, metrics))
}

/// Parses `(name)` of `measure_time`. Returns `None` with an exception set if the arguments do not
/// match.
///
/// # Safety
/// As for [`parse_name_and_metrics`].
#[cold]
#[inline(never)]
pub(super) unsafe fn parse_name(
    args: *const *mut PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut PyObject,
) -> Option<*mut PyObject> {
    // SAFETY: the GIL is held; the interpreter passes null or a tuple of strings, whose values
    // follow the positional arguments.
    unsafe {
        let py = Python::assume_attached();
        let keywords = if kwnames.is_null() {
            Vec::new()
        } else {
            let names = Bound::from_borrowed_ptr(py, kwnames);
            names.try_iter().ok()?.flatten().map(|name| name.to_string()).collect()
        };
        if nargs == 0 && keywords == ["name"] {
            return Some(*args);
        }
        let text = if let Some(other) = keywords.iter().find(|keyword| *keyword != "name") {
            format!("measure_time() got an unexpected argument {other:?}")
        } else {
            let count = nargs + keywords.len().cast_signed();
            format!("measure_time() takes 1 argument, {count} were given")
        };
        PyTypeError::new_err(text).restore(py);
    }
    None
}
