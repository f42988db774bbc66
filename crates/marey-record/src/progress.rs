//! A count of the bytes and threads that write files. Signal and exit handlers use it to wait as
//! long as writing makes progress.

use crate::lock::NoPark;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of bytes read and written for files so far.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// The number of threads that write files.
static WRITERS: AtomicU32 = AtomicU32::new(0);

/// A guard: the calling thread writes files while it lives.
pub(crate) struct WritingGuard(NoPark);

impl WritingGuard {
    pub(crate) fn begin() -> Self {
        WRITERS.fetch_add(1, Ordering::SeqCst);
        Self(NoPark::begin())
    }
}

impl Drop for WritingGuard {
    fn drop(&mut self) {
        WRITERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no thread writes files, as long as there is progress.
pub(crate) fn wait_for_writers() {
    wait_while(|| WRITERS.load(Ordering::SeqCst) != 0);
}

/// Waits as long as `condition` is true and there is progress. Gives up 5 s after the last
/// progress, in case a writing thread cannot go on: the signal may have come while another thread
/// held the allocator's lock, or the disk may not respond. Async-signal-safe if `condition` is.
#[expect(unsafe_code, reason = "poll(2) is the sleep that a signal handler may call")]
pub(crate) fn wait_while(condition: fn() -> bool) {
    const MAX_IDLE_STEPS: u32 = 100;
    const STEP_MILLIS: i32 = 50;
    let current_bytes = || BYTES.load(Ordering::Relaxed);
    let (mut last_bytes, mut idle_steps) = (current_bytes(), 0);
    while idle_steps < MAX_IDLE_STEPS && condition() {
        // SAFETY: no descriptors, so nothing is read or written.
        unsafe { libc::poll(std::ptr::null_mut(), 0, STEP_MILLIS) };
        let has_grown = current_bytes() != last_bytes;
        last_bytes = current_bytes();
        idle_steps = if has_grown { 0 } else { idle_steps + 1 };
    }
}

/// Resets the number of writers in the child of a fork, whose one thread writes nothing.
pub(crate) fn begin_child() {
    WRITERS.store(0, Ordering::SeqCst);
}

/// A writer that counts the bytes written.
#[derive(Debug)]
pub(crate) struct CountingWriter<F>(pub(crate) F);

impl<F: Write> Write for CountingWriter<F> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer).inspect(|&bytes| count(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Counts bytes that were read or written for a file.
pub(crate) fn count(bytes: usize) {
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}
