//! Stacks of other processes, read from outside.
//!
//! A [`Target`] is a Python process that need not know marey: its threads and frames are read from
//! its memory (`process_vm_readv(2)`) and from `/proc`. Nothing is written to the process, and it is
//! stopped only for native frames, while its stacks are copied.
//!
//! **Constraints.** A running process changes while it is read, so a reading may fail or, rarely,
//! have a frame that has just returned. Failed readings are repeated, and counted by whoever
//! samples. The interpreter of a process that runs, and its threads for a single look, are read by `py-spy`;
//! this crate adds what the operating system knows: states, names and what a thread waits for. `py-spy`
//! needs about eight system calls for a frame, and reads no other objects and no other memory than that
//! of a process. So `object/` reads samples, values, the tasks of asyncio and core files, by offsets of
//! its own.
//!
//! **Where to start.** [`target`] reads a process, [`sampler`] many times, [`tasks`] its asyncio tasks, [`core`] a core file,
//! [`inspect`] values of the program; [`stop`] stops a process for a moment, [`wait`] explains what a
//! thread waits for, [`hang`] compares the ranks of a job.

pub mod core;
mod error;
pub mod hang;
pub mod inspect;
mod memory;
mod native;
mod object;
pub mod process;
mod rank;
mod reread;
mod sampler;
mod schedule;
pub mod stop;
mod target;
pub mod tasks;
mod usage;
mod wait;

pub use self::core::{Core, CoreError, FatalSignal};
pub use self::error::AttachError;
pub use self::memory::{Mapped, Range, bias, mapped_files, writable_memory};
pub use self::native::CodeFiles;
pub use self::process::{children, command_line, is_alive};
pub use self::rank::Rank;
pub use self::sampler::Sampler;
pub use self::schedule::{Schedule, Tick};
pub use self::target::{Frame, Options, Snapshot, Target, Thread};
pub use self::tasks::{Task, TaskState};
pub use self::usage::Usage;
pub use self::wait::Wait;
