//! [`PartWriter`], which writes one part of a table as a Parquet file. The part gets its final name
//! only when a manifest that lists it is published.

use std::fs::{self, File, Permissions};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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

use crate::part::{Part, PartSource};
use crate::{StoreError, arrow_schema};

/// Number of rows in a row group, few enough that a query for a hundredth of a run skips nearly all
/// groups.
const ROW_GROUP_ROWS: usize = 131_072;

/// Maximum size of a dictionary. A larger one is abandoned for the rest of its row group, because
/// numbers that hardly repeat take a sixth of the space without one.
const MAX_DICTIONARY_BYTES: usize = 64 << 10;

/// Returns the name of a part in its run.
pub(crate) fn part_name(table: &str, number: u32) -> String {
    format!("tables/{table}/part-{number}.parquet")
}

/// Whether a path names a device, a pipe or a socket, which is written to and must not be replaced.
pub fn is_device_or_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Creates a file with a hidden name in `folder`. It is removed when it is dropped.
pub(crate) fn hidden_file(folder: &Path, name: &str) -> Result<NamedTempFile, StoreError> {
    tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .permissions(Permissions::from_mode(0o666)) // minus the umask, like any other file
        .tempfile_in(folder)
        .map_err(StoreError::io("create a file in", folder))
}

/// The encoding of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartEncoding {
    /// For a small size: dictionaries and compression.
    Compressed,
    /// For speed: differences of whole numbers, but no compression.
    Delta,
    /// For few rows: plain values, because the delta encoder takes a megabyte for each column.
    Plain,
}

/// A temporary file that takes one part after another.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: Arc<File>,
    len_bytes: u64,
}

impl TemporaryFile {
    fn new(folder: &Path) -> Result<Self, StoreError> {
        let file = tempfile::tempfile_in(folder);
        let file = file.map_err(StoreError::io("create a file in", folder))?;
        Ok(Self { file: Arc::new(file), len_bytes: 0 })
    }
}

/// Temporary files that are not being written to. Runs that share a pool need only as many files as
/// parts are written at the same time, however many parts and runs there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemporaryFilePool(Arc<Mutex<Vec<TemporaryFile>>>);

impl TemporaryFilePool {
    /// Takes a file from the pool, or creates one in `folder`.
    pub(crate) fn acquire(&self, folder: &Path) -> Result<TemporaryFile, StoreError> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| TemporaryFile::new(folder), Ok)
    }

    pub(crate) fn release(&self, temporary_file: TemporaryFile) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(temporary_file);
    }
}

/// The file that a part is written to.
#[derive(Debug)]
enum PartFile {
    /// A file of its own, with a hidden name.
    Named(TempPath),
    /// A temporary file, from this offset on.
    Temporary(Arc<File>, u64),
}

/// Writes one part: a Parquet file with statistics, sorted as its table declares.
pub struct PartWriter {
    table: &'static Table,
    name: String,
    rows: u64,
    /// The file, for messages.
    path: PathBuf,
    file: PartFile,
    writer: ArrowWriter<BufWriter<Arc<File>>>,
}

impl PartWriter {
    /// Begins a part of a table in a file with a hidden name, compressed with zstd. The number must
    /// be unused.
    pub fn create(run: &Path, table: &'static Table, number: u32) -> Result<Self, StoreError> {
        let folder = run.join("tables").join(table.name);
        fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        let (file, path) = hidden_file(&folder, &format!("part-{number}"))?.into_parts();
        let out = Arc::new(file);
        Self::new(
            table,
            number,
            path.to_path_buf(),
            PartFile::Named(path),
            out,
            PartEncoding::Compressed,
        )
    }

    /// Begins a part of a table in a temporary file of `folder`.
    pub(crate) fn append(
        temporary_file: TemporaryFile,
        folder: &Path,
        table: &'static Table,
        number: u32,
        is_small: bool,
    ) -> Result<Self, StoreError> {
        let TemporaryFile { file, len_bytes: start } = temporary_file;
        let part_file = PartFile::Temporary(Arc::clone(&file), start);
        let encoding = if is_small { PartEncoding::Plain } else { PartEncoding::Delta };
        Self::new(table, number, folder.to_owned(), part_file, file, encoding)
    }

    fn new(
        table: &'static Table,
        number: u32,
        path: PathBuf,
        file: PartFile,
        out: Arc<File>,
        encoding: PartEncoding,
    ) -> Result<Self, StoreError> {
        // Arrow's copy of the schema is redundant, and takes two kilobytes in each part.
        let options = ArrowWriterOptions::new()
            .with_properties(properties(table, encoding))
            .with_skip_arrow_metadata(true);
        let writer =
            ArrowWriter::try_new_with_options(BufWriter::new(out), arrow_schema(table), options)
                .map_err(|error| write_error(&path, error))?;
        let name = part_name(table.name, number);
        Ok(Self { table, name, rows: 0, path, file, writer })
    }

    /// Appends rows, which have the table's schema and order.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        self.writer.write(batch).map_err(|error| write_error(&self.path, error))?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Ends the part and fsyncs it. It gets its final name when a manifest that lists it is
    /// published.
    pub fn finish(self) -> Result<WrittenPart, StoreError> {
        self.finish_with(true)
    }

    /// Ends the part. Fsyncs it only if `is_durable`.
    pub(crate) fn finish_with(self, is_durable: bool) -> Result<WrittenPart, StoreError> {
        let Self { table, name, rows, path, file: part_file, mut writer } = self;
        writer.finish().map_err(|error| write_error(&path, error))?;
        if is_durable {
            writer.inner().get_ref().sync_all().map_err(StoreError::io("write", &path))?;
        }
        let len_bytes = writer.bytes_written() as u64;
        Ok(WrittenPart { table, name, rows, len_bytes, file: part_file })
    }
}

/// A complete part without a final name. It is removed when it is dropped.
#[derive(Debug)]
pub struct WrittenPart {
    table: &'static Table,
    name: String,
    rows: u64,
    len_bytes: u64,
    file: PartFile,
}

impl WrittenPart {
    /// Returns its table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Returns its future path in the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its number of rows.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// Returns its length.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the temporary file from the end of this part on, if the part is in one.
    pub(crate) fn remaining_file(&self) -> Option<TemporaryFile> {
        let PartFile::Temporary(file, start) = &self.file else { return None };
        Some(TemporaryFile { file: Arc::clone(file), len_bytes: start + self.len_bytes })
    }

    /// Opens the part in the file that it was written to.
    pub(crate) fn open(&self) -> Result<Part, StoreError> {
        let source = match &self.file {
            PartFile::Named(path) => {
                let file = File::open(path).map_err(StoreError::io("open", path))?;
                PartSource::Open(Arc::new(file), 0)
            }
            PartFile::Temporary(file, start) => PartSource::Open(Arc::clone(file), *start),
        };
        let Self { name, rows, len_bytes, .. } = self;
        Ok(Part { name: name.clone(), rows: *rows, len_bytes: *len_bytes, source })
    }

    /// Renames the part to its final name, unless it is in a temporary file.
    pub(crate) fn publish(self, run: &Path) -> Result<(), StoreError> {
        let PartFile::Named(hidden) = self.file else { return Ok(()) };
        let path = run.join(&self.name);
        hidden.persist(&path).map_err(|error| StoreError::io("create", &path)(error.error))
    }
}

fn write_error(path: &Path, error: ParquetError) -> StoreError {
    StoreError::io("write", path)(error.into())
}

fn properties(table: &Table, encoding: PartEncoding) -> WriterProperties {
    let compression = match encoding {
        PartEncoding::Compressed => {
            Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level of zstd"))
        }
        PartEncoding::Delta | PartEncoding::Plain => Compression::UNCOMPRESSED,
    };
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("marey ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_dictionary_page_size_limit(MAX_DICTIONARY_BYTES)
        .set_dictionary_enabled(encoding != PartEncoding::Plain)
        .set_key_value_metadata(Some(key_values(table)));
    if encoding != PartEncoding::Plain {
        for column in table.columns {
            let is_key = table.sorted_by == Some(column.name);
            let may_have_dictionary = encoding == PartEncoding::Compressed && !is_key;
            properties = set_encoding(properties, column.name, column.kind, may_have_dictionary);
        }
    }
    properties.set_sorting_columns(sorting_columns(table)).build()
}

fn sorting_columns(table: &Table) -> Option<Vec<SortingColumn>> {
    let position = table.position(table.sorted_by?)?;
    let column_idx = i32::try_from(position).expect("a table has few columns");
    Some(vec![SortingColumn { column_idx, descending: false, nulls_first: false }])
}

/// Sets the encoding of a column. Integers are delta-encoded. For timestamps and sort keys, which
/// hardly repeat, that is always so. For others it is so if there is no dictionary or the
/// dictionary is too large.
fn set_encoding(
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
        // The Parquet column is the list's leaf.
        ColumnKind::Ints => {
            let leaf =
                ColumnPath::from(vec![column.to_owned(), "list".to_owned(), "item".to_owned()]);
            properties
                .set_column_encoding(leaf.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(leaf, false)
        }
    }
}

/// Returns the metadata of a part: the schema version, the table, and their descriptions.
fn key_values(table: &Table) -> Vec<KeyValue> {
    let key_value = |key: String, value: &str| KeyValue::new(key, value.to_owned());
    let mut pairs = vec![
        key_value("marey.schema_version".to_owned(), &SCHEMA_VERSION.to_string()),
        key_value("marey.table".to_owned(), table.name),
        key_value("marey.doc".to_owned(), table.doc),
    ];
    let columns = table.columns.iter();
    pairs.extend(columns.map(|column| key_value(format!("marey.doc.{}", column.name), column.doc)));
    pairs
}
