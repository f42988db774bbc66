//! The recorder: what runs inside the profiled process.
//!
//! Each thread owns a tree of context nodes and is its only writer. Entering a scope finds or makes
//! a child; leaving it adds its wall time to the node, in the columns of the sessions that see it.
//! Other threads read the trees while they grow: every shared word is an atomic with one writer, and
//! a sequence number around each event lets a reader tell a whole event from a torn one.
//!
//! **Callers.** Only `marey-capi`, which keeps the process's one copy of this state and hands out a
//! versioned table of functions ([`table`]); every other face (C, C++, Python) goes through it.
//!
//! **Constraints.** After a thread's first event the common path allocates nothing, takes no lock
//! that another thread takes, makes no system call and cannot panic; with no session alive an event
//! is one load and a branch. No tokio, no Arrow, no JSON library: this code lives in strangers'
//! processes. A failure here is counted ([`marey_model::loss`]), never raised into the program.
//!
//! **Where to start.** [`local`] holds the event path, [`recorder`] the sessions and what happens
//! to the trees afterwards, [`merged`] the form that is written, [`trace`] the way of single events to
//! a file.
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
//! api::clear(session, 0, false)?;
//! # api::discard(session)?;
//! # Ok::<(), marey_record::Error>(())
//! ```

#[cfg(not(loom))]
mod account;
#[cfg(not(loom))]
pub mod api;
pub mod arena;
#[cfg(not(loom))]
mod bell;
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
mod names;
#[cfg(not(loom))]
mod number_hash;
#[cfg(not(loom))]
mod os;
#[cfg(not(loom))]
mod output;
#[cfg(not(loom))]
mod own_file;
#[cfg(not(loom))]
mod progress;
#[cfg(not(loom))]
mod published;
#[cfg(not(loom))]
mod recorder;
#[cfg(not(loom))]
mod registry;
pub mod ring;
pub mod seq;
#[cfg(not(loom))]
mod session;
pub mod sync;
#[cfg(not(loom))]
pub mod table;
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
