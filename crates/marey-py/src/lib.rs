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

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// The id of the interpreter that has imported the module, or [`NO_INTERPRETER`].
static INTERPRETER: AtomicI64 = AtomicI64::new(NO_INTERPRETER);

const NO_INTERPRETER: i64 = -1;

/// Raises `ImportError` in any interpreter but the first one that imports the module. Sessions
/// belong to the process, so the end of any of its interpreters would end them. The module's
/// items exist before this check, and all interpreters share them.
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
mod _native {
    use super::{library, require_first_interpreter, scope, task};
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::frames::sampling::{
        answer_collective, begin_sampling, end_sampling, find_collectives, follow_settings,
        needs_sampling, next_sample, sample_stacks,
    };
    #[pymodule_export]
    use super::frames::{enable_frames, frames_are_fast, set_frame_base};
    #[pymodule_export]
    use super::gpu::{gpu_level, note_gpu, pause_gpu, probe_gpu, start_gpu};
    #[pymodule_export]
    use super::library::library_path;
    #[pymodule_export]
    use super::memory::{Memory, peak_resident_bytes, resident_bytes};
    #[pymodule_export]
    use super::metrics::FloatMetric;
    #[pymodule_export]
    use super::nvtx::nvtx_injection;
    #[pymodule_export]
    use super::performance::count_events;
    #[pymodule_export]
    use super::scope::calls::{
        add_metrics, enter_op, enter_scope, enter_state, exit_op, exit_scope, exit_state,
        innermost_name,
    };
    #[pymodule_export]
    use super::scope::module_call::{set_module_call, thread_stack, wrap_module_call};
    #[pymodule_export]
    use super::scope::reference::{ScopeRef, innermost_scope};
    #[pymodule_export]
    use super::scope::timed::Timings;
    #[pymodule_export]
    use super::scope::times::Times;
    #[pymodule_export]
    use super::sessions::{
        activate, active_sessions, advance_phase, after_fork_in_parent, before_fork,
        begin_process_exit, checkpoint, clear, count_losses, deactivate, depth, end_idle_threads,
        finalize, get_data, is_active, is_phase_complete, is_recording, note, run_dir, sessions,
        set_quiet_if_empty, set_setting, setting, start,
    };
    #[pymodule_export]
    use super::task::{launches_find_tasks, task_detection_is_fast};
    #[pymodule_export]
    use super::torch::{number_operators, record_collectives, record_operators};
    #[pymodule_export]
    use super::watch::record_variables;

    #[pymodule_export]
    const HOST_MEMORY: &str = marey_model::memory::HOST;
    #[pymodule_export]
    const NO_SAMPLE: u8 = marey_record::table::NO_SAMPLE;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        require_first_interpreter()?;
        library::load(module.py())?;
        task::setup(module.py())?;
        scope::add_to(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
