//! Foreign files to runs, and runs to foreign files.
//!
//! One module a format. [`import()`] makes a run of files, whatever they are; [`open`] makes one that
//! lasts as long as it is asked; [`export()`] writes a run as a file of another [`Format`]. [`hatchet`]
//! also reads and writes the trees of Proton and marey without a run, and [`ptx`] reads what kernels were
//! compiled to, which is no run. Command line tools and servers call this crate; nothing inside a
//! profiled process does.
//!
//! **Constraints.** Every byte that comes in is hostile until read: bad input is an error that
//! names its place and cause, never a panic, and costs no more memory than the file's own size
//! allows. Readers and writers stream; no format is held as a document tree first. Content is never run: pickles
//! are read as data. The crate writes nothing to
//! the terminal and forbids unsafe code.
//!
//! Start reading at [`import()`], then the module of a format.
//!
//! ```
//! use marey_formats::hatchet;
//!
//! let file = br#"[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [
//!     {"frame": {"name": "step", "type": "function"}, "metrics": {"wall_count": 3}, "children": []}
//! ]}, {}]"#;
//! let profile = hatchet::parse(file)?;
//! assert_eq!(&*profile.nodes[1].name, "step");
//! assert_eq!(profile.metrics[0].nodes[0].index(), 1);
//! # Ok::<(), hatchet::ParseError>(())
//! ```

#![forbid(unsafe_code)]

mod align;
mod chrome_trace;
mod collapsed;
mod csv;
mod decimal;
mod export;
mod flight_recorder;
mod format;
mod group_ranks;
mod half_pairs;
pub mod hatchet;
mod import;
mod input;
mod json;
mod kineto;
mod memory_snapshot;
mod perfetto;
mod pickle;
mod pprof;
pub mod ptx;
mod readers;
mod recognise;
mod speedscope;
mod svg;
mod tensorboard;
mod trace_event;
mod trace_json;
mod weights;
mod writers;

pub use export::{ExportError, LeftOut, export};
pub use format::Format;
#[cfg(fuzzing)]
pub use import::fuzz_import;
pub use import::{
    Fault, ImportError, ImportWarning, Imported, ImportedFile, TemporaryRun, import, open,
};
pub use recognise::recognise_file;
