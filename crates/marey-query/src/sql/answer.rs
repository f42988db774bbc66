//! [`Answer`], the rows of a query: the engine computes them in the background while they are read.
//! An answer can be cancelled from any thread, and cut at a maximum number of rows.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, watch};

use super::SqlError;
use super::engine::Engine;

/// Number of batches that are computed ahead of the reader.
const BATCHES_AHEAD: usize = 4;

/// The rows of an answer. Nothing is computed before the first batch is requested, and then at most
/// [`BATCHES_AHEAD`] batches ahead of the reader. Dropping the answer stops the query.
pub struct Answer {
    schema: SchemaRef,
    engine: Arc<Engine>,
    canceller: Canceller,
    state: AnswerState,
    rows_left: Option<u64>,
    was_cut: bool,
}

enum AnswerState {
    Planned(Arc<dyn ExecutionPlan>),
    Running(mpsc::Receiver<Result<RecordBatch, SqlError>>),
    Finished,
}

/// A handle that cancels a query from any thread.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<watch::Sender<bool>>);

impl Canceller {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Cancels the query. The next batch of the answer is [`SqlError::Cancelled`], even if a reader
    /// is already waiting for it.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Whether both handles cancel the same query.
    pub(super) fn is_same_query(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    async fn cancelled(&self) {
        // `self` owns the sender, so the wait cannot end because the channel closed.
        self.0.subscribe().wait_for(|is_cancelled| *is_cancelled).map(drop).await;
    }
}

impl Answer {
    pub(super) fn new(
        engine: Arc<Engine>,
        plan: Arc<dyn ExecutionPlan>,
        is_nullable: &[bool],
        canceller: Canceller,
        max_rows: Option<u64>,
    ) -> Self {
        Self {
            schema: with_distinct_names(&with_nullable_fields(&plan.schema(), is_nullable)),
            engine,
            canceller,
            state: AnswerState::Planned(plan),
            rows_left: max_rows,
            was_cut: false,
        }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// A handle that cancels this query.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether rows were cut off at the maximum number of rows.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Converts into an Arrow reader, with errors as [`ArrowError::ExternalError`].
    pub fn into_reader(self) -> AnswerReader {
        AnswerReader(self)
    }

    fn receive(&mut self) -> Option<Result<RecordBatch, SqlError>> {
        if let AnswerState::Planned(plan) = &self.state {
            self.state = AnswerState::Running(self.start(Arc::clone(plan)));
        }
        let AnswerState::Running(receiver) = &mut self.state else { return None };
        let cancelled = self.canceller.cancelled();
        self.engine.block_on(async {
            tokio::select! {
                biased;
                () = cancelled => Some(Err(SqlError::Cancelled)),
                batch = receiver.recv() => batch,
            }
        })
    }

    /// Runs the plan in a task of its own. The task continues while the reader is busy, and a panic
    /// ends only the task.
    fn start(&self, plan: Arc<dyn ExecutionPlan>) -> mpsc::Receiver<Result<RecordBatch, SqlError>> {
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let (context, memory_released) = self.engine.task_context();
        let translate_error = self.engine.error_translator();
        let canceller = self.canceller.clone();
        let schema = self.schema();
        let send_rows = {
            let sender = sender.clone();
            async move {
                if let Err(error) = send_all(plan, context, schema, &sender).await {
                    // The query's memory is released before the reader learns of the error.
                    drop(memory_released.await);
                    drop(sender.send(Err(translate_error(error))).await);
                }
            }
        };
        self.engine.spawn(async move {
            tokio::select! {
                biased;
                () = canceller.cancelled() => {}
                outcome = std::panic::AssertUnwindSafe(send_rows).catch_unwind() => {
                    if let Err(panic) = outcome {
                        drop(sender.send(Err(SqlError::panicked(&*panic))).await);
                    }
                }
            }
        });
        receiver
    }
}

/// Sends the batches of the plan until the receiver is dropped.
async fn send_all(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    schema: SchemaRef,
    sender: &mpsc::Sender<Result<RecordBatch, SqlError>>,
) -> Result<(), DataFusionError> {
    let mut batches = execute_stream(plan, context)?;
    while let Some(batch) = batches.next().await {
        if sender.send(Ok(compact_batch(&batch?, &schema))).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = match self.receive() {
                Some(Ok(batch)) => batch,
                end => {
                    self.state = AnswerState::Finished;
                    return end;
                }
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let Some(rows_left) = &mut self.rows_left else { return Some(Ok(batch)) };
            let batch_rows = batch.num_rows() as u64;
            if batch_rows <= *rows_left {
                *rows_left -= batch_rows;
                return Some(Ok(batch));
            }
            let first_rows = batch.slice(0, *rows_left as usize);
            self.was_cut = true;
            self.state = AnswerState::Finished;
            self.canceller.cancel();
            return (first_rows.num_rows() > 0).then_some(Ok(first_rows));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}

/// An [`Answer`] with the interface of an Arrow reader.
pub struct AnswerReader(Answer);

impl AnswerReader {
    /// The underlying answer.
    pub fn answer(&self) -> &Answer {
        &self.0
    }
}

impl Iterator for AnswerReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.next()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for AnswerReader {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Returns the schema with more columns marked as nullable.
fn with_nullable_fields(schema: &SchemaRef, is_nullable: &[bool]) -> SchemaRef {
    let fields = schema.fields().iter().zip(is_nullable);
    let fields = fields.map(|(field, &is_nullable)| {
        Field::clone(field).with_nullable(is_nullable || field.is_nullable())
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Returns the schema with `_1`, `_2` and so on appended to repeated names. Readers of JSON,
/// Parquet and data frames require unique column names.
fn with_distinct_names(schema: &SchemaRef) -> SchemaRef {
    let mut used_names: HashSet<String> =
        schema.fields().iter().map(|field| field.name().clone()).collect();
    if used_names.len() == schema.fields().len() {
        return Arc::clone(schema);
    }
    let mut seen_names = HashSet::new();
    let mut unique_name = |name: &String| {
        if seen_names.insert(name.clone()) {
            return name.clone();
        }
        let mut numbered_names = (1_u32..).map(|number| format!("{name}_{number}"));
        let free_name = numbered_names.find(|name| used_names.insert(name.clone()));
        free_name.unwrap_or_else(|| name.clone())
    };
    let rename = |field: &FieldRef| Field::clone(field).with_name(unique_name(field.name()));
    Arc::new(Schema::new(schema.fields().iter().map(rename).collect::<Vec<_>>()))
}

/// Returns the batch with a string column copied if its views reference much larger buffers.
/// `name()` returns views into the run's whole string table. Without the copy, every batch would
/// take that table along into a file or another process.
fn compact_batch(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let columns = batch.columns().iter().map(compact_column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).expect("the same columns")
}

fn compact_column(column: &ArrayRef) -> ArrayRef {
    if *column.data_type() != DataType::Utf8View {
        return Arc::clone(column);
    }
    let views = column.as_string_view();
    let buffer_bytes: usize = views.data_buffers().iter().map(Buffer::len).sum();
    if buffer_bytes <= 2 * views.total_buffer_bytes_used() {
        return Arc::clone(column);
    }
    Arc::new(views.gc())
}
