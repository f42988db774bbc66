//! An external merge sort: [`Sorter`] keeps rows encoded, and spills them to a temporary file if
//! they exceed its memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::StoreError;
use crate::row::{DamagedRow, Row, RowBytes};

/// A row that can be sorted and encoded.
pub(crate) trait Sortable: Sized {
    /// The sort key.
    type Key: Copy + Ord;
    /// Returns the sort key.
    fn key(&self) -> Self::Key;
    /// Appends the encoded row.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads an encoded row.
    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow>;
}

/// Rows of a table are sorted by their start.
impl<R: Row> Sortable for R {
    type Key = i64;

    fn key(&self) -> i64 {
        self.start_nanos()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Row::encode(self, out);
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        Row::decode(input)
    }
}

/// Decodes a row.
fn decode_row<R: Sortable>(bytes: &[u8]) -> io::Result<R> {
    Ok(R::decode(&mut RowBytes(bytes))?)
}

/// Memory of rows at which they are spilled as a chunk.
const CHUNK_BYTES: usize = 16 << 20;

/// Size of the buffer through which a chunk is written or read.
const BUFFER_BYTES: usize = 1 << 16;

/// A temporary file for spilled rows, created on demand. Many sorters share one, because a process
/// may have only few files open.
#[derive(Clone, Debug)]
pub(crate) struct SpillFile {
    folder: Arc<Path>,
    shared: Arc<Mutex<Option<SharedFile>>>,
}

/// An open file, whose bytes before `reserved_end` are reserved.
#[derive(Debug)]
struct SharedFile {
    file: Arc<File>,
    reserved_end: u64,
}

impl SpillFile {
    /// Returns the spill file of `folder`. It is not created yet.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), shared: Arc::default() }
    }

    /// Reserves bytes of the file. Returns the file and their offset.
    fn reserve(&self, len_bytes: u64) -> io::Result<(Arc<File>, u64)> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match &mut *shared {
            Some(shared) => shared,
            absent => {
                let file = Arc::new(tempfile::tempfile_in(&self.folder)?);
                absent.insert(SharedFile { file, reserved_end: 0 })
            }
        };
        let offset = shared.reserved_end;
        shared.reserved_end += len_bytes;
        Ok((Arc::clone(&shared.file), offset))
    }

    fn error(&self, source: io::Error) -> StoreError {
        StoreError::io("sort rows in", &self.folder)(source)
    }
}

/// A sorter of rows by their keys. Rows with equal keys keep their order. A single chunk of rows
/// needs no file. Rows are kept encoded, which takes less memory than structs and needs no
/// allocation for each.
#[derive(Debug)]
pub(crate) struct Sorter<R: Sortable> {
    spill_file: SpillFile,
    chunk_bytes: usize,
    encoded_rows: Vec<u8>,
    ranges: Vec<RowRange<R::Key>>,
    row_count: u64,
    spilled: Option<SpilledChunks>,
}

/// The key of a row and its range among the encoded rows.
#[derive(Clone, Copy, Debug)]
struct RowRange<K> {
    key: K,
    start: u32,
    len: u32,
}

/// Sorted chunks in the spill file.
#[derive(Debug)]
struct SpilledChunks {
    file: Arc<File>,
    chunks: Vec<SpilledChunk>,
}

/// The range of a chunk in the file, and its number of rows.
#[derive(Clone, Copy, Debug)]
struct SpilledChunk {
    start: u64,
    end: u64,
    row_count: u64,
}

impl<R: Sortable> Sorter<R> {
    /// Creates an empty sorter.
    pub(crate) fn new(spill_file: &SpillFile) -> Self {
        Self::with_chunk_bytes(CHUNK_BYTES, spill_file)
    }

    fn with_chunk_bytes(chunk_bytes: usize, spill_file: &SpillFile) -> Self {
        let (encoded_rows, ranges) = (Vec::new(), Vec::new());
        Self {
            spill_file: spill_file.clone(),
            chunk_bytes,
            encoded_rows,
            ranges,
            row_count: 0,
            spilled: None,
        }
    }

    /// Returns the number of rows that were added.
    pub(crate) const fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, row: &R) -> Result<(), StoreError> {
        self.row_count += 1;
        let start = self.encoded_rows.len();
        row.encode(&mut self.encoded_rows);
        if u32::try_from(self.encoded_rows.len()).is_err() {
            return Err(self.spill_file.error(io::ErrorKind::FileTooLarge.into()));
        }
        let len = self.encoded_rows.len() - start;
        self.ranges.push(RowRange { key: row.key(), start: start as u32, len: len as u32 });
        if self.encoded_rows.len() + size_of_val(self.ranges.as_slice()) < self.chunk_bytes {
            return Ok(());
        }
        self.write_chunk().map_err(|source| self.spill_file.error(source))
    }

    /// Spills the rows in memory and frees their memory.
    pub(crate) fn spill(&mut self) -> Result<(), StoreError> {
        let result = if self.ranges.is_empty() { Ok(()) } else { self.write_chunk() };
        (self.encoded_rows, self.ranges) = (Vec::new(), Vec::new());
        result.map_err(|source| self.spill_file.error(source))
    }

    /// Sorts the rows in memory. Most files consist of few sorted sequences of rows, which this
    /// merge sort detects.
    fn sort(&mut self) {
        self.ranges.sort_by_key(|range| range.key);
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        self.sort();
        let rows = self.ranges.iter().map(|range| range.slice(&self.encoded_rows));
        let len_bytes = (self.encoded_rows.len() + rows.len() * LEN_BYTES) as u64;
        let (file, start) = self.spill_file.reserve(len_bytes)?;
        write_rows(rows.clone(), OffsetWriter { file: &file, offset: start })?;
        let chunk = SpilledChunk { start, end: start + len_bytes, row_count: rows.len() as u64 };
        let spilled =
            self.spilled.get_or_insert_with(|| SpilledChunks { file, chunks: Vec::new() });
        spilled.chunks.push(chunk);
        self.encoded_rows.clear();
        self.ranges.clear();
        Ok(())
    }

    /// Passes all rows to `on_rows` in order, in batches. `on_rows` may move values out of them.
    pub(crate) fn for_each_batch(
        self,
        batch_rows: usize,
        mut on_rows: impl FnMut(&mut [R]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut rows = Vec::with_capacity(batch_rows.min(self.ranges.len()));
        self.for_each(|row| {
            rows.push(row);
            if rows.len() < batch_rows {
                return Ok(());
            }
            on_rows(&mut rows)?;
            rows.clear();
            Ok(())
        })?;
        if rows.is_empty() { Ok(()) } else { on_rows(&mut rows) }
    }

    /// Passes all rows to `on_row`, in order.
    pub(crate) fn for_each(
        mut self,
        mut on_row: impl FnMut(R) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let spill_file = self.spill_file.clone();
        let to_error = |source| spill_file.error(source);
        if self.spilled.is_none() {
            self.sort();
            let mut rows =
                self.ranges.iter().map(|range| decode_row(range.slice(&self.encoded_rows)));
            return rows.try_for_each(|row| on_row(row.map_err(to_error)?));
        }
        self.write_chunk().map_err(to_error)?;
        let Self { spilled, .. } = self;
        let Some(spilled) = spilled else { return Ok(()) };
        let mut merge = spilled.merge().map_err(to_error)?;
        while let Some(row) = merge.next_row().map_err(to_error)? {
            on_row(row)?;
        }
        Ok(())
    }
}

impl<K> RowRange<K> {
    fn slice<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..][..self.len as usize]
    }
}

/// Size of the length before each spilled row.
const LEN_BYTES: usize = size_of::<u32>();

/// Writes rows, each after its length.
fn write_rows<'a>(rows: impl Iterator<Item = &'a [u8]>, out: OffsetWriter<'_>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    for row in rows {
        out.write_all(&(row.len() as u32).to_le_bytes())?;
        out.write_all(row)?;
    }
    out.flush()
}

/// A writer to a file at its own offset, because other writers write elsewhere in the file.
struct OffsetWriter<'a> {
    file: &'a File,
    offset: u64,
}

impl Write for OffsetWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written_bytes = self.file.write_at(bytes, self.offset)?;
        self.offset += written_bytes as u64;
        Ok(written_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpilledChunks {
    fn merge<R: Sortable>(&self) -> io::Result<Merge<'_, R>> {
        let mut cursors = BinaryHeap::with_capacity(self.chunks.len());
        for (chunk_number, &SpilledChunk { start, end, row_count }) in
            self.chunks.iter().enumerate()
        {
            let slice = RangeReader { file: &self.file, start, end };
            let input = ChunkReader {
                input: BufReader::with_capacity(BUFFER_BYTES, slice),
                row_bytes: Vec::new(),
            };
            cursors.extend(ChunkCursor::open(chunk_number, input, row_count)?.map(Reverse));
        }
        Ok(Merge { cursors })
    }
}

/// Merges sorted chunks.
struct Merge<'a, R> {
    cursors: BinaryHeap<Reverse<ChunkCursor<'a, R>>>,
}

impl<R: Sortable> Merge<'_, R> {
    fn next_row(&mut self) -> io::Result<Option<R>> {
        let Some(mut least) = self.cursors.peek_mut() else { return Ok(None) };
        // Chunks hardly overlap, so the least chunk mostly stays the least, and the heap need not
        // change.
        Ok(Some(match least.0.advance()? {
            Some(row) => row,
            None => PeekMut::pop(least).0.row,
        }))
    }
}

/// A chunk with its next row.
struct ChunkCursor<'a, R> {
    row: R,
    chunk_number: usize,
    input: ChunkReader<'a>,
    remaining_rows: u64,
}

/// A reader of the rows of a chunk, each of which follows its length.
struct ChunkReader<'a> {
    input: BufReader<RangeReader<'a>>,
    /// The last row read, as a buffer.
    row_bytes: Vec<u8>,
}

impl ChunkReader<'_> {
    fn next_row<R: Sortable>(&mut self) -> io::Result<R> {
        let mut len = [0; 4];
        self.input.read_exact(&mut len)?;
        self.row_bytes.resize(u32::from_le_bytes(len) as usize, 0);
        self.input.read_exact(&mut self.row_bytes)?;
        decode_row(&self.row_bytes)
    }
}

impl<'a, R: Sortable> ChunkCursor<'a, R> {
    fn open(
        chunk_number: usize,
        mut input: ChunkReader<'a>,
        row_count: u64,
    ) -> io::Result<Option<Self>> {
        let Some(remaining_rows) = row_count.checked_sub(1) else { return Ok(None) };
        Ok(Some(Self { row: input.next_row()?, chunk_number, input, remaining_rows }))
    }

    /// Advances to the next row and returns the current one. Returns `None` if the current one is
    /// the last of the chunk.
    fn advance(&mut self) -> io::Result<Option<R>> {
        let Some(remaining_rows) = self.remaining_rows.checked_sub(1) else { return Ok(None) };
        self.remaining_rows = remaining_rows;
        let next_row = self.input.next_row()?;
        Ok(Some(mem::replace(&mut self.row, next_row)))
    }

    fn key(&self) -> (R::Key, usize) {
        (self.row.key(), self.chunk_number)
    }
}

impl<R: Sortable> Ord for ChunkCursor<'_, R> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<R: Sortable> PartialOrd for ChunkCursor<'_, R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Sortable> PartialEq for ChunkCursor<'_, R> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<R: Sortable> Eq for ChunkCursor<'_, R> {}

/// A reader of a range of a file.
#[derive(Debug)]
struct RangeReader<'a> {
    file: &'a File,
    start: u64,
    end: u64,
}

impl Read for RangeReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let max_bytes = usize::try_from(self.end - self.start).unwrap_or(usize::MAX).min(out.len());
        let read_bytes = self.file.read_at(&mut out[..max_bytes], self.start)?;
        self.start += read_bytes as u64;
        Ok(read_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A row with a time and the order in which it came.
    #[derive(Clone, Debug, PartialEq)]
    struct TimedRow(i64, u32);

    const ROWS_PER_CHUNK: usize = 8;
    const ROW_BYTES: usize = 12 + size_of::<RowRange<i64>>();

    impl Sortable for TimedRow {
        type Key = i64;

        fn key(&self) -> i64 {
            self.0
        }

        fn encode(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0.to_le_bytes());
            out.extend_from_slice(&self.1.to_le_bytes());
        }

        fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
            let time = *input.0.first_chunk().ok_or(DamagedRow)?;
            let order = *input.0.last_chunk().ok_or(DamagedRow)?;
            Ok(Self(i64::from_le_bytes(time), u32::from_le_bytes(order)))
        }
    }

    proptest! {
        #[test]
        fn rows_are_sorted_by_time_and_then_by_arrival(
            times in prop::collection::vec(-20_i64..20, 0..100),
            batch_rows in 1_usize..40,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let spill_file = SpillFile::new(folder.path());
            let mut sorter = Sorter::with_chunk_bytes(ROWS_PER_CHUNK * ROW_BYTES, &spill_file);
            // Another sorter shares the file.
            let mut other = Sorter::with_chunk_bytes(ROWS_PER_CHUNK * ROW_BYTES, &spill_file);
            let mut expected: Vec<_> =
                times.into_iter().zip(0..).map(|(time, order)| TimedRow(time, order)).collect();
            for row in &expected {
                sorter.push(row).unwrap();
                other.push(&TimedRow(-row.0, row.1)).unwrap();
            }
            prop_assert_eq!(sorter.row_count(), expected.len() as u64);
            prop_assert_eq!(sorter.spilled.is_some(), expected.len() >= ROWS_PER_CHUNK);
            // The file has no name, so a crashed process leaves none.
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            expected.sort_by_key(|row| row.0);
            let mut sorted = Vec::new();
            let finished = sorter.for_each_batch(batch_rows, |rows| {
                assert!((1..=batch_rows).contains(&rows.len()));
                sorted.extend_from_slice(rows);
                Ok(())
            });
            finished.unwrap();
            prop_assert_eq!(sorted, expected);
        }
    }
}
