//! The functions by which the Python package starts, pauses and describes the recording of GPUs.
//! Calls that may wait for a driver release the GIL.

use crate::error::try_call;
use crate::library::{receive_text, table};
use marey_record::table::{GpuLevel, GpuOptions};
use pyo3::prelude::*;

/// Starts the recording of devices. With `is_required` it starts now or raises an error, without it
/// starts once the program uses CUDA. `paths` are folders of packages that may contain the vendor's
/// libraries.
#[pyfunction]
#[pyo3(signature = (*, is_required, keeps_activities, paths))]
#[expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts from an argument is owned")]
pub(crate) fn start_gpu(
    py: Python<'_>,
    is_required: bool,
    keeps_activities: bool,
    paths: Vec<String>,
) -> PyResult<()> {
    let paths = paths.join("\n");
    (table().note_environment)();
    // The driver may take long to start. Other threads run meanwhile.
    py.detach(|| {
        let options = GpuOptions {
            size: size_of::<GpuOptions>(),
            is_required: is_required.into(),
            keeps_activities: keeps_activities.into(),
            paths: paths.as_ptr().cast(),
            paths_len: paths.len(),
        };
        // SAFETY: the paths live until the call returns.
        try_call(|error| unsafe { (table().gpu_start)(Some(&options), Some(error)) }).map(drop)
    })
}

/// Returns how devices are recorded (`"host"`, `"cupti"`, `"waiting"` or `"idle"`), a sentence that
/// says so or says why they are not, the remedy, and the code of the call that failed.
#[pyfunction]
pub(crate) fn gpu_level(py: Python<'_>) -> (&'static str, String, String, Option<i64>) {
    // Another thread may be starting or ending CUPTI, and this call waits for it.
    let (level, text) = py.detach(|| {
        // SAFETY: the sink and its context belong together.
        receive_text(|sink, context| unsafe { (table().gpu_level)(sink, context) })
    });
    let mut lines = text.split('\n').map(str::to_owned);
    let mut line = || lines.next().unwrap_or_default();
    let level_name = match level {
        level if level == GpuLevel::Cupti as i32 => "cupti",
        level if level == GpuLevel::Waiting as i32 => "waiting",
        level if level == GpuLevel::Idle as i32 => "idle",
        _ => "host",
    };
    (level_name, line(), line(), line().parse().ok())
}

/// Sets the note that profiles and runs carry on how devices are recorded.
#[pyfunction]
pub(crate) fn note_gpu(text: &str) {
    // SAFETY: the text lives until the call returns.
    unsafe { (table().gpu_note)(text.as_ptr().cast(), text.len()) };
}

/// Leaves CUPTI to another profiler, or takes it back. Returns whether this call ended a recording
/// of devices.
#[pyfunction]
pub(crate) fn pause_gpu(py: Python<'_>, is_paused: bool) -> bool {
    // The call waits for the devices. Other threads run meanwhile.
    py.detach(|| (table().gpu_pause)(is_paused))
}

/// Returns rows about the available means to record devices, each a list of fields. `Question` of
/// `marey-gpu` describes them. Call it in a process of its own, because it loads and starts
/// vendors' libraries.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts from an argument is owned")]
pub(crate) fn probe_gpu(question: &str, paths: Vec<String>) -> PyResult<Vec<Vec<String>>> {
    let paths = paths.join("\n");
    let (answered, text) = receive_text(|sink, context| {
        // SAFETY: the texts live until the call returns, and the sink and its context belong
        // together.
        try_call(|error| unsafe {
            (table().gpu_probe)(
                question.as_ptr().cast(),
                question.len(),
                paths.as_ptr().cast(),
                paths.len(),
                sink,
                context,
                Some(error),
            )
        })
    });
    answered?;
    Ok(text.lines().map(|row| row.split('\t').map(str::to_owned).collect()).collect())
}
