//! The recorder, which runs inside the profiled process.
//!
//! Each thread owns a tree of context nodes and is its only writer. Entering a scope finds or makes
//! a child node. Leaving a scope adds its wall time to the node, in the column of each session that
//! saw the scope begin. Other threads read the trees while they grow: every shared word is an
//! atomic with one writer, and a sequence number around each event lets a reader detect a torn
//! read.
//!
//! **Callers.** Only `marey-capi`, which owns the process's one copy of this state and exports it
//! as a versioned table of functions ([`table`]). C, C++ and Python all go through that table.
//!
//! **Constraints.** After a thread's first event, the fast path allocates nothing, takes no lock
//! shared with another thread, makes no system call and cannot panic. With no session alive an
//! event is one load and a branch. No tokio, no Arrow, no JSON library: this code is loaded into
//! other people's processes. A failure here is counted ([`marey_model::loss`]), never raised into
//! the program.
//!
//! **Where to start.** [`local`] contains the event path, [`recorder`] the sessions, [`merged`] the
//! tree that is written to files, [`trace`] the spool of single events. The model checker loom
//! builds only the lock-free modules, so all others are `cfg(not(loom))`.
//!
//! ```
//! use marey_record::{NodeKind, SessionOptions, api};
//!
//! let session = api::start(&SessionOptions::named("/tmp/marey-doc-example"))?;
//! let name = api::intern("work");
//! api::enter(name, NodeKind::Scope);
//! api::exit(name);
//! let json = api::get_data(session, 0, marey_record::Format::Hatchet)?;
//! assert!(String::from_utf8_lossy(&json).contains("\"work\""));
//! api::clear_phases(session, 0..=0)?;
//! # api::discard(session)?;
//! # Ok::<(), marey_record::Error>(())
//! ```

#[cfg(not(loom))]
pub mod api;
pub mod arena;
#[cfg(not(loom))]
mod checkpoint;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod column;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod detached;
#[cfg(not(loom))]
pub mod device;
#[cfg(not(loom))]
mod endpoint;
#[cfg(not(loom))]
pub mod environment;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod handler_slot;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod local;
#[cfg(not(loom))]
mod lock;
#[cfg(not(loom))]
mod losses;
#[cfg(not(loom))]
mod merged;
#[cfg(not(loom))]
mod metadata;
#[cfg(not(loom))]
mod names;
#[cfg(not(loom))]
mod number_hash;
#[cfg(not(loom))]
mod os;
#[cfg(not(loom))]
mod output;
#[cfg(not(loom))]
pub mod perf;
#[cfg(not(loom))]
mod phase;
#[cfg(not(loom))]
mod progress;
#[cfg(not(loom))]
mod published;
#[cfg(not(loom))]
pub mod python_requests;
#[cfg(not(loom))]
mod recorder;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod remote_exits;
#[cfg(not(loom))]
mod reopening_file;
#[cfg(not(loom))]
mod requests;
pub mod ring;
#[cfg(not(loom))]
mod sampling;
#[cfg(not(loom))]
mod scope_frame;
pub mod seq;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
pub mod settings;
pub mod sync;
#[cfg(not(loom))]
mod system;
#[cfg(not(loom))]
pub mod table;
#[cfg(not(loom))]
mod table_args;
#[cfg(not(loom))]
mod tag;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
mod trace;
#[cfg(not(loom))]
mod tree;
#[cfg(not(loom))]
mod worker;
#[cfg(not(loom))]
mod writing;

#[cfg(not(loom))]
pub use self::{
    detached::Detached,
    error::Error,
    number_hash::NumberHash,
    output::Format,
    session::{SessionId, SessionOptions},
    worker::{STOP, Worker},
};
#[cfg(not(loom))]
pub use marey_model::context::{ContextSource, NodeKind};
