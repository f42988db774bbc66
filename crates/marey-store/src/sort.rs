//! Sorting more rows than memory holds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// A row that can be sorted, and wait in a file.
pub(crate) trait Sortable: Sized {
    /// What it is sorted by.
    type Key: Ord;
    /// What it is sorted by.
    fn key(&self) -> Self::Key;
    /// Roughly what it takes in memory.
    fn memory_bytes(&self) -> usize;
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads a row back.
    fn take(input: &mut impl Read) -> io::Result<Self>;
}

/// Rows in memory take so many bytes before they go to the file.
const CHUNK_BYTES: usize = 16 << 20;

/// Bytes that are read of each chunk at a time.
const READ_BYTES: usize = 1 << 16;

/// Takes rows in any order and gives them back by their keys; those of one key in the order in which
/// they came. Up to one chunk of them needs no file.
#[derive(Debug)]
pub(crate) struct Sorter<R> {
    folder: PathBuf,
    chunk: Vec<R>,
    chunk_bytes: usize,
    rows: u64,
    spilled: Option<Spilled>,
}

/// Sorted chunks in a file that has no name any more.
#[derive(Debug)]
struct Spilled {
    file: File,
    /// Where each chunk ends, and how many rows it has.
    chunks: Vec<(u64, u64)>,
}

impl<R: Sortable> Sorter<R> {
    /// Nothing to sort as yet; files are made in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder, chunk: Vec::new(), chunk_bytes: 0, rows: 0, spilled: None }
    }

    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    #[inline]
    pub(crate) fn push(&mut self, row: R) -> Result<(), StoreError> {
        self.rows += 1;
        self.chunk_bytes += row.memory_bytes();
        self.chunk.push(row);
        if self.chunk_bytes < CHUNK_BYTES {
            return Ok(());
        }
        self.spill().map_err(StoreError::io("sort rows in", &self.folder))
    }

    /// Puts what is in memory into the file.
    pub(crate) fn rest(&mut self) -> Result<(), StoreError> {
        let rested = if self.chunk.is_empty() { Ok(()) } else { self.spill() };
        self.chunk = Vec::new();
        rested.map_err(StoreError::io("sort rows in", &self.folder))
    }

    fn spill(&mut self) -> io::Result<()> {
        self.chunk.sort_by_cached_key(R::key);
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none
                .insert(Spilled { file: tempfile::tempfile_in(&self.folder)?, chunks: Vec::new() }),
        };
        spilled.add(&self.chunk)?;
        self.chunk.clear();
        self.chunk_bytes = 0;
        Ok(())
    }

    /// Gives all rows to `each`, in order and so many at a time; it may take what it likes out of them.
    pub(crate) fn finish(
        mut self,
        batch_rows: usize,
        mut each: impl FnMut(&mut [R]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.spilled.is_none() {
            self.chunk.sort_by_cached_key(R::key);
            return self.chunk.chunks_mut(batch_rows).try_for_each(each);
        }
        let folder = self.folder.clone();
        let error = |source| StoreError::io("sort rows in", &folder)(source);
        self.spill().map_err(error)?;
        let Self { spilled, .. } = self;
        let Some(spilled) = spilled else { return Ok(()) };
        let mut merge = spilled.merge().map_err(error)?;
        let mut rows = Vec::with_capacity(batch_rows);
        loop {
            rows.clear();
            merge.next_rows(batch_rows, &mut rows).map_err(error)?;
            if rows.is_empty() {
                return Ok(());
            }
            each(&mut rows)?;
        }
    }
}

impl Spilled {
    fn add<R: Sortable>(&mut self, rows: &[R]) -> io::Result<()> {
        let mut end = self.chunks.last().map_or(0, |chunk| chunk.0);
        let mut bytes = Vec::with_capacity(READ_BYTES + (READ_BYTES >> 2));
        for row in rows {
            row.put(&mut bytes);
            if bytes.len() >= READ_BYTES {
                end += bytes.len() as u64;
                self.file.write_all(&bytes)?;
                bytes.clear();
            }
        }
        end += bytes.len() as u64;
        self.file.write_all(&bytes)?;
        self.chunks.push((end, rows.len() as u64));
        Ok(())
    }

    fn merge<R: Sortable>(&self) -> io::Result<Merge<'_, R>> {
        let mut start = 0;
        let mut heads = BinaryHeap::with_capacity(self.chunks.len());
        for (number, &(end, rows)) in self.chunks.iter().enumerate() {
            let input =
                BufReader::with_capacity(READ_BYTES, Slice { file: &self.file, start, end });
            heads.extend(Head::first(number, input, rows)?.map(Reverse));
            start = end;
        }
        Ok(Merge { heads })
    }
}

/// The chunks, each at its next row.
struct Merge<'a, R> {
    heads: BinaryHeap<Reverse<Head<'a, R>>>,
}

impl<R: Sortable> Merge<'_, R> {
    /// Appends the next rows.
    fn next_rows(&mut self, most: usize, rows: &mut Vec<R>) -> io::Result<()> {
        while rows.len() < most
            && let Some(mut least) = self.heads.peek_mut()
        {
            // Chunks hardly overlap, so the one in front mostly stays there, and the heap as it is.
            match least.0.advance()? {
                Some(row) => rows.push(row),
                None => rows.push(PeekMut::pop(least).0.row),
            }
        }
        Ok(())
    }
}

/// A chunk that is being read, and the row that it has come to.
struct Head<'a, R> {
    row: R,
    number: usize,
    input: BufReader<Slice<'a>>,
    rows_left: u64,
}

impl<'a, R: Sortable> Head<'a, R> {
    fn first(
        number: usize,
        mut input: BufReader<Slice<'a>>,
        rows: u64,
    ) -> io::Result<Option<Self>> {
        let Some(rows_left) = rows.checked_sub(1) else { return Ok(None) };
        Ok(Some(Self { row: R::take(&mut input)?, number, input, rows_left }))
    }

    /// Goes on to the next row and gives the last one back; `None` if it is the chunk's last.
    fn advance(&mut self) -> io::Result<Option<R>> {
        let Some(rows_left) = self.rows_left.checked_sub(1) else { return Ok(None) };
        self.rows_left = rows_left;
        let next = R::take(&mut self.input)?;
        Ok(Some(std::mem::replace(&mut self.row, next)))
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

    /// A row with a time and the order in which it came, as large as a part of a chunk.
    #[derive(Clone, Debug, PartialEq)]
    struct Large(i64, u32);

    impl Sortable for Large {
        type Key = i64;

        fn key(&self) -> i64 {
            self.0
        }

        fn memory_bytes(&self) -> usize {
            CHUNK_BYTES / 8
        }

        fn put(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0.to_le_bytes());
            out.extend_from_slice(&self.1.to_le_bytes());
        }

        fn take(input: &mut impl Read) -> io::Result<Self> {
            let (mut time, mut order) = ([0; 8], [0; 4]);
            input.read_exact(&mut time)?;
            input.read_exact(&mut order)?;
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
            let mut sorter = Sorter::new(folder.path());
            let mut expected: Vec<_> =
                times.into_iter().zip(0..).map(|(time, order)| Large(time, order)).collect();
            for row in &expected {
                sorter.push(row.clone()).unwrap();
            }
            prop_assert_eq!(sorter.rows(), expected.len() as u64);
            prop_assert_eq!(sorter.spilled.is_some(), expected.len() >= 8);
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
