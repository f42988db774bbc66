//! Rows that come mixed, by what they are of: a profile is written at once.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::ops::Range;

use marey_store::row::{Bytes, Row};
use tempfile::SpooledTempFile;

/// Bytes of rows that wait in memory before they wait in a file.
const MEMORY_BYTES: usize = 1 << 24;

/// Rows by key, each key's in the order in which they came.
pub(super) struct ByKey<K, R> {
    file: SpooledTempFile,
    file_bytes: u64,
    memory_bytes: usize,
    waiting: BTreeMap<K, Waiting>,
    of: PhantomData<R>,
}

/// The rows of a key.
#[derive(Default)]
struct Waiting {
    /// Where some of them are in the file.
    blocks: Vec<Range<u64>>,
    /// Those that came last.
    bytes: Vec<u8>,
}

impl<K: Ord, R: Row> ByKey<K, R> {
    pub(super) fn new() -> Self {
        let file = SpooledTempFile::new(0);
        let waiting = BTreeMap::new();
        Self { file, file_bytes: 0, memory_bytes: 0, waiting, of: PhantomData }
    }

    pub(super) fn push(&mut self, key: K, row: &R) -> io::Result<()> {
        let bytes = &mut self.waiting.entry(key).or_default().bytes;
        let before = bytes.len();
        row.encode(bytes);
        self.memory_bytes += bytes.len() - before;
        if self.memory_bytes < MEMORY_BYTES { Ok(()) } else { self.spill() }
    }

    fn spill(&mut self) -> io::Result<()> {
        let mut file = BufWriter::new(&mut self.file);
        for Waiting { blocks, bytes } in self.waiting.values_mut() {
            let bytes = std::mem::take(bytes);
            if !bytes.is_empty() {
                file.write_all(&bytes)?;
                let start = self.file_bytes;
                self.file_bytes += bytes.len() as u64;
                blocks.push(start..self.file_bytes);
            }
        }
        self.memory_bytes = 0;
        file.flush()
    }

    /// Gives the rows of one key after the other to `each`.
    pub(super) fn for_each<E: From<io::Error>>(
        self,
        mut each: impl FnMut(K, &mut dyn Iterator<Item = io::Result<R>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { mut file, waiting, .. } = self;
        for (key, Waiting { blocks, bytes }) in waiting {
            let in_file = blocks.into_iter().map(|block| read(&mut file, &block));
            let mut blocks = in_file.chain([Ok(bytes)]);
            let (mut block, mut at) = (Vec::new(), 0);
            let next = || {
                while at == block.len() {
                    match blocks.next()? {
                        Ok(bytes) => (block, at) = (bytes, 0),
                        Err(error) => return Some(Err(error)),
                    }
                }
                let mut bytes = Bytes(&block[at..]);
                let row = R::decode(&mut bytes);
                at = block.len() - bytes.0.len();
                Some(row.map_err(Into::into))
            };
            each(key, &mut std::iter::from_fn(next))?;
        }
        Ok(())
    }
}

fn read(file: &mut SpooledTempFile, block: &Range<u64>) -> io::Result<Vec<u8>> {
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

    /// A row of 100 kB.
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
    fn rows_that_wait_in_a_file_come_whole_and_in_order() {
        let mut by_key = ByKey::new();
        for number in 0..500 {
            by_key.push(number % 3, &row(number)).unwrap();
        }
        assert!(by_key.file_bytes > MEMORY_BYTES as u64 && by_key.memory_bytes > 0);
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
