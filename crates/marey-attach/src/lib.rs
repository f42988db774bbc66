//! Reads the stacks of other processes from outside.
//!
//! A [`Target`] is a Python process that need not know marey. Its threads and frames are read from
//! its memory (`process_vm_readv(2)`) and from `/proc`. Nothing is written to the process. It is
//! stopped only while its stacks are copied for native frames.
//!
//! **Constraints.** A running process changes while it is read, so a read may fail or, rarely,
//! contain a frame that has just returned. Failed reads are repeated, and the code that samples
//! counts them. `py-spy` finds the interpreter of a running process, and reads its threads for a
//! single look. This crate adds facts of the operating system: states, names and what a thread
//! waits for. `py-spy` needs about eight system calls per frame, and reads neither other objects
//! nor core files. So `object/` has offsets of its own, by which it reads samples, values, the
//! tasks of asyncio and core files.
//!
//! **Where to start.** [`target`] reads a process once and [`sampler`] many times. [`tasks`] reads
//! its asyncio tasks, [`core`] a core file, and [`inspect`] values of the program. [`stop`] stops a
//! process for a moment, [`wait`] tells what a thread waits for, and [`hang`] compares the ranks of
//! a job.

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

pub use self::core::{CoreError, CoreSnapshot, FatalSignal};
pub use self::error::AttachError;
pub use self::memory::{AddressRange, MappedFile, load_bias, mapped_files, writable_memory};
pub use self::native::CodeFiles;
pub use self::process::{command_line, descendants, is_alive};
pub use self::rank::Rank;
pub use self::sampler::Sampler;
pub use self::schedule::{Schedule, Tick};
pub use self::target::{Frame, ReadOptions, Snapshot, Target, Thread};
pub use self::tasks::{Task, TaskState};
pub use self::usage::Usage;
pub use self::wait::Wait;
