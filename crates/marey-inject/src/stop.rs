//! Stops all threads of a process for a moment.
//!
//! A thread of this program becomes the tracer, stops the others, and ends. The kernel then resumes
//! all of them, and delivers the signals that arrived meanwhile, even if this program is killed.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use marey_attach::process;
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::sys::{prctl, ptrace};
use nix::unistd::Pid;

/// Time in which all threads must stop. A thread in an uninterruptible system call does not.
const STOP_TIMEOUT: Duration = Duration::from_millis(20);

/// Time between two looks at threads that have not stopped yet.
const POLL_PAUSE: Duration = Duration::from_micros(10);

/// Why a process could not be stopped.
#[derive(Debug)]
pub(crate) enum Unstopped {
    /// The system forbids it, or another debugger traces the process.
    Refused,
    /// A thread did not stop in time.
    Late(i32),
    /// The tracer could not be started, or all threads have ended.
    Gone,
}

/// Returns the result of `work`, called while all threads of the process are stopped, and for how
/// long they were.
pub(crate) fn while_stopped<T: Send>(
    pid: u32,
    work: impl FnOnce() -> T + Send,
) -> Result<(T, Duration), Unstopped> {
    let traced = move || {
        // Otherwise the kernel adds 50 microseconds to each pause. It always allows this.
        prctl::set_timerslack(1).map_err(|_error| Unstopped::Gone)?;
        let mut stop = Stop { pid, known: HashSet::new(), start: None };
        stop.stop_all().map(|()| (work(), stop.start))
    };
    let builder = thread::Builder::new().name("marey-tracer".into());
    let joined = thread::scope(|scope| {
        builder
            .spawn_scoped(scope, traced)
            .map_err(|_error| Unstopped::Gone)?
            .join()
            .map_err(|_error| Unstopped::Gone)
    });
    let (result, start) = joined??;
    Ok((result, start.map_or(Duration::ZERO, |start| start.elapsed())))
}

/// The threads that are stopped so far.
struct Stop {
    pid: u32,
    known: HashSet<i32>,
    /// Time at which the first thread was stopped.
    start: Option<Instant>,
}

impl Stop {
    /// Stops the threads that exist, then those that they have started meanwhile.
    fn stop_all(&mut self) -> Result<(), Unstopped> {
        loop {
            let mut new = threads(self.pid);
            new.retain(|id| self.known.insert(*id));
            if new.is_empty() {
                return if self.start.is_some() { Ok(()) } else { Err(Unstopped::Gone) };
            }
            let (mut sleeping, mut running) = (Vec::new(), Vec::new());
            for id in new {
                if seize(self.pid, id)? {
                    let is_running = state(self.pid, id) == Some('R');
                    if is_running { &mut running } else { &mut sleeping }.push(Pid::from_raw(id));
                }
            }
            // Sleeping threads first, so that the running ones are stopped for a shorter time.
            self.interrupt(sleeping)?;
            self.interrupt(running)?;
        }
    }

    /// Stops these threads.
    fn interrupt(&mut self, mut threads: Vec<Pid>) -> Result<(), Unstopped> {
        let start = *self.start.get_or_insert_with(Instant::now);
        threads.retain(|id| ptrace::interrupt(*id).is_ok());
        for id in threads {
            while !has_stopped(id) {
                if start.elapsed() > STOP_TIMEOUT {
                    return Err(Unstopped::Late(id.as_raw()));
                }
                thread::park_timeout(POLL_PAUSE);
            }
        }
        Ok(())
    }
}

/// Begins to trace a thread, which runs on. Returns false if it has ended.
fn seize(pid: u32, id: i32) -> Result<bool, Unstopped> {
    match ptrace::seize(Pid::from_raw(id), ptrace::Options::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(_) if matches!(state(pid, id), None | Some('Z' | 'X')) => Ok(false),
        Err(_) => Err(Unstopped::Refused),
    }
}

/// Whether a thread has stopped or ended.
fn has_stopped(id: Pid) -> bool {
    // An error is a stop by a real-time signal, which `nix` cannot name, or a thread that has ended.
    !matches!(
        waitpid(id, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)),
        Ok(WaitStatus::StillAlive)
    )
}

fn threads(pid: u32) -> Vec<i32> {
    process::threads(pid).into_iter().filter_map(|id| id.try_into().ok()).collect()
}

fn state(pid: u32, id: i32) -> Option<char> {
    process::state(pid, id.try_into().ok()?)
}
