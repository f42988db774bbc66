//! Writing the parts of tables.

use std::fs::{self, Permissions};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use arrow::array::RecordBatch;
use marey_model::table::stored::SCHEMA_VERSION;
use marey_model::table::{ColumnKind, Table};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use tempfile::{NamedTempFile, TempPath};

use crate::{StoreError, arrow_schema};

/// Rows of a row group: few enough that a window of a hundredth of a run skips nearly all of them.
const ROW_GROUP_ROWS: usize = 131_072;

/// A dictionary that would be larger is given up for the rest of its row group: numbers that hardly
/// repeat take a sixth as much without.
const MAX_DICTIONARY_BYTES: usize = 64 << 10;

/// Name of a part in its run.
pub(crate) fn part_name(table: &str, number: u32) -> String {
    format!("tables/{table}/part-{number}.parquet")
}

/// A new file in `folder` whose name no pattern matches, gone when it is dropped.
pub(crate) fn hidden_file(folder: &Path, name: &str) -> Result<NamedTempFile, StoreError> {
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .permissions(Permissions::from_mode(0o666)) // less the umask, like any other file
        .tempfile_in(folder)
        .map_err(StoreError::io("create a file in", folder))
}

/// How long what is written must last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// It is on the disk when it is finished: nobody can make it again.
    Durable,
    /// What a power cut takes can be made again.
    Kept,
    /// It goes with the process, and is not packed: that takes longer than it saves.
    Brief,
}

/// Writes one part: zstd-compressed Parquet with statistics, sorted as its table is declared.
pub struct PartWriter {
    table: &'static Table,
    name: String,
    rows: u64,
    path: TempPath,
    writer: ArrowWriter<BufWriter<fs::File>>,
    lifetime: Lifetime,
}

impl PartWriter {
    /// Begins a part of a table under a hidden name. The number must not be in use.
    pub fn create(run: &Path, table: &'static Table, number: u32) -> Result<Self, StoreError> {
        Self::create_for(Lifetime::Durable, run, table, number)
    }

    pub(crate) fn create_for(
        lifetime: Lifetime,
        run: &Path,
        table: &'static Table,
        number: u32,
    ) -> Result<Self, StoreError> {
        let folder = run.join("tables").join(table.name);
        fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        let (file, path) = hidden_file(&folder, &format!("part-{number}"))?.into_parts();
        // Arrow's own copy of the schema would say the same again, in two kilobytes a part.
        let options = ArrowWriterOptions::new()
            .with_properties(properties(table, lifetime != Lifetime::Brief))
            .with_skip_arrow_metadata(true);
        let writer =
            ArrowWriter::try_new_with_options(BufWriter::new(file), arrow_schema(table), options)
                .map_err(|error| write_error(&path, error))?;
        let name = part_name(table.name, number);
        Ok(Self { table, name, rows: 0, path, writer, lifetime })
    }

    /// Appends rows, which have the table's schema and its order.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        self.writer.write(batch).map_err(|error| write_error(&self.path, error))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Ends the part. It gets its name when a manifest that lists it is
    /// published.
    pub fn finish(self) -> Result<WrittenPart, StoreError> {
        let Self { table, name, rows, path, mut writer, lifetime } = self;
        writer.finish().map_err(|error| write_error(&path, error))?;
        if lifetime == Lifetime::Durable {
            writer.inner().get_ref().sync_all().map_err(StoreError::io("write", &path))?;
        }
        let len_bytes = writer.bytes_written() as u64;
        Ok(WrittenPart { table, name, rows, len_bytes, path })
    }
}

/// A whole part that has no name yet; dropped, it is gone.
#[derive(Debug)]
pub struct WrittenPart {
    table: &'static Table,
    name: String,
    rows: u64,
    len_bytes: u64,
    path: TempPath,
}

impl WrittenPart {
    /// Its table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// The path in the run that it will have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(crate) fn publish(self, run: &Path) -> Result<(), StoreError> {
        let path = run.join(&self.name);
        self.path.persist(&path).map_err(|error| StoreError::io("create", &path)(error.error))
    }
}

fn write_error(path: &Path, error: ParquetError) -> StoreError {
    StoreError::io("write", path)(error.into())
}

fn properties(table: &Table, is_packed: bool) -> WriterProperties {
    let zstd = ZstdLevel::try_new(1).expect("1 is a level of zstd");
    let compression = if is_packed { Compression::ZSTD(zstd) } else { Compression::UNCOMPRESSED };
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("marey ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_dictionary_page_size_limit(MAX_DICTIONARY_BYTES)
        .set_key_value_metadata(Some(key_values(table)));
    for column in table.columns {
        let is_key = table.sorted_by == Some(column.name);
        properties = encode(properties, column.name, column.kind, is_packed && !is_key);
    }
    properties.set_sorting_columns(sorting(table)).build()
}

fn sorting(table: &Table) -> Option<Vec<SortingColumn>> {
    let position = table.position(table.sorted_by?)?;
    let column_idx = i32::try_from(position).expect("a table has few columns");
    Some(vec![SortingColumn { column_idx, descending: false, nulls_first: false }])
}

/// Whole numbers go in as differences: times and keys, which hardly repeat, always; others where they
/// may have no dictionary, or theirs is too large.
fn encode(
    properties: WriterPropertiesBuilder,
    column: &str,
    kind: ColumnKind,
    may_have_dictionary: bool,
) -> WriterPropertiesBuilder {
    let path = ColumnPath::from(column);
    match kind {
        ColumnKind::Nanos | ColumnKind::Int | ColumnKind::Bits | ColumnKind::Id => {
            let has_dictionary = kind != ColumnKind::Nanos && may_have_dictionary;
            properties
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(path, has_dictionary)
        }
        ColumnKind::Real
        | ColumnKind::Flag
        | ColumnKind::Text
        | ColumnKind::Bytes
        | ColumnKind::Reals => properties,
        // The column is the list's leaf.
        ColumnKind::Ints => {
            let leaf =
                ColumnPath::from(vec![column.to_owned(), "list".to_owned(), "item".to_owned()]);
            properties
                .set_column_encoding(leaf.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(leaf, false)
        }
    }
}

/// What the file says of itself: its table, and a sentence for it and for each column.
fn key_values(table: &Table) -> Vec<KeyValue> {
    let pair = |key: String, value: &str| KeyValue::new(key, value.to_owned());
    let mut pairs = vec![
        pair("marey.schema_version".to_owned(), &SCHEMA_VERSION.to_string()),
        pair("marey.table".to_owned(), table.name),
        pair("marey.doc".to_owned(), table.doc),
    ];
    let docs = table.columns.iter();
    pairs.extend(docs.map(|column| pair(format!("marey.doc.{}", column.name), column.doc)));
    pairs
}
