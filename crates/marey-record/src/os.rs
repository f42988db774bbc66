//! What the system says about the calling thread.

/// The name that the system knows, at most 15 bytes.
#[expect(unsafe_code, reason = "std does not tell the name of a thread it did not start")]
pub(crate) fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes to the buffer, which has 16.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = name.get(..len).filter(|_| !failed).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Its id in the system.
#[expect(unsafe_code, reason = "std tells no system id of a thread")]
pub(crate) fn thread_id() -> u64 {
    // SAFETY: a system call without arguments that always succeeds.
    unsafe { libc::gettid() }.cast_unsigned().into()
}

/// This machine's name; empty if it has none.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| String::new(), |name| name.trim().to_owned())
}
