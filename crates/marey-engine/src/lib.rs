//! The Python module `marey._engine`: the analysis side of marey.
//!
//! **Constraints.** A profiled program never imports this module, only the light `marey._native`.
//! It delegates to the crates [`marey`], [`marey_formats`], [`marey_query`] and [`marey_store`],
//! and releases the GIL around their work. Its functions are thin: arguments in, an answer or a
//! Python exception out. `marey.graph`, `marey.viewer` and `marey.run` wrap them into the public
//! API.
//!
//! Start reading at `graph`, or at `run` for runs.
//!
//! ```python
//! from marey import _engine
//!
//! exit_code = _engine.cli_main(["marey", "view", "train.hatchet"])
//! graph = _engine.Graph.read("train.hatchet")
//! run = _engine.Run.open("train.marey")
//! ```

mod answer;
mod capsule;
mod cells;
mod comparison;
mod devices;
mod error;
mod file;
mod graph;
mod info;
mod peaks;
mod run;
mod values;

/// The analysis side of marey.
#[pyo3::pymodule]
mod _engine {
    use std::ffi::OsString;

    use pyo3::prelude::*;

    #[pymodule_export]
    use super::answer::Answer;
    #[pymodule_export]
    use super::comparison::{Comparison, Measured};
    #[pymodule_export]
    use super::graph::Graph;
    #[pymodule_export]
    use super::peaks::{architectures, max_bps, max_flops};
    #[pymodule_export]
    use super::run::{Run, import_files, needs_collecting, sections};

    /// Run a command line and return its exit code.
    ///
    /// `argv` starts with the program's name. Output is written to the process's stdout and stderr,
    /// not to `sys.stdout`. Ctrl-C ends the process if SIGINT has its default action.
    #[pyfunction]
    fn cli_main(py: Python<'_>, argv: Vec<OsString>) -> i32 {
        py.detach(|| marey::cli::main(argv))
    }
}
