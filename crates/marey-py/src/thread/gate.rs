//! When a thread without the GIL may look at its state and frames: until the interpreter begins to end.
//!
//! From then on the states of threads are freed by another thread, and who asks for the GIL ends there,
//! with all that is on its stack. So whoever looks is counted, and the interpreter waits for it.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// The threads inside, and [`CLOSED`].
static GATE: AtomicU32 = AtomicU32::new(CLOSED);
/// Nobody comes in any more.
const CLOSED: u32 = 1 << 31;

/// The caller is inside, until this is dropped.
pub(super) struct Inside(());

impl Inside {
    /// Comes in, where the gate is open.
    #[inline(always)]
    pub(super) fn enter() -> Option<Self> {
        let before = GATE.fetch_add(1, Ordering::Acquire);
        let inside = Self(());
        (before & CLOSED == 0).then_some(inside)
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        GATE.fetch_sub(1, Ordering::Release);
    }
}

/// Opens the gate until the interpreter ends.
pub(super) fn open(py: Python<'_>) -> PyResult<()> {
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(close, py)?,))?;
    // SAFETY: the function lives as long as the process: extension modules are never unloaded.
    let code = unsafe { libc::pthread_atfork(None, None, Some(leave_for_others)) };
    if code == 0 {
        GATE.fetch_and(!CLOSED, Ordering::Release);
    }
    Ok(())
}

/// Closes the gate, and waits until nobody is inside.
#[pyfunction]
fn close(py: Python<'_>) {
    GATE.fetch_or(CLOSED, Ordering::AcqRel);
    // Who is inside may be waiting for the GIL, and for nothing else.
    py.detach(|| {
        while GATE.load(Ordering::Acquire) != CLOSED {
            std::thread::yield_now();
        }
    });
}

/// Threads that were inside while another one forked are not in the child.
extern "C" fn leave_for_others() {
    GATE.fetch_and(CLOSED, Ordering::Relaxed);
}
