//! Runs a script in another Python process, which need not know marey.
//!
//! An [`Injection`] writes a request to a place that the interpreter reads at its next safe point,
//! and waits for the answer of the script. CPython 3.14 has a documented place, which
//! `sys.remote_exec` uses (PEP 768). In 3.10 to 3.13 the place is the queue of pending calls, which
//! signal handlers of extensions use.
//!
//! **Constraints.** Nothing is called in the process and no register is changed: the request is
//! data. All threads are stopped while it is written (`PTRACE_SEIZE`, `PTRACE_INTERRUPT`), for a
//! moment that grows with the number of sleeping threads. Each structure is checked before it is
//! written. The script only starts a thread, so that it never waits for a lock that the interrupted
//! code holds.
//!
//! **Where to start.** [`injection`] has the steps. [`pending_calls`] and [`remote_exec`] are the
//! two places. [`marey_attach::stop`] stops the threads. `bootstrap.py` is the script that runs in
//! the process.

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
pub use self::injection::{CallProgress, Injection, RemoteCall, python_literal};
pub use self::target::is_same_file_system;
pub use marey_attach::stop::StoppedTime;
