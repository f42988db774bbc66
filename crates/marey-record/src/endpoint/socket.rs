//! The listening socket of the endpoint: its private folder, its path, and the check that a peer
//! belongs to the same user.

use super::own_socket::OwnSocket;
use crate::environment;
use crate::lock::lock;
use marey_model::endpoint::{self, SocketOwner};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// The path of the socket that the endpoint listens at.
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
pub(super) struct Listener(OwnSocket<UnixListener>);

/// The result of waiting for a connection.
#[derive(Debug)]
pub(super) enum Accepted {
    /// A connection.
    Connection(OwnSocket<UnixStream>),
    /// No connection within the time.
    Nothing,
    /// No connection, and the next attempt may fail at once. A lack of free descriptors is one
    /// reason.
    Failed,
    /// The program has closed the socket's descriptor.
    LostDescriptor,
}

impl Listener {
    /// Listens at the path of this process, in a folder that no other user can enter.
    pub(super) fn bind() -> io::Result<Self> {
        let folder = endpoint::folder(environment::runtime_dir().as_deref(), effective_uid());
        let folder = private_folder(&folder).or_else(|error| {
            // The runtime folder of a user who has logged out no longer exists.
            let fallback = endpoint::folder(None, effective_uid());
            if fallback == folder { Err(error) } else { private_folder(&fallback) }
        })?;
        let path = folder.join(own_name());
        // A file at the path is left from an earlier process with the same pid.
        drop(fs::remove_file(&path));
        let socket = OwnSocket::create()?;
        listen(&socket, &path)?;
        *lock(&PATH) = Some(path);
        Ok(Self(socket))
    }

    /// Waits for the next connection.
    pub(super) fn accept(&self, timeout: Duration) -> Accepted {
        if !self.0.has_descriptor() {
            return Accepted::LostDescriptor;
        }
        match wait_readable(&self.0, timeout) {
            Ok(false) => return Accepted::Nothing,
            Err(_) => return Accepted::Failed,
            // The program may have closed the descriptor during the wait.
            Ok(true) if !self.0.has_descriptor() => return Accepted::LostDescriptor,
            Ok(true) => {}
        }
        let accepted = self.0.accept().and_then(|(stream, _)| OwnSocket::new(stream));
        let accepted = accepted.and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
        match accepted {
            Ok(stream) => Accepted::Connection(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Nothing,
            Err(_) => Accepted::Failed,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The socket that replaces one whose descriptor was lost has the same path.
        if self.0.has_descriptor() {
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

/// Makes the endpoint's thread return from its wait for a connection: connects and sends no
/// request.
pub(super) fn wake() {
    let Some(path) = lock(&PATH).clone() else { return };
    // Do not block. If the queue of connections is full, the thread is awake anyway.
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

/// Whether the process at the other end has closed the connection. A peer that has only finished
/// sending still reads the answer.
#[expect(unsafe_code, reason = "std has no poll(2)")]
pub(super) fn is_closed_by_peer(stream: &UnixStream) -> bool {
    let mut entry = libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one valid entry.
    let ready = unsafe { libc::poll(&raw mut entry, 1, 0) };
    ready > 0 && entry.revents & libc::POLLHUP != 0
}

/// Returns the name of this process's socket.
fn own_name() -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino());
    SocketOwner { pid: std::process::id(), pid_namespace: namespace.ok() }.socket_name()
}

/// Creates a folder that only this user can enter, unless it exists. Fails if the existing folder
/// can be entered by others or is another user's.
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
fn connect_without_blocking(path: &Path) -> io::Result<OwnSocket<UnixStream>> {
    let socket = OwnSocket::<UnixStream>::create()?;
    let address = address(path);
    // SAFETY: a valid address of this length.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), ADDRESS_LEN) })?;
    Ok(socket)
}

/// Binds a socket to a path and listens at it.
#[expect(unsafe_code, reason = "std closes the descriptor of a socket that it cannot bind")]
fn listen(socket: &UnixListener, path: &Path) -> io::Result<()> {
    /// The number of connections that may wait. It is the number that std uses.
    const QUEUE: libc::c_int = 128;
    let address = address(path);
    // SAFETY: a valid address of this length.
    unsafe {
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), ADDRESS_LEN))?;
        check(libc::listen(socket.as_raw_fd(), QUEUE))
    }
}

const ADDRESS_LEN: libc::socklen_t = size_of::<libc::sockaddr_un>() as libc::socklen_t;

/// Returns a path as the address of a socket. Truncates a path that is too long.
#[expect(unsafe_code, reason = "plain data of C")]
fn address(path: &Path) -> libc::sockaddr_un {
    // SAFETY: plain data, for which zeros are valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The last byte stays zero.
    let room = address.sun_path.len() - 1;
    for (to, &from) in address.sun_path.iter_mut().take(room).zip(path.as_os_str().as_bytes()) {
        *to = from.cast_signed();
    }
    address
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
