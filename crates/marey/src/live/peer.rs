//! Finds the sockets of processes that record, and exchanges requests and answers with them.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use marey_attach::process::{inner_pid, is_stopped, pid_in_namespace, pid_namespace};
use marey_model::endpoint::{self, Facts, MAX_ANSWER_BYTES, Request, SocketOwner};

use crate::output::Failure;
use crate::text::printable;

/// The maximum time for an answer. It is long, because a flush writes files.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time for the socket to appear. A process closes it during a fork.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// The maximum time for a process to open its socket again after the program has closed its
/// descriptor.
const REOPEN_TIMEOUT: Duration = Duration::from_millis(600);
const RETRY_PERIOD: Duration = Duration::from_millis(20);
const RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";

/// A process and the path of its socket.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) pid: u32,
    socket: PathBuf,
}

impl Peer {
    /// Returns a process that records. Fails with the reason if it does not.
    pub(super) fn find(pid: u32) -> Result<Self, Failure> {
        let process_folder = PathBuf::from(format!("/proc/{pid}"));
        let Ok(owner) = fs::metadata(&process_folder).map(|metadata| metadata.uid()) else {
            return Err(Failure::new(format!("there is no process {pid}")));
        };
        // A process in a container has another id and another root folder there.
        let (root, own_pid) = (process_folder.join("root"), inner_pid(pid).unwrap_or(pid));
        let socket_names = [pid_namespace(pid), None]
            .map(|pid_namespace| SocketOwner { pid: own_pid, pid_namespace }.socket_name());
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        loop {
            for folder in folders(owner, environment_of(&process_folder, RUNTIME_DIR).as_deref()) {
                let folder = root.join(folder.strip_prefix("/").unwrap_or(&folder));
                let mut sockets = socket_names.iter().map(|name| folder.join(name));
                if is_private(&folder, owner)
                    && let Some(socket) = sockets.find(|path| UnixStream::connect(path).is_ok())
                {
                    return Ok(Self { pid, socket });
                }
            }
            if Instant::now() >= deadline {
                return Err(not_recording(pid, owner));
            }
            thread::park_timeout(RETRY_PERIOD);
        }
    }

    /// Returns the processes of this user that record on this machine, by process id, and for root
    /// those of all users. Removes the sockets of processes that were killed. If another process
    /// has got the id of a killed one, the socket stays and is returned. [`Self::status`] removes
    /// it.
    pub(super) fn all() -> Vec<Self> {
        let mut peers = Vec::new();
        for (folder, owner) in all_folders() {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries.filter(|_| is_private(&folder, owner)) {
                let name = entry.file_name();
                let owner = name.to_str().and_then(SocketOwner::from_socket_name);
                let Some(owner) = owner else { continue };
                if let Some(pid) = pid_here(owner) {
                    peers.push(Self { pid, socket: entry.path() });
                } else if is_abandoned(&entry.path()) {
                    drop(fs::remove_file(entry.path()));
                }
            }
        }
        peers.sort_by_key(|peer| peer.pid);
        peers
    }

    /// Returns the facts about the process. If nobody listens at its socket, removes the socket and
    /// returns `None`.
    pub(super) fn status(&self) -> Option<Result<Facts, Failure>> {
        let deadline = Instant::now() + REOPEN_TIMEOUT;
        loop {
            let is_refused = match self.exchange(&Request::Status) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                answer => return Some(self.facts(answer)),
            };
            if Instant::now() >= deadline {
                if is_refused {
                    drop(fs::remove_file(&self.socket));
                }
                return None;
            }
            thread::park_timeout(RETRY_PERIOD);
        }
    }

    /// Returns the error for a process that does not answer.
    pub(super) fn no_answer_failure(&self, reason: &str) -> Failure {
        let pid = self.pid;
        let state = if is_stopped(pid) { "it is stopped; " } else { "" };
        Failure {
            message: format!("process {pid} does not answer: {state}{reason}"),
            hint: Some(format!("`marey dump {pid}` shows where the process is")),
        }
    }

    /// Sends a request and returns the answer.
    pub(super) fn ask(&self, request: &Request) -> Result<Facts, Failure> {
        self.facts(self.exchange(request))
    }

    fn facts(&self, answer: io::Result<String>) -> Result<Facts, Failure> {
        let pid = self.pid;
        let text = answer.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.no_answer_failure("no answer in time")
            }
            _ => self.no_answer_failure(&error.to_string()),
        })?;
        match endpoint::parse_answer(&text) {
            Some(Ok(facts)) => Ok(facts),
            Some(Err(refusal)) => {
                Err(Failure::new(format!("process {pid} refuses: {}", printable(&refusal))))
            }
            None => Err(Failure {
                message: format!("the answer of process {pid} is incomplete"),
                hint: Some("it may record with another version of marey".to_owned()),
            }),
        }
    }

    fn exchange(&self, request: &Request) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(request.to_line().as_bytes())?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER_BYTES as u64).read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Returns the path by which this program reaches a file of that process.
    pub(super) fn path_outside(&self, path: &Path) -> PathBuf {
        let through_root = PathBuf::from(format!("/proc/{}/root", self.pid))
            .join(path.strip_prefix("/").unwrap_or(path));
        let identity = |path: Option<&Path>| {
            fs::metadata(path?).map(|metadata| (metadata.dev(), metadata.ino())).ok()
        };
        let (mut path_here, mut path_there) = (Some(path), Some(through_root.as_path()));
        if identity(path_there).is_none() {
            // The file is not written yet, so the folders are compared.
            (path_here, path_there) = (path.parent(), through_root.parent());
        }
        let is_same = identity(path_here) == identity(path_there) || identity(path_there).is_none();
        if is_same { path.to_owned() } else { through_root }
    }
}

/// Returns the process id, in the namespace of this program, of the owner of a socket. `None` if
/// the owner does not exist.
fn pid_here(owner: SocketOwner) -> Option<u32> {
    let own_namespace = pid_namespace(std::process::id());
    match owner.pid_namespace.filter(|_| owner.pid_namespace != own_namespace) {
        Some(namespace) => pid_in_namespace(owner.pid, namespace),
        None => Some(owner.pid).filter(|pid| Path::new(&format!("/proc/{pid}")).exists()),
    }
}

/// Whether no process listens at a socket, which may also be one of another container.
fn is_abandoned(socket: &Path) -> bool {
    UnixStream::connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn not_recording(pid: u32, owner: u32) -> Failure {
    let (message, hint) = if is_allowed(owner) {
        let hint = format!("`marey dump {pid}` and `marey record -p {pid}` read it from outside");
        (format!("process {pid} does not record"), hint)
    } else {
        let hint = "run the command as that user, or as root".to_owned();
        (format!("process {pid} belongs to another user"), hint)
    };
    Failure { message, hint: Some(hint) }
}

/// Returns the folders in which a process of a user may have its socket.
fn folders(owner: u32, runtime_dir: Option<&Path>) -> Vec<PathBuf> {
    let login_folder = PathBuf::from(format!("/run/user/{owner}"));
    let mut folders = vec![
        endpoint::folder(runtime_dir, owner),
        endpoint::folder(Some(&login_folder), owner),
        endpoint::folder(None, owner),
    ];
    let mut seen_folders = Vec::new();
    folders.retain(|folder| {
        !seen_folders.contains(folder) && {
            seen_folders.push(folder.clone());
            true
        }
    });
    folders
}

/// Returns the folders with sockets of this user, and for root those of all users, each with its
/// owner.
fn all_folders() -> Vec<(PathBuf, u32)> {
    let own_user_id = own_user_id();
    let mut user_ids = vec![own_user_id];
    if own_user_id == 0 {
        user_ids.extend(user_ids_in("/run/user", ""));
        user_ids.extend(user_ids_in("/tmp", "marey-"));
        user_ids.sort_unstable();
        user_ids.dedup();
    }
    let runtime_dir = environment_of(Path::new("/proc/self"), RUNTIME_DIR);
    let folders_of_user = |user_id: u32| {
        let own_runtime_dir = runtime_dir.as_deref().filter(|_| user_id == own_user_id);
        folders(user_id, own_runtime_dir).into_iter().map(move |folder| (folder, user_id))
    };
    user_ids.into_iter().flat_map(folders_of_user).collect()
}

fn user_ids_in(folder: &str, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect()
}

/// Whether only `owner` can create files in a folder.
fn is_private(folder: &Path, owner: u32) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|metadata| {
        metadata.is_dir() && metadata.uid() == owner && metadata.mode() & 0o777 == 0o700
    })
}

fn is_allowed(owner: u32) -> bool {
    matches!(own_user_id(), user if user == owner || user == 0)
}

fn own_user_id() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |metadata| metadata.uid())
}

/// Returns a variable of the environment that a process was started with.
fn environment_of(process: &Path, name: &str) -> Option<PathBuf> {
    let environment = fs::read(process.join("environ")).ok()?;
    let prefix = format!("{name}=");
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    Some(PathBuf::from(String::from_utf8_lossy(value).into_owned()))
}
