//! Runs a script in another Python process, which need not know marey.
//!
//! An [`Injection`] places a request where the interpreter looks for one at its next safe point,
//! and waits for the answer of the script. CPython 3.14 has a documented place, which
//! `sys.remote_exec` uses (PEP 768); in 3.10 to 3.13 it is the queue of pending calls, which signal
//! handlers of extensions use.
//!
//! **Constraints.** Nothing is called in the process and no register is changed: the request is
//! data. All threads are stopped while it is written (`PTRACE_SEIZE`, `PTRACE_INTERRUPT`), for a moment that
//! grows with the number of those that wait. Each structure is checked before it is written. The script only starts a
//! thread, so that no lock of the interrupted code can be in its way.
//!
//! **Where to start.** [`injection`] has the steps, [`pending_calls`] and [`remote_exec`] the two
//! places, [`marey_attach::stop`] stops the threads, and `bootstrap.py` is what runs in the process.

mod elf;
mod error;
mod injection;
mod interpreter;
mod mailbox;
mod memory;
mod pending_calls;
mod remote_exec;
mod target;

pub use self::error::InjectError;
pub use self::injection::{Call, Injection, Progress, literal};
pub use self::target::is_same_file_system;
pub use marey_attach::stop::Stopped;
