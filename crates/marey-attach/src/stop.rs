//! Stops all threads of a process for a moment, by `ptrace(2)`.
//!
//! A thread of this program becomes the tracer, stops the threads, and ends. The kernel then
//! releases all of them, also one that did not stop, and delivers the signals that arrived
//! meanwhile. It does so even if this program is killed. A thread that sleeps must be woken to be
//! stopped, and there may be hundreds. So the threads that run are stopped last and released first.

use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::sys::{prctl, ptrace};
use nix::unistd::{Pid, gettid};

use crate::process;

/// Name of the thread that becomes the tracer, for a moment.
pub const TRACER: &str = "marey-tracer";

/// Pause between two checks whether a thread has stopped.
const POLL_PAUSE: Duration = Duration::from_micros(10);

/// Maximum time to wait until the kernel has released the threads of an ended tracer. It needs
/// microseconds.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(100);

/// The value of `nice` with the highest priority. On Linux it applies to one thread.
const HIGHEST_PRIORITY: i32 = -20;

/// Why a process could not be stopped.
#[derive(Debug)]
pub enum StopError {
    /// The system forbids it, or another debugger traces the process.
    Refused,
    /// This thread did not stop in time.
    TimedOut(i32),
    /// The tracer could not be started, or all threads have ended.
    Ended,
}

impl StopError {
    /// Returns the reason for a message.
    pub fn reason(&self) -> String {
        match self {
            Self::Refused => "its threads cannot be stopped".to_owned(),
            Self::TimedOut(id) => {
                format!("thread {id} does not stop: it waits for a device or a child")
            }
            Self::Ended => "its threads have ended".to_owned(),
        }
    }
}

/// Time for which a process was stopped, in all attempts.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoppedTime {
    /// Time for which threads that ran were stopped.
    pub running: Duration,
    /// Time for which any thread was stopped.
    pub any: Duration,
}

/// Registers of a thread that say where its stack is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// Address of the next instruction.
    pub(crate) instruction_pointer: u64,
    /// Address of the end of the stack.
    pub(crate) stack_pointer: u64,
    /// Frame pointer.
    pub(crate) frame_pointer: u64,
    /// Return address, 0 where it is on the stack.
    pub(crate) return_address: u64,
}

/// Returns the result of `work`, which is called while all threads of the process are stopped, on a
/// thread of its own.
///
/// All threads must stop within `timeout`. One in an uninterruptible system call does not, and the
/// others were then stopped in vain. The time for which threads were stopped is added to `stopped`
/// in either case.
pub fn while_stopped<T: Send>(
    pid: u32,
    timeout: Duration,
    stopped: &mut StoppedTime,
    work: impl FnOnce() -> T + Send,
) -> Result<T, StopError> {
    let tracer = OnceLock::new();
    let trace = || {
        tracer.get_or_init(gettid);
        // With the default slack the kernel adds 50 microseconds to each pause. This never fails.
        prctl::set_timerslack(1).map_err(|_error| StopError::Ended)?;
        raise_priority();
        let mut stop = StoppedThreads { pid, timeout, ..StoppedThreads::default() };
        let result = stop.stop_all().map(|()| work());
        let running_time = if result.is_ok() { stop.release_running() } else { None };
        Ok((result, stop.first_stop, stop.first_running_stop, running_time))
    };
    let builder = thread::Builder::new().name(TRACER.into());
    let joined = thread::scope(|scope| {
        builder
            .spawn_scoped(scope, trace)
            .map_err(|_error| StopError::Ended)?
            .join()
            .map_err(|_error| StopError::Ended)
    });
    if let Some(tracer) = tracer.get() {
        await_release(*tracer);
    }
    let (result, first_stop, first_running_stop, running_time) = joined??;
    let now = Instant::now();
    let elapsed = |first_stop: Option<Instant>| {
        first_stop.map_or(Duration::ZERO, |first_stop| now - first_stop)
    };
    stopped.any += elapsed(first_stop);
    stopped.running += running_time.unwrap_or_else(|| elapsed(first_running_stop));
    result
}

/// Waits until the kernel has released the threads. It does so after `join` has returned, and
/// before it removes the tracer from `/proc`.
fn await_release(tracer: Pid) {
    let (start, path) = (Instant::now(), format!("/proc/self/task/{tracer}"));
    while Path::new(&path).exists() && start.elapsed() < RELEASE_TIMEOUT {
        thread::park_timeout(POLL_PAUSE);
    }
}

/// Raises the priority of this thread, if the system allows it. Otherwise other programs of a busy
/// machine would run while the process is stopped.
fn raise_priority() {
    rustix::process::setpriority_process(None, HIGHEST_PRIORITY).unwrap_or_default();
}

/// Returns the registers of a thread that is stopped. Called in the work of [`while_stopped`].
pub(crate) fn registers(thread: u64) -> Option<Registers> {
    let registers = ptrace::getregs(Pid::from_raw(i32::try_from(thread).ok()?)).ok()?;
    #[cfg(target_arch = "x86_64")]
    let registers = Registers {
        instruction_pointer: registers.rip,
        stack_pointer: registers.rsp,
        frame_pointer: registers.rbp,
        return_address: 0,
    };
    #[cfg(target_arch = "aarch64")]
    let registers = Registers {
        instruction_pointer: registers.pc,
        stack_pointer: registers.sp,
        frame_pointer: registers.regs[29],
        return_address: registers.regs[30],
    };
    Some(registers)
}

/// The threads that are stopped so far.
#[derive(Default)]
struct StoppedThreads {
    pid: u32,
    timeout: Duration,
    seen_ids: HashSet<i32>,
    /// Time at which the first thread was stopped.
    first_stop: Option<Instant>,
    /// The threads that ran, with their stops.
    running: Vec<(Pid, WaitStatus)>,
    /// Time at which the first of them was stopped.
    first_running_stop: Option<Instant>,
}

impl StoppedThreads {
    /// Stops the threads that exist, then those that they have started meanwhile, until no new one
    /// appears.
    fn stop_all(&mut self) -> Result<(), StopError> {
        loop {
            let mut new = threads(self.pid);
            new.retain(|id| self.seen_ids.insert(*id));
            if new.is_empty() {
                return if self.first_stop.is_some() { Ok(()) } else { Err(StopError::Ended) };
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
                let now = Instant::now();
                self.first_stop.get_or_insert(now);
                self.first_running_stop.get_or_insert(now);
                let stops = self.interrupt(running)?;
                self.running.extend(stops);
            }
        }
    }

    /// Stops these threads. Returns each that stopped with how it stopped.
    fn interrupt(&mut self, mut threads: Vec<Pid>) -> Result<Vec<(Pid, WaitStatus)>, StopError> {
        let start = *self.first_stop.get_or_insert_with(Instant::now);
        threads.retain(|id| ptrace::interrupt(*id).is_ok());
        let mut stops = Vec::with_capacity(threads.len());
        for id in threads {
            loop {
                match stop_status(id) {
                    Ok(WaitStatus::StillAlive) => {}
                    Ok(status) => break stops.push((id, status)),
                    // A real-time signal has stopped it, which `nix` cannot name, or it has ended.
                    Err(_) => break stops.push((id, WaitStatus::StillAlive)),
                }
                if start.elapsed() > self.timeout {
                    return Err(StopError::TimedOut(id.as_raw()));
                }
                thread::park_timeout(POLL_PAUSE);
            }
        }
        Ok(stops)
    }

    /// Releases the threads that ran. Returns the time for which they were stopped, `None` if one
    /// still is.
    fn release_running(&self) -> Option<Duration> {
        let mut all_released = true;
        for (id, stop) in &self.running {
            // A thread that a signal has stopped is left to the kernel, which delivers the signal
            // when the tracer ends. A detach here would lose it.
            let is_ours = matches!(stop, WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _));
            all_released &= is_ours && ptrace::detach(*id, None).is_ok();
        }
        all_released
            .then(|| self.first_running_stop.map_or(Duration::ZERO, |start| start.elapsed()))
    }
}

/// Begins to trace a thread, which runs on. Returns false if it has ended.
fn seize(pid: u32, id: i32) -> Result<bool, StopError> {
    match ptrace::seize(Pid::from_raw(id), ptrace::Options::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(_) if matches!(state(pid, id), None | Some('Z' | 'X')) => Ok(false),
        Err(_) => Err(StopError::Refused),
    }
}

/// Returns how a thread has stopped or ended.
fn stop_status(id: Pid) -> Result<WaitStatus, Errno> {
    // `WNOWAIT` leaves a signal that has stopped the thread pending until the release.
    let flags = WaitPidFlag::WSTOPPED
        | WaitPidFlag::WEXITED
        | WaitPidFlag::WNOWAIT
        | WaitPidFlag::WNOHANG
        | WaitPidFlag::__WALL;
    waitid(Id::Pid(id), flags)
}

fn threads(pid: u32) -> Vec<i32> {
    process::threads(pid).into_iter().filter_map(|id| id.try_into().ok()).collect()
}

fn state(pid: u32, id: i32) -> Option<char> {
    process::state(pid, id.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);
    /// A program with a thread that cannot be stopped, because it waits for a child that shares its
    /// memory, and with a thread that can.
    const UNSTOPPABLE: &str = r#"
        #include <pthread.h>
        #include <unistd.h>
        static void *sleeper(void *unused) { pause(); return unused; }
        int main(void) {
            pthread_t thread;
            char byte;
            pthread_create(&thread, NULL, sleeper, NULL);
            if (vfork() == 0) {
                write(1, "ready\n", 6);
                read(0, &byte, 1);
                _exit(0);
            }
            write(1, "done\n", 5);
            return 0;
        }
    "#;
    /// A program that counts the real-time signals of its child, each of which the kernel queues.
    /// The child sends them until the input ends. Both print their count.
    const COUNTS_SIGNALS: &str = r#"
        #include <errno.h>
        #include <fcntl.h>
        #include <signal.h>
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int count;
        static void handle(int signal) { (void)signal; ++count; }
        int main(void) {
            char byte;
            signal(SIGRTMIN, handle);
            write(1, "ready\n", 6);
            pid_t child = fork();
            if (child == 0) {
                int sent = 0;
                fcntl(0, F_SETFL, O_NONBLOCK);
                while (read(0, &byte, 1) < 0) {
                    // Unlike kill(2), this fails when the queue is full.
                    if (sigqueue(getppid(), SIGRTMIN, (union sigval){0}) == 0) ++sent;
                }
                printf("%d ", sent);
                fflush(stdout);
                _exit(0);
            }
            while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
            printf("%d\n", count);
            return 0;
        }
    "#;

    /// A running C program. Its folder is removed at the end.
    struct Program {
        child: Child,
        stdin: ChildStdin,
        stdout: BufReader<ChildStdout>,
        _folder: tempfile::TempDir,
    }

    impl Program {
        /// Compiles a program, and runs it until it is ready.
        fn start(source: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (source_path, path) =
                (folder.path().join("program.c"), folder.path().join("program"));
            fs::write(&source_path, source).unwrap();
            let mut compiler = Command::new("cc");
            compiler.args(["-w", "-pthread", "-o"]).args([&path, &source_path]);
            assert!(compiler.status().unwrap().success());
            let mut command = Command::new(path);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let mut program =
                Self { child, stdin, stdout: BufReader::new(stdout), _folder: folder };
            let mut line = String::new();
            program.stdout.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            program
        }

        /// Closes the input, which ends the program, and returns the rest of the output.
        fn end(mut self) -> String {
            drop(self.stdin);
            let mut output = String::new();
            self.stdout.read_to_string(&mut output).unwrap();
            assert!(self.child.wait().unwrap().success());
            output
        }
    }

    #[test]
    fn a_failed_stop_releases_all_threads() {
        let program = Program::start(UNSTOPPABLE);
        let (pid, mut stopped) = (program.child.id(), StoppedTime::default());
        for attempt in 1..=2 {
            let result = while_stopped(pid, TIMEOUT, &mut stopped, || ());
            assert!(matches!(result, Err(StopError::TimedOut(_))), "{result:?}");
            // The other thread was stopped for the whole timeout of each attempt.
            assert!(stopped.any >= attempt * TIMEOUT, "{stopped:?}");
        }
        for thread in process::threads(pid) {
            let status = fs::read_to_string(process::thread_file(pid, thread, "status")).unwrap();
            assert!(status.contains("TracerPid:\t0\n"), "{status}");
            assert_ne!(process::state(pid, thread), Some('t'));
        }
        assert_eq!(program.end(), "done\n");
    }

    #[test]
    fn no_signal_is_lost_by_a_stop() {
        let program = Program::start(COUNTS_SIGNALS);
        let pid = program.child.id();
        let start = Instant::now();
        let mut stops = 0;
        while stops < 100 {
            let mut stopped = StoppedTime::default();
            stops += u32::from(while_stopped(pid, TIMEOUT, &mut stopped, || ()).is_ok());
            assert!(stopped.running <= stopped.any, "{stopped:?}");
            assert!(start.elapsed() < Duration::from_mins(1), "{stops} stops");
        }
        let output = program.end();
        let (sent, received) = output.trim_end().split_once(' ').unwrap();
        assert_eq!(sent, received);
    }
}
