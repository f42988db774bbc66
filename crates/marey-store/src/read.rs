//! Reads the rows of parts as Arrow batches with the declared columns. The files are untrusted, so
//! even a panic of the Parquet library becomes an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use marey_model::table::Table;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use crate::migrate::conform;
use crate::{Part, StoreError, arrow_schema};

/// Number of rows in a batch.
const BATCH_ROWS: usize = 4096;

/// Reads all rows of a table, with its declared columns.
pub(crate) fn read_table(
    run: &Path,
    table: &'static Table,
    parts: &[Part],
) -> Result<RecordBatch, StoreError> {
    let batches = read_batches(run, table, parts).collect::<Result<Vec<_>, _>>()?;
    concat_batches(&arrow_schema(table), &batches).map_err(StoreError::arrow(run, table))
}

/// Reads the rows of a table in batches, with its declared columns.
pub(crate) fn read_batches<'a>(
    run: &'a Path,
    table: &'static Table,
    parts: &'a [Part],
) -> impl Iterator<Item = Result<RecordBatch, StoreError>> {
    let part_batches = move |part: &'a Part| {
        let (batches, error) = match Batches::open(run, part, table) {
            Ok(batches) => (Some(batches), None),
            Err(error) => (None, Some(Err(error))),
        };
        batches.into_iter().flatten().chain(error)
    };
    parts.iter().flat_map(part_batches)
}

/// The rows of a part in batches, with the declared columns of its table.
pub(crate) struct Batches<'a> {
    run: &'a Path,
    part: &'a Part,
    table: &'static Table,
    first_key: Option<i64>,
    reader: ParquetRecordBatchReader,
}

impl<'a> Batches<'a> {
    pub(crate) fn open(
        run: &'a Path,
        part: &'a Part,
        table: &'static Table,
    ) -> Result<Self, StoreError> {
        let opened = catch_panic(|| {
            let builder = create_builder(part)?;
            let first_key = read_first_key(builder.metadata(), table);
            Ok((first_key, builder.with_batch_size(BATCH_ROWS).build()?))
        });
        let (first_key, reader) = opened.map_err(|error| error.into_error(part, run))?;
        Ok(Self { run, part, table, first_key, reader })
    }

    /// Returns the sort key of the first row, if the table is sorted and the part has statistics.
    pub(crate) fn first_key(&self) -> Option<i64> {
        self.first_key
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { run, part, table, reader, .. } = self;
        let next = catch_panic(|| {
            let batch = reader.next().transpose();
            let batch =
                batch.and_then(|batch| batch.map(|batch| conform(&batch, table)).transpose());
            batch.map_err(|error| PartError::Parquet(error.into()))
        });
        next.map_err(|error| error.into_error(part, run)).transpose()
    }
}

/// Converts a panic to an error, because the Parquet library panics on some corrupt files.
fn catch_panic<T>(read: impl FnOnce() -> Result<T, PartError>) -> Result<T, PartError> {
    let result = catch_unwind(AssertUnwindSafe(read));
    result.unwrap_or_else(|panic| Err(PartError::Reason(panic_message(&*panic))))
}

fn create_builder(part: &Part) -> Result<ParquetRecordBatchReaderBuilder<Part>, PartError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(part.clone())?;
    let rows = builder.metadata().file_metadata().num_rows();
    if u64::try_from(rows) != Ok(part.row_count()) {
        let reason = format!("it has {rows} rows instead of {}", part.row_count());
        return Err(PartError::Reason(reason));
    }
    Ok(builder)
}

fn read_first_key(metadata: &ParquetMetaData, table: &Table) -> Option<i64> {
    let mut columns = metadata.row_groups().first()?.columns().iter();
    let column = columns.find(|column| Some(&*column.column_path().string()) == table.sorted_by)?;
    match column.statistics()? {
        Statistics::Int64(values) => values.min_opt().copied(),
        _ => None,
    }
}

/// The reason why a part cannot be read.
enum PartError {
    Parquet(ParquetError),
    Reason(String),
}

impl From<ParquetError> for PartError {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

impl PartError {
    fn into_error(self, part: &Part, run: &Path) -> StoreError {
        let (run, part) = (run.to_owned(), part.name().to_owned());
        match self {
            Self::Parquet(source) => StoreError::Parquet { run, part, source },
            Self::Reason(reason) => StoreError::Part { run, part, reason },
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the Parquet reader failed: {}", text.unwrap_or("unknown reason"))
}
