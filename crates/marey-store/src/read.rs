//! Reading the rows of parts.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use marey_model::table::Table;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use crate::migrate::conform;
use crate::{Part, StoreError, arrow_schema};

/// All rows of a table, as it is declared.
pub(crate) fn table(
    run: &Path,
    table: &'static Table,
    parts: &[Part],
) -> Result<RecordBatch, StoreError> {
    let mut batches = Vec::new();
    for part in parts {
        // The Parquet library panics on some of the files that were changed.
        let rows = catch_unwind(AssertUnwindSafe(|| rows(part, table)));
        let rows = rows.unwrap_or_else(|panic| Err(Broken::Reason(message(&*panic))));
        batches.extend(rows.map_err(|broken| broken.of(part, run))?);
    }
    concat_batches(&arrow_schema(table), &batches).map_err(|source| StoreError::Arrow {
        run: run.to_owned(),
        table: table.name,
        source,
    })
}

fn rows(part: &Part, table: &Table) -> Result<Vec<RecordBatch>, Broken> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(part.clone())?;
    let rows = builder.metadata().file_metadata().num_rows();
    if u64::try_from(rows) != Ok(part.rows()) {
        let reason = format!("it has {rows} rows and should have {}", part.rows());
        return Err(Broken::Reason(reason));
    }
    builder
        .build()?
        .map(|batch| {
            let batch = batch.and_then(|batch| conform(&batch, table));
            batch.map_err(|error| Broken::Parquet(error.into()))
        })
        .collect()
}

/// What is wrong with a part.
enum Broken {
    Parquet(ParquetError),
    Reason(String),
}

impl From<ParquetError> for Broken {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

impl Broken {
    fn of(self, part: &Part, run: &Path) -> StoreError {
        let (run, part) = (run.to_owned(), part.name().to_owned());
        match self {
            Self::Parquet(source) => StoreError::Parquet { run, part, source },
            Self::Reason(reason) => StoreError::Part { run, part, reason },
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("its reader gave up: {}", text.unwrap_or("for an unknown reason"))
}
