//! The threads of a process, stopped for a moment by `ptrace(2)`.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::process;

/// Readings of the list of threads, while threads begin.
const MAX_ROUNDS: u32 = 10;

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
    /// Stops all threads of a process.
    pub(crate) fn all_threads(pid: u32) -> Result<Self, Errno> {
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
            for thread in new {
                stopped.add(thread)?;
            }
        }
        Ok(stopped)
    }

    /// Stops a thread, unless it ends meanwhile.
    fn add(&mut self, thread: Pid) -> Result<(), Errno> {
        match ptrace::seize(thread, ptrace::Options::empty()) {
            Err(Errno::ESRCH) => return Ok(()),
            other => other?,
        }
        // From here on the thread has to be released.
        self.threads.push((thread, None));
        match ptrace::interrupt(thread) {
            Err(Errno::ESRCH) => {}
            other => other?,
        }
        loop {
            match waitpid(thread, Some(WaitPidFlag::__WALL)) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
                Ok(WaitStatus::Stopped(_, signal)) => {
                    if let Some((_, pending)) = self.threads.last_mut() {
                        *pending = Some(signal);
                    }
                    return Ok(());
                }
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
                    self.threads.pop();
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

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(thread, signal) in &self.threads {
            let detached = ptrace::detach(thread, signal);
            debug_assert!(matches!(detached, Ok(()) | Err(Errno::ESRCH)), "{thread} was killed");
        }
    }
}
