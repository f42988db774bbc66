//! Readers that turn foreign profile files into runs, and writers that turn runs into foreign
//! files.
//!
//! Each format is one module. [`import()`] makes a run of files of any format, [`open`] makes a
//! temporary run, and [`export()`] writes a run as a file of another [`Format`]. [`hatchet`] also
//! reads and writes the trees of Proton and marey without a run, and [`ptx`] reads the assembly of
//! kernels. Command line tools and servers call this crate. No profiled process links it.
//!
//! **Constraints.** All input is treated as hostile. Bad input is an error with its position and
//! cause, never a panic, and takes no more memory than the size of the file justifies. Readers and
//! writers stream, and load no document as a tree first. Content is never executed: pickles are
//! read as data. The crate writes nothing to the terminal and forbids unsafe code.
//!
//! **Layers.** `registry` names every format, formats use only `shared` parts, and `shared` uses
//! neither of them. `cargo xtask deps` checks that.
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

mod chrome_trace;
mod collapsed;
mod csv;
mod flight_recorder;
pub mod hatchet;
mod json;
mod kineto;
mod memory_snapshot;
mod perfetto;
mod pprof;
pub mod ptx;
mod registry;
mod shared;
mod speedscope;
mod svg;
mod tensorboard;
mod trace_event;

#[cfg(fuzzing)]
pub use registry::fuzz_import;
pub use registry::{
    ImportError, Imported, ImportedFile, TemporaryRun, export, import, open, read_window,
    recognise_file,
};
pub use shared::export::{ExportError, LeftOut};
pub use shared::format::Format;
pub use shared::import::{Fault, ImportWarning};
