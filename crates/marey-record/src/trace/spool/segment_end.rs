//! The end of a ring's segment, which is written without the tracer's lock.

use crate::error::Error;
use crate::lock::lock;
use crate::trace::file::{Appender, SpoolFile};
use crate::trace::frame_buffer::FrameBuffer;
use std::io;
use std::sync::{Arc, Mutex};

/// The end of a ring's segment that is not in its file yet.
pub(in crate::trace) struct SegmentEnd {
    pub(super) file: Arc<SpoolFile>,
    pub(super) buffer: FrameBuffer,
    pub(super) appender: Arc<Mutex<Appender>>,
    /// The files of segments that the ring no longer needs.
    pub(super) unneeded: Vec<Arc<SpoolFile>>,
}

impl SegmentEnd {
    /// Writes the end of the segment, and removes the files that the ring no longer needs. Fails if
    /// this write or an earlier write to the segment has failed. The records that the segment lacks
    /// are counted as lost.
    pub(in crate::trace) fn write(mut self) -> Result<(), Error> {
        let mut appender = lock(&self.appender);
        let has_failed_before = appender.has_failed();
        if has_failed_before {
            self.buffer.handle_failure(0, appender.written_bytes());
        }
        let mut written = self.buffer.take_chunk().append_to(&mut appender);
        if has_failed_before {
            written = written.and(Err(io::Error::other("an earlier write to it has failed")));
        }
        self.unneeded.iter().for_each(|file| file.remove());
        written.map_err(|source| Error::write("write", self.file.path(), source))
    }
}
