//! A socket that closes its descriptor only if the descriptor is still its own.
//!
//! A program may close every descriptor that it finds, and get the same number for a file of its
//! own. Std's types would close that file, and would abort a debug build if the number was closed.
//! So sockets are made by system calls.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// A socket whose descriptor is checked before it is closed.
#[derive(Debug)]
pub(super) struct OwnSocket<T: AsRawFd> {
    socket: ManuallyDrop<T>,
    /// Device and inode number of the socket, not of its path.
    identity: (u64, u64),
}

impl<T: AsRawFd> OwnSocket<T> {
    /// Takes over a socket that was just created. Fails if its descriptor was closed meanwhile.
    pub(super) fn new(socket: T) -> io::Result<Self> {
        let socket = ManuallyDrop::new(socket);
        let identity = identity(socket.as_raw_fd())?;
        Ok(Self { socket, identity })
    }

    /// Whether the descriptor is still this socket's.
    pub(super) fn has_descriptor(&self) -> bool {
        identity(self.socket.as_raw_fd()).is_ok_and(|identity| identity == self.identity)
    }
}

impl<T: AsRawFd + FromRawFd> OwnSocket<T> {
    /// Creates a Unix stream socket that does not block.
    #[expect(unsafe_code, reason = "std has no socket that is neither connected nor listening")]
    pub(super) fn create() -> io::Result<Self> {
        let flags = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: a system call without pointers; a result that is not negative is a new
        // descriptor.
        unsafe {
            match libc::socket(libc::AF_UNIX, flags, 0) {
                fd @ 0.. => Self::new(T::from_raw_fd(fd)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl<T: AsRawFd> Deref for OwnSocket<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.socket
    }
}

impl<T: AsRawFd> Drop for OwnSocket<T> {
    fn drop(&mut self) {
        if self.has_descriptor() {
            // SAFETY: dropped once, here; the descriptor is still this socket's.
            #[expect(unsafe_code, reason = "a descriptor that was lost must not be closed")]
            unsafe {
                ManuallyDrop::drop(&mut self.socket);
            }
        }
    }
}

/// Returns the device and inode number of an open file.
fn identity(fd: RawFd) -> io::Result<(u64, u64)> {
    // SAFETY: the file is not dropped, so it does not close the descriptor; `fstat` of a number
    // that is no descriptor fails.
    #[expect(unsafe_code, reason = "std has the metadata of files alone")]
    let file = unsafe { ManuallyDrop::new(File::from_raw_fd(fd)) };
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}
