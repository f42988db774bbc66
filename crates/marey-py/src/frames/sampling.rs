//! Samples the Python stacks of all threads for trace sessions.
//!
//! A thread of the Python package waits in [`next_sample`] and then calls [`sample_stacks`]. That
//! call holds the GIL, so no other thread runs Python meanwhile. It takes the frames from
//! `sys._current_frames()`.

use super::{FRAMES, MAX_DEPTH, ThreadFrames, documented, enable_frames, leave_out_base};
use crate::library::{intern, table};
use crate::main_thread::{self, PendingCall};
use crate::thread::Thread;
use crate::watch;
use marey_record::api::StackSample;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{c_int, c_void};

/// Registers a listener that acts on the main thread after another process has changed a setting or
/// requested a watch. It calls `marey.sampling.follow_setting` and answers the requests.
#[pyfunction]
pub(crate) fn follow_settings(py: Python<'_>) {
    main_thread::prepare(py);
    (table().set_settings_listener)(request_follow);
}

static FOLLOW: PendingCall = PendingCall::new(follow);

/// Schedules [`follow`] for the next line of Python that the main thread runs. Returns whether it
/// will be called.
extern "C" fn request_follow() -> bool {
    FOLLOW.request()
}

/// Follows the changed settings and answers the requests, as a pending call on the main thread.
extern "C" fn follow(_argument: *mut c_void) -> c_int {
    FOLLOW.begin();
    // SAFETY: pending calls run with the GIL.
    let py = unsafe { Python::assume_attached() };
    main_thread::prepare(py);
    let followed =
        py.import("marey.sampling").and_then(|module| module.call_method0("follow_setting"));
    if let Err(error) = followed {
        error.write_unraisable(py, None);
    }
    match watch::answer_requests(py) {
        Ok(()) => 0,
        Err(error) => {
            error.restore(py);
            -1
        }
    }
}

/// Records a sample of the stack of each of these threads, for trace sessions.
///
/// `threads` maps the identifier of each thread to its id in the operating system and its name.
/// Threads that are missing there or have no frame are left out. Each sample stands for
/// `duration_nanos`. `cause` is the number of a `SampleCause`. `caller` is the identifier of a
/// thread and the frame to take as its innermost one.
#[pyfunction]
#[pyo3(signature = (threads, duration_nanos, cause, caller=None))]
pub(crate) fn sample_stacks(
    py: Python<'_>,
    threads: &Bound<'_, PyDict>,
    duration_nanos: u64,
    cause: u8,
    caller: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
) -> PyResult<()> {
    enable_frames(py)?;
    if !(table().is_sample_due)(cause) {
        return Ok(());
    }
    // Not taken by the caller, because a call may return meanwhile, and its frame then has no outer
    // frames any more.
    let frames = py.import("sys")?.call_method0("_current_frames")?.cast_into::<PyDict>()?;
    if let Some((identifier, frame)) = caller {
        frames.set_item(identifier, frame)?;
    }
    let mut samples = Vec::with_capacity(frames.len());
    for (identifier, frame) in &frames {
        let Some(thread) = threads.get_item(identifier)? else { continue };
        let (os_id, name): (u64, String) = thread.extract()?;
        let node = FRAMES.with(|frames| {
            let mut frames = frames.try_borrow_mut().ok()?;
            Some(frames.node_of_frame(py, frame))
        });
        let thread_name = intern(&name);
        samples.extend(node.map(|node| StackSample { os_id, thread_name, node, duration_nanos }));
    }
    // SAFETY: a slice of samples, which lives until the call returns.
    unsafe { (table().record_samples)(samples.as_ptr(), samples.len(), cause) };
    Ok(())
}

/// Whether the settings or a request need the sampling thread.
#[pyfunction]
pub(crate) fn needs_sampling() -> bool {
    (table().needs_sampling)()
}

/// Returns the number of a new sampling thread, 0 if none is needed or one runs already.
#[pyfunction]
pub(crate) fn begin_sampling() -> u32 {
    (table().begin_sampling)()
}

/// Makes the sampling thread return from `next_sample`.
#[pyfunction]
pub(crate) fn end_sampling(py: Python<'_>) {
    py.detach(|| (table().end_sampling)());
}

/// With `is_on`, keeps a sampling thread in traces that answers requests for the last collective.
#[pyfunction]
pub(crate) fn find_collectives(py: Python<'_>, is_on: bool) {
    py.detach(|| (table().find_collectives)(is_on));
}

/// Answers a request for the last collective with a JSON object, `null`, or the reason why there is none.
#[pyfunction]
#[pyo3(signature = (text, *, is_error=false))]
pub(crate) fn answer_collective(text: &str, is_error: bool) {
    // SAFETY: the text lives until the call returns.
    unsafe { (table().answer_collective)(is_error, text.as_ptr().cast(), text.len()) };
}

/// Waits until the sampling thread with this number is to take a sample, or to answer a request for
/// the last collective. Returns the duration for which the sample stands and the number of its
/// cause, which is `NO_SAMPLE` for such a request. Returns `None` if the thread is to end.
#[pyfunction]
pub(crate) fn next_sample(py: Python<'_>, thread: u32) -> Option<(u64, u8)> {
    py.detach(|| {
        let (mut cause, mut duration_nanos) = (0, 0);
        let is_due = (table().next_sample)(thread, Some(&mut cause), Some(&mut duration_nanos));
        is_due.then_some((duration_nanos, cause))
    })
}

impl ThreadFrames {
    /// Returns the node of another thread's frame in the calling thread's context tree.
    fn node_of_frame(&mut self, py: Python<'_>, frame: Bound<'_, PyAny>) -> u32 {
        let mut generation = 0;
        let root = (table().frame_root)(Some(&mut generation));
        self.positions.clear();
        documented::walk_from(Some(frame), &mut self.positions, MAX_DEPTH);
        leave_out_base(&mut self.positions);
        self.node_of_positions(root, generation, &Thread::attached(py))
    }
}
