//! The calling thread as the interpreter knows it, with the GIL or without.

mod gate;

use gate::Inside;
use pyo3::ffi::{self, PyObject, PyThreadState};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Functions that are exported but not in the stable ABI.
struct Functions {
    /// The state of the thread that holds the GIL: the caller, or on CPython 3.10 and 3.11 any.
    holder: extern "C" fn() -> *mut PyThreadState,
    /// Whether the caller holds the GIL; yes at all times once there were subinterpreters.
    check: extern "C" fn() -> i32,
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// A thread that runs Python.
pub(crate) struct Thread {
    state: *mut PyThreadState,
    /// Why the state stays, where the thread does not hold the GIL.
    inside: Option<Inside>,
}

/// Lets threads without the GIL be looked at, until the interpreter ends.
pub(crate) fn allow_without_gil(py: Python<'_>) -> PyResult<()> {
    static ALLOWED: PyOnceLock<()> = PyOnceLock::new();
    ALLOWED.get_or_try_init(py, || gate::open(py)).map(|&()| ())
}

impl Thread {
    /// The calling thread; `None` where it runs no Python, or its state is not known to be alive.
    #[inline(always)]
    pub(crate) fn current() -> Option<Self> {
        let functions = FUNCTIONS.get_or_init(Functions::find).as_ref()?;
        // SAFETY: it may be called by any thread at any time.
        let state = unsafe { ffi::PyGILState_GetThisThreadState() };
        if state.is_null() {
            return None;
        }
        if (functions.holder)() == state {
            return Some(Self { state, inside: None });
        }
        // A thread may have a state in each subinterpreter, and which of them it runs is not known.
        if (functions.check)() != 0 {
            return None;
        }
        Some(Self { state, inside: Some(Inside::enter()?) })
    }

    /// The calling thread, which holds the GIL.
    pub(crate) fn attached(_py: Python<'_>) -> Self {
        // SAFETY: the GIL is held.
        Self { state: unsafe { ffi::PyThreadState_Get() }, inside: None }
    }

    /// Its state, which stays as long as `self`.
    #[inline(always)]
    pub(crate) fn state(&self) -> *mut PyThreadState {
        self.state
    }

    /// Lets the thread call into Python, which waits for the GIL if the thread does not hold it.
    pub(crate) fn call(&self) -> Call<'_> {
        // SAFETY: the thread has a state, and inside the gate the interpreter does not end.
        let ensured = self.inside.as_ref().map(|_| unsafe { ffi::PyGILState_Ensure() });
        let mut raised = [null_mut(); 3];
        let [class, value, traceback] = &mut raised;
        // SAFETY: the GIL is held, and the three are writable.
        let collects = unsafe {
            ffi::PyErr_Fetch(class, value, traceback);
            ffi::PyGC_Disable() != 0
        };
        Call { _thread: self, ensured, raised, collects }
    }
}

/// A time in which Python may be called, and after which it is as if it had not been.
pub(crate) struct Call<'thread> {
    _thread: &'thread Thread,
    ensured: Option<ffi::PyGILState_STATE>,
    /// The exception that the thread was raising.
    raised: [*mut PyObject; 3],
    /// Whether garbage was collected before. It is not meanwhile: finalizers of the program would run
    /// in the midst of its launch, where they may not launch or free anything.
    collects: bool,
}

impl Call<'_> {
    #[expect(clippy::unused_self, reason = "the token lives no longer than the call")]
    pub(crate) fn py(&self) -> Python<'_> {
        // SAFETY: the GIL is held as long as this lives.
        unsafe { Python::assume_attached() }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let [class, value, traceback] = self.raised;
        // SAFETY: the GIL is held; the exception is ours to give back; `ensured` comes from the call
        // on this thread that this one ends.
        unsafe {
            if self.collects {
                ffi::PyGC_Enable();
            }
            ffi::PyErr_Restore(class, value, traceback);
            if let Some(ensured) = self.ensured {
                ffi::PyGILState_Release(ensured);
            }
        }
    }
}

impl Functions {
    fn find() -> Option<Self> {
        // Public since CPython 3.13, where the older name is gone.
        let holder =
            find(c"PyThreadState_GetUnchecked").or_else(|| find(c"_PyThreadState_UncheckedGet"))?;
        let check = find(c"PyGILState_Check")?;
        // SAFETY: the functions of these names have these types in every version.
        unsafe {
            Some(Self {
                holder: std::mem::transmute::<usize, extern "C" fn() -> *mut PyThreadState>(holder),
                check: std::mem::transmute::<usize, extern "C" fn() -> i32>(check),
            })
        }
    }
}

/// The address of a function in what is loaded.
fn find(name: &CStr) -> Option<usize> {
    // SAFETY: a C string; the default handle searches what is loaded.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}
