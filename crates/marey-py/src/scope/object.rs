//! The type of scope objects, except for entering and exiting.
//!
//! A `with` statement looks `__enter__` and `__exit__` up on the type and binds each to the object,
//! which makes and frees two objects per entry: half of the cost of an empty block. So the two are
//! custom descriptors, which return methods that were bound when the scope was added to the cache.

use super::c_function::{CFunction, pointer_and_flags};
use super::{SCOPE_TYPE, Scope, enter, exit};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `marey._decorator.wrap`, fetched on first use; a strong reference.
static WRAP: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// The definitions of `__enter__` and `__exit__`, set when the module is made.
static METHODS: AtomicPtr<ffi::PyMethodDef> = AtomicPtr::new(ptr::null_mut());

/// The descriptor of one of the two methods.
#[repr(C)]
struct Binder {
    head: PyObject,
    /// The index in [`METHODS`].
    index: usize,
    /// The ordinary descriptor of the method, for access through the class.
    plain: *mut PyObject,
}

/// Binds the methods of a scope. This is a reference cycle until [`unbind`].
///
/// # Safety
/// `scope` is valid and its methods are not bound; the GIL is held.
pub(super) unsafe fn bind_methods(scope: *mut Scope) {
    let methods = METHODS.load(Ordering::Relaxed);
    // SAFETY: guaranteed by the caller; `METHODS` points to two definitions of static lifetime. If
    // an allocation fails the method is null, and is bound on each access.
    unsafe {
        for (index, bound) in (*scope).bound.iter_mut().enumerate() {
            *bound = ffi::PyCFunction_NewEx(methods.add(index), scope.cast(), ptr::null_mut());
            if bound.is_null() {
                ffi::PyErr_Clear();
            }
        }
    }
}

/// Unbinds the methods of a scope.
///
/// # Safety
/// `scope` is valid; the GIL is held.
pub(super) unsafe fn unbind(scope: *mut Scope) {
    // SAFETY: guaranteed by the caller; each pointer is owned or null.
    unsafe {
        for index in 0..2 {
            let bound = std::mem::replace(&mut (*scope).bound[index], ptr::null_mut());
            ffi::Py_XDECREF(bound);
        }
    }
}

/// `Binder.__get__(object, class)`.
unsafe extern "C" fn bind(
    this: *mut PyObject,
    object: *mut PyObject,
    _class: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the slot is called on a binder with the GIL held. Only a `Scope` is read as one.
    unsafe {
        let binder = this.cast::<Binder>();
        let is_scope =
            !object.is_null() && ffi::Py_TYPE(object) == SCOPE_TYPE.load(Ordering::Relaxed);
        if !is_scope {
            ffi::Py_INCREF((*binder).plain);
            return (*binder).plain;
        }
        let bound = (*object.cast::<Scope>()).bound[(*binder).index];
        if !bound.is_null() {
            ffi::Py_INCREF(bound);
            return bound;
        }
        let method = METHODS.load(Ordering::Relaxed).add((*binder).index);
        ffi::PyCFunction_NewEx(method, object, ptr::null_mut())
    }
}

/// Makes a type whose objects are `T`s, and which Python code cannot instantiate.
///
/// # Safety
/// The slots are right for objects of `T`, end with an empty one, and point to data that outlives
/// the type. `T` begins with the head of an object.
#[expect(clippy::cast_possible_wrap, reason = "the size of a small struct")]
unsafe fn new_type<'py, T>(
    py: Python<'py>,
    name: &'static CStr,
    slots: &mut [ffi::PyType_Slot],
) -> PyResult<Bound<'py, PyAny>> {
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size_of::<T>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}

/// Replaces the type's two methods by binders.
fn install_binders(class: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = class.py();
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_descr_get, pfunc: bind as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ];
    // SAFETY: the slots are those of `Binder`.
    let binder_class = unsafe { new_type::<Binder>(py, c"marey._native.Binder", &mut slots)? };
    for (index, name) in ["__enter__", "__exit__"].into_iter().enumerate() {
        let plain = class.getattr(name)?;
        // SAFETY: the type allocates objects of `Binder`'s size. The fields are filled in before
        // any other code sees the object.
        let binder = unsafe {
            let binder: *mut Binder =
                ffi::PyType_GenericAlloc(binder_class.as_ptr().cast(), 0).cast();
            if binder.is_null() {
                return Err(PyErr::fetch(py));
            }
            (*binder).index = index;
            (*binder).plain = plain.into_ptr();
            Bound::from_owned_ptr(py, binder.cast())
        };
        class.setattr(name, binder)?;
    }
    Ok(())
}

/// Makes the type and adds it to the module.
pub(super) fn add_type(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let method = |name: &'static CStr, doc: &'static CStr, function| {
        let (ml_meth, ml_flags) = pointer_and_flags(function);
        ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags, ml_doc: doc.as_ptr() }
    };
    let methods: &'static mut [ffi::PyMethodDef] = Box::leak(Box::new([
        method(c"__enter__", c"Enters the region.", CFunction::NoArgs(enter)),
        method(c"__exit__", c"Leaves the region.", CFunction::Fast(exit)),
        ffi::PyMethodDef::zeroed(),
    ]));
    METHODS.store(methods.as_mut_ptr(), Ordering::Relaxed);
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
        entry(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        entry(ffi::Py_tp_getset, properties.as_mut_ptr().cast()),
        entry(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        entry(ffi::Py_tp_call, call as *mut c_void),
        entry(ffi::Py_tp_repr, repr as *mut c_void),
        entry(0, ptr::null_mut()),
    ];
    // SAFETY: the slots are those of `Scope`; what they point to outlives the type.
    let class = unsafe { new_type::<Scope>(module.py(), c"marey._native.Scope", &mut slots)? };
    install_binders(&class)?;
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
        match decorate(&this, &args, has_keywords) {
            Ok(wrapped) => wrapped.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
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
        unbind(scope);
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
