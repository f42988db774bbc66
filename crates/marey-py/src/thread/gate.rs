//! A gate that lets threads without the GIL read their interpreter state until the interpreter
//! shuts down.
//!
//! From then on another thread frees the thread states, and a thread that takes the GIL is ended
//! with all that is on its stack. So each thread inside is counted, and the shutdown waits for it.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of threads inside, and [`CLOSED`].
static GATE: AtomicU32 = AtomicU32::new(CLOSED);
/// Flag: no thread may enter any more.
const CLOSED: u32 = 1 << 31;

/// A guard: the caller is inside the gate while it lives.
pub(super) struct GateGuard(());

impl GateGuard {
    /// Enters the gate if it is open.
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

/// Opens the gate until the interpreter shuts down.
pub(super) fn open(py: Python<'_>) -> PyResult<()> {
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(close, py)?,))?;
    // SAFETY: the function lives as long as the process: extension modules are never unloaded.
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
    // A thread inside may be waiting for the GIL, and for nothing else.
    py.detach(|| {
        while GATE.load(Ordering::Acquire) != CLOSED {
            std::thread::yield_now();
        }
    });
}

/// Resets the count in the child of a fork, which has only the thread that forked.
extern "C" fn reset_in_child() {
    GATE.fetch_and(CLOSED, Ordering::Relaxed);
}
