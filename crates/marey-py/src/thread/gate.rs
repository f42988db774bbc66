//! A gate that lets threads without the GIL read their interpreter state until the interpreter
//! shuts down.
//!
//! Once the shutdown has begun, another thread frees the thread states, and CPython ends a thread
//! that asks for the GIL in the middle of its work. So the gate counts the threads inside, and the
//! shutdown waits until all have left.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of threads inside, with the flag [`CLOSED`].
static GATE: AtomicU32 = AtomicU32::new(CLOSED);
/// The flag of a gate that no thread may enter.
const CLOSED: u32 = 1 << 31;

/// A guard: the caller is inside the gate while it lives.
pub(super) struct GateGuard(());

impl GateGuard {
    /// Enters the gate. Returns `None` if it is closed.
    #[inline(always)]
    pub(super) fn enter() -> Option<Self> {
        let before = GATE.fetch_add(1, Ordering::Acquire);
        let inside = Self(());
        (before & CLOSED == 0).then_some(inside)
    }
}

impl Drop for GateGuard {
    #[inline(always)]
    fn drop(&mut self) {
        GATE.fetch_sub(1, Ordering::Release);
    }
}

/// Opens the gate, and closes it when the interpreter shuts down.
pub(super) fn open(py: Python<'_>) -> PyResult<()> {
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(close, py)?,))?;
    // SAFETY: extension modules are never unloaded, so the function lives as long as the process.
    let code = unsafe { libc::pthread_atfork(None, None, Some(reset_in_child)) };
    if code == 0 {
        GATE.fetch_and(!CLOSED, Ordering::Release);
    }
    Ok(())
}

/// Closes the gate, and waits until no thread is inside.
#[pyfunction]
fn close(py: Python<'_>) {
    GATE.fetch_or(CLOSED, Ordering::AcqRel);
    // A thread inside may be waiting for the GIL, so it is released here.
    py.detach(|| {
        while GATE.load(Ordering::Acquire) != CLOSED {
            std::thread::yield_now();
        }
    });
}

/// Sets the count to zero in the child of a fork, which has only the thread that forked.
extern "C" fn reset_in_child() {
    GATE.fetch_and(CLOSED, Ordering::Relaxed);
}
