//! Readings of device and host memory, which the Python package adds to the innermost scope as
//! metrics.

use crate::library::{intern_metric, is_active};
use crate::scope::add_values_to_innermost;
use marey_model::memory::{READING_LENGTH, growth_name, reading_name};
use marey_record::table::{MetricArg, ValueTag};
use pyo3::prelude::*;
use std::fs::{self, File};
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// Stands for an unknown number of bytes.
const UNKNOWN_BYTES: i64 = -1;

/// A memory whose readings are recorded: the memory of a device, such as `cuda:0`, or `host`.
#[pyclass(frozen, module = "marey._native")]
pub(crate) struct Memory {
    /// The id of the metric with the totals.
    reading_metric_id: u32,
    /// The id of the metric with the growth.
    growth_metric_id: u32,
    /// The allocated bytes of the previous reading, by any thread.
    previous_bytes: AtomicI64,
}

#[pymethods]
impl Memory {
    #[new]
    fn new(memory: &str) -> Self {
        Self {
            reading_metric_id: intern_metric(&reading_name(memory)),
            growth_metric_id: intern_metric(&growth_name(memory)),
            previous_bytes: AtomicI64::new(UNKNOWN_BYTES),
        }
    }

    /// Records the allocated bytes, their maximum and the reserved bytes (-1: unknown) at the
    /// innermost scope. Also records there the growth of the memory since the previous reading,
    /// whichever thread took that one.
    #[pyo3(signature = (allocated, peak, reserved, /))]
    fn record(&self, py: Python<'_>, allocated: i64, peak: i64, reserved: i64) -> PyResult<()> {
        if !is_active() {
            return Ok(());
        }
        let totals: [i64; READING_LENGTH] = [allocated, peak, reserved];
        let previous_bytes = self.previous_bytes.swap(allocated, Ordering::Relaxed);
        let growth_bytes = if previous_bytes == UNKNOWN_BYTES {
            0
        } else {
            allocated.saturating_sub(previous_bytes)
        };
        let values = [
            MetricArg {
                metric: self.reading_metric_id,
                tag: ValueTag::Ints as u32,
                data: totals.as_ptr().cast(),
                len: totals.len(),
            },
            MetricArg {
                metric: self.growth_metric_id,
                tag: ValueTag::Int as u32,
                data: (&raw const growth_bytes).cast(),
                len: 1,
            },
        ];
        // Most modules do not change the memory, so the growth is left out if it is zero.
        let changed_values = if growth_bytes == 0 { &values[..1] } else { &values };
        // SAFETY: the totals and the growth live until the call returns.
        unsafe { add_values_to_innermost(py, changed_values) }
    }
}

/// The open file `/proc/self/statm`. It stays open, because opening it takes longer than reading
/// it. A forked child opens its own.
struct StatmFile {
    pid: u32,
    /// Never closed. A program may have closed all of its descriptors, and the number may then
    /// belong to a file of its own.
    file: ManuallyDrop<File>,
}

static STATM_FILE: Mutex<Option<StatmFile>> = Mutex::new(None);

/// Returns the resident size of this process in bytes, `None` if the system does not tell it.
#[pyfunction]
pub(crate) fn resident_bytes() -> Option<i64> {
    // Not `lock`: another thread may have held the lock when this process was forked.
    let mut shared_file = STATM_FILE.try_lock().ok()?;
    let pid = std::process::id();
    if let Some(statm) = shared_file.as_ref().filter(|statm| statm.pid == pid)
        && let Some(bytes) = read_resident_bytes(&statm.file)
    {
        return Some(bytes);
    }
    let file = File::open("/proc/self/statm").ok()?;
    let bytes = read_resident_bytes(&file);
    *shared_file = Some(StatmFile { pid, file: ManuallyDrop::new(file) });
    bytes
}

/// Reads the resident size, the second of the seven numbers of `statm`. Returns `None` for any
/// other content, which is another file under the same descriptor.
fn read_resident_bytes(file: &File) -> Option<i64> {
    let mut buffer = [0; 128];
    let len = file.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..len]).ok()?;
    let mut pages = text.split_ascii_whitespace().map(|number| number.parse::<i64>().ok());
    let resident_pages = pages.nth(1)??;
    // SAFETY: no preconditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    (pages.flatten().count() == 5).then(|| resident_pages.saturating_mul(page_bytes))
}

/// Returns the largest resident size that this process has had, in bytes, `None` if the system does
/// not tell it.
#[pyfunction]
pub(crate) fn peak_resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: i64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}
