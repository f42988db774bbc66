//! The methods `__enter__` and `__exit__` of objects that a `with` statement uses thousands of times a
//! second.
//!
//! The statement looks the two up on the type and binds each to the object, which makes and frees two
//! objects per entry: half of the cost of an empty block. So the two are custom descriptors, which
//! return methods that were bound when the object was added to a cache.

use super::c_function::{CFunction, definition};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `__enter__` and `__exit__`, bound to an object; null if they are bound on each access.
pub(super) type BoundMethods = [*mut PyObject; 2];

/// The definitions of the two methods of a type, set by [`ContextManager::install`].
pub(super) type Methods = AtomicPtr<ffi::PyMethodDef>;

/// The two methods of a type, with their texts.
pub(super) struct ContextManager {
    pub(super) enter: (&'static CStr, CFunction),
    pub(super) exit: (&'static CStr, CFunction),
    /// The offset of the [`BoundMethods`] in an object of the type.
    pub(super) bound_offset: usize,
}

/// The descriptor of one of the two methods.
#[repr(C)]
struct Binder {
    head: PyObject,
    /// The type whose objects have bound methods.
    class: *mut ffi::PyTypeObject,
    /// The offset of the bound method in an object of the type.
    offset: usize,
    definition: *mut ffi::PyMethodDef,
    /// The ordinary descriptor of the method, for access through the class.
    plain: *mut PyObject,
}

impl ContextManager {
    /// Adds the methods to a type, and stores their definitions.
    ///
    /// # Safety
    /// The functions accept objects of the type, which have [`BoundMethods`] at the offset.
    pub(super) unsafe fn install(
        self,
        class: &Bound<'_, PyAny>,
        methods: &Methods,
    ) -> PyResult<()> {
        let py = class.py();
        let definitions: &'static mut [ffi::PyMethodDef; 2] = Box::leak(Box::new([
            definition(c"__enter__", self.enter.0, self.enter.1),
            definition(c"__exit__", self.exit.0, self.exit.1),
        ]));
        let definitions = definitions.as_mut_ptr();
        methods.store(definitions, Ordering::Relaxed);
        let mut slots = [
            ffi::PyType_Slot { slot: ffi::Py_tp_descr_get, pfunc: bind as *mut c_void },
            ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
        ];
        // SAFETY: the slots are those of `Binder`.
        let binders = unsafe { new_type::<Binder>(py, c"marey._native.Binder", 0, &mut slots)? };
        for (index, name) in ["__enter__", "__exit__"].into_iter().enumerate() {
            // SAFETY: there are two definitions. The binders' type allocates objects of `Binder`'s
            // size, and the fields are filled in before any other code sees the object.
            let binder = unsafe {
                let definition = definitions.add(index);
                let plain = ffi::PyDescr_NewMethod(class.as_ptr().cast(), definition);
                let plain = Bound::from_owned_ptr_or_err(py, plain)?;
                let binder: *mut Binder =
                    ffi::PyType_GenericAlloc(binders.as_ptr().cast(), 0).cast();
                if binder.is_null() {
                    return Err(PyErr::fetch(py));
                }
                (*binder).class = class.as_ptr().cast();
                (*binder).offset = self.bound_offset + index * size_of::<*mut PyObject>();
                (*binder).definition = definition;
                (*binder).plain = plain.into_ptr();
                Bound::from_owned_ptr(py, binder.cast())
            };
            class.setattr(name, binder)?;
        }
        Ok(())
    }
}

/// Binds the methods of an object. This is a reference cycle until [`unbind`].
///
/// # Safety
/// `object` is valid, of the type with these methods, and `bound` are its bound methods, all null;
/// the GIL is held.
pub(super) unsafe fn bind_methods(
    object: *mut PyObject,
    methods: &Methods,
    bound: &mut BoundMethods,
) {
    let definitions = methods.load(Ordering::Relaxed);
    // SAFETY: guaranteed by the caller; there are two definitions of static lifetime. If an
    // allocation fails the method is null, and is bound on each access.
    unsafe {
        for (index, bound) in bound.iter_mut().enumerate() {
            *bound = ffi::PyCFunction_NewEx(definitions.add(index), object, ptr::null_mut());
            if bound.is_null() {
                ffi::PyErr_Clear();
            }
        }
    }
}

/// Unbinds the methods of an object.
///
/// # Safety
/// Each method is owned or null; the GIL is held.
pub(super) unsafe fn unbind(methods: &mut BoundMethods) {
    for bound in methods {
        let bound = std::mem::replace(bound, ptr::null_mut());
        // SAFETY: guaranteed by the caller.
        unsafe { ffi::Py_XDECREF(bound) };
    }
}

/// `Binder.__get__(object, class)`.
unsafe extern "C" fn bind(
    this: *mut PyObject,
    object: *mut PyObject,
    _class: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the slot is called on a binder with the GIL held. Only an object of the binder's type
    // is read as one.
    unsafe {
        let binder = this.cast::<Binder>();
        let is_own = !object.is_null() && ffi::Py_TYPE(object) == (*binder).class;
        if !is_own {
            ffi::Py_INCREF((*binder).plain);
            return (*binder).plain;
        }
        let bound: *mut PyObject = *object.byte_add((*binder).offset).cast();
        if !bound.is_null() {
            ffi::Py_INCREF(bound);
            return bound;
        }
        ffi::PyCFunction_NewEx((*binder).definition, object, ptr::null_mut())
    }
}

/// Makes a type whose objects are `T`s. Python code cannot instantiate it. `flags` are added to those that
/// every such type has.
///
/// # Safety
/// The slots are right for objects of `T`, end with an empty one, and point to data that outlives
/// the type. `T` begins with the head of an object.
#[expect(clippy::cast_possible_wrap, reason = "the size of a small struct")]
pub(super) unsafe fn new_type<'py, T>(
    py: Python<'py>,
    name: &'static CStr,
    flags: u32,
    slots: &mut [ffi::PyType_Slot],
) -> PyResult<Bound<'py, PyAny>> {
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size_of::<T>() as c_int,
        itemsize: 0,
        flags: flags | (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}
