//! How far the writing of files has come, as a signal handler may ask.

use crate::lock::Awaited;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes read and written for files so far.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Threads that write files.
static WRITERS: AtomicU32 = AtomicU32::new(0);

/// The calling thread writes files as long as this lives.
pub(crate) struct Writing(Awaited);

impl Writing {
    pub(crate) fn begin() -> Self {
        WRITERS.fetch_add(1, Ordering::SeqCst);
        Self(Awaited::begin())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no thread writes files, as long as files grow.
pub(crate) fn wait_for_writers() {
    wait_while(|| WRITERS.load(Ordering::SeqCst) != 0);
}

/// Waits as long as this holds and files grow; gives up a while after they have grown last, in case a
/// thread that writes cannot go on: a signal may have come while another held the allocator's lock, or
/// the disk may be gone. Async-signal-safe if `holds` is.
#[expect(unsafe_code, reason = "poll(2) is the sleep that a signal handler may call")]
pub(crate) fn wait_while(holds: fn() -> bool) {
    const STEPS: u32 = 100;
    const STEP_MILLIS: i32 = 50;
    let bytes = || BYTES.load(Ordering::Relaxed);
    let (mut seen, mut idle_steps) = (bytes(), 0);
    while idle_steps < STEPS && holds() {
        // SAFETY: no descriptors, so nothing is read or written.
        unsafe { libc::poll(std::ptr::null_mut(), 0, STEP_MILLIS) };
        let has_grown = bytes() != seen;
        seen = bytes();
        idle_steps = if has_grown { 0 } else { idle_steps + 1 };
    }
}

/// In the child of a fork, whose one thread writes nothing.
pub(crate) fn begin_child() {
    WRITERS.store(0, Ordering::SeqCst);
}

/// A file that is written to, whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Counted<F>(pub(crate) F);

impl<F: Write> Write for Counted<F> {
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
