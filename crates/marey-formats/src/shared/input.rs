//! Reads a foreign file as a stream of chunks. A separate thread reads and decompresses them.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use flate2::read::MultiGzDecoder;

/// The size of a chunk, which is small enough to stay in the cache.
const CHUNK_BYTES: usize = 1 << 18;

/// The number of free bytes before the content of a chunk. The reader copies the unread tail of the
/// previous chunk there, so that both are contiguous.
pub(crate) const HEADROOM_BYTES: usize = 1 << 14;

/// The maximum number of chunks that wait for reuse.
pub(crate) const MAX_RECYCLED_CHUNKS: usize = 8;

/// The maximum number of chunks that wait for the reader.
const MAX_QUEUED_CHUNKS: usize = 1;

/// The number of first bytes by which a format is recognised.
pub(crate) const HEAD_BYTES: usize = 1 << 16;

/// The first bytes of a gzip file.
pub(crate) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The uncompressed content of a file.
#[derive(Debug)]
pub(crate) struct Input {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Returns chunks to the decompressing thread.
    recycled: SyncSender<Vec<u8>>,
    /// The current chunk.
    chunk: Vec<u8>,
    /// The position of the next byte in the chunk.
    position: usize,
    /// Length of the content up to the end of the current chunk.
    received_bytes: u64,
    fault: Option<String>,
}

impl Input {
    /// Opens a file. `read_bytes` grows as the compressed file is read.
    pub(crate) fn open(path: &Path, read_bytes: &Arc<AtomicU64>) -> io::Result<Self> {
        let file = File::open(path)?;
        Self::new(CountingFile { file, bytes: Arc::clone(read_bytes) })
    }

    /// Reads from any source.
    pub(crate) fn new(mut source: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(MAX_QUEUED_CHUNKS);
        let (recycled, reusable) = sync_channel(MAX_RECYCLED_CHUNKS);
        thread::Builder::new().name("marey-unpack".to_owned()).spawn(move || {
            let mut magic = Vec::new();
            match (&mut source).take(2).read_to_end(&mut magic) {
                // An error of `send` is ignored: it means that the reader was dropped.
                Err(error) => drop(sender.send(Err(error))),
                Ok(_) if magic == GZIP_MAGIC => {
                    send_chunks(MultiGzDecoder::new(magic.chain(source)), &sender, &reusable);
                }
                Ok(_) => send_chunks(magic.chain(source), &sender, &reusable),
            }
        })?;
        Ok(Self {
            chunks,
            recycled,
            chunk: Vec::new(),
            position: 0,
            received_bytes: 0,
            fault: None,
        })
    }

    /// Returns the first bytes, at most [`HEAD_BYTES`], without consuming them.
    pub(crate) fn head(&mut self) -> io::Result<&[u8]> {
        if self.received_bytes == 0 {
            self.advance()?;
        }
        let content = &self.chunk[self.position..];
        Ok(&content[..content.len().min(HEAD_BYTES)])
    }

    /// Moves out the next chunk without a copy, with the position of its first unread byte. Returns
    /// `None` at the end. At least [`HEADROOM_BYTES`] precede the content.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<(Vec<u8>, usize)>> {
        if self.position == self.chunk.len() && !self.advance()? {
            return Ok(None);
        }
        let chunk = mem::take(&mut self.chunk);
        Ok(Some((chunk, mem::take(&mut self.position))))
    }

    /// Consumes at most `max_bytes` of the next bytes. The result is empty only at the end.
    pub(crate) fn consume(&mut self, max_bytes: usize) -> io::Result<&[u8]> {
        if self.position == self.chunk.len() {
            self.advance()?;
        }
        let start = self.position;
        self.position += max_bytes.min(self.chunk.len() - start);
        Ok(&self.chunk[start..self.position])
    }

    /// Gives a chunk that was read back for reuse.
    pub(crate) fn recycle(&self, chunk: Vec<u8>) {
        // A chunk that has grown is dropped, and so are chunks beyond the capacity of the channel.
        if chunk.capacity() == HEADROOM_BYTES + CHUNK_BYTES {
            drop(self.recycled.try_send(chunk));
        }
    }

    /// Returns the number of bytes consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.received_bytes - (self.chunk.len() - self.position) as u64
    }

    /// Returns the error in the compressed data, if one ended the content.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Receives the next chunk. Returns `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        match self.chunks.recv() {
            Ok(Ok(chunk)) => {
                self.received_bytes += (chunk.len() - HEADROOM_BYTES) as u64;
                let read = mem::replace(&mut self.chunk, chunk);
                self.recycle(read);
                self.position = HEADROOM_BYTES;
                Ok(true)
            }
            Ok(Err(error)) if is_corrupt(&error) => {
                self.fault = Some(match error.kind() {
                    io::ErrorKind::UnexpectedEof => "the compressed data ends early".to_owned(),
                    _ => format!("the compressed data is damaged: {error}"),
                });
                Ok(false)
            }
            Ok(Err(error)) => Err(error),
            Err(_ended) => Ok(false),
        }
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let part = self.consume(out.len())?;
        out[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }
}

/// A reader that publishes the number of bytes that were read, so that code inside a parser knows
/// the position.
#[derive(Debug)]
pub(crate) struct OffsetReader<'a> {
    pub(crate) input: &'a mut Input,
    pub(crate) offset: &'a Cell<u64>,
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out);
        self.offset.set(self.input.offset());
        read
    }
}

/// Sends the content in chunks until it ends or the receiver is dropped.
fn send_chunks(
    mut source: impl Read,
    chunks: &SyncSender<io::Result<Vec<u8>>>,
    recycled: &Receiver<Vec<u8>>,
) {
    loop {
        let mut chunk = recycled
            .try_recv()
            .unwrap_or_else(|_| Vec::with_capacity(HEADROOM_BYTES + CHUNK_BYTES));
        chunk.resize(HEADROOM_BYTES + CHUNK_BYTES, 0);
        let (filled_bytes, result) = fill_chunk(&mut source, &mut chunk[HEADROOM_BYTES..]);
        chunk.truncate(HEADROOM_BYTES + filled_bytes);
        let is_end = filled_bytes < CHUNK_BYTES;
        if filled_bytes > 0 && chunks.send(Ok(chunk)).is_err() {
            return;
        }
        if let Err(error) = result {
            return drop(chunks.send(Err(error)));
        }
        if is_end {
            return;
        }
    }
}

/// Fills a chunk as far as the source reaches. Returns the length, and the error of a failed read.
fn fill_chunk(source: &mut impl Read, chunk: &mut [u8]) -> (usize, io::Result<()>) {
    let mut filled_bytes = 0;
    while filled_bytes < chunk.len() {
        match source.read(&mut chunk[filled_bytes..]) {
            Ok(0) => break,
            Ok(read) => filled_bytes += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled_bytes, Err(error)),
        }
    }
    (filled_bytes, Ok(()))
}

/// Whether an error means that the compressed data are damaged, and not that a read failed.
fn is_corrupt(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// A file that counts the bytes that were read.
struct CountingFile {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for CountingFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn content() -> Vec<u8> {
        (0..3 * CHUNK_BYTES as u32).map(|n| (n % 251) as u8).collect()
    }

    fn compressed() -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&content()).unwrap();
        encoder.finish().unwrap()
    }

    fn input(bytes: Vec<u8>) -> Input {
        Input::new(io::Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn content_is_decompressed_by_chunks_or_bytes() {
        for bytes in [content(), compressed()] {
            let mut all = Vec::new();
            let mut by_chunk = input(bytes.clone());
            assert_eq!(by_chunk.head().unwrap(), &content()[..HEAD_BYTES]);
            let mut first = [0; 10];
            by_chunk.read_exact(&mut first).unwrap();
            all.extend(first);
            assert_eq!(by_chunk.offset(), 10);
            while let Some((chunk, start)) = by_chunk.next_chunk().unwrap() {
                all.extend(&chunk[start..]);
                assert_eq!(by_chunk.offset(), all.len() as u64);
            }
            assert!(all == content() && by_chunk.fault().is_none());
            let mut read = Vec::new();
            input(bytes).read_to_end(&mut read).unwrap();
            assert!(read == content());
        }
    }

    #[test]
    fn a_truncated_file_ends_with_a_fault() {
        let mut bytes = compressed();
        bytes.truncate(bytes.len() / 2);
        let mut input = input(bytes);
        let mut read = Vec::new();
        input.read_to_end(&mut read).unwrap();
        assert!(!read.is_empty() && content().starts_with(&read));
        assert_eq!(input.fault(), Some("the compressed data ends early"));
    }

    #[test]
    fn short_files_have_short_heads() {
        assert_eq!(input(Vec::new()).head().unwrap(), b"");
        assert_eq!(input(b"x".to_vec()).head().unwrap(), b"x");
    }
}
