//! The program `marey`, as a library, so that the Rust binary and the Python package are one program.
//!
//! [`cli::main`] takes a command line and gives an exit code: 0 is success, 2 is bad usage or input
//! that cannot be read. Data goes to stdout and everything else to stderr.
//!
//! **Constraints.** This crate works outside the profiled process and never links the recorder or
//! Python. It shows what others computed: its own arithmetic is units, shares and counts of what is
//! on the screen. It ends no process, prints through one writer, and forbids unsafe code.
//!
//! Start reading at [`cli`]; each verb is a module. [`lines`] is how Proton's viewer writes a tree,
//! [`as_table`] how rows are shown and [`Export`] how a run becomes files, for the Python package too.
//!
//! ```
//! let no_such_file = ["marey", "view", "no-such.hatchet"].map(Into::into);
//! assert_eq!(marey::cli::main(no_such_file), 2);
//! ```

#![forbid(unsafe_code)]

pub mod cli;
pub use export::{Export, Moment, Span, Written, parse_format};
pub use foreign::warnings as import_warnings;
pub use limits::limits;
pub use output::Failure;
pub use query::as_table;
pub use runs::is_foreign_file;
pub use view::lines;

mod aligned;
mod analyze;
mod check;
mod collect;
mod compare;
mod export;
mod foreign;
mod import;
mod info;
mod interrupt;
mod limits;
mod merge;
mod new_run;
mod out_file;
mod output;
mod pack;
mod progress;
mod query;
mod run;
mod run_args;
mod runs;
mod schema;
mod text;
mod triton;
mod view;
