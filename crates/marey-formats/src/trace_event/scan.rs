//! The scanning thread, which finds the events of a file and sends them in batches to the main
//! thread.

use std::io;
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender};

use super::batch::{Batch, BatchItem};
use super::buffer::Buffer;
use super::lexer::{LexCause, LexError, Lexer};
use super::shape::Shapes;
use super::text::{repair_json, unescape};
use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// A trace that is being scanned.
pub(super) struct Scanner<'a> {
    buffer: Buffer<'a>,
    /// The events that were found in the buffer.
    batch: Batch,
    batches: SyncSender<Batch>,
    /// Batches for reuse.
    recycled: Receiver<Batch>,
    /// Whether the list of events was found.
    has_event_list: bool,
    shapes: Shapes,
}

impl<'a> Scanner<'a> {
    /// Scans a file. Batches are sent through `batches` and return through `recycled`.
    pub(super) fn new(
        input: &'a mut Input,
        batches: SyncSender<Batch>,
        recycled: Receiver<Batch>,
    ) -> Self {
        let (buffer, batch) = (Buffer::new(input), Batch::default());
        Self { buffer, batch, batches, recycled, has_event_list: false, shapes: Shapes::default() }
    }

    /// Scans the whole file.
    pub(super) fn run(mut self) -> Result<(), ReaderError> {
        let result = self.scan_document();
        let (bytes, end_offset) = self.buffer.take_bytes();
        self.send_batch(bytes, end_offset)?;
        result
    }

    fn scan_document(&mut self) -> Result<(), ReaderError> {
        self.skip_byte_order_mark()?;
        match self.peek()? {
            Some(b'[') => {
                self.buffer.consume(1);
                // A program that writes a bare list may stop at any event.
                self.scan_events(true)?;
            }
            Some(b'{') => {
                self.buffer.consume(1);
                self.scan_object()?;
            }
            _ => {
                return Err(ReaderError::content(
                    self.buffer.offset(),
                    "it is neither a JSON object nor a list",
                ));
            }
        }
        match self.peek()? {
            None => Ok(()),
            Some(_) => {
                Err(ReaderError::content(self.buffer.offset(), "more after the end of the trace"))
            }
        }
    }

    /// Skips a complete byte-order mark, which some editors write.
    fn skip_byte_order_mark(&mut self) -> Result<(), ReaderError> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if self.peek()? != Some(MARK[0]) {
            return Ok(());
        }
        while self.buffer.unread().len() < MARK.len() && !self.buffer.is_at_end() {
            self.read_more()?;
        }
        if self.buffer.unread().starts_with(MARK) {
            self.buffer.consume(MARK.len());
        }
        Ok(())
    }

    /// Scans the members of the outermost object.
    fn scan_object(&mut self) -> Result<(), ReaderError> {
        loop {
            match self.peek()? {
                Some(b'}') if !self.has_event_list => {
                    return Err(ReaderError::content(
                        self.buffer.offset(),
                        "it has no `traceEvents`",
                    ));
                }
                Some(b'}') => {
                    self.buffer.consume(1);
                    return Ok(());
                }
                Some(b',') => self.buffer.consume(1),
                Some(_) => self.scan_member()?,
                None => {
                    return Err(ReaderError::content(self.buffer.offset(), "the file ends early"));
                }
            }
        }
    }

    fn scan_member(&mut self) -> Result<(), ReaderError> {
        let (key, len) = self.lex_when_complete(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let key = lexer.read_string()?;
            let key = String::from_utf8_lossy(lexer.bytes_of(key)).into_owned();
            lexer.expect(b':', LexCause::ExpectedColon)?;
            Ok((key, lexer.position()))
        })?;
        self.buffer.consume(len);
        if key == "traceEvents" && self.peek()? == Some(b'[') {
            self.buffer.consume(1);
            self.has_event_list = true;
            return self.scan_events(false);
        }
        let (value, len) = self.lex_when_complete(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let value = lexer.read_value()?;
            let value = String::from_utf8_lossy(lexer.bytes_of(value)).into_owned();
            Ok((if lexer.is_irregular { repair_json(&value) } else { value }, lexer.position()))
        })?;
        self.buffer.consume(len);
        self.batch.items.push(BatchItem::Member(unescape(&key).into_owned(), value));
        Ok(())
    }

    /// Scans events up to the end of the list, which may be the end of the file.
    fn scan_events(&mut self, may_end_early: bool) -> Result<(), ReaderError> {
        loop {
            match self.peek()? {
                Some(b']') => {
                    self.buffer.consume(1);
                    return Ok(());
                }
                Some(b',') => self.buffer.consume(1),
                Some(_) => self.scan_event()?,
                None if may_end_early => return Ok(()),
                None => {
                    return Err(ReaderError::content(self.buffer.offset(), "the file ends early"));
                }
            }
        }
    }

    fn scan_event(&mut self) -> Result<(), ReaderError> {
        loop {
            let Self { buffer, batch, shapes, .. } = self;
            match batch.find_event(buffer.unread(), buffer.position(), shapes) {
                Ok(len) => {
                    buffer.consume(len);
                    return Ok(());
                }
                Err(LexError::Incomplete) => self.read_more()?,
                Err(LexError::Invalid { position, cause }) => {
                    return self.skip_event(position as usize, cause.as_str());
                }
            }
        }
    }

    /// Skips an event that cannot be parsed. The reading ends if no further event is found.
    fn skip_event(&mut self, position: usize, cause: &'static str) -> Result<(), ReaderError> {
        let offset = self.buffer.offset() + position as u64;
        let is_value = self.peek()? != Some(b'{');
        let next = if is_value {
            self.lex_when_complete(|bytes| {
                let mut lexer = Lexer::new(bytes);
                lexer.read_value().map(|_| lexer.position())
            })
        } else {
            self.lex_when_complete(|bytes| find_next_event(bytes, position))
        };
        match next {
            Ok(len) => self.buffer.consume(len),
            Err(ReaderError::Content(_)) => return Err(ReaderError::content(offset, cause)),
            Err(error) => return Err(error),
        }
        self.batch.items.push(BatchItem::Malformed { offset, cause });
        Ok(())
    }

    /// Calls `lex` on the unread bytes until they are complete. Reads more bytes each time.
    fn lex_when_complete<T>(
        &mut self,
        mut lex: impl FnMut(&[u8]) -> Result<T, LexError>,
    ) -> Result<T, ReaderError> {
        loop {
            match lex(self.buffer.unread()) {
                Ok(value) => return Ok(value),
                Err(LexError::Invalid { position, cause }) => {
                    return Err(ReaderError::content(
                        self.buffer.offset() + u64::from(position),
                        cause.as_str(),
                    ));
                }
                Err(LexError::Incomplete) => self.read_more()?,
            }
        }
    }

    /// Returns the next byte that is not white space, `None` at the end of the file.
    fn peek(&mut self) -> Result<Option<u8>, ReaderError> {
        loop {
            let unread = self.buffer.unread();
            let space = unread.iter().take_while(|byte| **byte <= b' ').count();
            let next = unread.get(space).copied();
            self.buffer.consume(space);
            match next {
                None if !self.buffer.is_at_end() => self.read_more()?,
                next => return Ok(next),
            }
        }
    }

    /// Reads more in the middle of a value. Sends the events before it.
    fn read_more(&mut self) -> Result<(), ReaderError> {
        let end_offset = self.buffer.end_offset();
        if self.buffer.is_at_end() {
            return Err(ReaderError::content(end_offset, "the file ends early"));
        }
        let bytes = self.buffer.read_more()?;
        self.send_batch(bytes, end_offset)
    }

    /// Sends the events that were found in `bytes`, which end at the file offset `end_offset`.
    fn send_batch(&mut self, bytes: Vec<u8>, end_offset: u64) -> Result<(), ReaderError> {
        if self.batch.items.is_empty() {
            self.buffer.recycle(bytes);
            return Ok(());
        }
        let mut empty = self.recycled.try_recv().unwrap_or_default();
        self.buffer.recycle(empty.clear());
        let mut batch = mem::replace(&mut self.batch, empty);
        (batch.bytes, batch.end_offset) = (bytes, end_offset);
        match self.batches.send(batch) {
            Ok(()) => Ok(()),
            // The receiver has failed. It returns its own error, which takes the place of this one.
            Err(_) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }
}

/// Returns the start of the next event after an error. Quotes may be unbalanced there, so the
/// search is for the bytes between two events.
fn find_next_event(bytes: &[u8], search_start: usize) -> Result<usize, LexError> {
    for brace in memchr::memchr_iter(b'}', &bytes[search_start..]) {
        let mut lexer = Lexer::new(&bytes[search_start + brace + 1..]);
        if lexer.peek()? != b',' {
            continue;
        }
        lexer.expect(b',', LexCause::ExpectedMemberEnd)?;
        let start = search_start + brace + 1 + lexer.position();
        if lexer.peek()? == b'{' && starts_event(&bytes[start..])? {
            return Ok(start);
        }
    }
    Err(LexError::Incomplete)
}

/// Whether an object begins with a key of events.
fn starts_event(bytes: &[u8]) -> Result<bool, LexError> {
    let mut lexer = Lexer::new(bytes);
    lexer.expect(b'{', LexCause::ExpectedObject)?;
    if lexer.peek()? != b'"' {
        return Ok(false);
    }
    let key = lexer.read_string()?;
    let keys: [&[u8]; 8] = [b"ph", b"name", b"cat", b"ts", b"dur", b"pid", b"tid", b"args"];
    Ok(keys.contains(&lexer.bytes_of(key)))
}
