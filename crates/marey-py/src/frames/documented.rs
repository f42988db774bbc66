//! Walks Python frames through their documented attributes, which every version of Python has.
//!
//! This is the slow way, which needs the GIL. The fast way ([`FrameLayout`](super::FrameLayout)) is checked
//! against it, and samples of other threads use it.

use super::FramePosition;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Returns the type of code objects, null if it cannot be imported.
pub(super) fn code_type(py: Python<'_>) -> *mut ffi::PyTypeObject {
    static CODE_TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CODE_TYPE.get_or_try_init(py, || {
        let class = py.import("types")?.getattr("CodeType")?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    });
    class.map_or(std::ptr::null_mut(), |class| class.as_ptr().cast())
}

/// Appends the frames of the calling thread, innermost first.
pub(super) fn walk(py: Python<'_>, positions: &mut Vec<FramePosition>, max_frames: usize) {
    // SAFETY: the GIL is held; the frame is borrowed from the running thread, or null.
    let frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    walk_from(frame, positions, max_frames);
}

/// Appends a frame object and those around it, innermost first.
pub(super) fn walk_from(
    mut frame: Option<Bound<'_, PyAny>>,
    positions: &mut Vec<FramePosition>,
    max_frames: usize,
) {
    while let Some(current) = frame {
        if positions.len() == max_frames || push_position(&current, positions).is_err() {
            return;
        }
        frame = current.getattr("f_back").ok().filter(|back| !back.is_none());
    }
}

fn push_position(frame: &Bound<'_, PyAny>, positions: &mut Vec<FramePosition>) -> PyResult<()> {
    let code = frame.getattr("f_code")?.as_ptr();
    let offset: i32 = frame.getattr("f_lasti")?.extract()?;
    positions.push(FramePosition { code, offset: offset.cast_unsigned() });
    Ok(())
}
