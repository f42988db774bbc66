//! The listening socket: its private folder, its path, and the check of its peers.
//!
//! A program may close every descriptor that it finds and get its number for a file of its own, so the identity of
//! the descriptor is checked before each use, and a descriptor that is another file's is not closed.

use crate::environment;
use crate::lock::lock;
use marey_model::endpoint;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Path of the socket that the thread listens at.
static PATH: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The user of the process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The user of this process, or root.
    Own,
    /// Another user.
    Other,
}

/// A listening socket at a path. Removes the path on drop.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ManuallyDrop<UnixListener>,
    /// Device and inode number of the socket, not of its path.
    identity: (u64, u64),
}

/// The result of waiting for a connection.
#[derive(Debug)]
pub(super) enum Accepted {
    /// A connection.
    Connection(UnixStream),
    /// No connection within the time.
    Nothing,
    /// No connection, and the next attempt may fail at once, such as without free descriptors.
    Failed,
    /// The program has closed the socket's descriptor.
    LostDescriptor,
}

impl Listener {
    /// Listens at the path of this process, in a folder that no other user can enter.
    pub(super) fn bind() -> io::Result<Self> {
        let folder = endpoint::folder(environment::runtime_dir().as_deref(), effective_uid());
        let folder = private_folder(&folder).or_else(|error| {
            // The runtime folder of a user who has logged out is gone.
            let fallback = endpoint::folder(None, effective_uid());
            if fallback == folder { Err(error) } else { private_folder(&fallback) }
        })?;
        let path = folder.join(endpoint::socket_name(std::process::id()));
        // Of an earlier process with the same pid.
        drop(fs::remove_file(&path));
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let identity = identity(&listener)?;
        *lock(&PATH) = Some(path);
        Ok(Self { socket: ManuallyDrop::new(listener), identity })
    }

    /// Waits for the next connection.
    pub(super) fn accept(&self, timeout: Duration) -> Accepted {
        if !self.has_descriptor() {
            return Accepted::LostDescriptor;
        }
        match wait_readable(&self.socket, timeout) {
            Ok(false) => return Accepted::Nothing,
            Err(_) => return Accepted::Failed,
            // The program may have closed it meanwhile.
            Ok(true) if !self.has_descriptor() => return Accepted::LostDescriptor,
            Ok(true) => {}
        }
        let accepted = self.socket.accept();
        match accepted.and_then(|(stream, _)| stream.set_nonblocking(false).map(|()| stream)) {
            Ok(stream) => Accepted::Connection(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Nothing,
            Err(_) => Accepted::Failed,
        }
    }

    /// Whether the descriptor is still this socket's.
    fn has_descriptor(&self) -> bool {
        identity(&self.socket).is_ok_and(|identity| identity == self.identity)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The path of a socket whose descriptor was lost is that of the next one.
        if self.has_descriptor() {
            // SAFETY: dropped once, here; the descriptor is still this socket's.
            #[expect(unsafe_code, reason = "a descriptor that was lost must not be closed")]
            unsafe {
                ManuallyDrop::drop(&mut self.socket);
            }
            remove_path();
        }
    }
}

/// Removes the path of the socket, if there is one.
pub(super) fn remove_path() {
    if let Some(path) = lock(&PATH).take() {
        drop(fs::remove_file(path));
    }
}

/// Makes the thread return from waiting for a connection, by a connection without a request.
pub(super) fn wake() {
    let Some(path) = lock(&PATH).clone() else { return };
    // Not blocking: with a full queue of connections the thread is awake.
    drop(connect_without_blocking(&path));
}

/// Forgets the socket of the parent, in the child of a fork.
pub(super) fn begin_child() {
    *lock(&PATH) = None;
}

/// Takes the lock for the duration of a fork.
pub(super) fn lock_for_fork() -> impl Sized {
    lock(&PATH)
}

/// Returns the user at the other end of a connection, as the kernel knows it.
#[expect(unsafe_code, reason = "std has no stable SO_PEERCRED")]
pub(super) fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: writes at most `len` bytes to a struct of that size.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    let is_own = peer.uid == effective_uid() || peer.uid == 0;
    Ok(if is_own { Peer::Own } else { Peer::Other })
}

/// Creates a folder that only this user can enter, unless it exists. Fails if what exists is not
/// such a folder: another user may have made it.
fn private_folder(folder: &Path) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder)?;
    let is_own = metadata.is_dir() && metadata.uid() == effective_uid();
    if is_own && metadata.mode() & 0o777 == 0o700 {
        return Ok(folder.to_owned());
    }
    let message = format!("{} is not a folder of this user alone (mode 700)", folder.display());
    Err(io::Error::other(message))
}

#[expect(unsafe_code, reason = "std has no user id")]
fn effective_uid() -> u32 {
    // SAFETY: a system call without arguments that always succeeds.
    unsafe { libc::geteuid() }
}

/// Returns the device and inode number of an open socket.
fn identity(socket: &UnixListener) -> io::Result<(u64, u64)> {
    // SAFETY: the file is not dropped, so it does not close the descriptor; `fstat` of a number
    // that is no descriptor fails.
    #[expect(unsafe_code, reason = "std has the metadata of files alone")]
    let file = unsafe { ManuallyDrop::new(File::from_raw_fd(socket.as_raw_fd())) };
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Waits until a connection can be accepted. Returns whether one can.
#[expect(unsafe_code, reason = "std has no poll(2)")]
fn wait_readable(socket: &UnixListener, timeout: Duration) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = timeout.as_millis().try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: one valid entry.
    let ready = unsafe { libc::poll(&raw mut entry, 1, millis) };
    match ready {
        0 => Ok(false),
        1.. => Ok(entry.revents & libc::POLLIN != 0),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

/// Connects to a socket if its queue has room.
#[expect(unsafe_code, reason = "std connects only with blocking")]
fn connect_without_blocking(path: &Path) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a system call without pointers; a result that is not negative is a new descriptor.
    let socket = unsafe {
        match libc::socket(libc::AF_UNIX, flags, 0) {
            fd @ 0.. => OwnedFd::from_raw_fd(fd),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: plain data.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // The last byte stays zero.
    let room = address.sun_path.len() - 1;
    for (to, &from) in address.sun_path.iter_mut().take(room).zip(bytes) {
        *to = from.cast_signed();
    }
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: a valid address of that length.
    match unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) } {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}
