//! Scopes, as fast as CPython lets them be.
//!
//! `scope("x")` is a fastcall function. For a string that it has seen it returns the scope object
//! that it made then: the object holds no state of an entry, so one object serves any depth, thread
//! and task. `__enter__` and `__exit__` are plain C slots that test one word and call the table.

use crate::library::{is_live, table};
use crate::metrics;
use crate::sessions::push_bytes;
use crate::task;
use marey_model::context::NodeKind;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The scope object. Made by [`new_scope`] only, and never changed.
#[repr(C)]
struct Scope {
    head: PyObject,
    name: *mut PyObject,
    /// A dict, or null.
    metrics: *mut PyObject,
    number: u32,
    kind: u8,
}

/// The type of [`Scope`]; a strong reference, set when the module is made.
static SCOPE_TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());
/// `marey._decorator.wrap`, fetched on first use; a strong reference.
static WRAP: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

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

    /// The scope without metrics for this very string, borrowed.
    #[inline(always)]
    fn get(&self, name: *mut PyObject) -> Option<*mut Scope> {
        let scope = self.entry(name).load(Ordering::Relaxed);
        // SAFETY: an entry is null or a scope that the cache holds a reference to; the GIL is held.
        (!scope.is_null() && unsafe { (*scope).name } == name).then_some(scope)
    }

    fn put(&self, name: *mut PyObject, scope: *mut Scope) {
        // SAFETY: `scope` is a valid object; the cache takes a reference of its own and gives up the
        // one that it had.
        unsafe {
            ffi::Py_INCREF(scope.cast());
            let old = self.entry(name).swap(scope, Ordering::Relaxed);
            ffi::Py_XDECREF(old.cast());
        }
    }
}

/// A string's text; what has no UTF-8 (lone surrogates) is escaped with a backslash.
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = text.to_str() {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = text.call_method1("encode", ("utf-8", "backslashreplace"))?;
    Ok(Cow::Owned(String::from_utf8_lossy(bytes.extract()?).into_owned()))
}

/// The scope for a name, from the cache or new; an owned reference, or null with an exception set.
///
/// # Safety
/// `name` is a valid object and the GIL is held.
unsafe fn scope_for(name: *mut PyObject, kind: NodeKind) -> *mut Scope {
    if kind == NodeKind::Scope
        && let Some(scope) = CACHE.get(name)
    {
        // SAFETY: a valid object.
        unsafe { ffi::Py_INCREF(scope.cast()) };
        return scope;
    }
    // SAFETY: as the caller promises.
    unsafe { new_scope(name, ptr::null_mut(), kind) }
}

/// Makes a scope. Without metrics it goes to the cache.
///
/// # Safety
/// `name` is a valid object, `metrics` one or null, and the GIL is held.
unsafe fn new_scope(name: *mut PyObject, metrics: *mut PyObject, kind: NodeKind) -> *mut Scope {
    // SAFETY: the GIL is held, as the caller promises.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: a valid object.
    let given = unsafe { Bound::from_borrowed_ptr(py, name) };
    match make(&given, metrics, kind) {
        Ok(scope) => scope,
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

fn make(given: &Bound<'_, PyAny>, metrics: *mut PyObject, kind: NodeKind) -> PyResult<*mut Scope> {
    let py = given.py();
    let Ok(name) = given.cast::<PyString>() else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a scope's name must be a str, not {kind}")));
    };
    let is_exact = given.is_exact_instance_of::<PyString>();
    let text = utf8(name)?;
    // SAFETY: the text lives until the call returns.
    let number = unsafe { (table().intern)(text.as_ptr().cast(), text.len()) };
    // A subclass may compare and hash as it likes: keep the plain string.
    let plain = if is_exact { name.clone() } else { PyString::new(py, &text) };
    let class = SCOPE_TYPE.load(Ordering::Relaxed);
    // SAFETY: the type was made by `add_to` and allocates objects of `Scope`'s size; its fields are
    // filled in before anybody else sees the object.
    let scope = unsafe {
        let scope: *mut Scope = ffi::PyType_GenericAlloc(class, 0).cast();
        if scope.is_null() {
            return Err(PyErr::fetch(py));
        }
        (*scope).name = plain.into_ptr();
        ffi::Py_XINCREF(metrics);
        (*scope).metrics = metrics;
        (*scope).number = number;
        (*scope).kind = kind as u8;
        scope
    };
    if metrics.is_null() && is_exact && kind == NodeKind::Scope {
        CACHE.put(given.as_ptr(), scope);
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
        return unsafe { scope_for(*args, NodeKind::Scope) }.cast();
    }
    // SAFETY: as above; the keywords' values follow the positional arguments.
    match unsafe { name_and_metrics(args, nargs, kwnames) } {
        // SAFETY: both are valid; the GIL is held.
        Some((name, metrics)) => unsafe { new_scope(name, metrics, NodeKind::Scope) }.cast(),
        None => ptr::null_mut(),
    }
}

/// Sorts out `(name, metrics=None)`; `None` with an exception set if that is not what was passed.
///
/// # Safety
/// The arguments of a fastcall function with keywords, with the GIL held.
unsafe fn name_and_metrics(
    args: *const *mut PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut PyObject,
) -> Option<(*mut PyObject, *mut PyObject)> {
    // SAFETY: the GIL is held.
    let py = unsafe { Python::assume_attached() };
    let mut found = [ptr::null_mut(); 2];
    let problem = |text: String| {
        PyTypeError::new_err(text).restore(py);
        None
    };
    let positional = usize::try_from(nargs).unwrap_or(0);
    if positional > found.len() {
        return problem(format!("scope() takes at most 2 arguments, {positional} were given"));
    }
    for (at, slot) in found.iter_mut().enumerate().take(positional) {
        // SAFETY: `at` is below `nargs`.
        *slot = unsafe { *args.add(at) };
    }
    if !kwnames.is_null() {
        // SAFETY: the interpreter passes a tuple of strings.
        let names = unsafe { Bound::from_borrowed_ptr(py, kwnames) };
        for (offset, name) in names.try_iter().ok()?.flatten().enumerate() {
            let name = name.to_string();
            let slot = match name.as_str() {
                "name" => &mut found[0],
                "metrics" => &mut found[1],
                _ => return problem(format!("scope() got an unexpected argument {name:?}")),
            };
            if !slot.is_null() {
                return problem(format!("scope() got two values for {name:?}"));
            }
            // SAFETY: the values of the keywords lie behind the positional arguments.
            *slot = unsafe { *args.add(positional + offset) };
        }
    }
    let [name, mut metrics] = found;
    if name.is_null() {
        return problem("scope() needs a name".to_owned());
    }
    // SAFETY: None and the arguments are valid objects.
    unsafe {
        if metrics == ffi::Py_None() {
            metrics = ptr::null_mut();
        }
        if !metrics.is_null() && ffi::PyDict_Check(metrics) == 0 {
            return problem("scope() needs a dict of metrics".to_owned());
        }
        // An empty dict that is filled before entry must still be seen: it is kept.
    }
    Some((name, metrics))
}

/// `Scope.__enter__()`.
unsafe extern "C" fn enter(this: *mut PyObject, _no_args: *mut PyObject) -> *mut PyObject {
    // SAFETY: the slot is reached through an object of the type; the GIL is held.
    unsafe {
        if is_live() {
            let scope = this.cast::<Scope>();
            enter_number((*scope).number, (*scope).kind);
            if !(*scope).metrics.is_null() && !add_metrics_of(scope) {
                return ptr::null_mut();
            }
        }
        ffi::Py_INCREF(this);
    }
    this
}

/// Enters on the thread's stack or, inside a coroutine's context, beside it. Returns the id.
#[inline(always)]
fn enter_number(number: u32, kind: u8) -> u64 {
    if task::is_in_task() { task::enter(number, kind) } else { (table().scope_enter)(number, kind) }
}

#[inline(always)]
fn exit_number(number: u32) -> u64 {
    if task::is_in_task() { task::exit(number) } else { (table().scope_exit)(number) }
}

/// Adds the scope's metrics after its entry. If they are refused, the scope is left again and an
/// exception is set: `__exit__` will not be called.
///
/// # Safety
/// `scope` is a valid scope with metrics; the GIL is held.
#[cold]
unsafe fn add_metrics_of(scope: *mut Scope) -> bool {
    // SAFETY: as the caller promises; `new_scope` accepts only dicts.
    let (py, number, metrics) = unsafe {
        let py = Python::assume_attached();
        let metrics = Bound::from_borrowed_ptr(py, (*scope).metrics);
        (py, (*scope).number, metrics.cast_into_unchecked::<PyDict>())
    };
    match add_to_innermost(&metrics) {
        Ok(()) => true,
        Err(error) => {
            exit_number(number);
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
            exit_number((*this.cast::<Scope>()).number);
        }
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
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
        return Err(PyTypeError::new_err("a scope decorates one function"));
    }
    let py = this.py();
    let mut wrap = WRAP.load(Ordering::Relaxed);
    if wrap.is_null() {
        wrap = py.import("marey._decorator")?.getattr("wrap")?.into_ptr();
        WRAP.store(wrap, Ordering::Relaxed);
    }
    // SAFETY: a strong reference that is never given up.
    let wrap = unsafe { Bound::from_borrowed_ptr(py, wrap) };
    wrap.call1((this, args.get_item(0)?))
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: the last reference to a scope is gone; its fields are owned, and a heap type's
    // instances hold a reference to it.
    unsafe {
        let scope = this.cast::<Scope>();
        ffi::Py_XDECREF((*scope).name);
        ffi::Py_XDECREF((*scope).metrics);
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

/// `push(name, kind)`: enters a scope of a kind; for marey's own hooks.
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
            enter_number((*scope).number, u8::try_from(kind).unwrap_or(NodeKind::Scope as u8));
            ffi::Py_DECREF(scope.cast());
        }
        new_none()
    }
}

/// `pop(name)`: leaves it.
unsafe extern "C" fn pop(
    _module: *mut PyObject,
    args: *mut *mut PyObject,
    nargs: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: as in `push`.
    unsafe {
        if is_live() {
            let Some(scope) = hook_scope(args, nargs, 1) else { return ptr::null_mut() };
            exit_number((*scope).number);
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
    wanted: ffi::Py_ssize_t,
) -> Option<*mut Scope> {
    // SAFETY: as the caller promises.
    unsafe {
        if nargs != wanted {
            let py = Python::assume_attached();
            PyTypeError::new_err(format!("{wanted} arguments are needed")).restore(py);
            return None;
        }
        let scope = scope_for(*args, NodeKind::Scope);
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

/// Adds metrics to the innermost scope of the task or thread.
pub(crate) fn add_to_innermost(metrics: &Bound<'_, PyDict>) -> PyResult<()> {
    match task::innermost(metrics.py()) {
        Some(token) => token.get().add_metrics(metrics),
        None => metrics::add(metrics, |values, len, error| {
            // SAFETY: `metrics::add` passes values that live until the call returns.
            unsafe { (table().add_metrics)(values, len, error) }
        }),
    }
}

/// Enters a scope; returns its id, or `None` when nothing is recorded.
#[pyfunction]
fn enter_scope(name: &Bound<'_, PyString>) -> PyResult<Option<u64>> {
    if !is_live() {
        return Ok(None);
    }
    let scope = number_of(name)?;
    Ok(Some(enter_number(scope, NodeKind::Scope as u8)).filter(|&id| id != 0))
}

/// Leaves the innermost scope; returns its id, or `None` when there is none.
#[pyfunction]
fn exit_scope() -> Option<u64> {
    if is_live() { Some(exit_number(0)).filter(|&id| id != 0) } else { None }
}

/// Enters an operator; returns its id, or `None` when nothing is recorded.
#[pyfunction]
fn enter_op(name: &Bound<'_, PyString>) -> PyResult<Option<u64>> {
    if !is_live() {
        return Ok(None);
    }
    Ok(Some((table().operator_enter)(number_of(name)?)).filter(|&id| id != 0))
}

/// Leaves the operator; returns its id, or `None` when there is none.
#[pyfunction]
fn exit_op() -> Option<u64> {
    if is_live() { Some((table().operator_exit)(0)).filter(|&id| id != 0) } else { None }
}

/// Sets a state on this thread.
#[pyfunction]
fn enter_state(name: &Bound<'_, PyString>) -> PyResult<()> {
    if is_live() {
        (table().state_enter)(number_of(name)?);
    }
    Ok(())
}

/// Ends the innermost state of this thread.
#[pyfunction]
fn exit_state() {
    if is_live() {
        (table().state_exit)();
    }
}

/// Adds metrics to the innermost scope.
#[pyfunction]
fn add_metrics(metrics: &Bound<'_, PyDict>) -> PyResult<()> {
    if is_live() { add_to_innermost(metrics) } else { Ok(()) }
}

/// Name of the innermost scope of this task or thread; `None` if there is none.
#[pyfunction]
fn innermost_name(py: Python<'_>) -> Option<String> {
    let number = match task::innermost(py) {
        Some(token) => token.get().number(),
        None => (table().top_name)(),
    };
    if number == 0 {
        return None;
    }
    let mut text: Vec<u8> = Vec::new();
    // SAFETY: `push_bytes` takes this buffer.
    unsafe { (table().name_text)(number, Some(push_bytes), (&raw mut text).cast()) };
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn number_of(name: &Bound<'_, PyString>) -> PyResult<u32> {
    // SAFETY: a valid object; the GIL is held.
    unsafe {
        let scope = scope_for(name.as_ptr(), NodeKind::Scope);
        if scope.is_null() {
            return Err(PyErr::fetch(name.py()));
        }
        let number = (*scope).number;
        ffi::Py_DECREF(scope.cast());
        Ok(number)
    }
}

const SCOPE_DOC: &CStr = c"scope(name, metrics=None)\n--\n\n\
A named region, as a context manager or a decorator.\n\n\
Args:\n    name (str): What the region is called.\n    \
metrics (dict[str, int | float | str | Sequence[int] | Sequence[float]] | None): Values to add\n        \
to the region's node at entry. A name may end in ``(inc)``, ``(exc)`` or ``(pty)``.\n\n\
Raises:\n    TypeError: The name is no str, or a value is no number.\n    \
ValueError: On entry, when a metric changes its type.\n";

/// Adds the functions and the type to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_type(module)?;
    add_raw(module, c"scope", SCOPE_DOC, Raw::Keywords(scope_function))?;
    add_raw(module, c"push", c"push(name, kind)\n--\n\nEnters a scope.", Raw::Fast(push))?;
    add_raw(module, c"pop", c"pop(name)\n--\n\nLeaves a scope.", Raw::Fast(pop))?;
    let doc = c"step_begin()\n--\n\nOpens a training step unless one is open.";
    add_raw(module, c"step_begin", doc, Raw::NoArgs(step_begin))?;
    let doc = c"step_end()\n--\n\nCloses the training step and opens the next.";
    add_raw(module, c"step_end", doc, Raw::NoArgs(step_end))?;
    for function in [
        wrap_pyfunction!(enter_scope, module)?,
        wrap_pyfunction!(exit_scope, module)?,
        wrap_pyfunction!(enter_op, module)?,
        wrap_pyfunction!(exit_op, module)?,
        wrap_pyfunction!(enter_state, module)?,
        wrap_pyfunction!(exit_state, module)?,
        wrap_pyfunction!(add_metrics, module)?,
        wrap_pyfunction!(innermost_name, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Raw {
    Keywords(ffi::PyCFunctionFastWithKeywords),
    Fast(ffi::PyCFunctionFast),
    NoArgs(ffi::PyCFunction),
}

fn add_raw(
    module: &Bound<'_, PyModule>,
    name: &'static CStr,
    doc: &'static CStr,
    raw: Raw,
) -> PyResult<()> {
    let (method, flags) = slot(raw);
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

fn slot(raw: Raw) -> (ffi::PyMethodDefPointer, c_int) {
    match raw {
        Raw::Keywords(function) => (
            ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
            ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ),
        Raw::Fast(function) => {
            (ffi::PyMethodDefPointer { PyCFunctionFast: function }, ffi::METH_FASTCALL)
        }
        Raw::NoArgs(function) => {
            (ffi::PyMethodDefPointer { PyCFunction: function }, ffi::METH_NOARGS)
        }
    }
}

#[expect(clippy::cast_possible_wrap, reason = "the size of a small struct")]
fn add_type(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let method = |name: &'static CStr, doc: &'static CStr, raw| {
        let (ml_meth, ml_flags) = slot(raw);
        ffi::PyMethodDef { ml_name: name.as_ptr(), ml_meth, ml_flags, ml_doc: doc.as_ptr() }
    };
    let methods: &'static mut [ffi::PyMethodDef] = Box::leak(Box::new([
        method(c"__enter__", c"Enters the region.", Raw::NoArgs(enter)),
        method(c"__exit__", c"Leaves the region.", Raw::Fast(exit)),
        ffi::PyMethodDef::zeroed(),
    ]));
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
    let mut spec = ffi::PyType_Spec {
        name: c"marey._native.Scope".as_ptr(),
        basicsize: size_of::<Scope>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec describes `Scope` and its slots; what it points to outlives the type.
    let class = unsafe {
        let class = ffi::PyType_FromSpec(&raw mut spec);
        Bound::from_owned_ptr_or_err(module.py(), class)?
    };
    SCOPE_TYPE.store(class.clone().into_ptr().cast(), Ordering::Relaxed);
    module.add("Scope", class)
}
