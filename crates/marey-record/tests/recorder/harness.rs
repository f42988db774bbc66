//! Test fixtures: exclusive use of the process's recorder, and subprocesses.

use crate::profile::Profile;
use marey_record::{Format, NodeKind, SessionId, SessionOptions, api};
use std::any::type_name;
use std::io::{BufRead, BufReader};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
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

    /// Begins with a session whose file no test reads.
    pub(crate) fn with_session() -> (Self, SessionId) {
        let fixture = Self::begin();
        let session = fixture.start("session");
        (fixture, session)
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn options(&self, name: &str) -> SessionOptions {
        options(self.path(name), Format::Hatchet)
    }

    pub(crate) fn start(&self, name: &str) -> SessionId {
        start(self.path(name), Format::Hatchet)
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

/// Returns the options of a session whose name is a path without extension.
pub(crate) fn options(path: impl AsRef<Path>, format: Format) -> SessionOptions {
    SessionOptions { format, ..SessionOptions::named(path.as_ref().to_str().unwrap()) }
}

pub(crate) fn start(path: impl AsRef<Path>, format: Format) -> SessionId {
    api::start(&options(path, format)).unwrap()
}

pub(crate) fn start_trace(path: impl AsRef<Path>) -> SessionId {
    start(path, Format::ChromeTrace)
}

/// Ends all sessions of the process. Returns whether their files could be written.
pub(crate) fn finalize_all() -> bool {
    api::live_sessions().into_iter().all(|session| api::finalize(session, None).is_ok())
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

/// Returns by how much a closure makes the memory of this process grow.
pub(crate) fn grown_kib(run: impl FnOnce()) -> u64 {
    let before = memory_kib("RssAnon:");
    run();
    memory_kib("RssAnon:").saturating_sub(before)
}

/// Waits until a condition holds. Fails with this message if it takes half a minute.
pub(crate) fn wait_until(message: &str, mut condition: impl FnMut() -> bool) {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "{message}");
        thread::yield_now();
    }
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

/// A thread that runs a function for each request.
pub(crate) struct RequestThread<T> {
    requests: SyncSender<T>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> RequestThread<T> {
    pub(crate) fn start(name: &str, run: impl Fn(T) + Send + 'static) -> Self {
        let (requests, received) = sync_channel(0);
        let (sender, done) = sync_channel(0);
        let run = move || {
            for request in received {
                run(request);
                sender.send(()).unwrap();
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run).unwrap();
        Self { requests, done, thread }
    }

    /// Lets the thread run the function, and waits until it has.
    pub(crate) fn request(&self, request: T) {
        self.requests.send(request).unwrap();
        self.done.recv().unwrap();
    }

    pub(crate) fn end(self) {
        drop(self.requests);
        self.thread.join().unwrap();
    }
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
    let (sender, ended) = sync_channel(1);
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

/// A test with a part that runs in subprocesses: this program again, with that test alone, in the
/// folder of the test.
pub(crate) struct Subprocess {
    test: &'static str,
}

const PART: &str = "MAREY_TEST_PART";
const READY: &str = "ready for the test";

impl Subprocess {
    /// Returns the subprocess of the test that calls this. In the subprocess itself runs `part`, a
    /// closure of the test, with the name of the part, and returns `None`.
    pub(crate) fn of<Part: FnOnce(&str)>(part: Part) -> Option<Self> {
        if let Some(name) = current_part() {
            part(&name);
            return None;
        }
        Some(Self::of_test_with::<Part>())
    }

    /// Returns the subprocess of the test that a closure is in.
    fn of_test_with<Closure>() -> Self {
        let (_program, path) = type_name::<Closure>().split_once("::").unwrap();
        let (test, _closure) = path.split_once("::{{closure}}").unwrap();
        Self { test }
    }

    /// Starts the subprocess with pipes.
    pub(crate) fn spawn(&self, part: &str, fixture: &Fixture, env: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .current_dir(fixture.folder.path())
            .env(PART, part)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the subprocess, which must succeed. Returns its process id.
    pub(crate) fn run(&self, part: &str, fixture: &Fixture, env: &[(&str, &str)]) -> u32 {
        let child = self.spawn(part, fixture, env);
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        // A name that no test has is no failure.
        assert!(output.status.success() && stdout.contains("running 1 test"), "{stdout}");
        pid
    }

    /// Starts the subprocess and kills it when it is ready, after `check`.
    pub(crate) fn kill(
        &self,
        part: &str,
        fixture: &Fixture,
        env: &[(&str, &str)],
        check: impl FnOnce(),
    ) {
        let mut child = self.spawn(part, fixture, env);
        let _out = wait_until_ready(&mut child);
        check();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Returns the name of the part that this subprocess runs; `None` in a test itself.
#[expect(clippy::disallowed_methods, reason = "no thread sets a variable in a test")]
fn current_part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Runs `part`, a closure of a test, in a subprocess. Returns the folder with the files that it has
/// left; `None` in the subprocess itself.
pub(crate) fn run_in_subprocess<Part: FnOnce()>(
    env: &[(&str, &str)],
    part: Part,
) -> Option<Fixture> {
    if current_part().is_some() {
        part();
        return None;
    }
    let fixture = Fixture::begin();
    Subprocess::of_test_with::<Part>().run("run", &fixture, env);
    Some(fixture)
}

/// As [`run_in_subprocess`], but kills the subprocess when the closure has returned.
pub(crate) fn run_and_kill<Part: FnOnce()>(env: &[(&str, &str)], part: Part) -> Option<Fixture> {
    if current_part().is_some() {
        part();
        report_ready();
        wait_for_end_of_stdin();
        return None;
    }
    let fixture = Fixture::begin();
    Subprocess::of_test_with::<Part>().kill("run", &fixture, env, || ());
    Some(fixture)
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
