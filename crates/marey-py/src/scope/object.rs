//! The type of scope objects, except for entering and exiting.

use super::c_function::CFunction;
use super::context_manager::{self, ContextManager};
use super::{SCOPE_METHODS as METHODS, SCOPE_TYPE, Scope, enter, exit, or_raise};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `marey._decorator.wrap`, fetched on first use; a strong reference.
static WRAP: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Makes the type and adds it to the module.
pub(super) fn add_type(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let property = |name: &'static CStr, doc: &'static CStr, get| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: doc.as_ptr(),
        closure: ptr::null_mut(),
    };
    let end = ffi::PyGetSetDef {
        name: ptr::null::<c_char>(),
        get: None,
        set: None,
        doc: ptr::null(),
        closure: ptr::null_mut(),
    };
    let properties: &'static mut [ffi::PyGetSetDef] = Box::leak(Box::new([
        property(c"name", c"What the region is called.", get_name as ffi::getter),
        property(c"metrics", c"Values added at entry, or None.", get_metrics as ffi::getter),
        end,
    ]));
    let entry = |slot, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        entry(ffi::Py_tp_getset, properties.as_mut_ptr().cast()),
        entry(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        entry(ffi::Py_tp_call, call as *mut c_void),
        entry(ffi::Py_tp_repr, repr as *mut c_void),
        entry(0, ptr::null_mut()),
    ];
    let manager = ContextManager {
        enter: (c"Enters the region.", CFunction::NoArgs(enter)),
        exit: (c"Leaves the region.", CFunction::Fast(exit)),
        bound_offset: offset_of!(Scope, bound),
    };
    // SAFETY: the slots are those of `Scope`; what they point to outlives the type. The bound
    // methods are at this offset.
    let class = unsafe {
        let class =
            context_manager::new_type::<Scope>(module.py(), c"marey._native.Scope", 0, &mut slots)?;
        manager.install(&class, &METHODS)?;
        class
    };
    SCOPE_TYPE.store(class.clone().into_ptr().cast(), Ordering::Relaxed);
    module.add("Scope", class)
}

/// `Scope.__call__(function)`: the scope as a decorator.
unsafe extern "C" fn call(
    this: *mut PyObject,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter passes valid objects, a dict or null, and holds the GIL.
    unsafe {
        let py = Python::assume_attached();
        let this = Bound::from_borrowed_ptr(py, this);
        let args = Bound::from_borrowed_ptr(py, args);
        let has_keywords = !kwargs.is_null() && ffi::PyDict_Size(kwargs) > 0;
        or_raise(py, decorate(&this, &args, has_keywords).map(Bound::into_ptr))
    }
}

fn decorate<'py>(
    this: &Bound<'py, PyAny>,
    args: &Bound<'py, PyAny>,
    has_keywords: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if has_keywords || args.len()? != 1 {
        return Err(PyTypeError::new_err("a scope used as a decorator takes exactly one function"));
    }
    let py = this.py();
    let mut wrap = WRAP.load(Ordering::Relaxed);
    if wrap.is_null() {
        wrap = py.import("marey._decorator")?.getattr("wrap")?.into_ptr();
        WRAP.store(wrap, Ordering::Relaxed);
    }
    // SAFETY: a strong reference that is never released.
    let wrap = unsafe { Bound::from_borrowed_ptr(py, wrap) };
    wrap.call1((this, args.get_item(0)?))
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: the last reference to the scope was released. Its fields are owned, and an instance
    // of a heap type owns a reference to the type.
    unsafe {
        let scope = this.cast::<Scope>();
        ffi::Py_XDECREF((*scope).name);
        ffi::Py_XDECREF((*scope).metrics);
        context_manager::unbind(&mut (*scope).bound);
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C" fn repr(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: a valid scope; the format takes one object.
    unsafe { ffi::PyUnicode_FromFormat(c"marey.scope(%R)".as_ptr(), (*this.cast::<Scope>()).name) }
}

unsafe extern "C" fn get_name(this: *mut PyObject, _closure: *mut c_void) -> *mut PyObject {
    // SAFETY: a valid scope, whose name is never null.
    unsafe {
        let name = (*this.cast::<Scope>()).name;
        ffi::Py_INCREF(name);
        name
    }
}

unsafe extern "C" fn get_metrics(this: *mut PyObject, _closure: *mut c_void) -> *mut PyObject {
    // SAFETY: a valid scope.
    unsafe {
        let metrics = (*this.cast::<Scope>()).metrics;
        let metrics = if metrics.is_null() { ffi::Py_None() } else { metrics };
        ffi::Py_INCREF(metrics);
        metrics
    }
}
