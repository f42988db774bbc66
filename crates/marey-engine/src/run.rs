//! `marey._engine.Run`: a run, and SQL over it.
#![expect(clippy::needless_pass_by_value, reason = "what Python gives is converted into values")]

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;

use marey_query::sql::{Database, Limits};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::answer::Answer;
use crate::error::{bad_query, unreadable_run};
use crate::info::Info;

/// Whether the run has spools that no table has the content of.
#[pyfunction]
pub(crate) fn needs_collecting(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    let needs = py.detach(|| marey_store::needs_collecting(&path));
    needs.map_err(unreadable_run)
}

/// A run, opened for questions: a folder, or the file that `marey pack` makes of one.
///
/// Several threads may use it at once.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Run {
    database: Arc<Database>,
    limits: Limits,
    process_id: u32,
}

impl Run {
    fn database(&self) -> PyResult<&Database> {
        if self.process_id == process::id() {
            return Ok(&self.database);
        }
        let message = "this run was opened by the parent process (open it again after a fork)";
        Err(PyRuntimeError::new_err(message))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.process_id != process::id() {
            // The threads that it would end did not come along with the fork.
            let _leaked = ManuallyDrop::new(Arc::clone(&self.database));
        }
    }
}

#[pymethods]
impl Run {
    /// Open a run, and collect what has not been; `memory_limit` is in bytes.
    #[staticmethod]
    #[pyo3(signature = (path, memory_limit=None, threads=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        memory_limit: Option<usize>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let limits = limits(memory_limit, threads)?;
        let run = py.detach(|| marey_store::open(&path, &mut |_progress| {}));
        let run = Arc::new(run.map_err(unreadable_run)?);
        let database = py.detach(|| Database::open(run, limits));
        let database = Arc::new(database.map_err(|error| bad_query(&error))?);
        Ok(Self { database, limits, process_id: process::id() })
    }

    /// Answer a query; of more than `max_rows` rows, the first ones.
    #[pyo3(signature = (query, max_rows=None))]
    fn sql(&self, py: Python<'_>, query: &str, max_rows: Option<u64>) -> PyResult<Answer> {
        let database = self.database()?;
        let rows = py.detach(|| database.query(query, max_rows));
        Answer::of(py, rows.map_err(|error| bad_query(&error))?, self.limits.memory_bytes)
    }

    /// Names of the tables and views that need no schema before them.
    fn tables(&self) -> PyResult<Vec<&'static str>> {
        let tables = self.database()?.names().tables.iter();
        Ok(tables.filter(|table| table.schema == "main").map(|table| table.name).collect())
    }

    /// Bytes of spools that the tables do not have, because nothing can be written there.
    fn uncollected_bytes(&self) -> u64 {
        self.database.run().uncollected_bytes()
    }

    /// What the manifest says.
    fn info(&self) -> Info<'_> {
        Info::of(self.database.run())
    }
}

fn limits(memory_bytes: Option<usize>, threads: Option<usize>) -> PyResult<Limits> {
    let default = Limits::default();
    let limits = Limits {
        memory_bytes: memory_bytes.unwrap_or(default.memory_bytes),
        threads: threads.unwrap_or(default.threads),
    };
    match limits {
        Limits { memory_bytes: 0, .. } => Err(PyValueError::new_err("memory_limit is 0 bytes")),
        Limits { threads: 0, .. } => Err(PyValueError::new_err("threads is 0")),
        limits => Ok(limits),
    }
}
