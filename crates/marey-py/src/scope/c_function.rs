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
    let definition = Box::leak(Box::new(definition(name, doc, function)));
    let py = module.py();
    let module_name = module.name()?;
    // SAFETY: the definition and its strings live forever; the other two are valid objects.
    let function = unsafe {
        let function = ffi::PyCFunction_NewEx(definition, module.as_ptr(), module_name.as_ptr());
        Bound::from_owned_ptr_or_err(py, function)?
    };
    module.add(name.to_string_lossy().as_ref(), function)
}

/// Returns the definition of a function or method.
pub(super) fn definition(
    name: &'static CStr,
    doc: &'static CStr,
    function: CFunction,
) -> ffi::PyMethodDef {
    let (ml_meth, ml_flags) = pointer_and_flags(function);
    ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags, ml_doc: doc.as_ptr() }
}

/// Returns the function and its flags, as stored in a method definition.
fn pointer_and_flags(function: CFunction) -> (ffi::PyMethodDefPointer, c_int) {
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
