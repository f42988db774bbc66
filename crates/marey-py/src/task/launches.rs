//! Where launches of tasks belong: libmarey asks here, on threads that mostly do not hold the GIL.

use super::context::{self, Variable};
use super::{Token, VARIABLE};
use crate::library::table;
use crate::thread::{self, Thread};
use marey_record::api::TaskReceiver;
use pyo3::ffi::{Py_TYPE, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How tokens are found.
struct Tokens {
    variable: Variable,
    class: *mut PyTypeObject,
}

// SAFETY: the pointer is to a type that stays as long as the process, and only compared.
unsafe impl Send for Tokens {}
// SAFETY: as above.
unsafe impl Sync for Tokens {}

/// Set once a task has entered a scope, if this interpreter is known.
static TOKENS: OnceLock<Tokens> = OnceLock::new();

/// Whether a task has entered a scope.
static IS_TRIED: AtomicBool = AtomicBool::new(false);

/// Has libmarey ask for the scopes of tasks from now on, where this interpreter is known.
pub(super) fn find_tasks(py: Python<'_>) {
    // Not a `Once`: what is below may let go of the GIL, and others would wait with it.
    if IS_TRIED.swap(true, Ordering::Relaxed) {
        return;
    }
    match learn(py) {
        Ok(Some(tokens)) => {
            TOKENS.get_or_init(|| tokens);
            (table().set_task_provider)(innermost);
        }
        Ok(None) => {}
        Err(error) => error.write_unraisable(py, None),
    }
}

/// Whether it does.
pub(super) fn do_find_tasks() -> bool {
    TOKENS.get().is_some()
}

fn learn(py: Python<'_>) -> PyResult<Option<Tokens>> {
    let Some(variable) = VARIABLE.get(py) else { return Ok(None) };
    let Some(variable) = Variable::learn(variable.bind(py))? else { return Ok(None) };
    thread::allow_without_gil(py)?;
    Ok(Some(Tokens { variable, class: Token::type_object_raw(py) }))
}

/// Tells the innermost scope of the task that the calling thread runs.
extern "C" fn innermost(receive: TaskReceiver, receiver: *mut c_void) {
    // Kept until it was received: the interpreter does not end meanwhile, with the context and the scope.
    let thread = Thread::current();
    let token = thread.as_ref().and_then(token);
    let scope = token.map_or(null(), |token| token.scope);
    // SAFETY: the receiver is the one that came with the function, and the scope stays with the token, which
    // stays with the thread's context.
    unsafe { receive(receiver, scope) };
}

fn token(thread: &Thread) -> Option<&Token> {
    let tokens = TOKENS.get()?;
    // SAFETY: the context is that of the calling thread, where it stays while the thread is here.
    unsafe { tokens.find(context::entered(thread.state())?) }
}

/// Whether a scope of a task was entered in the context, or before it was copied for its thread.
///
/// # Safety
/// The calling thread holds the GIL and runs in the context.
pub(super) unsafe fn is_in_scope(context: *const u8) -> bool {
    match TOKENS.get() {
        // SAFETY: as the caller promises.
        Some(tokens) => unsafe { tokens.find(context) }.is_some(),
        None => IS_TRIED.load(Ordering::Relaxed) && is_variable_set(),
    }
}

#[cold]
fn is_variable_set() -> bool {
    // SAFETY: the GIL is held, as the caller of `is_in_scope` promises.
    super::token(unsafe { Python::assume_attached() }).is_some()
}

impl Tokens {
    /// The token in a context.
    ///
    /// # Safety
    /// The calling thread runs in the context, which outlives the token's use.
    unsafe fn find<'context>(&self, context: *const u8) -> Option<&'context Token> {
        // SAFETY: as the caller promises. A value of the class is a token, of which a shared borrow needs
        // no GIL; `Py` is a pointer to an object.
        unsafe {
            let value: *mut PyObject = self.variable.value_in(context)?;
            let is_token = Py_TYPE(value) == self.class;
            is_token.then(|| (*(&raw const value).cast::<Py<Token>>()).get())
        }
    }
}
