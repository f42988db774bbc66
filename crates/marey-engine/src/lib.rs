//! The Python module `marey._engine`: the program `marey` for those who analyse.
//!
//! **Constraints.** A profiled program never imports this module; `marey._native` is the light one.
//! It holds no state and hands everything to the crate [`marey`], with the GIL released. Its
//! functions are thin: arguments in, an answer or a Python exception out.
//!
//! ```python
//! from marey import _engine
//!
//! exit_code = _engine.cli_main(["marey", "view", "train.hatchet"])
//! ```

/// The analysis side of marey.
#[pyo3::pymodule]
mod _engine {
    use std::ffi::OsString;

    use pyo3::prelude::*;

    /// Run a command line and return its exit code.
    ///
    /// `argv` starts with the program's name. Output goes to the process's stdout and stderr, not
    /// to `sys.stdout`. Ctrl-C ends the process if SIGINT has its default action.
    #[pyfunction]
    fn cli_main(py: Python<'_>, argv: Vec<OsString>) -> i32 {
        py.detach(|| marey::cli::main(argv))
    }
}
