//! Sorting more rows than memory holds.

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
use crate::row::{Bytes, Damaged};

/// A row that can be sorted, and wait as bytes.
pub(crate) trait Sortable: Sized {
    /// What it is sorted by.
    type Key: Copy + Ord;
    /// What it is sorted by.
    fn key(&self) -> Self::Key;
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads a row back.
    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged>;
}

/// A row of these bytes.
fn row<R: Sortable>(bytes: &[u8]) -> io::Result<R> {
    Ok(R::take(&mut Bytes(bytes))?)
}

/// Rows in memory take so many bytes before they go to the file.
const CHUNK_BYTES: usize = 16 << 20;

/// Bytes that are read of each chunk at a time.
const READ_BYTES: usize = 1 << 16;

/// Where sorters put rows that memory does not hold: a file without a name, made when it is needed.
/// Many sorters share one, since a process may have few files open.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    folder: Arc<Path>,
    shared: Arc<Mutex<Option<Shared>>>,
}

/// A file, of which the bytes before the end are taken.
#[derive(Debug)]
struct Shared {
    file: Arc<File>,
    end: u64,
}

impl Room {
    /// Room in a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), shared: Arc::default() }
    }

    /// Takes so many bytes of the file; returns it, and where they begin.
    fn take(&self, len_bytes: u64) -> io::Result<(Arc<File>, u64)> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match &mut *shared {
            Some(shared) => shared,
            none => {
                let file = Arc::new(tempfile::tempfile_in(&self.folder)?);
                none.insert(Shared { file, end: 0 })
            }
        };
        let start = shared.end;
        shared.end += len_bytes;
        Ok((Arc::clone(&shared.file), start))
    }

    fn error(&self, source: io::Error) -> StoreError {
        StoreError::io("sort rows in", &self.folder)(source)
    }
}

/// Takes rows in any order and gives them back by their keys; those of one key in the order in which
/// they came. Up to one chunk of them needs no file. They wait as bytes, which take less memory than
/// structs, and no allocation each.
#[derive(Debug)]
pub(crate) struct Sorter<R: Sortable> {
    room: Room,
    chunk_bytes: usize,
    bytes: Vec<u8>,
    places: Vec<Place<R::Key>>,
    rows: u64,
    spilled: Option<Spilled>,
}

/// Where a row is among the bytes.
#[derive(Clone, Copy, Debug)]
struct Place<K> {
    key: K,
    start: u32,
    len: u32,
}

/// Sorted chunks in a file.
#[derive(Debug)]
struct Spilled {
    file: Arc<File>,
    chunks: Vec<Chunk>,
}

/// Where rows are in a file, and how many.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: u64,
    end: u64,
    rows: u64,
}

impl<R: Sortable> Sorter<R> {
    /// Nothing to sort as yet.
    pub(crate) fn new(room: &Room) -> Self {
        Self::of_chunks(CHUNK_BYTES, room)
    }

    fn of_chunks(chunk_bytes: usize, room: &Room) -> Self {
        let (bytes, places) = (Vec::new(), Vec::new());
        Self { room: room.clone(), chunk_bytes, bytes, places, rows: 0, spilled: None }
    }

    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &R) -> Result<(), StoreError> {
        self.rows += 1;
        let start = self.bytes.len();
        row.put(&mut self.bytes);
        if u32::try_from(self.bytes.len()).is_err() {
            return Err(self.room.error(io::ErrorKind::FileTooLarge.into()));
        }
        let len = self.bytes.len() - start;
        self.places.push(Place { key: row.key(), start: start as u32, len: len as u32 });
        if self.bytes.len() + size_of_val(self.places.as_slice()) < self.chunk_bytes {
            return Ok(());
        }
        self.spill().map_err(|source| self.room.error(source))
    }

    /// Puts what is in memory into the file.
    pub(crate) fn rest(&mut self) -> Result<(), StoreError> {
        let rested = if self.places.is_empty() { Ok(()) } else { self.spill() };
        (self.bytes, self.places) = (Vec::new(), Vec::new());
        rested.map_err(|source| self.room.error(source))
    }

    /// Files have their rows in a few stretches that are sorted already, which this sort finds.
    fn sort(&mut self) {
        self.places.sort_by_key(|place| place.key);
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let rows = self.places.iter().map(|place| place.of(&self.bytes));
        let len_bytes = (self.bytes.len() + rows.len() * LEN_BYTES) as u64;
        let (file, start) = self.room.take(len_bytes)?;
        write_rows(rows.clone(), Out { file: &file, at: start })?;
        let chunk = Chunk { start, end: start + len_bytes, rows: rows.len() as u64 };
        let spilled = self.spilled.get_or_insert_with(|| Spilled { file, chunks: Vec::new() });
        spilled.chunks.push(chunk);
        self.bytes.clear();
        self.places.clear();
        Ok(())
    }

    /// Gives all rows to `each`, in order and so many at a time; it may take what it likes out of them.
    pub(crate) fn finish(
        self,
        batch_rows: usize,
        mut each: impl FnMut(&mut [R]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut rows = Vec::with_capacity(batch_rows.min(self.places.len()));
        self.for_each(|row| {
            rows.push(row);
            if rows.len() < batch_rows {
                return Ok(());
            }
            each(&mut rows)?;
            rows.clear();
            Ok(())
        })?;
        if rows.is_empty() { Ok(()) } else { each(&mut rows) }
    }

    /// Gives all rows to `each`, in order.
    pub(crate) fn for_each(
        mut self,
        mut each: impl FnMut(R) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let room = self.room.clone();
        let error = |source| room.error(source);
        if self.spilled.is_none() {
            self.sort();
            let mut rows = self.places.iter().map(|place| row(place.of(&self.bytes)));
            return rows.try_for_each(|row| each(row.map_err(error)?));
        }
        self.spill().map_err(error)?;
        let Self { spilled, .. } = self;
        let Some(spilled) = spilled else { return Ok(()) };
        let mut merge = spilled.merge().map_err(error)?;
        while let Some(row) = merge.next().map_err(error)? {
            each(row)?;
        }
        Ok(())
    }
}

impl<K> Place<K> {
    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..][..self.len as usize]
    }
}

/// Bytes of the length that stands before each row.
const LEN_BYTES: usize = size_of::<u32>();

/// Writes rows, each with its length before it.
fn write_rows<'a>(rows: impl Iterator<Item = &'a [u8]>, out: Out<'_>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(READ_BYTES, out);
    for row in rows {
        out.write_all(&(row.len() as u32).to_le_bytes())?;
        out.write_all(row)?;
    }
    out.flush()
}

/// A file that is written from a place on, where others write to it elsewhere.
struct Out<'a> {
    file: &'a File,
    at: u64,
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Spilled {
    fn merge<R: Sortable>(&self) -> io::Result<Merge<'_, R>> {
        let mut heads = BinaryHeap::with_capacity(self.chunks.len());
        for (number, &Chunk { start, end, rows }) in self.chunks.iter().enumerate() {
            let slice = Slice { file: &self.file, start, end };
            let input =
                Rows { input: BufReader::with_capacity(READ_BYTES, slice), bytes: Vec::new() };
            heads.extend(Head::first(number, input, rows)?.map(Reverse));
        }
        Ok(Merge { heads })
    }
}

/// The chunks, each at its next row.
struct Merge<'a, R> {
    heads: BinaryHeap<Reverse<Head<'a, R>>>,
}

impl<R: Sortable> Merge<'_, R> {
    fn next(&mut self) -> io::Result<Option<R>> {
        let Some(mut least) = self.heads.peek_mut() else { return Ok(None) };
        // Chunks hardly overlap, so the one in front mostly stays there, and the heap as it is.
        Ok(Some(match least.0.advance()? {
            Some(row) => row,
            None => PeekMut::pop(least).0.row,
        }))
    }
}

/// A chunk that is being read, and the row that it has come to.
struct Head<'a, R> {
    row: R,
    number: usize,
    input: Rows<'a>,
    rows_left: u64,
}

/// The rows of a chunk, each with its length before it.
struct Rows<'a> {
    input: BufReader<Slice<'a>>,
    /// The last one.
    bytes: Vec<u8>,
}

impl Rows<'_> {
    fn next<R: Sortable>(&mut self) -> io::Result<R> {
        let mut len = [0; 4];
        self.input.read_exact(&mut len)?;
        self.bytes.resize(u32::from_le_bytes(len) as usize, 0);
        self.input.read_exact(&mut self.bytes)?;
        row(&self.bytes)
    }
}

impl<'a, R: Sortable> Head<'a, R> {
    fn first(number: usize, mut input: Rows<'a>, rows: u64) -> io::Result<Option<Self>> {
        let Some(rows_left) = rows.checked_sub(1) else { return Ok(None) };
        Ok(Some(Self { row: input.next()?, number, input, rows_left }))
    }

    /// Goes on to the next row and gives the last one back; `None` if it is the chunk's last.
    fn advance(&mut self) -> io::Result<Option<R>> {
        let Some(rows_left) = self.rows_left.checked_sub(1) else { return Ok(None) };
        self.rows_left = rows_left;
        let next = self.input.next()?;
        Ok(Some(mem::replace(&mut self.row, next)))
    }

    fn key(&self) -> (R::Key, usize) {
        (self.row.key(), self.number)
    }
}

impl<R: Sortable> Ord for Head<'_, R> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<R: Sortable> PartialOrd for Head<'_, R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Sortable> PartialEq for Head<'_, R> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<R: Sortable> Eq for Head<'_, R> {}

/// Bytes of a file from one place to another.
#[derive(Debug)]
struct Slice<'a> {
    file: &'a File,
    start: u64,
    end: u64,
}

impl Read for Slice<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.start).unwrap_or(usize::MAX).min(out.len());
        let read = self.file.read_at(&mut out[..most], self.start)?;
        self.start += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A row with a time and the order in which it came.
    #[derive(Clone, Debug, PartialEq)]
    struct Large(i64, u32);

    const ROWS_A_CHUNK: usize = 8;
    const ROW_BYTES: usize = 12 + size_of::<Place<i64>>();

    impl Sortable for Large {
        type Key = i64;

        fn key(&self) -> i64 {
            self.0
        }

        fn put(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0.to_le_bytes());
            out.extend_from_slice(&self.1.to_le_bytes());
        }

        fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
            let time = *input.0.first_chunk().ok_or(Damaged)?;
            let order = *input.0.last_chunk().ok_or(Damaged)?;
            Ok(Self(i64::from_le_bytes(time), u32::from_le_bytes(order)))
        }
    }

    proptest! {
        #[test]
        fn rows_come_back_by_time_and_then_as_they_came(
            times in prop::collection::vec(-20_i64..20, 0..100),
            batch_rows in 1_usize..40,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let room = Room::new(folder.path());
            let mut sorter = Sorter::of_chunks(ROWS_A_CHUNK * ROW_BYTES, &room);
            // Others put rows into the same file.
            let mut other = Sorter::of_chunks(ROWS_A_CHUNK * ROW_BYTES, &room);
            let mut expected: Vec<_> =
                times.into_iter().zip(0..).map(|(time, order)| Large(time, order)).collect();
            for row in &expected {
                sorter.push(row).unwrap();
                other.push(&Large(-row.0, row.1)).unwrap();
            }
            prop_assert_eq!(sorter.rows(), expected.len() as u64);
            prop_assert_eq!(sorter.spilled.is_some(), expected.len() >= ROWS_A_CHUNK);
            // The file has no name, so a process that dies leaves none.
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            expected.sort_by_key(|row| row.0);
            let mut sorted = Vec::new();
            let finished = sorter.finish(batch_rows, |rows| {
                assert!((1..=batch_rows).contains(&rows.len()));
                sorted.extend_from_slice(rows);
                Ok(())
            });
            finished.unwrap();
            prop_assert_eq!(sorted, expected);
        }
    }
}
