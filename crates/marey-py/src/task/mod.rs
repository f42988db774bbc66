//! Scopes inside coroutines.
//!
//! An event loop runs each task in a context of its own. So a scope that a task enters is stored in
//! a context variable and not on the thread's stack. It stays correct across `await`, and a task
//! that is made inside a scope begins inside it. The same applies to `Context.run` and to worker
//! threads that run in a copied context.
//!
//! Launches of a task belong to its innermost scope. [`launches`] finds that scope also on a thread
//! without the GIL, as most launches come.

mod context;
mod launches;

use crate::library::table;
use marey_record::Detached;
use marey_record::table::{ErrorBuffer, MetricArg};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::sync::Mutex;

/// The context variable that holds the task's innermost [`Token`].
static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// `asyncio._get_running_loop`, for interpreters whose layout is not known.
static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An entered scope of a task.
#[pyclass(frozen, module = "marey._native")]
pub(crate) struct Token {
    scope: *const Detached,
    /// The id of the scope's interned name.
    name_id: u32,
    /// The parent scope, until this scope is exited. The GIL guards it. The mutex only satisfies
    /// the compiler.
    parent: Mutex<Option<Py<Token>>>,
}

// SAFETY: the pointer is an `Arc<Detached>`, which is Send and Sync.
unsafe impl Send for Token {}
// SAFETY: the pointer is an `Arc<Detached>`, which is Send and Sync.
unsafe impl Sync for Token {}

impl Drop for Token {
    fn drop(&mut self) {
        // A loop frees the parents, because a chain of tasks may be too long for recursion.
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

    /// Returns the id of the scope's interned name.
    pub(crate) fn name_id(&self) -> u32 {
        self.name_id
    }

    /// Enters an operator of this thread below the scope.
    pub(crate) fn enter_operator(&self, name_id: u32) -> u64 {
        (table().detached_operator_enter)(self.scope(), name_id)
    }

    /// Adds values to the scope.
    ///
    /// # Safety
    /// The data of the values is readable until the call returns.
    pub(crate) unsafe fn add_values(&self, values: &[MetricArg], error: &mut ErrorBuffer) -> i32 {
        let (values, len) = (values.as_ptr(), values.len());
        // SAFETY: guaranteed by the caller.
        unsafe { (table().detached_add_metrics)(self.scope(), values, len, Some(error)) }
    }

    fn scope(&self) -> Option<&Detached> {
        // SAFETY: the token owns the scope.
        unsafe { self.scope.as_ref() }
    }
}

/// Whether the caller runs in a task, or in another entered context such as that of `Context.run`.
///
/// From CPython 3.14 on, `threading` runs each whole thread in an entered context. Such a context
/// counts only if a task has entered a scope in it, or in the context that it was copied from.
#[inline(always)]
pub(crate) fn is_in_task() -> bool {
    if !context::is_offset_known() {
        return is_in_task_slowly();
    }
    // SAFETY: the GIL is held, so there is a thread state, which is the caller's.
    unsafe {
        match context::entered_context(ffi::PyThreadState_Get()) {
            // The thread may have begun in a copy of a task's context.
            Some(context) if context::may_be_thread_context(context) => {
                launches::is_in_scope(context)
            }
            Some(_) => true,
            None => false,
        }
    }
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

/// Returns the task's innermost scope, if the caller is in a task and inside a scope of it.
pub(crate) fn innermost_token(py: Python<'_>) -> Option<Bound<'_, Token>> {
    if is_in_task() { context_token(py) } else { None }
}

/// Returns the token in the caller's context.
fn context_token(py: Python<'_>) -> Option<Bound<'_, Token>> {
    let token = VARIABLE.get(py)?.call_method0(py, "get").ok()?.into_bound(py);
    token.cast_into::<Token>().ok()
}

/// Enters a scope of the task. Returns the id of the scope, 0 if it is not recorded.
#[cold]
pub(crate) fn enter(name_id: u32, kind: u8) -> u64 {
    // SAFETY: the GIL is held, as in `is_in_task_slowly`.
    let py = unsafe { Python::assume_attached() };
    launches::register(py);
    let parent = innermost_token(py);
    let parent_scope = parent.as_ref().map_or(std::ptr::null(), |parent| parent.get().scope);
    // SAFETY: null, or a scope that the parent's token owns.
    let scope = unsafe { (table().detached_enter)(parent_scope, name_id, kind) };
    if scope.is_null() {
        return 0;
    }
    let token = Token { scope, name_id, parent: Mutex::new(parent.map(Bound::unbind)) };
    let id = (table().detached_id)(token.scope());
    match Py::new(py, token) {
        Ok(token) => set_innermost_token(py, token.into_any()),
        Err(error) => error.write_unraisable(py, None),
    }
    id
}

/// Exits the task's innermost scope with that name (0: any name). Returns its id.
#[cold]
pub(crate) fn exit(name_id: u32) -> u64 {
    // SAFETY: the GIL is held, as in `is_in_task_slowly`.
    let py = unsafe { Python::assume_attached() };
    let mut candidate = innermost_token(py).map(Bound::unbind);
    while let Some(token) = candidate {
        let token = token.get();
        if name_id == 0 || token.name_id == name_id {
            (table().detached_exit)(token.scope());
            let id = (table().detached_id)(token.scope());
            // The exited token gives up its parent, so that a chain of callbacks does not keep all
            // earlier tokens alive.
            set_innermost_token(py, token.take_parent().map_or_else(|| py.None(), Py::into_any));
            return id;
        }
        candidate = token.parent(py);
    }
    // No token has the name, so the scope was entered on the thread, before the task's context.
    (table().scope_exit)(name_id)
}

fn set_innermost_token(py: Python<'_>, token: Py<PyAny>) {
    let result = VARIABLE.get(py).map(|variable| variable.call_method1(py, "set", (token,)));
    if let Some(Err(error)) = result {
        error.write_unraisable(py, None);
    }
}

/// Makes the context variable and determines how to detect a task's context.
pub(crate) fn setup(py: Python<'_>) -> PyResult<()> {
    let contextvars = py.import("contextvars")?;
    let arguments = PyDict::new(py);
    arguments.set_item("default", py.None())?;
    let variable = contextvars.getattr("ContextVar")?.call(("marey_scope",), Some(&arguments))?;
    // Already set if the module is imported a second time.
    drop(VARIABLE.set(py, variable.unbind()));
    context::setup(py)
}

/// Whether tasks are detected by a read of the interpreter's memory and not by a call of asyncio.
#[pyfunction]
pub(crate) fn task_detection_is_fast() -> bool {
    context::is_offset_known()
}

/// Whether launches find the scopes of tasks. True at the earliest when a task enters a scope.
#[pyfunction]
pub(crate) fn launches_find_tasks() -> bool {
    launches::is_registered()
}
