//! Measured blocks: scopes whose times are kept for the program, besides what a session records.
//!
//! `measure_time("x")` costs little more than `scope("x")`: the recorder returns the two readings of
//! the clock that it makes anyway, and they are converted when the program reads its figures. Each
//! entry has its own object, because blocks of generators and tasks may overlap in any order. The object
//! that was used last for a name is used again once only the cache refers to it.

use super::c_function::{self, CFunction};
use super::context_manager::{self, BoundMethods, ContextManager, Methods};
use super::times::Times;
use super::{arguments, new_none, or_raise};
use crate::library::{is_live, table};
use crate::task;
use marey_model::context::NodeKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Number of names whose objects are kept, for each collector.
const CACHE_SIZE: usize = 64;

/// The type of [`Measurement`]: a strong reference, set when the module is made.
static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

static METHODS: Methods = Methods::new(ptr::null_mut());

/// One measured block: a context manager. Made by [`new_measurement`] only.
#[repr(C)]
struct Measurement {
    head: PyObject,
    /// Null unless the object is in a cache.
    bound: BoundMethods,
    /// A [`Times`].
    times: *mut PyObject,
    /// The string by which the object is found in a cache; null unless it is in one.
    key: *mut PyObject,
    name_id: u32,
    is_open: bool,
    start_ticks: u64,
}

/// The base class of `MetricsCollector`, which has a method `_new_times`.
#[pyclass(frozen, subclass, module = "marey._native")]
pub(crate) struct Timings {
    /// By the address of the name's string, which each object keeps alive.
    cache: [Cell<*mut Measurement>; CACHE_SIZE],
}

// SAFETY: the cells are only accessed with the GIL held.
unsafe impl Send for Timings {}
// SAFETY: as above.
unsafe impl Sync for Timings {}

#[pymethods]
impl Timings {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    #[expect(unused_variables, reason = "those of the subclass")]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { cache: [const { Cell::new(ptr::null_mut()) }; CACHE_SIZE] }
    }
}

impl Drop for Timings {
    fn drop(&mut self) {
        for entry in &self.cache {
            // SAFETY: an entry is null or an object to which the cache owns a reference. Objects
            // are freed with the GIL held.
            unsafe { release(entry.replace(ptr::null_mut())) };
        }
    }
}

impl Timings {
    #[inline(always)]
    fn entry(&self, name: *mut PyObject) -> &Cell<*mut Measurement> {
        // Objects are aligned to 16 bytes.
        &self.cache[(name as usize >> 4) % CACHE_SIZE]
    }
}

/// Takes an object out of a cache.
///
/// # Safety
/// The caller owns the cache's reference to the object, or passes null; the GIL is held.
unsafe fn release(measurement: *mut Measurement) {
    if !measurement.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe {
            context_manager::unbind(&mut (*measurement).bound);
            ffi::Py_CLEAR(&raw mut (*measurement).key);
            ffi::Py_DECREF(measurement.cast());
        }
    }
}

/// Whether only the cache refers to an object in it.
///
/// # Safety
/// `measurement` is a valid object in a cache; the GIL is held.
#[inline(always)]
unsafe fn is_idle(measurement: *mut Measurement) -> bool {
    /// The references of the cache and of the two bound methods.
    const REFERENCES: u32 = 3;
    // SAFETY: guaranteed by the caller. The methods of objects in a cache are bound.
    unsafe {
        !(*measurement).is_open
            && ffi::Py_REFCNT(measurement.cast()) as u32 == REFERENCES
            && ffi::Py_REFCNT((*measurement).bound[0]) as u32 == 1
            && ffi::Py_REFCNT((*measurement).bound[1]) as u32 == 1
    }
}

/// `Timings.measure_time(name)`.
unsafe extern "C" fn measure_time(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter passes `nargs` valid objects and an object of the class, and holds
    // the GIL.
    unsafe {
        if nargs == 1 && kwnames.is_null() {
            let name = *args;
            let measurement = timings(this).entry(name).get();
            if !measurement.is_null() && (*measurement).key == name && is_idle(measurement) {
                ffi::Py_INCREF(measurement.cast());
                return measurement.cast();
            }
            return measure_new(this, name);
        }
        match arguments::parse_name(args, nargs, kwnames) {
            Some(name) => measure_new(this, name),
            None => ptr::null_mut(),
        }
    }
}

/// Returns the Rust part of an object of the class.
///
/// # Safety
/// `this` is an object of the class or of a subclass, and lives as long as the result; the GIL is
/// held.
#[inline(always)]
unsafe fn timings<'a>(this: *mut PyObject) -> &'a Timings {
    // SAFETY: guaranteed by the caller.
    unsafe { Borrowed::from_ptr(Python::assume_attached(), this).cast_unchecked::<Timings>().get() }
}

/// Returns the times of a measurement.
///
/// # Safety
/// `measurement` is valid and outlives the result; the GIL is held.
#[inline(always)]
unsafe fn times<'a>(measurement: *mut Measurement) -> &'a Times {
    // SAFETY: `new_measurement` stores an object of this class, which the measurement owns.
    unsafe {
        let times = (*measurement).times;
        Borrowed::from_ptr(Python::assume_attached(), times).cast_unchecked::<Times>().get()
    }
}

/// Returns an object for a name that has none, or whose object is in use.
///
/// # Safety
/// `this` is an object of the class and `name` one of any; the GIL is held.
#[cold]
#[inline(never)]
unsafe fn measure_new(this: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let py = Python::assume_attached();
        let collector = Bound::from_borrowed_ptr(py, this);
        let name = Bound::from_borrowed_ptr(py, name);
        let measurement = or_raise(py, new_measurement(&collector, &name));
        if !measurement.is_null() && name.is_exact_instance_of::<PyString>() {
            timings(this).keep(measurement, name.as_ptr());
        }
        measurement.cast()
    }
}

/// Returns a new object, an owned reference.
///
/// # Safety
/// The GIL is held.
unsafe fn new_measurement(
    collector: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
) -> PyResult<*mut Measurement> {
    let times = collector.call_method1("_new_times", (name,))?.getattr("unread")?;
    let times = times.cast_into::<Times>()?;
    let name_id = times.get().name_id;
    // SAFETY: the type was made by `add_to` and allocates objects of `Measurement`'s size, filled
    // with zeros. The fields are filled in before any other code sees the object.
    unsafe {
        let measurement: *mut Measurement =
            ffi::PyType_GenericAlloc(TYPE.load(Ordering::Relaxed), 0).cast();
        if measurement.is_null() {
            return Err(PyErr::fetch(collector.py()));
        }
        (*measurement).times = times.into_ptr();
        (*measurement).name_id = name_id;
        Ok(measurement)
    }
}

impl Timings {
    /// Keeps a new object for the name `key`, unless the cache has one for it.
    ///
    /// # Safety
    /// Both are valid, the object is in no cache, and the GIL is held.
    unsafe fn keep(&self, measurement: *mut Measurement, key: *mut PyObject) {
        // SAFETY: guaranteed by the caller. The cache takes its own reference.
        unsafe {
            let entry = self.entry(key);
            let cached = entry.get();
            if !cached.is_null() && (*cached).key == key {
                return;
            }
            context_manager::bind_methods(measurement.cast(), &METHODS, &mut (*measurement).bound);
            if (*measurement).bound.contains(&ptr::null_mut()) {
                context_manager::unbind(&mut (*measurement).bound);
                return;
            }
            ffi::Py_INCREF(key);
            (*measurement).key = key;
            ffi::Py_INCREF(measurement.cast());
            release(entry.replace(measurement));
        }
    }
}

/// `Measurement.__enter__()`.
unsafe extern "C" fn enter(this: *mut PyObject, _no_args: *mut PyObject) -> *mut PyObject {
    // SAFETY: the slot is reached through an object of the type; the GIL is held.
    unsafe {
        let measurement = this.cast::<Measurement>();
        if (*measurement).is_open {
            return raise(measurement, "is being measured by this object: call measure_time again");
        }
        (*measurement).is_open = true;
        let (name_id, kind) = ((*measurement).name_id, NodeKind::Scope as u8);
        (*measurement).start_ticks = if !is_live() {
            (table().ticks)()
        } else if task::is_in_task() {
            task::enter(name_id, kind);
            (table().ticks)()
        } else {
            (table().scope_enter_timed)(name_id, kind)
        };
        ffi::Py_INCREF(this);
    }
    this
}

/// `Measurement.__exit__(type, value, traceback)`.
unsafe extern "C" fn exit(
    this: *mut PyObject,
    _args: *mut *mut PyObject,
    _nargs: ffi::Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: as in `enter`.
    unsafe {
        let measurement = this.cast::<Measurement>();
        if !(*measurement).is_open {
            return raise(measurement, "was not entered");
        }
        (*measurement).is_open = false;
        let name_id = (*measurement).name_id;
        let end_ticks = if !is_live() {
            (table().ticks)()
        } else if task::is_in_task() {
            let end_ticks = (table().ticks)();
            task::exit(name_id);
            end_ticks
        } else {
            (table().scope_exit_timed)(name_id)
        };
        times(measurement).add((*measurement).start_ticks, end_ticks);
        new_none()
    }
}

/// Sets an exception about a block, and returns null.
///
/// # Safety
/// `measurement` is valid; the GIL is held.
#[cold]
unsafe fn raise(measurement: *mut Measurement, problem: &str) -> *mut PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let py = Python::assume_attached();
        let name = times(measurement).name.bind(py).to_string_lossy().into_owned();
        PyRuntimeError::new_err(format!("the block {name:?} {problem}")).restore(py);
    }
    ptr::null_mut()
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: the last reference was released, so the object is in no cache and its methods are not
    // bound. An instance of a heap type owns a reference to the type.
    unsafe {
        let measurement = this.cast::<Measurement>();
        ffi::Py_XDECREF((*measurement).key);
        ffi::Py_XDECREF((*measurement).times);
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

const MEASURE_TIME_DOC: &CStr = c"measure_time($self, name)\n--\n\n\
Returns a context manager that measures one block: a scope, and its time.\n\n\
A block that raises is measured too. A block inside it or beside it, in a task or generator, needs\n\
an object of its own, that is, a call of its own.\n\n\
Raises:\n    TypeError: The name is not a ``str``.\n    ValueError: The name is empty.\n";

/// Adds the class of measured blocks to the module, and `measure_time` to its own class.
pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_dealloc, pfunc: dealloc as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ];
    let manager = ContextManager {
        enter: (c"Begins the block.", CFunction::NoArgs(enter)),
        exit: (c"Ends the block.", CFunction::Fast(exit)),
        bound_offset: offset_of!(Measurement, bound),
    };
    // SAFETY: the slots are those of `Measurement`; the bound methods are at this offset.
    let class = unsafe {
        let class = context_manager::new_type::<Measurement>(
            py,
            c"marey._native.Measurement",
            0,
            &mut slots,
        )?;
        manager.install(&class, &METHODS)?;
        class
    };
    TYPE.store(class.clone().into_ptr().cast(), Ordering::Relaxed);
    module.add("Measurement", class)?;
    add_measure_time(&py.get_type::<Timings>())
}

/// Adds the method `measure_time`, as a C function because its conversion of arguments would cost as
/// much as the rest.
fn add_measure_time(class: &Bound<'_, PyType>) -> PyResult<()> {
    let function = CFunction::Keywords(measure_time);
    let definition =
        Box::leak(Box::new(c_function::definition(c"measure_time", MEASURE_TIME_DOC, function)));
    // SAFETY: the definition lives forever, and the function accepts objects of the class and of
    // its subclasses.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_ptr().cast(), definition);
        Bound::from_owned_ptr_or_err(class.py(), method)?
    };
    class.setattr("measure_time", method)
}
