//! C functions as Python functions.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int};

/// A C function, by its calling convention.
#[derive(Clone, Copy)]
pub(super) enum CFunction {
    Keywords(ffi::PyCFunctionFastWithKeywords),
    Fast(ffi::PyCFunctionFast),
    NoArgs(ffi::PyCFunction),
}

/// Adds a function to the module.
pub(super) fn add_c_function(
    module: &Bound<'_, PyModule>,
    name: &'static CStr,
    doc: &'static CStr,
    function: CFunction,
) -> PyResult<()> {
    let (method, flags) = pointer_and_flags(function);
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: method,
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }));
    let py = module.py();
    let module_name = module.name()?;
    // SAFETY: the definition and its strings live forever; the other two are valid objects.
    let function = unsafe {
        let function = ffi::PyCFunction_NewEx(definition, module.as_ptr(), module_name.as_ptr());
        Bound::from_owned_ptr_or_err(py, function)?
    };
    module.add(name.to_string_lossy().as_ref(), function)
}

/// Returns the function and its flags, as stored in a method definition.
pub(super) fn pointer_and_flags(function: CFunction) -> (ffi::PyMethodDefPointer, c_int) {
    match function {
        CFunction::Keywords(function) => (
            ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
            ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ),
        CFunction::Fast(function) => {
            (ffi::PyMethodDefPointer { PyCFunctionFast: function }, ffi::METH_FASTCALL)
        }
        CFunction::NoArgs(function) => {
            (ffi::PyMethodDefPointer { PyCFunction: function }, ffi::METH_NOARGS)
        }
    }
}
