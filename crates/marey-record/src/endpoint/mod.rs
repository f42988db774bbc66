//! The Unix socket at which a recording process answers `marey ps`, `flush`, `sample`, `config` and
//! `watch`.
//!
//! A thread owns the socket from the first session on. It needs neither the GIL nor a lock of the
//! program, so it answers even while Python hangs. It passes samples and watches to Python and
//! waits a limited time. It reads one bounded request at a time, and only from processes of the
//! same user. No request runs code of the program or loads a file. The only files that a request
//! makes it write are those of the sessions, and the run that a ring is saved as beside them.

mod own_socket;
mod requests;
mod socket;

use self::socket::{Accepted, Listener, Peer};
use crate::device;
use crate::environment;
use crate::recorder;
use crate::worker::{STOP, Worker};
use marey_model::endpoint::{MAX_REQUEST_BYTES, Request, format_answer};
use marey_model::env;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The thread that answers.
pub(crate) static WORKER: Worker = Worker::with_wake("marey-endpoint", run, socket::wake);

/// The time that a peer has to send its request, and then to receive the answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The longest wait for a connection, after which the thread notices that the program has closed
/// the socket's descriptor.
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// The pause after a failure, such as a lack of descriptors.
const RETRY_PERIOD: Duration = Duration::from_millis(200);
/// The time between two checks whether the thread is to end, while it waits for a part of a request
/// or for Python.
pub(crate) const STOP_CHECK_PERIOD: Duration = Duration::from_millis(20);

/// Connections of other users that were refused.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Starts the thread, unless the environment says not to.
pub(crate) fn ensure_running() {
    if environment::text(env::ENDPOINT).is_none_or(|value| env::is_on(Some(&value))) {
        WORKER.ensure_running();
    }
}

/// Stops the thread if no session is alive.
pub(crate) fn stop_if_idle() {
    if recorder::live_sessions().is_empty() && !crate::worker::is_worker_thread() {
        WORKER.stop();
        // A session that has started meanwhile found the thread still running.
        if !recorder::live_sessions().is_empty() {
            ensure_running();
        }
    }
}

/// Removes the socket's path, before the process ends by a signal.
pub(crate) fn remove_path() {
    socket::remove_path();
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    socket::lock_for_fork()
}

/// Forgets the socket of the parent, in the child of a fork.
pub(crate) fn begin_child() {
    socket::begin_child();
    REFUSED.store(0, Ordering::Relaxed);
}

fn run() {
    let mut listener = match Listener::bind() {
        Ok(listener) => listener,
        Err(error) => return device::note("endpoint", format!("no socket: {error}")),
    };
    let mut pause = Duration::ZERO;
    while WORKER.wait(Some(pause)) & STOP == 0 {
        pause = Duration::ZERO;
        match listener.accept(POLL_PERIOD) {
            Accepted::Connection(stream) => answer(&stream),
            Accepted::Nothing => {}
            Accepted::Failed => pause = RETRY_PERIOD,
            Accepted::LostDescriptor => match Listener::bind() {
                Ok(bound) => listener = bound,
                Err(_) => pause = RETRY_PERIOD,
            },
        }
    }
}

/// Answers one request. A peer that is gone gets no answer.
fn answer(mut stream: &UnixStream) {
    let answer = match socket::peer(stream) {
        Ok(Peer::Own) => match read_request(stream) {
            Ok(line) if line.is_empty() => return,
            Ok(line) => Request::parse(&line).and_then(|request| {
                requests::answer(&request, &|| socket::is_closed_by_peer(stream))
            }),
            Err(_) => return,
        },
        Ok(Peer::Other) => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            Err("this process belongs to another user".to_owned())
        }
        Err(_) => return,
    };
    let sent = stream.set_write_timeout(Some(TIMEOUT));
    drop(sent.and_then(|()| stream.write_all(format_answer(&answer).as_bytes())));
}

/// Returns the bytes up to the first newline, or up to the end. Fails after the timeout, and when
/// the thread is to end, because a silent peer must not delay that. Stops once
/// the request is longer than the maximum, so the caller can tell that it is too long.
fn read_request(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut line = Vec::new();
    let mut buffer = [0; 512];
    while line.len() <= MAX_REQUEST_BYTES {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(remaining.min(STOP_CHECK_PERIOD)))?;
        let count = match stream.read(&mut buffer) {
            Err(error) if is_incomplete(&error) && !WORKER.is_stopping() => continue,
            read => read?,
        };
        let received = buffer.get(..count).unwrap_or_default();
        match received.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                line.extend(received.iter().take(end));
                return Ok(line);
            }
            None if count == 0 => return Ok(line),
            None => line.extend(received),
        }
    }
    Ok(line)
}

/// Whether a read ended before there was anything to read.
fn is_incomplete(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}
