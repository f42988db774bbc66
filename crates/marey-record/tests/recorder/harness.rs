//! Test fixtures: exclusive use of the process's recorder, and subprocesses.

use crate::profile::Profile;
use marey_record::{Format, NodeKind, SessionId, SessionOptions, api};
use std::io::{BufRead, BufReader};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Exclusive use of the recorder, with nothing recorded, and a folder for the files.
pub(crate) struct Fixture {
    folder: TempDir,
    _exclusive: MutexGuard<'static, ()>,
}

impl Fixture {
    pub(crate) fn begin() -> Self {
        static EXCLUSIVE: Mutex<()> = Mutex::new(());
        let fixture = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
        Self { folder: TempDir::new().unwrap(), _exclusive: fixture }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn options(&self, name: &str) -> SessionOptions {
        SessionOptions::named(self.path(name).to_str().unwrap())
    }

    pub(crate) fn start(&self, name: &str) -> SessionId {
        api::start(&self.options(name)).unwrap()
    }

    /// The names of the files in the folder, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn read(&self, file: &str) -> Profile {
        Profile::parse(&std::fs::read(self.path(file)).unwrap())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for session in api::live_sessions() {
            api::discard(session).unwrap();
        }
    }
}

/// Returns the profile of a session's first phase.
pub(crate) fn profile_of(session: SessionId) -> Profile {
    phase_profile(session, 0)
}

pub(crate) fn phase_profile(session: SessionId, phase: u32) -> Profile {
    Profile::parse(&api::get_data(session, phase, Format::Hatchet).unwrap())
}

pub(crate) fn enter(name: &str) -> u64 {
    api::enter(api::intern(name), NodeKind::Scope)
}

pub(crate) fn exit(name: &str) -> u64 {
    api::exit(api::intern(name))
}

pub(crate) fn scope<T>(name: &str, body: impl FnOnce() -> T) -> T {
    enter(name);
    let value = body();
    exit(name);
    value
}

/// Returns a memory size of this process, by its name in `/proc/self/status`.
pub(crate) fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A flag for other threads that the test is over, set on failure too.
#[derive(Default)]
pub(crate) struct StopFlag(AtomicBool);

/// Sets the flag on drop.
pub(crate) struct StopGuard<'a>(&'a StopFlag);

impl StopFlag {
    pub(crate) fn guard(&self) -> StopGuard<'_> {
        StopGuard(self)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a closure on another thread and waits for the end of the thread, destructors included.
pub(crate) fn on_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    thread::Builder::new().name(name.to_owned()).spawn(run).unwrap().join().unwrap()
}

/// Forks. Returns the exit status of the child, which is the result of `child`.
#[expect(unsafe_code, reason = "std has no fork")]
pub(crate) fn fork(child: impl FnOnce() -> i32) -> i32 {
    const TIMEOUT: Duration = Duration::from_mins(1);
    // SAFETY: the child calls what a forked child may, and does not return.
    let pid = unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => pid,
        }
    };
    let (sender, ended) = mpsc::sync_channel(1);
    let wait = move || {
        let mut status = 0;
        // SAFETY: the status can be written.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        sender.send(status).unwrap();
    };
    thread::Builder::new().name("waits".to_owned()).spawn(wait).unwrap();
    let Ok(status) = ended.recv_timeout(TIMEOUT) else {
        // SAFETY: a child of this process that was not reaped yet.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        panic!("the child hangs");
    };
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

/// Runs a part of a test in a forked child, where the thread of the test is the main thread.
pub(crate) fn as_main_thread(part: fn(&Fixture)) {
    let fixture = Fixture::begin();
    let child = || catch_unwind(|| part(&fixture)).is_err().into();
    assert_eq!(fork(child), 0, "the child has failed");
}

/// A subprocess that runs this program again, with one part of one test.
pub(crate) struct Subprocess<'a> {
    test: &'a str,
    part: &'a str,
    fixture: &'a Fixture,
}

const PART: &str = "MAREY_TEST_PART";
const FOLDER: &str = "MAREY_TEST_FOLDER";
const READY: &str = "ready for the test";

impl<'a> Subprocess<'a> {
    pub(crate) fn new(test: &'a str, part: &'a str, fixture: &'a Fixture) -> Self {
        Self { test, part, fixture }
    }

    /// Starts the subprocess with pipes.
    pub(crate) fn spawn(&self, env: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .env(PART, self.part)
            .env(FOLDER, self.fixture.folder.path())
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the subprocess, which must succeed. Returns its process id.
    pub(crate) fn run(&self, env: &[(&str, &str)]) -> u32 {
        let child = self.spawn(env);
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        pid
    }
}

/// Returns the part of the test that this subprocess runs, and the folder of the test; `None` in
/// the test itself.
#[expect(clippy::disallowed_methods, reason = "no thread sets a variable in a test")]
pub(crate) fn subprocess_part() -> Option<(String, PathBuf)> {
    Some((std::env::var(PART).ok()?, PathBuf::from(std::env::var_os(FOLDER)?)))
}

/// Signals, in a subprocess, that the test may go on.
pub(crate) fn report_ready() {
    println!("\n{READY}");
}

/// Waits, in a subprocess, until the test closes its standard input.
pub(crate) fn wait_for_end_of_stdin() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Waits until a subprocess is ready. Returns its output pipe, which it may still write to.
pub(crate) fn wait_until_ready(child: &mut Child) -> impl BufRead + use<> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != READY {
        line.clear();
        assert_ne!(
            out.read_line(&mut line).unwrap(),
            0,
            "the subprocess ended before it was ready"
        );
    }
    out
}
