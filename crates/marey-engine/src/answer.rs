//! The Python class `marey._engine.Answer`: the rows that answer a query, held in memory, as Python
//! values, text or Arrow data.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 converts arguments into owned values")]

use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use marey_query::sql::{self, DistinctBuffers};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::error::{answer_too_large, bad_query};
use crate::{capsule, values};

/// The interval at which the wait for a query checks for signals, such as Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The rows that answer a query, in memory.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Answer {
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    was_cut: bool,
}

impl Answer {
    /// The rows of one batch.
    pub(crate) fn from_batch(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: [batch].into(), was_cut: false }
    }

    /// Runs a planned query to its end, or until a signal handler raises an exception, as for
    /// Ctrl-C.
    pub(crate) fn collect(py: Python<'_>, rows: sql::Answer, limit_bytes: usize) -> PyResult<Self> {
        let canceller = rows.canceller();
        run_interruptibly(py, || collect_rows(rows, limit_bytes), || canceller.cancel())
    }
}

/// Runs `work` without the GIL. Calls `cancel` if a signal handler raises an exception, as for
/// Ctrl-C.
pub(crate) fn run_interruptibly<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send,
    cancel: impl Fn() + Sync,
) -> PyResult<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (work_ended, work_ended_receiver) = mpsc::sync_channel::<()>(1);
            let work = move || {
                // The sender is dropped when `work` ends, even by a panic. That ends the wait
                // below.
                let _work_ended = work_ended;
                work()
            };
            let worker = thread::Builder::new().name("marey-answer".to_owned());
            let worker = worker.spawn_scoped(scope, work)?;
            while work_ended_receiver.recv_timeout(SIGNAL_CHECK_INTERVAL)
                == Err(RecvTimeoutError::Timeout)
            {
                #[expect(
                    clippy::redundant_closure_for_method_calls,
                    reason = "a method path has one lifetime, but any is needed"
                )]
                let signal_check = Python::attach(|py| py.check_signals());
                if let Err(raised) = signal_check {
                    cancel();
                    return Err(raised);
                }
            }
            worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    })
}

/// Collects all rows, up to the memory limit.
fn collect_rows(mut rows: sql::Answer, limit_bytes: usize) -> PyResult<Answer> {
    let mut batches = Vec::new();
    let (mut buffers, mut buffer_bytes) = (DistinctBuffers::default(), 0);
    for batch in &mut rows {
        let batch = batch.map_err(|error| bad_query(&error))?;
        buffer_bytes += buffers.add(&batch);
        if buffer_bytes > limit_bytes {
            return Err(answer_too_large(limit_bytes));
        }
        batches.push(batch);
    }
    Ok(Answer { schema: rows.schema(), batches: batches.into(), was_cut: rows.was_cut() })
}

#[pymethods]
impl Answer {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns.
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether rows were cut off at the requested maximum.
    fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// The number of record batches.
    fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// The values of a batch, one list for each column.
    fn batch<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Vec<Bound<'py, PyList>>> {
        let Some(batch) = self.batches.get(number) else {
            return Err(PyIndexError::new_err(format!("there is no batch {number}")));
        };
        batch.columns().iter().map(|column| values::to_python(py, column)).collect()
    }

    /// The values of a column.
    fn column<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyList>> {
        if index >= self.schema.fields().len() {
            return Err(PyIndexError::new_err(format!("there is no column {index}")));
        }
        let values = PyList::empty(py);
        for batch in self.batches.iter() {
            values.call_method1("extend", (values::to_python(py, batch.column(index))?,))?;
        }
        Ok(values)
    }

    /// Returns the first rows as a table in the format of `marey query`, fitted to a terminal that
    /// is `room` columns wide.
    #[pyo3(signature = (max_rows, room=None))]
    fn text(&self, max_rows: usize, room: Option<usize>) -> PyResult<String> {
        let mut rows_left = max_rows;
        let first_batches = self.batches.iter().map(|batch| {
            let row_count = batch.num_rows().min(rows_left);
            rows_left -= row_count;
            batch.slice(0, row_count)
        });
        Ok(marey::as_table(&self.schema, &first_batches.collect::<Vec<_>>(), room)?)
    }

    /// The schema as a capsule `arrow_schema`.
    fn arrow_schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::from_schema(py, &self.schema)
    }

    /// The rows as a capsule `arrow_array_stream`.
    #[pyo3(signature = (requested_schema=None))]
    fn arrow_stream<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = Arc::clone(&self.batches);
        capsule::from_batches(py, &self.schema, batches, requested_schema.as_ref())
    }
}
