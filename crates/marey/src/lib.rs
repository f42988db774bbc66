//! The command line of marey, as a library for the Rust binary and the Python package.
//!
//! [`cli::main`] runs a command line and returns an exit code: 0 is success, 2 is bad usage or
//! unreadable input. Data is written to stdout and everything else to stderr.
//!
//! **Constraints.** This crate runs outside the profiled process and never links the recorder or
//! Python. It displays the results of other crates. Its own arithmetic is limited to units, shares
//! and counts of displayed items. It never exits the process, prints through one writer, and
//! forbids unsafe code.
//!
//! Start reading at [`cli`]. Each subcommand is a module. The Python package also uses [`lines`],
//! which prints trees like Proton's viewer, [`as_table`] for rows, and [`Export`].
//!
//! ```
//! let no_such_file = ["marey", "view", "no-such.hatchet"].map(Into::into);
//! assert_eq!(marey::cli::main(no_such_file), 2);
//! ```

#![forbid(unsafe_code)]

pub mod cli;
pub use export::{Export, Moment, TimeRange, WrittenFile, parse_format};
pub use foreign::warnings as import_warnings;
pub use limits::limits;
pub use output::Failure;
pub use query::as_table;
pub use runs::is_foreign_file;
pub use sources::Sources;
pub use view::lines;

mod aligned;
mod analyze;
mod attach;
mod check;
mod collect;
mod compare;
mod dump;
mod export;
mod foreign;
mod hang;
mod import;
mod info;
mod inspect;
mod interrupt;
mod limits;
mod live;
mod merge;
mod new_run;
mod out_file;
mod output;
mod pack;
mod progress;
mod query;
mod record;
mod run;
mod run_args;
mod runs;
mod schema;
mod sources;
mod text;
mod top;
mod triton;
mod view;
