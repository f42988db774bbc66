//! Stops all threads of a process for a moment.
//!
//! A thread of this program becomes the tracer, stops the others, and ends. The kernel then resumes
//! all of them, and delivers the signals that arrived meanwhile, even if this program is killed.
//! Threads that run are stopped last and resumed first, because each of hundreds that sleep has to be
//! woken to stop it.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use marey_attach::process;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::sys::{prctl, ptrace};
use nix::unistd::Pid;

/// Time in which all threads must stop. A thread in an uninterruptible system call does not.
const STOP_TIMEOUT: Duration = Duration::from_millis(20);

/// Time between two looks at threads that have not stopped yet.
const POLL_PAUSE: Duration = Duration::from_micros(10);

/// Lowest value of `nice`. Linux has one for each thread.
const HIGHEST_PRIORITY: i32 = -20;

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

/// Time for which a process was stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stopped {
    /// That of the threads that ran.
    pub running: Duration,
    /// That of any thread.
    pub any: Duration,
}

/// Returns the result of `work`, called while all threads of the process are stopped, and for how
/// long they were.
pub(crate) fn while_stopped<T: Send>(
    pid: u32,
    work: impl FnOnce() -> T + Send,
) -> Result<(T, Stopped), Unstopped> {
    let traced = move || {
        // Otherwise the kernel adds 50 microseconds to each pause. It always allows this.
        prctl::set_timerslack(1).map_err(|_error| Unstopped::Gone)?;
        precede_other_programs();
        let mut stop = Stop { pid, ..Stop::default() };
        stop.stop_all()?;
        let result = work();
        Ok((result, stop.start, stop.resume_running()))
    };
    let builder = thread::Builder::new().name("marey-tracer".into());
    let joined = thread::scope(|scope| {
        builder
            .spawn_scoped(scope, traced)
            .map_err(|_error| Unstopped::Gone)?
            .join()
            .map_err(|_error| Unstopped::Gone)
    });
    let (result, start, running) = joined??;
    let any = start.map_or(Duration::ZERO, |start| start.elapsed());
    Ok((result, Stopped { running: running.unwrap_or(any), any }))
}

/// Raises the priority of this thread, if the system allows it: on a busy machine other programs would
/// otherwise run while the process is stopped.
fn precede_other_programs() {
    rustix::process::setpriority_process(None, HIGHEST_PRIORITY).unwrap_or_default();
}

/// The threads that are stopped so far.
#[derive(Default)]
struct Stop {
    pid: u32,
    known: HashSet<i32>,
    /// Time at which the first thread was stopped.
    start: Option<Instant>,
    /// The threads that ran, with their stops.
    running: Vec<(Pid, WaitStatus)>,
    /// Time at which the first of them was stopped.
    running_start: Option<Instant>,
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
            self.interrupt(sleeping)?;
            if !running.is_empty() {
                self.running_start.get_or_insert_with(Instant::now);
                let stops = self.interrupt(running)?;
                self.running.extend(stops);
            }
        }
    }

    /// Stops these threads. Returns them with their stops.
    fn interrupt(&mut self, mut threads: Vec<Pid>) -> Result<Vec<(Pid, WaitStatus)>, Unstopped> {
        let start = *self.start.get_or_insert_with(Instant::now);
        threads.retain(|id| ptrace::interrupt(*id).is_ok());
        let mut stops = Vec::with_capacity(threads.len());
        for id in threads {
            loop {
                match waitpid(id, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
                    Ok(WaitStatus::StillAlive) => {}
                    Ok(status) => break stops.push((id, status)),
                    // A stop by a real-time signal, which `nix` cannot name, or the thread has ended.
                    Err(_) => break stops.push((id, WaitStatus::StillAlive)),
                }
                if start.elapsed() > STOP_TIMEOUT {
                    return Err(Unstopped::Late(id.as_raw()));
                }
                thread::park_timeout(POLL_PAUSE);
            }
        }
        Ok(stops)
    }

    /// Resumes the threads that ran. Returns for how long they were stopped; `None` if one still is.
    fn resume_running(&self) -> Option<Duration> {
        let mut are_resumed = true;
        for (id, stop) in &self.running {
            // Only a stop of our own: a signal that has stopped a thread is delivered by the kernel
            // when this thread ends, but would be lost here.
            let is_ours = matches!(stop, WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _));
            are_resumed &= is_ours && ptrace::detach(*id, None).is_ok();
        }
        are_resumed.then(|| self.running_start.map_or(Duration::ZERO, |start| start.elapsed()))
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

fn threads(pid: u32) -> Vec<i32> {
    process::threads(pid).into_iter().filter_map(|id| id.try_into().ok()).collect()
}

fn state(pid: u32, id: i32) -> Option<char> {
    process::state(pid, id.try_into().ok()?)
}
