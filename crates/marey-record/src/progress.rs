//! How far the writing of files has come, as a signal handler may ask.

use crate::handler_slot::HandlerSlot;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes read and written for files so far.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Threads that write files.
static WRITERS: AtomicU32 = AtomicU32::new(0);

/// Points to something in each of them.
static WRITES: HandlerSlot<AtomicU32> = HandlerSlot::new();

/// The calling thread writes files as long as this lives.
pub(crate) struct Writing(());

impl Writing {
    pub(crate) fn begin() -> Self {
        WRITERS.fetch_add(1, Ordering::SeqCst);
        WRITES.set(&raw const WRITERS);
        Self(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITES.set(std::ptr::null());
        WRITERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the calling thread writes files; async-signal-safe.
pub(crate) fn is_writer() -> bool {
    !WRITES.get().is_null()
}

/// Whether any thread writes files; async-signal-safe.
pub(crate) fn has_writers() -> bool {
    WRITERS.load(Ordering::SeqCst) != 0
}

/// A number that grows while files are written; async-signal-safe.
pub(crate) fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
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
