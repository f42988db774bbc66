//! Rows into a writer, in the form that is asked for.

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

use super::format::Format;
use super::table::{Look, Table};
use crate::output::{Failure, Stop};

/// Takes the rows of an answer, batch by batch.
pub(super) trait RowWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop>;

    /// Writes what comes after the last row.
    fn finish(self: Box<Self>) -> Result<(), Stop>;
}

/// Where rows go, and how they look there.
pub(super) struct Sink<W> {
    pub(super) out: W,
    pub(super) look: Look,
    /// Whether it is a file, which a reader may enter anywhere, and no stream.
    pub(super) is_file: bool,
}

impl<'a, W: Write + Send + 'a> Sink<W> {
    /// A writer of rows, whose heading is written.
    pub(super) fn rows(
        self,
        format: Format,
        schema: &SchemaRef,
    ) -> Result<Box<dyn RowWriter + 'a>, Stop> {
        Ok(match format {
            Format::Table => Box::new(Table::new(self.out, schema, self.look)),
            Format::Csv => Box::new(Csv::new(self.out, schema)?),
            Format::Json => Box::new(Json::<_, JsonArray>::new(self.out, "\n")),
            Format::Jsonl => Box::new(Json::<_, LineDelimited>::new(self.out, "")),
            Format::Arrow if self.is_file => {
                Box::new(FileWriter::try_new(self.out, schema).map_err(of_arrow)?)
            }
            Format::Arrow => Box::new(StreamWriter::try_new(self.out, schema).map_err(of_arrow)?),
            Format::Parquet => {
                let zstd = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder().set_compression(zstd).build();
                let writer = ArrowWriter::try_new(self.out, Arc::clone(schema), Some(properties));
                Box::new(writer.map_err(of_parquet)?)
            }
        })
    }
}

/// A line a row. No value is an empty cell.
struct Csv<W: Write> {
    writer: csv::Writer<W>,
    cell: String,
}

impl<W: Write> Csv<W> {
    fn new(out: W, schema: &SchemaRef) -> Result<Self, Stop> {
        let mut writer = csv::Writer::from_writer(out);
        let names = schema.fields().iter().map(|field| field.name());
        writer.write_record(names).map_err(of_csv)?;
        Ok(Self { writer, cell: String::new() })
    }
}

impl<W: Write> RowWriter for Csv<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        let columns = formatters(batch, "")?;
        for row in 0..batch.num_rows() {
            for column in &columns {
                self.cell.clear();
                column.value(row).write(&mut self.cell).map_err(of_arrow)?;
                self.writer.write_field(&self.cell).map_err(of_csv)?;
            }
            self.writer.write_record(None::<&[u8]>).map_err(of_csv)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        Ok(self.writer.flush()?)
    }
}

/// The text of each cell of a batch, column by column; `null` where there is no value.
pub(super) fn formatters<'a>(
    batch: &'a RecordBatch,
    null: &'a str,
) -> Result<Vec<ArrayFormatter<'a>>, Stop> {
    let options = FormatOptions::new().with_null(null).with_display_error(false);
    let formatter = |column: &'a Arc<dyn Array>| ArrayFormatter::try_new(column, &options);
    batch.columns().iter().map(formatter).collect::<Result<_, _>>().map_err(of_arrow)
}

/// Objects with every column, `null` where there is no value or no number.
struct Json<W: Write, F: JsonFormat> {
    writer: JsonWriter<W, F>,
    /// What follows the last object and what closes their list.
    end: &'static str,
}

impl<W: Write, F: JsonFormat> Json<W, F> {
    fn new(out: W, end: &'static str) -> Self {
        Self { writer: WriterBuilder::new().with_explicit_nulls(true).build(out), end }
    }
}

impl<W: Write, F: JsonFormat> RowWriter for Json<W, F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        self.writer.write(batch).map_err(of_arrow)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        self.writer.finish().map_err(of_arrow)?;
        Ok(self.writer.into_inner().write_all(self.end.as_bytes())?)
    }
}

impl<W: Write> RowWriter for FileWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        self.write(batch).map_err(of_arrow)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        FileWriter::finish(&mut self).map_err(of_arrow)
    }
}

impl<W: Write> RowWriter for StreamWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        self.write(batch).map_err(of_arrow)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        StreamWriter::finish(&mut self).map_err(of_arrow)
    }
}

impl<W: Write + Send> RowWriter for ArrowWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        self.write(batch).map_err(of_parquet)
    }

    fn finish(self: Box<Self>) -> Result<(), Stop> {
        self.close().map(drop).map_err(of_parquet)
    }
}

pub(super) fn of_arrow(error: ArrowError) -> Stop {
    match error {
        ArrowError::IoError(_, error) => Stop::Output(error),
        other => cannot_write(&other),
    }
}

fn of_parquet(error: ParquetError) -> Stop {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => Stop::Output(*error),
            Err(inner) => cannot_write(&inner),
        },
        other => cannot_write(&other),
    }
}

fn of_csv(error: csv::Error) -> Stop {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Stop::Output(error),
        other => cannot_write(&format_args!("{other:?}")),
    }
}

fn cannot_write(reason: &dyn std::fmt::Display) -> Stop {
    let message = format!("the rows cannot be written in this format: {reason}");
    Stop::Failed(Failure { message, hint: None })
}
