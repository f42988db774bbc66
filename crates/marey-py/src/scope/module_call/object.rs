//! The replacement of `Module.__call__` as an object: how it is bound, what it equals, and its
//! attributes. PyTorch's compiler must see the function that it knows.

use super::super::context_manager::new_type;
use super::super::or_raise;
use super::{METHOD_TYPE, ModuleCall, TYPE, call};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::Ordering;

/// A method is looked up on the type and called with the object, without being bound to it.
const METHOD_DESCRIPTOR: u32 = 1 << 17;

/// `ModuleCall.__get__(module, class)`.
unsafe extern "C" fn get(
    this: *mut PyObject,
    module: *mut PyObject,
    _class: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter passes valid objects or null, and holds the GIL.
    unsafe {
        let original = (*this.cast::<ModuleCall>()).original;
        let is_bound = !module.is_null() && module != ffi::Py_None();
        let is_for_compiler = if is_bound {
            is_bound_for_compiler(original, module)
        } else {
            caller_is(|name| name == COMPILER_CONSTANTS)
        };
        let function = if is_for_compiler { original } else { this };
        if !is_bound {
            ffi::Py_INCREF(function);
            return function;
        }
        let method_type = METHOD_TYPE.load(Ordering::Relaxed);
        let null = ptr::null_mut::<PyObject>();
        ffi::PyObject_CallFunctionObjArgs(method_type, function, module, null)
    }
}

/// The Python package of PyTorch's compiler.
const COMPILER: &str = "torch._dynamo";

/// The module of the compiler that keeps the function of `Module.__call__`, to compare those of bound
/// methods with it.
const COMPILER_CONSTANTS: &str = "torch._dynamo.utils";

/// Whether PyTorch's compiler looks the method up on an object, and not to call it: the module by
/// which a program calls a compiled one has a class of the compiler, which calls what it overrides.
///
/// # Safety
/// Both are valid objects; the GIL is held.
unsafe fn is_bound_for_compiler(original: *mut PyObject, module: *mut PyObject) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !caller_is(|name| name.starts_with(COMPILER)) {
            return false;
        }
        let class = Bound::from_borrowed_ptr(Python::assume_attached(), module).get_type();
        let has_text = |attribute: Bound<'_, PyAny>| {
            attribute.extract::<Cow<'_, str>>().is_ok_and(|name| name.starts_with(COMPILER))
        };
        let is_overridden = class.getattr("__call__").is_ok_and(|call| {
            call.as_ptr() != original
                && ffi::Py_TYPE(call.as_ptr()) != TYPE.load(Ordering::Relaxed).cast()
        });
        !(is_overridden && class.getattr("__module__").is_ok_and(has_text))
    }
}

/// Whether the name of the innermost Python frame's module meets a condition.
///
/// # Safety
/// The GIL is held.
unsafe fn caller_is(condition: impl FnOnce(&str) -> bool) -> bool {
    // SAFETY: guaranteed by the caller; the globals are borrowed.
    unsafe {
        let globals = ffi::PyEval_GetGlobals();
        if globals.is_null() {
            return false;
        }
        let name = ffi::PyDict_GetItemString(globals, c"__name__".as_ptr());
        Bound::from_borrowed_ptr_or_opt(Python::assume_attached(), name)
            .is_some_and(|name| name.extract::<Cow<'_, str>>().is_ok_and(|name| condition(&name)))
    }
}

/// `ModuleCall == other`: it equals its original, as the compiler compares them.
unsafe extern "C" fn compare(
    this: *mut PyObject,
    other: *mut PyObject,
    operation: c_int,
) -> *mut PyObject {
    // SAFETY: the interpreter passes valid objects, the first of this type, and holds the GIL.
    unsafe {
        let is_equal = this == other || (*this.cast::<ModuleCall>()).original == other;
        let answer = match operation {
            ffi::Py_EQ if is_equal => ffi::Py_True(),
            ffi::Py_NE if is_equal => ffi::Py_False(),
            _ => ffi::Py_NotImplemented(),
        };
        ffi::Py_INCREF(answer);
        answer
    }
}

/// `hash(ModuleCall)`: that of the original, which it equals.
unsafe extern "C" fn hash(this: *mut PyObject) -> ffi::Py_hash_t {
    // SAFETY: a valid object, whose original is never null.
    unsafe { ffi::PyObject_Hash((*this.cast::<ModuleCall>()).original) }
}

/// The attributes of the replacement itself; all others are those of the original. With its class
/// and its code, the compiler traces through a replacement that it finds in the dictionary of `Module`.
const OWN_ATTRIBUTES: [&CStr; 8] = [
    c"__call__",
    c"__get__",
    c"__eq__",
    c"__ne__",
    c"__hash__",
    c"__reduce__",
    c"__reduce_ex__",
    c"__wrapped__",
];

/// `getattr(ModuleCall, name)`.
unsafe extern "C" fn get_attribute(this: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter passes valid objects, the name as a text, and holds the GIL.
    unsafe {
        let is_own = OWN_ATTRIBUTES
            .iter()
            .any(|own| ffi::PyUnicode_CompareWithASCIIString(name, own.as_ptr()) == 0);
        if is_own {
            ffi::PyObject_GenericGetAttr(this, name)
        } else {
            ffi::PyObject_GetAttr((*this.cast::<ModuleCall>()).original, name)
        }
    }
}

/// `setattr(ModuleCall, name, value)`, or `delattr` without a value: changes the original.
unsafe extern "C" fn set_attribute(
    this: *mut PyObject,
    name: *mut PyObject,
    value: *mut PyObject,
) -> c_int {
    // SAFETY: the interpreter passes valid objects, the value or null, and holds the GIL.
    unsafe { ffi::PyObject_SetAttr((*this.cast::<ModuleCall>()).original, name, value) }
}

/// `ModuleCall.__reduce__()`: copies and pickles are `Module.__call__`.
unsafe extern "C" fn reduce(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    // SAFETY: a valid object, whose class is never null; the GIL is held.
    unsafe {
        let py = Python::assume_attached();
        let class = Bound::from_borrowed_ptr(py, (*this.cast::<ModuleCall>()).class);
        let get = || py.import("builtins")?.getattr("getattr");
        let reduced = get().and_then(|get| (get, (class, "__call__")).into_pyobject(py));
        or_raise(py, reduced.map(|reduced| reduced.into_any().into_ptr()))
    }
}

/// `ModuleCall.__wrapped__`, for `inspect`.
unsafe extern "C" fn get_wrapped(this: *mut PyObject, _closure: *mut c_void) -> *mut PyObject {
    // SAFETY: a valid object, whose original is never null.
    unsafe {
        Bound::from_borrowed_ptr(Python::assume_attached(), (*this.cast::<ModuleCall>()).original)
            .into_ptr()
    }
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: the last reference was released. The fields are owned or null, and an instance of a
    // heap type owns a reference to the type.
    unsafe {
        let call = this.cast::<ModuleCall>();
        if !(*call).weak_references.is_null() {
            ffi::PyObject_ClearWeakRefs(this);
        }
        let call = &*call;
        for object in [
            call.class,
            call.original,
            call.enter,
            call.leave,
            call.is_compiling,
            call.flags,
            call.set_frame_callback,
        ] {
            ffi::Py_XDECREF(object);
        }
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// Makes the type.
pub(super) fn new_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let property = |name: *const c_char, get: Option<ffi::getter>| ffi::PyGetSetDef {
        name,
        get,
        set: None,
        doc: ptr::null(),
        closure: ptr::null_mut(),
    };
    let properties = Box::leak(Box::new([
        property(c"__wrapped__".as_ptr(), Some(get_wrapped)),
        property(ptr::null(), None),
    ]));
    let methods = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"__reduce__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: reduce },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: ptr::null(),
        },
        ffi::PyMethodDef::zeroed(),
    ]));
    let member = |name: *const c_char, type_code, offset: usize| ffi::PyMemberDef {
        name,
        type_code,
        offset: offset.cast_signed(),
        flags: ffi::Py_READONLY,
        doc: ptr::null(),
    };
    let weak = offset_of!(ModuleCall, weak_references);
    let members = Box::leak(Box::new([
        member(c"__weaklistoffset__".as_ptr(), ffi::Py_T_PYSSIZET, weak),
        member(ptr::null(), 0, 0),
    ]));
    let entry = |slot, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        entry(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        entry(ffi::Py_tp_getset, properties.as_mut_ptr().cast()),
        entry(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        entry(ffi::Py_tp_getattro, get_attribute as *mut c_void),
        entry(ffi::Py_tp_setattro, set_attribute as *mut c_void),
        entry(ffi::Py_tp_call, call as *mut c_void),
        entry(ffi::Py_tp_descr_get, get as *mut c_void),
        entry(ffi::Py_tp_richcompare, compare as *mut c_void),
        entry(ffi::Py_tp_hash, hash as *mut c_void),
        entry(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        entry(0, ptr::null_mut()),
    ];
    // SAFETY: the slots are those of `ModuleCall`; what they point to outlives the type.
    unsafe {
        new_type::<ModuleCall>(py, c"marey._native.ModuleCall", METHOD_DESCRIPTOR, &mut slots)
    }
}
