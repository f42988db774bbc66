//! Groups rows that arrive in mixed order by a key, because each profile is written in one piece.
//! Spills them to a file, so that memory stays bounded.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::ops::Range;

use marey_store::row::{Row, RowBytes};
use tempfile::SpooledTempFile;

/// The size of the rows in memory at which they are spilled.
const MAX_MEMORY_BYTES: usize = 1 << 24;

/// Rows that are grouped by key. The rows of a key are in the order of their arrival.
pub(super) struct RowsByKey<K, R> {
    file: SpooledTempFile,
    file_bytes: u64,
    memory_bytes: usize,
    rows: BTreeMap<K, KeyedRows>,
    row_type: PhantomData<R>,
}

/// The rows of a key.
#[derive(Default)]
struct KeyedRows {
    /// Ranges of spilled rows in the file.
    spilled_ranges: Vec<Range<u64>>,
    /// The latest rows, which were not spilled yet.
    bytes: Vec<u8>,
}

impl<K: Ord, R: Row> RowsByKey<K, R> {
    pub(super) fn new() -> Self {
        let file = SpooledTempFile::new(0);
        let rows = BTreeMap::new();
        Self { file, file_bytes: 0, memory_bytes: 0, rows, row_type: PhantomData }
    }

    pub(super) fn push(&mut self, key: K, row: &R) -> io::Result<()> {
        let bytes = &mut self.rows.entry(key).or_default().bytes;
        let old_len = bytes.len();
        row.encode(bytes);
        self.memory_bytes += bytes.len() - old_len;
        if self.memory_bytes < MAX_MEMORY_BYTES { Ok(()) } else { self.spill() }
    }

    fn spill(&mut self) -> io::Result<()> {
        let mut file = BufWriter::new(&mut self.file);
        for KeyedRows { spilled_ranges, bytes } in self.rows.values_mut() {
            let bytes = std::mem::take(bytes);
            if !bytes.is_empty() {
                file.write_all(&bytes)?;
                let start = self.file_bytes;
                self.file_bytes += bytes.len() as u64;
                spilled_ranges.push(start..self.file_bytes);
            }
        }
        self.memory_bytes = 0;
        file.flush()
    }

    /// Calls `each` for every key with its rows.
    pub(super) fn for_each<E: From<io::Error>>(
        self,
        mut each: impl FnMut(K, &mut dyn Iterator<Item = io::Result<R>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { mut file, rows, .. } = self;
        for (key, KeyedRows { spilled_ranges: blocks, bytes }) in rows {
            let spilled = blocks.into_iter().map(|block| read_block(&mut file, &block));
            let mut blocks = spilled.chain([Ok(bytes)]);
            let (mut block, mut position) = (Vec::new(), 0);
            let next = || {
                while position == block.len() {
                    match blocks.next()? {
                        Ok(bytes) => (block, position) = (bytes, 0),
                        Err(error) => return Some(Err(error)),
                    }
                }
                let mut bytes = RowBytes(&block[position..]);
                let row = R::decode(&mut bytes);
                position = block.len() - bytes.0.len();
                Some(row.map_err(Into::into))
            };
            each(key, &mut std::iter::from_fn(next))?;
        }
        Ok(())
    }
}

fn read_block(file: &mut SpooledTempFile, block: &Range<u64>) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(block.start))?;
    let mut bytes = Vec::new();
    file.take(block.end - block.start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use marey_model::metric::MetricValue;
    use marey_store::row::{Args, Sample};

    /// Returns a row of 100 kB.
    fn row(number: i64) -> Sample {
        Sample {
            process_id: 1,
            thread_id: None,
            context_id: 2,
            name_id: 3,
            time_nanos: Some(number),
            value: MetricValue::Int(number),
            args: Args { text_id: Some(4), numbers: vec![i64::MIN + number; 10_000].into() },
        }
    }

    #[test]
    fn spilled_rows_are_complete_and_in_order() {
        let mut by_key = RowsByKey::new();
        for number in 0..500 {
            by_key.push(number % 3, &row(number)).unwrap();
        }
        assert!(by_key.file_bytes > MAX_MEMORY_BYTES as u64 && by_key.memory_bytes > 0);
        let mut keys = Vec::new();
        let each = |key, rows: &mut dyn Iterator<Item = io::Result<Sample>>| {
            keys.push(key);
            assert!(rows.map(Result::unwrap).eq((key..500).step_by(3).map(row)));
            Ok::<_, io::Error>(())
        };
        by_key.for_each(each).unwrap();
        assert_eq!(keys, [0, 1, 2]);
    }
}
