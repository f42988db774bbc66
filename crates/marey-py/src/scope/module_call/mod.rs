//! Calls of `torch.nn.Module` as scopes.
//!
//! A global hook makes PyTorch take the slow path of each call, which costs more than the scope. So
//! `Module.__call__` itself is replaced by a [`ModuleCall`], which enters the scope, calls the
//! original, and leaves the scope however the call ends. It is no Python frame, so no traceback has
//! it. PyTorch's compiler, which must see the function that it knows, gets the original instead.
//!
//! A thread's open scopes are a list in the dictionary of its thread state, which Python code
//! shares ([`thread_stack`]). An entry is `(id, name, names)`, where `names` has the names of the
//! modules inside by id. Modules that it does not know are entered by Python code.

mod object;

use super::{enter_name, exit_name, scope_for};
use crate::library::is_live;
use marey_model::context::NodeKind;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

/// The type of [`ModuleCall`]: a strong reference, set when the module is made.
static TYPE: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// `types.MethodType`, a strong reference.
static METHOD_TYPE: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// The key of the list of open scopes in the dictionary of a thread state, a strong reference.
static STACK_KEY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// The replacement of `Module.__call__`. The class and the original are always set; the other
/// references are null while it only calls the original.
#[repr(C)]
struct ModuleCall {
    head: PyObject,
    /// `Module`.
    class: *mut PyObject,
    original: *mut PyObject,
    /// Enters the scope of a module, where the fast path cannot.
    enter: *mut PyObject,
    /// Leaves it.
    leave: *mut PyObject,
    /// Whether a compiler or a tracer runs: a function, or the flag's key in `flags`.
    is_compiling: *mut PyObject,
    flags: *mut PyObject,
    /// Sets the function that PyTorch's compiler has called for each new Python frame of the
    /// thread, and returns the former one; null if there is none.
    set_frame_callback: *mut PyObject,
    /// Weak references to this object: the compiler keeps functions by them.
    weak_references: *mut PyObject,
    /// Whether the original is a plain function, which takes the module as first argument.
    is_function: bool,
    /// Whether modules may be entered by the fast path.
    is_fast: bool,
}

/// Makes the replacement of the `__call__` of a class, which calls that one and nothing else until
/// [`set_module_call`].
#[pyfunction]
pub(crate) fn wrap_module_call(
    module_class: &Bound<'_, PyAny>,
    original: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let py = original.py();
    let function_type = py.import("types")?.getattr("FunctionType")?;
    // SAFETY: the type allocates objects of this size, with all fields zero.
    unsafe {
        let call: *mut ModuleCall =
            ffi::PyType_GenericAlloc(TYPE.load(Ordering::Relaxed).cast(), 0).cast();
        if call.is_null() {
            return Err(PyErr::fetch(py));
        }
        (*call).class = module_class.clone().into_ptr();
        (*call).original = original.clone().into_ptr();
        (*call).is_function = original.get_type().is(&function_type);
        Ok(Bound::from_owned_ptr(py, call.cast()).unbind())
    }
}

/// Lets a replacement call `enter(module)` and `leave(module)` around the original, or nothing if
/// `enter` is `None`. While `flags[is_compiling]` is true, or `is_compiling()` without flags, it
/// calls the original alone. With `is_fast` a module whose name is known is entered and left as by
/// these two functions, without calling them. While they run, `set_frame_callback` keeps PyTorch's compiler
/// from compiling them.
#[pyfunction]
#[pyo3(signature = (
    call, enter, leave = None, is_compiling = None, flags = None, set_frame_callback = None, is_fast = false
))]
pub(crate) fn set_module_call(
    call: &Bound<'_, PyAny>,
    enter: Option<Bound<'_, PyAny>>,
    leave: Option<Bound<'_, PyAny>>,
    is_compiling: Option<Bound<'_, PyAny>>,
    flags: Option<Bound<'_, PyAny>>,
    set_frame_callback: Option<Bound<'_, PyAny>>,
    is_fast: bool,
) -> PyResult<()> {
    if call.get_type().as_ptr() != TYPE.load(Ordering::Relaxed) {
        return Err(PyTypeError::new_err("the call is not one that `wrap_module_call` has made"));
    }
    // SAFETY: the type is that of `ModuleCall`. Each field is owned or null, and is replaced before
    // the old value is released, which may run Python code.
    unsafe {
        let call: *mut ModuleCall = call.as_ptr().cast();
        let into_ptr =
            |object: Option<Bound<'_, PyAny>>| object.map_or(ptr::null_mut(), Bound::into_ptr);
        let old = [
            ptr::replace(&raw mut (*call).enter, into_ptr(enter)),
            ptr::replace(&raw mut (*call).leave, into_ptr(leave)),
            ptr::replace(&raw mut (*call).is_compiling, into_ptr(is_compiling)),
            ptr::replace(&raw mut (*call).flags, into_ptr(flags)),
            ptr::replace(&raw mut (*call).set_frame_callback, into_ptr(set_frame_callback)),
        ];
        (*call).is_fast = is_fast;
        for object in old {
            ffi::Py_XDECREF(object);
        }
    }
    Ok(())
}

/// Returns the list of the scopes that are open on this thread.
#[pyfunction]
pub(crate) fn thread_stack(py: Python<'_>) -> PyResult<Py<PyAny>> {
    // SAFETY: the dictionary is borrowed, and owns what is set in it.
    unsafe {
        let (stack, key) = (stack_of_thread(), STACK_KEY.load(Ordering::Relaxed));
        if !stack.is_null() {
            return Ok(Bound::from_borrowed_ptr(py, stack).unbind());
        }
        let stack = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(0))?;
        let dict = ffi::PyThreadState_GetDict();
        if !dict.is_null() && ffi::PyDict_SetItem(dict, key, stack.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(stack.unbind())
    }
}

/// Returns the list of this thread's open scopes, borrowed; null if it has none yet.
///
/// # Safety
/// The GIL is held.
unsafe fn stack_of_thread() -> *mut PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let dict = ffi::PyThreadState_GetDict();
        if dict.is_null() {
            dict
        } else {
            ffi::PyDict_GetItem(dict, STACK_KEY.load(Ordering::Relaxed))
        }
    }
}

/// A scope that the fast path has entered.
struct EnteredModule {
    /// The entry on the thread's list.
    entry: Owned,
    name_id: u32,
}

/// `ModuleCall(module, *args, **kwargs)`.
unsafe extern "C" fn call(
    this: *mut PyObject,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter passes valid objects, a dict or null, and holds the GIL. The function
    // keeps what it uses after the call, during which the object may be switched or freed.
    unsafe {
        let call = this.cast::<ModuleCall>();
        let original = OriginalMethod::of(call);
        let [enter, leave, set_frame_callback] =
            [(*call).enter, (*call).leave, (*call).set_frame_callback]
                .map(|object| Owned::new(object));
        if enter.0.is_null() || ffi::PyTuple_Size(args) == 0 || is_compiling(call) {
            return original.call(args, kwargs);
        }
        let module = ffi::PyTuple_GetItem(args, 0);
        let entered = if (*call).is_fast { enter_known(module) } else { None };
        if entered.is_none() && !call_uncompiled(&set_frame_callback, &enter, module) {
            return ptr::null_mut();
        }
        let result = original.call(args, kwargs);
        if let Some(entered) = entered
            && leave_known(&entered)
        {
            return result;
        }
        if call_uncompiled(&set_frame_callback, &leave, module) {
            return result;
        }
        ffi::Py_XDECREF(result);
        ptr::null_mut()
    }
}

/// The original method.
struct OriginalMethod {
    method: Owned,
    is_function: bool,
}

impl OriginalMethod {
    /// # Safety
    /// The call is valid; the GIL is held.
    unsafe fn of(call: *mut ModuleCall) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self { method: Owned::new((*call).original), is_function: (*call).is_function } }
    }

    /// Calls the method with these arguments, of which the first is the module. One that is no plain
    /// function is bound to the module first, as the interpreter does.
    ///
    /// # Safety
    /// The arguments are a tuple and a dict or null; the GIL is held.
    unsafe fn call(&self, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
        // SAFETY: guaranteed by the caller; the slot of a type is null or the function of the slot.
        unsafe {
            if self.is_function || ffi::PyTuple_Size(args) == 0 {
                return ffi::PyObject_Call(self.method.0, args, kwargs);
            }
            let slot = ffi::PyType_GetSlot(ffi::Py_TYPE(self.method.0), ffi::Py_tp_descr_get);
            let bound = if slot.is_null() {
                Owned::new(self.method.0)
            } else {
                let get: ffi::descrgetfunc = mem::transmute(slot);
                let module = ffi::PyTuple_GetItem(args, 0);
                Owned(get(self.method.0, module, ffi::Py_TYPE(module).cast()))
            };
            let others = Owned(ffi::PyTuple_GetSlice(args, 1, ffi::PyTuple_Size(args)));
            if bound.0.is_null() || others.0.is_null() {
                return ptr::null_mut();
            }
            ffi::PyObject_Call(bound.0, others.0, kwargs)
        }
    }
}

/// Whether a compiler or a tracer runs.
///
/// # Safety
/// The call is valid and switched on; the GIL is held.
unsafe fn is_compiling(call: *mut ModuleCall) -> bool {
    // SAFETY: guaranteed by the caller. The result of the lookup is borrowed and only compared.
    unsafe {
        if !(*call).flags.is_null() {
            return ffi::PyDict_GetItem((*call).flags, (*call).is_compiling) == ffi::Py_True();
        }
        let function = Owned::new((*call).is_compiling);
        let answer = ffi::PyObject_CallObject(function.0, ptr::null_mut());
        if answer.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let is_true = ffi::PyObject_IsTrue(answer) == 1;
        ffi::Py_DECREF(answer);
        is_true
    }
}

/// Enters the scope of a module that the innermost open scope has a name for.
///
/// # Safety
/// The module is a valid object; the GIL is held.
unsafe fn enter_known(module: *mut PyObject) -> Option<EnteredModule> {
    // SAFETY: the functions of the interpreter check the types of the list's entries, of which all
    // that marey writes are tuples of three with a dict at the end. What is borrowed from an entry
    // lives while the entry does.
    unsafe {
        let stack = stack_of_thread();
        let depth = if stack.is_null() { 0 } else { ffi::PyList_Size(stack) };
        if depth == 0 {
            return None;
        }
        let names = ffi::PyTuple_GetItem(ffi::PyList_GetItem(stack, depth - 1), 2);
        let key = Owned(ffi::PyLong_FromVoidPtr(module.cast()));
        let name = if names.is_null() || key.0.is_null() {
            ptr::null_mut()
        } else {
            ffi::PyDict_GetItem(names, key.0)
        };
        let scope = if name.is_null() { ptr::null_mut() } else { scope_for(name) };
        if scope.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let name_id = (*scope).name_id;
        let entry = Owned(ffi::PyTuple_Pack(3, key.0, name, names));
        ffi::Py_DECREF(scope.cast());
        if entry.0.is_null() || ffi::PyList_Append(stack, entry.0) != 0 {
            ffi::PyErr_Clear();
            return None;
        }
        if is_live() {
            enter_name(name_id, NodeKind::Module as u8);
        }
        Some(EnteredModule { entry, name_id })
    }
}

/// Leaves a scope that [`enter_known`] has entered, if it is the innermost one. An exception that is
/// set stays.
///
/// # Safety
/// The GIL is held.
unsafe fn leave_known(entered: &EnteredModule) -> bool {
    // SAFETY: as in `enter_known`. The entry is owned here, so its removal frees nothing else.
    unsafe {
        let stack = stack_of_thread();
        let depth = if stack.is_null() { 0 } else { ffi::PyList_Size(stack) };
        if depth == 0 || ffi::PyList_GetItem(stack, depth - 1) != entered.entry.0 {
            return false;
        }
        ffi::PyList_SetSlice(stack, depth - 1, depth, ptr::null_mut());
        if is_live() {
            exit_name(entered.name_id);
        }
        true
    }
}

/// Calls a function of Python with one argument, which PyTorch's compiler does not compile. Returns
/// false with an exception set if it fails. An exception that is set already stays, and one that the function
/// raises then is reported on stderr, unless it is to end the program, such as `KeyboardInterrupt`.
///
/// # Safety
/// All are valid objects, the first of them or null; the GIL is held.
unsafe fn call_uncompiled(
    set_frame_callback: &Owned,
    function: &Owned,
    argument: *mut PyObject,
) -> bool {
    // SAFETY: guaranteed by the caller; while a function is called, no exception is set.
    unsafe {
        let py = Python::assume_attached();
        let earlier = PyErr::take(py);
        let call = |function: *mut PyObject, argument: *mut PyObject| {
            let null = ptr::null_mut::<PyObject>();
            let result = ffi::PyObject_CallFunctionObjArgs(function, argument, null);
            Bound::from_owned_ptr_or_err(py, result)
        };
        let set = |callback| {
            let is_settable = !set_frame_callback.0.is_null();
            is_settable.then(|| call(set_frame_callback.0, callback).ok()).flatten()
        };
        let callback = set(ffi::Py_None()).filter(|callback| !callback.is_none());
        let called = call(function.0, argument);
        if let Some(callback) = callback {
            set(callback.as_ptr());
        }
        let raised = match (called, earlier) {
            (Ok(_), None) => return true,
            (Ok(_), Some(earlier)) => earlier,
            (Err(error), None) => {
                error.restore(py);
                return false;
            }
            (Err(error), Some(earlier)) if error.is_instance_of::<PyException>(py) => {
                error.write_unraisable(py, None);
                earlier
            }
            (Err(error), Some(earlier)) => {
                let context = error.value(py).setattr("__context__", earlier.value(py));
                drop(context); // fails for no exception
                error
            }
        };
        raised.restore(py);
        true
    }
}

/// A strong reference.
struct Owned(*mut PyObject);

impl Owned {
    /// # Safety
    /// A valid object; the GIL is held until the reference is dropped.
    unsafe fn new(object: *mut PyObject) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { ffi::Py_XINCREF(object) };
        Self(object)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: an owned object or null; the GIL is held.
        unsafe { ffi::Py_XDECREF(self.0) };
    }
}

/// Makes the type and the other objects that the functions need.
pub(super) fn setup(py: Python<'_>) -> PyResult<()> {
    TYPE.store(object::new_class(py)?.into_ptr(), Ordering::Relaxed);
    METHOD_TYPE.store(py.import("types")?.getattr("MethodType")?.into_ptr(), Ordering::Relaxed);
    STACK_KEY.store(PyString::new(py, "marey scopes").into_ptr().cast(), Ordering::Relaxed);
    Ok(())
}
