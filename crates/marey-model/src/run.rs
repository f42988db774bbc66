//! What lies where in a run directory: the names that the recorder and its readers share.

use std::io;

/// Every recording process holds a shared lock on this file.
pub const RECORDING: &str = ".recording";

/// A collector holds an exclusive lock on this file.
pub const COLLECTING: &str = ".collecting";

/// The folder of the spools, and what ends the name of each.
pub const SPOOL: &str = "spool";

/// The file that says which parts belong to the run.
pub const MANIFEST: &str = "manifest.json";

/// Whether taking a lock failed because the filesystem has none: no such call, or, as NFS without its
/// lock service, `ENOLCK`.
pub fn has_no_locks(error: &io::Error) -> bool {
    const ENOLCK: i32 = if cfg!(target_os = "linux") { 37 } else { 77 };
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(ENOLCK)
}
