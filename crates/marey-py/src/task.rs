//! Scopes inside coroutines.
//!
//! An event loop runs each task in a context of its own, so a scope that a task has entered is kept
//! in a context variable and not on the thread's stack: it is right across `await`, and a task made
//! inside a scope begins inside it. The same holds for `Context.run` and worker threads that are
//! given a context.
//!
//! Whether code runs in an entered context is told by two words of the interpreter: the thread
//! state's pointer to the context, and the context's flag. Where they are is found out when the
//! module is imported, by entering a context and looking.

use crate::library::table;
use crate::metrics;
use marey_record::Detached;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Offset of `PyThreadState.context`; 0 while unknown.
static CONTEXT_OFFSET: AtomicUsize = AtomicUsize::new(0);
/// Offset of `PyContext.ctx_entered`: behind the object's head and three pointers, in CPython 3.10
/// to 3.14 (`pycore_context.h`).
const ENTERED_OFFSET: usize = 40;

/// The context variable that holds the task's innermost [`Token`].
static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// `asyncio._get_running_loop`, for interpreters whose layout is not known.
static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An entered scope of a task.
#[pyclass(frozen, module = "marey._native")]
pub(crate) struct Token {
    scope: *const Detached,
    number: u32,
    /// Kept until the scope is left. A mutex for the compiler's sake: the GIL guards it.
    parent: Mutex<Option<Py<Token>>>,
}

// SAFETY: the pointer is an `Arc<Detached>`, which is Send and Sync.
unsafe impl Send for Token {}
// SAFETY: as above.
unsafe impl Sync for Token {}

impl Drop for Token {
    fn drop(&mut self) {
        // Not by recursion: a chain of tasks may be longer than the stack is deep.
        let mut next = self.take_parent();
        while let Some(token) = next {
            // SAFETY: a valid object, and the GIL is held wherever objects are freed.
            let is_last = unsafe { ffi::Py_REFCNT(token.as_ptr()) } == 1;
            next = if is_last { token.get().take_parent() } else { None };
        }
        // SAFETY: the token owns the reference that `detached_enter` returned.
        unsafe { (table().detached_release)(self.scope) };
    }
}

impl Token {
    fn parent(&self, py: Python<'_>) -> Option<Py<Token>> {
        self.parent.lock().ok()?.as_ref().map(|parent| parent.clone_ref(py))
    }

    fn take_parent(&self) -> Option<Py<Token>> {
        self.parent.lock().ok()?.take()
    }

    /// Number of the scope's name.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Enters an operator of this thread inside the scope.
    pub(crate) fn enter_operator(&self, name: u32) -> u64 {
        // SAFETY: the token owns the scope.
        unsafe { (table().detached_operator_enter)(self.scope, name) }
    }

    /// Adds metrics to the scope.
    pub(crate) fn add_metrics(&self, metrics: &Bound<'_, PyDict>) -> PyResult<()> {
        metrics::add(metrics, |values, len, error| {
            // SAFETY: the token owns the scope; the values live until the call returns.
            unsafe { (table().detached_add_metrics)(self.scope, values, len, error) }
        })
    }
}

/// Whether the caller runs in a context that somebody entered, such as a task's.
#[inline(always)]
pub(crate) fn is_in_task() -> bool {
    let offset = CONTEXT_OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        return is_in_task_slowly();
    }
    // SAFETY: the GIL is held, so there is a thread state; `setup` has checked both offsets on this
    // interpreter.
    unsafe {
        let context = context_at(offset);
        !context.is_null() && *context.add(ENTERED_OFFSET).cast::<i32>() != 0
    }
}

/// # Safety
/// The GIL is held and `offset` is within the thread state.
#[inline(always)]
unsafe fn context_at(offset: usize) -> *const u8 {
    // SAFETY: as the caller promises.
    unsafe { *ffi::PyThreadState_Get().cast::<u8>().add(offset).cast::<*const u8>() }
}

#[cold]
fn is_in_task_slowly() -> bool {
    // SAFETY: the GIL is held: every caller is a function that the interpreter called.
    let py = unsafe { Python::assume_attached() };
    let running_loop = RUNNING_LOOP.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("_asyncio")?.getattr("_get_running_loop")?.unbind())
    });
    running_loop.is_ok_and(|get| get.call0(py).is_ok_and(|found| !found.is_none(py)))
}

/// The task's innermost scope, if the caller is in a task and inside a scope of it.
pub(crate) fn innermost(py: Python<'_>) -> Option<Bound<'_, Token>> {
    if !is_in_task() {
        return None;
    }
    let token = VARIABLE.get(py)?.call_method0(py, "get").ok()?.into_bound(py);
    token.cast_into::<Token>().ok()
}

/// Enters a scope of the task; returns its id.
#[cold]
pub(crate) fn enter(number: u32, kind: u8) -> u64 {
    // SAFETY: the GIL is held, as in `is_in_task_slowly`.
    let py = unsafe { Python::assume_attached() };
    let parent = innermost(py);
    let above = parent.as_ref().map_or(std::ptr::null(), |parent| parent.get().scope);
    // SAFETY: null, or a scope that the parent's token owns.
    let scope = unsafe { (table().detached_enter)(above, number, kind) };
    if scope.is_null() {
        return 0;
    }
    // SAFETY: just returned.
    let id = unsafe { (table().detached_id)(scope) };
    let token = Token { scope, number, parent: Mutex::new(parent.map(Bound::unbind)) };
    match Py::new(py, token) {
        Ok(token) => set(py, token.into_any()),
        Err(error) => error.write_unraisable(py, None),
    }
    id
}

/// Leaves the task's innermost scope with that name (0: with any); returns its id.
#[cold]
pub(crate) fn exit(number: u32) -> u64 {
    // SAFETY: as in `enter`.
    let py = unsafe { Python::assume_attached() };
    let mut candidate = innermost(py).map(Bound::unbind);
    while let Some(token) = candidate {
        let token = token.get();
        if number == 0 || token.number == number {
            // SAFETY: the token owns the scope.
            let id = unsafe {
                (table().detached_exit)(token.scope);
                (table().detached_id)(token.scope)
            };
            // Given up here, lest a chain of callbacks keep all that came before it.
            set(py, token.take_parent().map_or_else(|| py.None(), Py::into_any));
            return id;
        }
        candidate = token.parent(py);
    }
    // Entered before the task's context was.
    (table().scope_exit)(number)
}

fn set(py: Python<'_>, token: Py<PyAny>) {
    let result = VARIABLE.get(py).map(|variable| variable.call_method1(py, "set", (token,)));
    if let Some(Err(error)) = result {
        error.write_unraisable(py, None);
    }
}

/// Makes the context variable and finds out how to tell a task's context.
pub(crate) fn setup(py: Python<'_>) -> PyResult<()> {
    let contextvars = py.import("contextvars")?;
    let arguments = PyDict::new(py);
    arguments.set_item("default", py.None())?;
    let variable = contextvars.getattr("ContextVar")?.call(("marey_scope",), Some(&arguments))?;
    // A second import of the module finds it made.
    drop(VARIABLE.set(py, variable.unbind()));
    let context = contextvars.call_method0("copy_context")?;
    CONTEXT_OFFSET.store(find_offset(py, &context)?, Ordering::Relaxed);
    Ok(())
}

/// The offset at which the thread state points to the current context; 0 if it is not found.
fn find_offset(py: Python<'_>, context: &Bound<'_, PyAny>) -> PyResult<usize> {
    let version = py.version_info();
    let candidates: Vec<usize> = match (version.major, version.minor) {
        (3, 10) => vec![240],
        (3, 11) => vec![224],
        (3, 12 | 13) => vec![208],
        // Later thread states are larger than this by far.
        (3, 14..) => (64..400).step_by(size_of::<usize>()).collect(),
        _ => Vec::new(),
    };
    let wanted = context.as_ptr() as usize;
    let look = move |candidates: &[usize]| {
        candidates.iter().copied().find(|&offset| {
            // SAFETY: the GIL is held, and the candidates lie within the thread state of the version
            // that they are for.
            let found = unsafe { context_at(offset) };
            // SAFETY: if it is the context, it is an object of at least this size.
            found as usize == wanted && unsafe { *found.add(ENTERED_OFFSET).cast::<i32>() } == 1
        })
    };
    let inside = candidates.clone();
    let probe = PyCFunction::new_closure(py, None, None, move |_args, _kwargs| look(&inside))?;
    let found: Option<usize> = context.call_method1("run", (probe,))?.extract()?;
    // Outside, neither the pointer nor the flag may say the same.
    // SAFETY: a live context object.
    let is_entered_after =
        unsafe { *context.as_ptr().cast::<u8>().add(ENTERED_OFFSET).cast::<i32>() };
    Ok(found.filter(|_| look(&candidates).is_none() && is_entered_after == 0).unwrap_or(0))
}

/// Whether tasks are told by the interpreter's own words rather than by asking asyncio.
#[pyfunction]
pub(crate) fn task_detection_is_fast() -> bool {
    CONTEXT_OFFSET.load(Ordering::Relaxed) != 0
}
