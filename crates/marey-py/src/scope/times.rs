//! The measured times of a name, until the program reads them.

use crate::library::{intern, table};
use crate::text::utf8;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::UnsafeCell;

/// Maximum number of times that wait to be read. Beyond it the older half is dropped and counted.
const MAX_UNREAD: usize = 1 << 18;

/// A measured time, in ticks of the recorder's clock.
#[derive(Clone, Copy)]
struct MeasuredTime {
    start_ticks: u64,
    end_ticks: u64,
    thread: libc::pthread_t,
}

#[derive(Default)]
struct UnreadTimes {
    times: Vec<MeasuredTime>,
    dropped_count: u64,
    dropped_nanos: u64,
}

/// The measured times of one name that were not read yet.
#[pyclass(frozen, module = "marey._native")]
pub(crate) struct Times {
    pub(super) name: Py<PyString>,
    /// The id of the interned name.
    pub(super) name_id: u32,
    unread: UnsafeCell<UnreadTimes>,
}

// SAFETY: the cell is only accessed with the GIL held, and never while Python code can run.
unsafe impl Sync for Times {}

#[pymethods]
impl Times {
    #[new]
    fn new(name: Bound<'_, PyString>) -> PyResult<Self> {
        // Measures the rate of the clock before its first reading.
        (table().monotonic_nanos)(0);
        let name_id = intern(&utf8(&name)?);
        Ok(Self { name: name.unbind(), name_id, unread: UnsafeCell::default() })
    }

    /// Returns the times since the last call, in the order in which they ended, as tuples of start
    /// and end, in nanoseconds of `CLOCK_MONOTONIC`, and thread. Then the number and the sum of
    /// the times that were dropped because there were too many.
    fn take(&self) -> (Vec<(u64, u64, u64)>, u64, u64) {
        // SAFETY: as for `Sync`.
        let unread = unsafe { std::mem::take(&mut *self.unread.get()) };
        let times = unread.times.into_iter();
        let times = times.map(|time| {
            let (start_nanos, end_nanos) = time.nanos();
            (start_nanos, end_nanos, time.thread)
        });
        (times.collect(), unread.dropped_count, unread.dropped_nanos)
    }
}

impl MeasuredTime {
    fn nanos(self) -> (u64, u64) {
        let nanos_of = table().monotonic_nanos;
        (nanos_of(self.start_ticks), nanos_of(self.end_ticks))
    }
}

impl Times {
    /// Adds a time, in ticks, that the calling thread has measured.
    #[inline(always)]
    pub(super) fn add(&self, start_ticks: u64, end_ticks: u64) {
        // SAFETY: pthread_self has no preconditions; the GIL is held.
        let (thread, unread) = unsafe { (libc::pthread_self(), &mut *self.unread.get()) };
        if unread.times.len() >= MAX_UNREAD {
            unread.make_room();
        }
        unread.times.push(MeasuredTime { start_ticks, end_ticks, thread });
    }
}

impl UnreadTimes {
    #[cold]
    fn make_room(&mut self) {
        for time in self.times.drain(..MAX_UNREAD / 2) {
            let (start_nanos, end_nanos) = time.nanos();
            self.dropped_count += 1;
            self.dropped_nanos += end_nanos.saturating_sub(start_nanos);
        }
    }
}
