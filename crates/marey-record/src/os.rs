//! Asks the operating system about the thread, the host, the filesystem and the command line.

use marey_model::redact;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the calling thread's name in the kernel, at most 15 bytes.
#[expect(unsafe_code, reason = "std has no name for a thread that it did not start")]
pub(crate) fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer, which has 16.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = name.get(..len).filter(|_| !failed).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the calling thread's id in the kernel.
#[expect(unsafe_code, reason = "std has no kernel id of a thread")]
pub(crate) fn thread_id() -> u64 {
    // SAFETY: a system call without arguments that always succeeds.
    unsafe { libc::gettid() }.cast_unsigned().into()
}

/// Whether the kernel lists a thread of this process with this id.
#[expect(unsafe_code, reason = "std knows only threads that it has started")]
pub(crate) fn is_thread(id: u64) -> bool {
    // SAFETY: a system call on numbers; signal 0 only asks.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) == 0 }
}

/// Returns the host name, empty if it cannot be read.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| String::new(), |name| name.trim().to_owned())
}

/// Returns the free bytes for this user and the total bytes of the filesystem that contains a path.
#[expect(unsafe_code, reason = "std has no statvfs(3)")]
pub(crate) fn space_bytes(path: &Path) -> Option<(u64, u64)> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: plain data, filled in below.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string and a struct to write to, both valid until the call returns.
    let failed = unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    (!failed).then(|| (bytes(stat.f_bavail), bytes(stat.f_blocks)))
}

/// Returns the command line of this process, with secrets redacted.
pub(crate) fn argv() -> Vec<String> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let argv: Vec<_> = line
        .split(|&byte| byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into())
        .collect();
    redact::redact_argv(&argv)
}
