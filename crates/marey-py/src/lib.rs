//! `marey._native`: the recorder's Python binding.
//!
//! A thin layer between CPython and the function table of `libmarey.so`: it converts strings to
//! numbers, dicts to metrics and Python frames to nodes, and holds no recorder state of its own.
//!
//! **Callers.** Only the Python package beside it.
//!
//! **Constraints.** It is imported into training processes: small, quick to load, no SQL engine, no
//! async runtime. It uses the stable ABI of CPython 3.10. Where a structure of the interpreter is
//! read directly (frames, the current context), the result is compared with the documented way at
//! set-up, and the direct way is disabled if they differ. All state here is guarded by the GIL,
//! which the stable ABI implies, or is thread-local: launches come without the GIL.
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

/// Raises `ImportError` in any interpreter but the first: sessions belong to the process, and
/// would end with any of its interpreters.
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

/// The module.
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
