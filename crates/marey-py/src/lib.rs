//! `marey._native`: the recorder's Python binding.
//!
//! A thin layer between CPython and the C function table of `libmarey.so`. It converts names to
//! interned ids, dicts to metrics and Python frames to context nodes, and holds no recorder state
//! of its own.
//!
//! **Callers.** Only the Python package `marey`, which ships this module.
//!
//! **Constraints.** Training processes import it, so it is small and loads fast: no SQL engine, no
//! async runtime. It uses the stable ABI of CPython 3.10. Some code reads the interpreter's
//! structures directly (frames, the current context). At set-up that code compares its result with
//! the documented API, and is disabled if the two differ. All state here is thread-local, because
//! launches come without the GIL, or the GIL guards it, which the stable ABI implies.
//!
//! Start reading at [`scope`], the path that must be fast.

#![expect(unsafe_code, reason = "raw C slots, and the C table of libmarey")]
#![expect(clippy::cast_ptr_alignment, reason = "offsets into the interpreter's own structs")]

mod error;
mod frames;
mod gpu;
mod library;
mod main_thread;
mod memory;
mod metrics;
mod nvtx;
mod performance;
mod scope;
mod sessions;
mod task;
mod text;
mod thread;
mod torch;
mod watch;

use marey_record::table::NO_SAMPLE;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// The id of the interpreter that has imported the module, or [`NO_INTERPRETER`].
static INTERPRETER: AtomicI64 = AtomicI64::new(NO_INTERPRETER);

const NO_INTERPRETER: i64 = -1;

/// Raises `ImportError` in any interpreter but the first one that imports the module. Sessions
/// belong to the process, so the end of any of its interpreters would end them.
fn require_first_interpreter() -> PyResult<()> {
    // SAFETY: the caller runs in an interpreter.
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    let first =
        INTERPRETER.compare_exchange(NO_INTERPRETER, id, Ordering::Relaxed, Ordering::Relaxed);
    match first {
        Err(first) if first != id => Err(PyImportError::new_err(
            "another interpreter of this process has imported marey, which records one of them",
        )),
        _ => Ok(()),
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    require_first_interpreter()?;
    library::load(module.py())?;
    task::setup(module.py())?;
    scope::add_to(module)?;
    sessions::add_to(module)?;
    gpu::add_to(module)?;
    torch::add_to(module)?;
    performance::add_to(module)?;
    memory::add_to(module)?;
    metrics::add_to(module)?;
    watch::add_to(module)?;
    module.add_function(wrap_pyfunction!(frames::enable_frames, module)?)?;
    module.add_function(wrap_pyfunction!(frames::set_frame_base, module)?)?;
    module.add_function(wrap_pyfunction!(frames::frames_are_fast, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::sample_stacks, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::needs_sampling, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::begin_sampling, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::end_sampling, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::next_sample, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::find_collectives, module)?)?;
    module.add_function(wrap_pyfunction!(frames::sampling::answer_collective, module)?)?;
    module.add("NO_SAMPLE", NO_SAMPLE)?;
    module.add_function(wrap_pyfunction!(frames::sampling::follow_settings, module)?)?;
    module.add_function(wrap_pyfunction!(task::task_detection_is_fast, module)?)?;
    module.add_function(wrap_pyfunction!(task::launches_find_tasks, module)?)?;
    module.add_function(wrap_pyfunction!(library::library_path, module)?)?;
    module.add_function(wrap_pyfunction!(nvtx::nvtx_injection, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
