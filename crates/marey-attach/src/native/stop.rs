//! The threads of a process, stopped for a moment by `ptrace(2)`.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::process;

/// Readings of the list of threads, while threads begin.
const MAX_ROUNDS: u32 = 10;
/// Time in which all threads must stop. A thread in an uninterruptible system call does not.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two looks at a thread that has not stopped yet.
const POLL_PAUSE: Duration = Duration::from_micros(20);

/// The threads of a process, which go on when this value is dropped.
pub(crate) struct Stopped {
    /// Each thread, with a signal that arrived at the stop and is passed on.
    threads: Vec<(Pid, Option<Signal>)>,
}

/// Registers of a thread that say where its stack is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// Address of the next instruction.
    pub(crate) instruction: u64,
    /// Address of the end of the stack.
    pub(crate) stack: u64,
    /// Frame pointer.
    pub(crate) frame: u64,
    /// Return address; 0 where it is on the stack.
    pub(crate) link: u64,
}

impl Stopped {
    /// Stops all threads of a process. Fails with `ETIMEDOUT` if one does not stop in time.
    pub(crate) fn all_threads(pid: u32) -> Result<Self, Errno> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let mut stopped = Self { threads: Vec::new() };
        for _ in 0..MAX_ROUNDS {
            let new: Vec<Pid> = process::threads(pid)
                .into_iter()
                .filter_map(|thread| i32::try_from(thread).ok().map(Pid::from_raw))
                .filter(|thread| stopped.threads.iter().all(|(known, _)| known != thread))
                .collect();
            if new.is_empty() {
                break;
            }
            let first = stopped.threads.len();
            // Those that are asked first stop while the others are asked.
            for thread in new {
                stopped.interrupt(pid, thread)?;
            }
            for index in first..stopped.threads.len() {
                stopped.wait(index, deadline)?;
            }
        }
        Ok(stopped)
    }

    /// Asks a thread to stop, unless it has ended.
    fn interrupt(&mut self, pid: u32, thread: Pid) -> Result<(), Errno> {
        match ptrace::seize(thread, ptrace::Options::empty()) {
            Err(Errno::ESRCH) => return Ok(()),
            Err(_) if has_ended(pid, thread) => return Ok(()),
            other => other?,
        }
        // From here on the thread has to be released.
        self.threads.push((thread, None));
        match ptrace::interrupt(thread) {
            Err(Errno::ESRCH) => Ok(()),
            other => other,
        }
    }

    /// Waits until a thread has stopped, or ended.
    fn wait(&mut self, index: usize, deadline: Instant) -> Result<(), Errno> {
        let (thread, pending) = &mut self.threads[index];
        loop {
            match waitpid(*thread, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
                Err(Errno::EINTR) => {}
                Ok(WaitStatus::StillAlive) if Instant::now() < deadline => {
                    std::thread::park_timeout(POLL_PAUSE);
                }
                Ok(WaitStatus::StillAlive) => return Err(Errno::ETIMEDOUT),
                Err(error) => {
                    // A real-time signal, which `nix` cannot name, would be lost by a release of its
                    // thread. The kernel delivers it when this program ends.
                    self.threads.swap_remove(index);
                    return Err(error);
                }
                Ok(WaitStatus::Stopped(_, signal)) => {
                    *pending = Some(signal);
                    return Ok(());
                }
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Returns the registers of a stopped thread.
    pub(crate) fn registers(&self, thread: u64) -> Option<Registers> {
        let thread = Pid::from_raw(i32::try_from(thread).ok()?);
        let (thread, _) = *self.threads.iter().find(|(known, _)| *known == thread)?;
        let registers = ptrace::getregs(thread).ok()?;
        #[cfg(target_arch = "x86_64")]
        let registers = Registers {
            instruction: registers.rip,
            stack: registers.rsp,
            frame: registers.rbp,
            link: 0,
        };
        #[cfg(target_arch = "aarch64")]
        let registers = Registers {
            instruction: registers.pc,
            stack: registers.sp,
            frame: registers.regs[29],
            link: registers.regs[30],
        };
        Some(registers)
    }
}

/// Whether a thread has ended, though the system may still list it.
fn has_ended(pid: u32, thread: Pid) -> bool {
    let state = process::state(pid, u64::from(thread.as_raw().cast_unsigned()));
    matches!(state, None | Some('Z' | 'X'))
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(thread, signal) in &self.threads {
            let detached = ptrace::detach(thread, signal);
            debug_assert!(matches!(detached, Ok(()) | Err(Errno::ESRCH)), "{thread} was killed");
        }
    }
}
