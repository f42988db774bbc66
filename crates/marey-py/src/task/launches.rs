//! The task provider: finds the scope of the asyncio task that a launch belongs to. The recorder
//! calls it at each launch, usually on a thread that does not hold the GIL.

use super::context::{self, ContextVariable};
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

/// Finds tokens in contexts, by the context variable that holds them and by their class.
struct TokenFinder {
    variable: ContextVariable,
    class: *mut PyTypeObject,
}

// SAFETY: the pointer is to a type that lives as long as the process, and is only compared.
unsafe impl Send for TokenFinder {}
// SAFETY: the pointer is to a type that lives as long as the process, and is only compared.
unsafe impl Sync for TokenFinder {}

/// Set when a task first enters a scope, if this interpreter's layout is known.
static TOKEN_FINDER: OnceLock<TokenFinder> = OnceLock::new();

/// Whether the first scope of a task has tried to register the provider.
static WAS_REGISTRATION_TRIED: AtomicBool = AtomicBool::new(false);

/// Registers the task provider once, if this interpreter's layout is known.
pub(super) fn register(py: Python<'_>) {
    // Not a `Once`: the code below may release the GIL, and another thread would then wait in the
    // `Once` with the GIL held.
    if WAS_REGISTRATION_TRIED.swap(true, Ordering::Relaxed) {
        return;
    }
    match probe(py) {
        Ok(Some(finder)) => {
            TOKEN_FINDER.get_or_init(|| finder);
            (table().set_task_provider)(provide_task);
        }
        Ok(None) => {}
        Err(error) => error.write_unraisable(py, None),
    }
}

/// Whether the task provider is registered.
pub(super) fn is_registered() -> bool {
    TOKEN_FINDER.get().is_some()
}

/// Returns the finder of tokens, `None` if this interpreter's layout is unknown.
fn probe(py: Python<'_>) -> PyResult<Option<TokenFinder>> {
    let Some(variable) = VARIABLE.get(py) else { return Ok(None) };
    let Some(variable) = ContextVariable::probe(variable.bind(py))? else { return Ok(None) };
    thread::allow_access_without_gil(py)?;
    Ok(Some(TokenFinder { variable, class: Token::type_object_raw(py) }))
}

/// Passes the innermost scope of the task that the calling thread runs to `receive`.
extern "C" fn provide_task(receive: TaskReceiver, receiver: *mut c_void) {
    // `thread` lives until `receive` returns. The interpreter cannot shut down before that, so the
    // context and the scope stay.
    let thread = Thread::current();
    let token = thread.as_ref().and_then(thread_token);
    let scope = token.map_or(null(), |token| token.scope);
    // SAFETY: the receiver belongs to the function, and the scope lives as long as the token, which
    // lives as long as the thread's context.
    unsafe { receive(receiver, scope) };
}

fn thread_token(thread: &Thread) -> Option<&Token> {
    let finder = TOKEN_FINDER.get()?;
    // SAFETY: the context is the calling thread's, and stays entered during this call.
    unsafe { finder.find(context::entered_context(thread.state())?) }
}

/// Whether a scope of a task was entered in the context, or in the one that it was copied from.
///
/// # Safety
/// The calling thread holds the GIL and runs in the context.
pub(super) unsafe fn is_in_scope(context: *const u8) -> bool {
    match TOKEN_FINDER.get() {
        // SAFETY: guaranteed by the caller.
        Some(finder) => unsafe { finder.find(context) }.is_some(),
        None => WAS_REGISTRATION_TRIED.load(Ordering::Relaxed) && is_variable_set(),
    }
}

#[cold]
fn is_variable_set() -> bool {
    // SAFETY: the GIL is held, as `is_in_scope` requires.
    super::context_token(unsafe { Python::assume_attached() }).is_some()
}

impl TokenFinder {
    /// Returns the token in a context.
    ///
    /// # Safety
    /// The calling thread runs in the context, and the context outlives the returned token.
    unsafe fn find<'context>(&self, context: *const u8) -> Option<&'context Token> {
        // SAFETY: guaranteed by the caller. A value of the class is a token, of which a shared
        // borrow needs no GIL; `Py` is a pointer to an object.
        unsafe {
            let value: *mut PyObject = self.variable.value_in(context)?;
            let is_token = Py_TYPE(value) == self.class;
            is_token.then(|| (*(&raw const value).cast::<Py<Token>>()).get())
        }
    }
}
