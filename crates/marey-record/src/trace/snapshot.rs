//! Parts of the spool that a reader may read: what was recorded so far, and what a session that has
//! ended recorded.

use super::drain::flush_spool;
use super::file::{Appender, SpoolFile};
use super::spool::Spool;
use crate::error::Error;
use crate::lock::lock;
use crate::output::Extent;
use std::sync::{Arc, Mutex};

/// The spool's file and its extent at one time. The end of the extent may still be in the buffer.
#[derive(Clone, Debug)]
pub(crate) struct SpoolSnapshot {
    pub(crate) file: Arc<SpoolFile>,
    pub(super) appender: Arc<Mutex<Appender>>,
    pub(crate) extent: Extent,
}

impl SpoolSnapshot {
    /// Writes what is still in the buffer. The caller must not hold the sessions' lock.
    pub(crate) fn write(&mut self) {
        flush_spool();
        self.limit_to_written();
    }

    /// Shortens the extent to what is in the file, if a write has failed.
    fn limit_to_written(&mut self) {
        self.extent.bytes = self.extent.bytes.min(lock(&self.appender).written_bytes());
    }
}

/// A trace session that has ended. Its records are then written ([`Self::write`]), and the spool is
/// ended if no other session uses it ([`Self::end`]), both without the sessions' lock.
#[derive(Debug)]
pub(crate) struct EndedTrace {
    /// The spool, and the start of the session's last phase in it.
    pub(super) snapshot: Option<(SpoolSnapshot, u64)>,
    /// The spool, if this was the last session.
    pub(super) last_spool: Option<Spool>,
    /// The reason why there is no spool.
    pub(super) error: Option<Error>,
}

impl EndedTrace {
    /// Writes the session's records. Returns the spool, if there is one, and the start of the last
    /// phase in it. Fails if no spool could be created.
    pub(crate) fn write(&mut self) -> Result<Option<(SpoolSnapshot, u64)>, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match (&mut self.snapshot, &mut self.last_spool) {
            (Some((snapshot, _)), Some(spool)) => {
                spool.write();
                snapshot.limit_to_written();
            }
            (Some((snapshot, _)), None) => snapshot.write(),
            (None, _) => {}
        }
        Ok(self.snapshot.clone())
    }

    /// Ends the spool if this was the last session.
    pub(crate) fn end(self) {
        if let Some(spool) = self.last_spool {
            spool.end();
        }
    }
}
