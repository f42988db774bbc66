//! The Python class `marey._engine.Run`: a run that is open for SQL, findings, comparisons and
//! exports, which `marey.run` wraps. Long work runs without the GIL and can be interrupted.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 converts arguments into owned values")]

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use marey::{Export, Moment, TimeRange, WrittenFile, parse_format};
use marey_analysis::{Questions, Thresholds, findings, section, table};
use marey_formats::{Imported, TemporaryRun};
use marey_query::sql::{Database, Limits, TableInfo};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::answer::{Answer, run_interruptibly};
use crate::comparison::Measured;
use crate::error::{bad_query, cannot_export, unreadable_import, unreadable_run};
use crate::info::Info;

/// Whether the run has spools that were not collected into its tables.
#[pyfunction]
pub(crate) fn needs_collecting(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    let needs_collecting = py.detach(|| marey_store::needs_collecting(&path));
    needs_collecting.map_err(unreadable_run)
}

/// Import files of other formats as a new run at `out`. Returns warnings about losses.
#[pyfunction]
pub(crate) fn import_files(
    py: Python<'_>,
    files: Vec<PathBuf>,
    out: PathBuf,
) -> PyResult<Vec<String>> {
    marey_store::note_environment();
    let imported = py.detach(|| marey_formats::import(&files, &out, &Arc::default()));
    Ok(marey::import_warnings(&imported.map_err(unreadable_import)?))
}

/// A run that is open for queries: a folder, a file packed by `marey pack`, or a file of another
/// format.
///
/// Several threads may use it at once.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Run {
    database: Arc<Database>,
    limits: Limits,
    process_id: u32,
    path: PathBuf,
    warnings: Vec<String>,
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
            // A fork does not copy the threads of the database, so it cannot be shut down here and
            // is leaked.
            let _leaked = ManuallyDrop::new(Arc::clone(&self.database));
        }
    }
}

#[pymethods]
impl Run {
    /// Open a run and collect its spools, or import a file. `memory_limit` is in bytes.
    #[staticmethod]
    #[pyo3(signature = (path, memory_limit=None, threads=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        memory_limit: Option<usize>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let limits = limits(memory_limit, threads)?;
        marey_store::note_environment();
        let (run, imported) = py.detach(|| open(&path))?;
        let warnings = imported.as_ref().map(marey::import_warnings).unwrap_or_default();
        let database = Arc::new(Database::new(Arc::new(run), limits));
        Ok(Self { database, limits, process_id: process::id(), path, warnings })
    }

    /// Run a query. Returns at most the first `max_rows` rows.
    #[pyo3(signature = (query, max_rows=None))]
    fn sql(&self, py: Python<'_>, query: &str, max_rows: Option<u64>) -> PyResult<Answer> {
        let database = self.database()?;
        let rows = py.detach(|| database.query(query, max_rows));
        Answer::collect(py, rows.map_err(|error| bad_query(&error))?, self.limits.memory_bytes)
    }

    /// The findings of all rules, the most severe first.
    fn findings(&self, py: Python<'_>, thresholds: Vec<(String, f64)>) -> PyResult<Answer> {
        let thresholds = parse_thresholds(&thresholds)?;
        let questions = Questions::new(self.database()?);
        let find = || {
            let rows = findings(&questions, &thresholds).map_err(|error| bad_query(&error))?;
            Ok(Answer::from_batch(table::findings(&rows).to_batch()))
        };
        run_interruptibly(py, find, || questions.cancel())
    }

    /// The numbers of the run for comparisons.
    fn measured(&self, py: Python<'_>) -> PyResult<Measured> {
        let questions = Questions::new(self.database()?);
        let name = self.path.to_string_lossy().into_owned();
        let measure = || {
            let measured = marey_analysis::RunMeasurements::query(&questions, name);
            Ok(Measured(measured.map_err(|error| bad_query(&error))?))
        };
        run_interruptibly(py, measure, || questions.cancel())
    }

    /// Names of the tables and views in the default schema.
    #[staticmethod]
    fn tables() -> Vec<&'static str> {
        TableInfo::all().filter(|table| table.schema == "main").map(|table| table.name).collect()
    }

    /// Number of bytes of spools that could not be collected because the folder is read-only.
    fn uncollected_bytes(&self) -> u64 {
        self.database.run().uncollected_bytes()
    }

    /// Warnings about losses of the import, if the run is a file of another format.
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The manifest.
    fn info(&self) -> Info<'_> {
        Info::new(self.database.run(), &self.path)
    }

    /// Write the run as files of another format. Returns the files, and warnings about what they
    /// lack.
    #[pyo3(signature = (out, format=None, start=None, end=None, steps=None, ranks=None))]
    #[expect(clippy::too_many_arguments, reason = "each is an option of its caller")]
    fn export(
        &self,
        py: Python<'_>,
        out: PathBuf,
        format: Option<&str>,
        start: Option<&str>,
        end: Option<&str>,
        steps: Option<(u32, u32)>,
        ranks: Option<Vec<u32>>,
    ) -> PyResult<(Vec<OsString>, Vec<String>)> {
        let unknown = |name| PyValueError::new_err(format!("unknown format {name:?}"));
        let format = format.map(|name| parse_format(name).ok_or_else(|| unknown(name)));
        let time_range = match steps {
            Some((first, last)) => TimeRange::Steps { first, last },
            None => TimeRange::Times { from: parse_moment(start)?, to: parse_moment(end)? },
        };
        let export = Export {
            run: self.database()?.run(),
            name: &self.path,
            format: format.transpose()?,
            out: &out,
            replaces_existing: true,
            time_range,
            ranks,
        };
        marey_store::note_environment();
        let written = py.detach(|| export.write()).map_err(cannot_export)?;
        let warnings = written.iter().flat_map(WrittenFile::warnings).collect();
        Ok((written.into_iter().map(|written| written.path.into()).collect(), warnings))
    }
}

/// Names and queries of the sections of a report.
#[pyfunction]
pub(crate) fn sections() -> Vec<(&'static str, &'static str)> {
    section::ALL.iter().map(|section| (section.name, section.sql)).collect()
}

fn parse_thresholds(settings: &[(String, f64)]) -> PyResult<Thresholds> {
    let mut thresholds = Thresholds::default();
    for (name, value) in settings {
        let set = thresholds.set(name, *value);
        set.map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    Ok(thresholds)
}

fn parse_moment(text: Option<&str>) -> PyResult<Option<Moment>> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|reason| PyValueError::new_err(format!("invalid time {text:?}: {reason}")))
    };
    text.map(parse).transpose()
}

fn open(path: &Path) -> PyResult<(marey_store::Run, Option<Imported>)> {
    if !marey::is_foreign_file(path) {
        let run = marey_store::open(path, &marey::Sources::default(), &mut |_progress| {})
            .map_err(unreadable_run)?;
        return Ok((run, None));
    }
    let TemporaryRun { run, imported } =
        marey_formats::open(path, &Arc::default()).map_err(unreadable_import)?;
    Ok((run, Some(imported)))
}

fn limits(memory_bytes: Option<usize>, threads: Option<usize>) -> PyResult<Limits> {
    let limits = marey::limits(memory_bytes, threads);
    let limits = limits.map_err(|failure| PyValueError::new_err(failure.message))?;
    match limits {
        Limits { memory_bytes: 0, .. } => {
            Err(PyValueError::new_err("memory_limit must be at least 1 byte"))
        }
        Limits { threads: 0, .. } => Err(PyValueError::new_err("threads must be at least 1")),
        limits => Ok(limits),
    }
}
