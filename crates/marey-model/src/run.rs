//! The names of the files in a run directory, which the recorder and the readers share.

use std::io;

/// The file on which every recording process holds a shared lock.
pub const RECORDING: &str = ".recording";

/// The file on which the collector holds an exclusive lock.
pub const COLLECTING: &str = ".collecting";

/// Name of the spool folder, and extension of the spool files.
pub const SPOOL: &str = "spool";

/// The extension of the segments of a ring, which are beside the spools.
/// `7-1700000000000000000.000012.ring` belongs to the ring that process 7 started at that time, in
/// nanoseconds since 1970. Twelve segments precede it.
pub const RING: &str = "ring";

/// The suffix of the trace of a window, which is beside the spools. `7-5.window.json` is window 5
/// of process 7.
pub const WINDOW: &str = ".window.json";

/// The file that lists the parts of the run.
pub const MANIFEST: &str = "manifest.json";

/// Whether taking a lock failed because the filesystem does not support locks: with `ENOSYS`, or
/// with `ENOLCK`, as on NFS without a lock service.
pub fn is_lock_unsupported(error: &io::Error) -> bool {
    const ENOLCK: i32 = if cfg!(target_os = "linux") { 37 } else { 77 };
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(ENOLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_missing_support_mean_that_there_are_no_locks() {
        assert!(is_lock_unsupported(&io::ErrorKind::Unsupported.into()));
        assert!(is_lock_unsupported(&io::Error::from_raw_os_error(if cfg!(target_os = "linux") {
            37
        } else {
            77
        })));
        assert!(!is_lock_unsupported(&io::ErrorKind::WouldBlock.into()));
    }
}
