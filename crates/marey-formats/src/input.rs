//! A foreign file as a stream of chunks, unpacked on a thread of its own.

use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use flate2::read::MultiGzDecoder;

/// Bytes that are handed on at a time: few enough to stay in a cache.
const CHUNK_BYTES: usize = 1 << 18;

/// Bytes before the content of a chunk, for what its reader has left of the one before: then the two
/// are one piece, of which only that was copied.
pub(crate) const ROOM_BYTES: usize = 1 << 14;

/// Chunks that wait to be used again.
pub(crate) const MAX_USED: usize = 8;

/// Chunks that wait for who reads them.
const MAX_WAITING: usize = 1;

/// Bytes at the start by which a format is recognised.
pub(crate) const HEAD_BYTES: usize = 1 << 16;

/// What a compressed file begins with.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The content of a file, unpacked.
#[derive(Debug)]
pub(crate) struct Input {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Where chunks go to be used again.
    used: SyncSender<Vec<u8>>,
    /// The chunk that is being read, and how far.
    chunk: Vec<u8>,
    at: usize,
    /// Bytes up to the end of that chunk.
    received: u64,
    fault: Option<String>,
}

impl Input {
    /// Opens a file; `read_bytes` grows as the file itself is read.
    pub(crate) fn open(path: &Path, read_bytes: &Arc<AtomicU64>) -> io::Result<Self> {
        let file = File::open(path)?;
        Self::new(Counted { file, bytes: Arc::clone(read_bytes) })
    }

    /// Of anything that can be read.
    pub(crate) fn new(mut source: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(MAX_WAITING);
        let (used, empty) = sync_channel(MAX_USED);
        thread::Builder::new().name("marey-unpack".to_owned()).spawn(move || {
            let mut magic = Vec::new();
            match (&mut source).take(2).read_to_end(&mut magic) {
                // Who reads may have seen enough: then nobody takes it.
                Err(error) => drop(sender.send(Err(error))),
                Ok(_) if magic == GZIP => {
                    send(MultiGzDecoder::new(magic.chain(source)), &sender, &empty);
                }
                Ok(_) => send(magic.chain(source), &sender, &empty),
            }
        })?;
        Ok(Self { chunks, used, chunk: Vec::new(), at: 0, received: 0, fault: None })
    }

    /// The first bytes, as many as there are up to a limit, without taking them.
    pub(crate) fn head(&mut self) -> io::Result<&[u8]> {
        if self.received == 0 {
            self.advance()?;
        }
        let content = &self.chunk[self.at..];
        Ok(&content[..content.len().min(HEAD_BYTES)])
    }

    /// The next bytes as they come, so that nobody copies them, behind so much room; `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<(Vec<u8>, usize)>> {
        if self.at == self.chunk.len() && !self.advance()? {
            return Ok(None);
        }
        let chunk = mem::take(&mut self.chunk);
        Ok(Some((chunk, mem::take(&mut self.at))))
    }

    /// Takes some of the next bytes: at most so many, and none only at the end.
    pub(crate) fn part(&mut self, max: usize) -> io::Result<&[u8]> {
        if self.at == self.chunk.len() {
            self.advance()?;
        }
        let start = self.at;
        self.at += max.min(self.chunk.len() - start);
        Ok(&self.chunk[start..self.at])
    }

    /// Takes back a chunk that has been read.
    pub(crate) fn reuse(&self, chunk: Vec<u8>) {
        // Not one that grew. One too many is not needed, nor any at the end.
        if chunk.capacity() == ROOM_BYTES + CHUNK_BYTES {
            drop(self.used.try_send(chunk));
        }
    }

    /// Bytes that were taken so far.
    pub(crate) fn offset(&self) -> u64 {
        self.received - (self.chunk.len() - self.at) as u64
    }

    /// What is wrong with the compression: the content ends there for who reads it.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Goes on to the next chunk; whether there is one.
    fn advance(&mut self) -> io::Result<bool> {
        match self.chunks.recv() {
            Ok(Ok(chunk)) => {
                self.received += (chunk.len() - ROOM_BYTES) as u64;
                let read = mem::replace(&mut self.chunk, chunk);
                self.reuse(read);
                self.at = ROOM_BYTES;
                Ok(true)
            }
            Ok(Err(error)) if is_of_content(&error) => {
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
        let part = self.part(out.len())?;
        out[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }
}

/// Sends what there is in chunks, as long as somebody takes them.
fn send(
    mut source: impl Read,
    chunks: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) {
    loop {
        let mut chunk =
            empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROOM_BYTES + CHUNK_BYTES));
        chunk.resize(ROOM_BYTES + CHUNK_BYTES, 0);
        let (filled, end) = fill(&mut source, &mut chunk[ROOM_BYTES..]);
        chunk.truncate(ROOM_BYTES + filled);
        let is_end = filled < CHUNK_BYTES;
        if filled > 0 && chunks.send(Ok(chunk)).is_err() {
            return;
        }
        if let Err(error) = end {
            return drop(chunks.send(Err(error)));
        }
        if is_end {
            return;
        }
    }
}

/// Reads as much as there is and fits; how much that was, and whether reading failed.
fn fill(source: &mut impl Read, chunk: &mut [u8]) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < chunk.len() {
        match source.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}

/// Whether it is the compression that is wrong, not the reading.
fn is_of_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// A file that tells how much of it has been read.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
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

    fn packed() -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&content()).unwrap();
        encoder.finish().unwrap()
    }

    fn input(bytes: Vec<u8>) -> Input {
        Input::new(io::Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn content_comes_unpacked_by_chunks_or_bytes() {
        for bytes in [content(), packed()] {
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
    fn a_cut_file_ends_with_a_fault() {
        let mut bytes = packed();
        bytes.truncate(bytes.len() / 2);
        let mut input = input(bytes);
        let mut read = Vec::new();
        input.read_to_end(&mut read).unwrap();
        assert!(!read.is_empty() && content().starts_with(&read));
        assert_eq!(input.fault(), Some("the compressed data ends early"));
    }

    #[test]
    fn small_files_have_small_heads() {
        assert_eq!(input(Vec::new()).head().unwrap(), b"");
        assert_eq!(input(b"x".to_vec()).head().unwrap(), b"x");
    }
}
