//! Writes the rows of a query in one of its formats: table, CSV, JSON, Arrow or Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::json::writer::{
    JsonArray, JsonFormat, LineDelimited, Writer as JsonWriter, WriterBuilder,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::format::RowFormat;
use super::table::StreamedTable;
use crate::aligned::TextLayout;
use crate::output::{CommandError, Failure};

/// Writes the rows of a result, batch by batch.
pub(super) trait RowWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError>;

    /// Writes the end of the output.
    fn finish(self: Box<Self>) -> Result<(), CommandError>;
}

/// The destination of rows.
pub(super) struct RowSink<W> {
    pub(super) out: W,
    pub(super) layout: TextLayout,
    /// Whether `out` is a file, which allows random access, and not a stream.
    pub(super) is_file: bool,
}

impl<'a, W: Write + Send + 'a> RowSink<W> {
    /// Creates a writer of rows and writes the heading.
    pub(super) fn into_writer(
        self,
        format: RowFormat,
        schema: &SchemaRef,
    ) -> Result<Box<dyn RowWriter + 'a>, CommandError> {
        Ok(match format {
            RowFormat::Table => Box::new(StreamedTable::new(self.out, schema, self.layout)),
            RowFormat::Csv => Box::new(CsvRows::new(self.out, schema)?),
            RowFormat::Json => Box::new(JsonRows::<_, JsonArray>::new(self.out, "\n")),
            RowFormat::Jsonl => Box::new(JsonRows::<_, LineDelimited>::new(self.out, "")),
            RowFormat::Arrow if self.is_file => {
                Box::new(FileWriter::try_new(self.out, schema).map_err(arrow_error)?)
            }
            RowFormat::Arrow => {
                Box::new(StreamWriter::try_new(self.out, schema).map_err(arrow_error)?)
            }
            RowFormat::Parquet => {
                let zstd = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder().set_compression(zstd).build();
                let writer = ArrowWriter::try_new(self.out, Arc::clone(schema), Some(properties));
                Box::new(writer.map_err(parquet_error)?)
            }
        })
    }
}

/// Writes CSV with one line for each row. Null is an empty cell.
struct CsvRows<W: Write> {
    writer: csv::Writer<W>,
    cell: String,
}

impl<W: Write> CsvRows<W> {
    fn new(out: W, schema: &SchemaRef) -> Result<Self, CommandError> {
        let mut writer = csv::Writer::from_writer(out);
        let names = schema.fields().iter().map(|field| field.name());
        writer.write_record(names).map_err(csv_error)?;
        Ok(Self { writer, cell: String::new() })
    }
}

impl<W: Write> RowWriter for CsvRows<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        let columns = formatters(batch, "")?;
        for row in 0..batch.num_rows() {
            for column in &columns {
                self.cell.clear();
                column.value(row).write(&mut self.cell).map_err(arrow_error)?;
                self.writer.write_field(&self.cell).map_err(csv_error)?;
            }
            self.writer.write_record(None::<&[u8]>).map_err(csv_error)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), CommandError> {
        Ok(self.writer.flush()?)
    }
}

/// Returns a formatter for each column. `null` is the text of null cells.
pub(super) fn formatters<'a>(
    batch: &'a RecordBatch,
    null: &'a str,
) -> Result<Vec<ArrayFormatter<'a>>, CommandError> {
    let options = FormatOptions::new().with_null(null).with_display_error(false);
    let formatter = |column: &'a Arc<dyn Array>| ArrayFormatter::try_new(column, &options);
    batch.columns().iter().map(formatter).collect::<Result<_, _>>().map_err(arrow_error)
}

/// Writes JSON objects with all columns. Null, and a number that is not finite, are `null`.
struct JsonRows<W: Write, F: JsonFormat> {
    writer: JsonWriter<W, F>,
    /// The text after the last object.
    end_text: &'static str,
}

impl<W: Write, F: JsonFormat> JsonRows<W, F> {
    fn new(out: W, end_text: &'static str) -> Self {
        Self { writer: WriterBuilder::new().with_explicit_nulls(true).build(out), end_text }
    }
}

impl<W: Write, F: JsonFormat> RowWriter for JsonRows<W, F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        self.writer.write(batch).map_err(arrow_error)
    }

    fn finish(mut self: Box<Self>) -> Result<(), CommandError> {
        self.writer.finish().map_err(arrow_error)?;
        Ok(self.writer.into_inner().write_all(self.end_text.as_bytes())?)
    }
}

impl<W: Write> RowWriter for FileWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        self.write(batch).map_err(arrow_error)
    }

    fn finish(mut self: Box<Self>) -> Result<(), CommandError> {
        FileWriter::finish(&mut self).map_err(arrow_error)
    }
}

impl<W: Write> RowWriter for StreamWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        self.write(batch).map_err(arrow_error)
    }

    fn finish(mut self: Box<Self>) -> Result<(), CommandError> {
        StreamWriter::finish(&mut self).map_err(arrow_error)
    }
}

impl<W: Write + Send> RowWriter for ArrowWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        self.write(batch).map_err(parquet_error)
    }

    fn finish(self: Box<Self>) -> Result<(), CommandError> {
        self.close().map(drop).map_err(parquet_error)
    }
}

pub(super) fn arrow_error(error: ArrowError) -> CommandError {
    match error {
        ArrowError::IoError(_, error) => CommandError::Output(error),
        other => cannot_write(&other),
    }
}

fn parquet_error(error: ParquetError) -> CommandError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => CommandError::Output(*error),
            Err(inner) => cannot_write(&inner),
        },
        other => cannot_write(&other),
    }
}

fn csv_error(error: csv::Error) -> CommandError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => CommandError::Output(error),
        other => cannot_write(&format_args!("{other:?}")),
    }
}

fn cannot_write(reason: &dyn std::fmt::Display) -> CommandError {
    let message = format!("cannot write the rows in this format: {reason}");
    CommandError::Failed(Failure::new(message))
}
