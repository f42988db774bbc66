//! Reads facts about the process from `/proc`: whether it can be entered, its user, and paths into
//! its file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use marey_attach::AttachError;
use marey_attach::process::{self, status};
use marey_attach::stop::TRACER;

use crate::InjectError;

/// Returns an error if a process cannot be entered at all. Called before anything else is tried.
pub(crate) fn check(pid: u32) -> Result<(), InjectError> {
    if !marey_attach::is_alive(pid) {
        return Err(AttachError::NoProcess(pid).into());
    }
    // For this path the kernel makes the same check as for `process_vm_writev` and `ptrace`.
    if fs::metadata(format!("/proc/{pid}/root/")).is_err() {
        return Err(AttachError::Forbidden(pid).into());
    }
    if process::is_stopped(pid) {
        return Err(InjectError::Stopped(pid));
    }
    match check_tracer(pid) {
        // Another marey stops the process for a moment. It is tried until that is over.
        Err(InjectError::Traced { name, .. }) if name == TRACER => Ok(()),
        checked => checked,
    }
}

/// Returns an error if a debugger traces the process.
pub(crate) fn check_tracer(pid: u32) -> Result<(), InjectError> {
    let tracer = status(pid, "TracerPid").and_then(|words| words.parse().ok()).unwrap_or(0);
    if tracer == 0 {
        return Ok(());
    }
    let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
    Err(InjectError::Traced { pid, tracer, name: name.trim().to_owned() })
}

/// Returns the ids of the user and the group with which the process opens files.
pub(crate) fn owner(pid: u32) -> Option<(u32, u32)> {
    let last_id = |key| status(pid, key)?.split_ascii_whitespace().last()?.parse().ok();
    Some((last_id("Uid")?, last_id("Gid")?))
}

/// Returns the id that a process has in its own pid namespace, such as that of a container.
pub(crate) fn inner_pid(pid: u32) -> u32 {
    process::inner_pid(pid).unwrap_or(pid)
}

/// Returns the path by which this process reaches a file of another one.
pub(crate) fn path_through_proc(pid: u32, path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    Path::new(&format!("/proc/{pid}/root")).join(relative)
}

/// Whether a path means the same file here and in the process, which is so unless the process is in
/// another container.
pub fn is_same_file_system(pid: u32) -> bool {
    let file_system = |pid: &str| {
        let root = fs::metadata(format!("/proc/{pid}/root/")).ok()?;
        let mount_namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
        Some((root.dev(), root.ino(), mount_namespace))
    };
    file_system(&pid.to_string()).is_some_and(|theirs| Some(theirs) == file_system("self"))
}
