//! [`Part`], a part of a table that is open for reading, as the Parquet reader needs it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// One Parquet file of a table: a file of the run's folder, or a slice of a pack.
#[derive(Clone, Debug)]
pub struct Part {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) len_bytes: u64,
    pub(crate) source: PartSource,
}

/// Buffer size of readers that do not know how much they need. Most page headers are shorter.
const READ_BYTES: usize = 1 << 10;

/// Location of a part's bytes.
#[derive(Clone, Debug)]
pub(crate) enum PartSource {
    /// An open file, from an offset on.
    Open(Arc<File>, u64),
    /// A file that is opened for each read.
    Path(PathBuf),
}

impl Part {
    /// Returns its path in the run, such as `tables/spans/part-3.parquet`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its number of rows, according to the manifest.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// Returns its length.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Reads a range of its bytes. Fails if the range exceeds the part.
    pub fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.start > range.end || range.end > self.len_bytes {
            let message = format!(
                "bytes {} to {} of `{}`, which has {}",
                range.start, range.end, self.name, self.len_bytes
            );
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.fill(&mut bytes, range.start)?;
        Ok(bytes.into())
    }

    /// Fills `bytes` from an offset in the part.
    fn fill(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.source {
            PartSource::Open(file, start) => file.read_exact_at(bytes, start + offset),
            PartSource::Path(path) => File::open(path)?.read_exact_at(bytes, offset),
        }
    }
}

/// A reader from an offset in a part on.
#[derive(Debug)]
pub struct PartBytes {
    part: Part,
    offset: u64,
}

impl Read for PartBytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let remaining_bytes = self.part.len_bytes.saturating_sub(self.offset);
        let len = usize::try_from(remaining_bytes).unwrap_or(usize::MAX).min(out.len());
        self.part.fill(&mut out[..len], self.offset)?;
        self.offset += len as u64;
        Ok(len)
    }
}

impl Length for Part {
    fn len(&self) -> u64 {
        self.len_bytes
    }
}

impl ChunkReader for Part {
    type T = BufReader<PartBytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let bytes = PartBytes { part: self.clone(), offset: start };
        Ok(BufReader::with_capacity(READ_BYTES, bytes))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.checked_add(length as u64);
        let end = end.ok_or_else(|| ParquetError::General("an offset overflows".to_owned()))?;
        Ok(self.read_at(start..end)?)
    }
}
