//! Finds the calling thread's interpreter state, whether or not the thread holds the GIL, and lets
//! the thread call into Python. The frame provider and the task provider use it at each launch.

mod gate;

use gate::GateGuard;
use pyo3::ffi::{self, PyObject, PyThreadState};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Functions of CPython that are exported but not in the stable ABI.
struct CpythonFunctions {
    /// Returns the caller's state if the caller holds the GIL. On CPython 3.10 and 3.11 returns the
    /// state of whichever thread holds the GIL.
    gil_holder_state: extern "C" fn() -> *mut PyThreadState,
    /// Whether the caller holds the GIL. Always true once the process has had subinterpreters.
    holds_gil: extern "C" fn() -> i32,
}

static FUNCTIONS: OnceLock<Option<CpythonFunctions>> = OnceLock::new();

/// A thread that runs Python.
pub(crate) struct Thread {
    state: *mut PyThreadState,
    /// Keeps the state valid while the thread does not hold the GIL. `None` if it holds it.
    gate_guard: Option<GateGuard>,
}

/// Allows [`Thread::current`] on threads without the GIL, until the interpreter shuts down.
pub(crate) fn allow_access_without_gil(py: Python<'_>) -> PyResult<()> {
    static ALLOWED: PyOnceLock<()> = PyOnceLock::new();
    ALLOWED.get_or_try_init(py, || gate::open(py)).map(|&()| ())
}

impl Thread {
    /// Returns the calling thread. `None` if it runs no Python, or if its state may be invalid.
    #[inline(always)]
    pub(crate) fn current() -> Option<Self> {
        let functions = FUNCTIONS.get_or_init(CpythonFunctions::find).as_ref()?;
        // SAFETY: any thread may call this function at any time.
        let state = unsafe { ffi::PyGILState_GetThisThreadState() };
        if state.is_null() {
            return None;
        }
        if (functions.gil_holder_state)() == state {
            return Some(Self { state, gate_guard: None });
        }
        // The thread seems to hold the GIL with another state, so there are subinterpreters. It may
        // have a state in each, and which one is current is unknown.
        if (functions.holds_gil)() != 0 {
            return None;
        }
        Some(Self { state, gate_guard: Some(GateGuard::enter()?) })
    }

    /// Returns the calling thread, which holds the GIL.
    pub(crate) fn attached(_py: Python<'_>) -> Self {
        // SAFETY: the GIL is held.
        Self { state: unsafe { ffi::PyThreadState_Get() }, gate_guard: None }
    }

    /// Returns the thread's state, which is valid as long as `self`.
    #[inline(always)]
    pub(crate) fn state(&self) -> *mut PyThreadState {
        self.state
    }

    /// Attaches the thread so that it may call into Python. Waits for the GIL if the thread does
    /// not hold it.
    pub(crate) fn attach(&self) -> Attached<'_> {
        // SAFETY: the thread has a state, and inside the gate the interpreter does not shut down.
        let gil_state = self.gate_guard.as_ref().map(|_| unsafe { ffi::PyGILState_Ensure() });
        let mut exception = [null_mut(); 3];
        let [class, value, traceback] = &mut exception;
        // SAFETY: the GIL is held, and the three are writable.
        let was_gc_enabled = unsafe {
            ffi::PyErr_Fetch(class, value, traceback);
            ffi::PyGC_Disable() != 0
        };
        Attached { _thread: self, gil_state, exception, was_gc_enabled }
    }
}

/// A guard that lets the thread call into Python. Its drop restores the exception state and garbage
/// collection.
pub(crate) struct Attached<'thread> {
    _thread: &'thread Thread,
    gil_state: Option<ffi::PyGILState_STATE>,
    /// The exception that the thread was raising.
    exception: [*mut PyObject; 3],
    /// Whether garbage collection was enabled. It is disabled while this lives, because finalizers
    /// of the program would run in the middle of a launch, where they may not launch or free
    /// anything.
    was_gc_enabled: bool,
}

impl Attached<'_> {
    #[expect(clippy::unused_self, reason = "the token lives no longer than the call")]
    pub(crate) fn py(&self) -> Python<'_> {
        // SAFETY: the GIL is held as long as this lives.
        unsafe { Python::assume_attached() }
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        let [class, value, traceback] = self.exception;
        // SAFETY: the GIL is held; the exception was taken by `PyErr_Fetch`; `gil_state` comes from
        // the matching call on this thread.
        unsafe {
            if self.was_gc_enabled {
                ffi::PyGC_Enable();
            }
            ffi::PyErr_Restore(class, value, traceback);
            if let Some(gil_state) = self.gil_state {
                ffi::PyGILState_Release(gil_state);
            }
        }
    }
}

impl CpythonFunctions {
    fn find() -> Option<Self> {
        // CPython 3.13 made the first one public and removed the older name.
        let gil_holder_state = find_function(c"PyThreadState_GetUnchecked")
            .or_else(|| find_function(c"_PyThreadState_UncheckedGet"))?;
        let holds_gil = find_function(c"PyGILState_Check")?;
        // SAFETY: in every version the functions of these names have these types.
        unsafe {
            Some(Self {
                gil_holder_state: std::mem::transmute::<usize, extern "C" fn() -> *mut PyThreadState>(
                    gil_holder_state,
                ),
                holds_gil: std::mem::transmute::<usize, extern "C" fn() -> i32>(holds_gil),
            })
        }
    }
}

/// Returns the address of a function in the loaded libraries.
fn find_function(name: &CStr) -> Option<usize> {
    // SAFETY: `name` is a C string, and the default handle searches the loaded libraries.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}
