//! Scopes, as fast as CPython allows.
//!
//! `scope("x")` is a fastcall function. For a string that it has seen before it returns the same
//! scope object: the object has no state of an entry, so one object serves any depth, thread and
//! task. `__enter__` and `__exit__` are plain C slots that test one word and call the table.

mod arguments;
mod c_function;
pub(crate) mod calls;
mod context_manager;
mod hooks;
pub(crate) mod module_call;
mod object;
pub(crate) mod reference;
pub(crate) mod timed;
pub(crate) mod times;

use self::context_manager::{BoundMethods, Methods};
use crate::error::try_call;
use crate::library::{intern, is_live, table};
use crate::metrics;
use crate::task::{self, Token};
use crate::text::utf8;
use marey_model::context::NodeKind;
use marey_record::table::{ErrorBuffer, MetricArg};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The scope object. Made by [`new_scope`] only, and immutable.
#[repr(C)]
struct Scope {
    head: PyObject,
    name: *mut PyObject,
    /// A dict, or null.
    metrics: *mut PyObject,
    /// `__enter__` and `__exit__`, bound. Null unless the scope is in the cache.
    bound: BoundMethods,
    name_id: u32,
}

/// The type of [`Scope`]: a strong reference, set when the module is made.
static SCOPE_TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

static SCOPE_METHODS: Methods = Methods::new(ptr::null_mut());

/// Scopes by the address of their name's string, which each entry keeps alive.
struct Cache {
    entries: [AtomicPtr<Scope>; CACHE_SIZE],
}

const CACHE_SIZE: usize = 1024;

static CACHE: Cache = Cache { entries: [const { AtomicPtr::new(ptr::null_mut()) }; CACHE_SIZE] };

impl Cache {
    #[inline(always)]
    fn entry(&self, name: *mut PyObject) -> &AtomicPtr<Scope> {
        // Objects are aligned to 16 bytes.
        &self.entries[(name as usize >> 4) % CACHE_SIZE]
    }

    /// Returns the cached scope for this string object, borrowed.
    #[inline(always)]
    fn get(&self, name: *mut PyObject) -> Option<*mut Scope> {
        let scope = self.entry(name).load(Ordering::Relaxed);
        // SAFETY: an entry is null or a scope to which the cache owns a reference; the GIL is held.
        (!scope.is_null() && unsafe { (*scope).name } == name).then_some(scope)
    }

    fn insert(&self, name: *mut PyObject, scope: *mut Scope) {
        // SAFETY: `scope` is a valid object that is not in the cache. The cache takes its own
        // reference to it, and releases the one to the entry that it replaces.
        unsafe {
            ffi::Py_INCREF(scope.cast());
            context_manager::bind_methods(scope.cast(), &SCOPE_METHODS, &mut (*scope).bound);
            let old = self.entry(name).swap(scope, Ordering::Relaxed);
            if !old.is_null() {
                context_manager::unbind(&mut (*old).bound);
                ffi::Py_DECREF(old.cast());
            }
        }
    }
}

/// Returns the scope for a name, from the cache or new: an owned reference, or null with an
/// exception set.
///
/// # Safety
/// `name` is a valid object and the GIL is held.
unsafe fn scope_for(name: *mut PyObject) -> *mut Scope {
    if let Some(scope) = CACHE.get(name) {
        // SAFETY: a valid object.
        unsafe { ffi::Py_INCREF(scope.cast()) };
        return scope;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { new_scope(name, ptr::null_mut()) }
}

/// Creates a scope. Without metrics it is added to the cache.
///
/// # Safety
/// `name` is a valid object, `metrics` is one or null, and the GIL is held.
unsafe fn new_scope(name: *mut PyObject, metrics: *mut PyObject) -> *mut Scope {
    // SAFETY: guaranteed by the caller.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: a valid object.
    let object = unsafe { Bound::from_borrowed_ptr(py, name) };
    or_raise(py, create_scope(&object, metrics))
}

/// Returns the pointer, or null with the exception set.
fn or_raise<T>(py: Python<'_>, result: PyResult<*mut T>) -> *mut T {
    result.unwrap_or_else(|error| {
        error.restore(py);
        ptr::null_mut()
    })
}

fn create_scope(object: &Bound<'_, PyAny>, metrics: *mut PyObject) -> PyResult<*mut Scope> {
    let py = object.py();
    let Ok(name) = object.cast::<PyString>() else {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a scope's name must be a str, not {kind}")));
    };
    let is_exact = object.is_exact_instance_of::<PyString>();
    let text = utf8(name)?;
    let name_id = intern(&text);
    // A subclass may override comparison and hash: keep the plain string.
    let plain = if is_exact { name.clone() } else { PyString::new(py, &text) };
    let class = SCOPE_TYPE.load(Ordering::Relaxed);
    // SAFETY: the type was made by `add_to` and allocates objects of `Scope`'s size. The fields are
    // filled in before any other code sees the object.
    let scope = unsafe {
        let scope: *mut Scope = ffi::PyType_GenericAlloc(class, 0).cast();
        if scope.is_null() {
            return Err(PyErr::fetch(py));
        }
        (*scope).name = plain.into_ptr();
        ffi::Py_XINCREF(metrics);
        (*scope).metrics = metrics;
        (*scope).name_id = name_id;
        scope
    };
    if metrics.is_null() && is_exact {
        CACHE.insert(object.as_ptr(), scope);
    }
    Ok(scope)
}

/// `scope(name, metrics=None)`.
unsafe extern "C" fn scope_function(
    _module: *mut PyObject,
    args: *const *mut PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    if nargs == 1 && kwnames.is_null() {
        // SAFETY: the interpreter passes `nargs` valid objects and holds the GIL.
        return unsafe { scope_for(*args) }.cast();
    }
    // SAFETY: as above; the keywords' values follow the positional arguments.
    match unsafe { arguments::parse_name_and_metrics(args, nargs, kwnames) } {
        // SAFETY: both are valid; the GIL is held.
        Some((name, metrics)) => unsafe { new_scope(name, metrics) }.cast(),
        None => ptr::null_mut(),
    }
}

/// `Scope.__enter__()`.
unsafe extern "C" fn enter(this: *mut PyObject, _no_args: *mut PyObject) -> *mut PyObject {
    // SAFETY: the slot is reached through an object of the type; the GIL is held.
    unsafe {
        if is_live() {
            let scope = this.cast::<Scope>();
            enter_name((*scope).name_id, NodeKind::Scope as u8);
            if !(*scope).metrics.is_null() && !add_entry_metrics(scope) {
                return ptr::null_mut();
            }
        }
        ffi::Py_INCREF(this);
    }
    this
}

/// Enters a scope on the thread's stack or, inside a coroutine's context, in that context. Returns
/// the id.
#[inline(always)]
fn enter_name(name_id: u32, kind: u8) -> u64 {
    if task::is_in_task() {
        task::enter(name_id, kind)
    } else {
        (table().scope_enter)(name_id, kind)
    }
}

#[inline(always)]
fn exit_name(name_id: u32) -> u64 {
    if task::is_in_task() { task::exit(name_id) } else { (table().scope_exit)(name_id) }
}

/// Adds the scope's metrics after its entry. If they are refused, exits the scope, because
/// `__exit__` will not be called, and sets an exception.
///
/// # Safety
/// `scope` is a valid scope with metrics; the GIL is held.
#[cold]
unsafe fn add_entry_metrics(scope: *mut Scope) -> bool {
    // SAFETY: guaranteed by the caller; `new_scope` accepts only dicts.
    let (py, name_id, metrics) = unsafe {
        let py = Python::assume_attached();
        let metrics = Bound::from_borrowed_ptr(py, (*scope).metrics);
        (py, (*scope).name_id, metrics.cast_into_unchecked::<PyDict>())
    };
    match add_to_innermost(&metrics) {
        Ok(()) => true,
        Err(error) => {
            exit_name(name_id);
            error.restore(py);
            false
        }
    }
}

/// `Scope.__exit__(type, value, traceback)`.
unsafe extern "C" fn exit(
    this: *mut PyObject,
    _args: *mut *mut PyObject,
    _nargs: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: as in `enter`.
    unsafe {
        if is_live() {
            exit_name((*this.cast::<Scope>()).name_id);
        }
        new_none()
    }
}

/// Adds metrics to the innermost scope of the task or thread.
pub(crate) fn add_to_innermost(metrics: &Bound<'_, PyDict>) -> PyResult<()> {
    let token = task::innermost_token(metrics.py());
    metrics::convert_and_add(metrics, |values, error| {
        // SAFETY: `convert_and_add` passes values that live until the call returns.
        unsafe { add_values(token.as_ref(), values, error) }
    })
}

/// Adds values to the innermost scope of the task or thread.
///
/// # Safety
/// The data of the values is readable until the call returns.
pub(crate) unsafe fn add_values_to_innermost(py: Python<'_>, values: &[MetricArg]) -> PyResult<()> {
    let token = task::innermost_token(py);
    // SAFETY: guaranteed by the caller.
    try_call(|error| unsafe { add_values(token.as_ref(), values, error) }).map(drop)
}

/// Adds values to the scope of a task, or else to the innermost scope of the thread.
///
/// # Safety
/// As for [`add_values_to_innermost`].
unsafe fn add_values(
    token: Option<&Bound<'_, Token>>,
    values: &[MetricArg],
    error: &mut ErrorBuffer,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match token {
            Some(token) => token.get().add_values(values, error),
            None => (table().add_metrics)(values.as_ptr(), values.len(), Some(error)),
        }
    }
}

/// # Safety
/// The GIL is held.
unsafe fn new_none() -> *mut PyObject {
    // SAFETY: None is valid.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

const SCOPE_DOC: &CStr = c"scope(name, metrics=None)\n--\n\n\
A named region, as a context manager or a decorator.\n\n\
Args:\n    name (str): What the region is called.\n    \
metrics (dict[str, int | float | str | Sequence[int] | Sequence[float]] | None): Values to add\n        \
to the region's node at entry. A name may end in ``(inc)``, ``(exc)`` or ``(pty)``.\n\n\
Raises:\n    TypeError: The name is no str, or a value is no number.\n    \
ValueError: On entry, when a metric changes its type.\n";

/// Adds the C functions and the types of scopes to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    object::add_type(module)?;
    c_function::add_c_function(
        module,
        c"scope",
        SCOPE_DOC,
        c_function::CFunction::Keywords(scope_function),
    )?;
    hooks::add_to(module)?;
    module_call::setup(module.py())?;
    timed::add_to(module)
}
