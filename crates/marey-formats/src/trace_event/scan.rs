//! The scanning thread, which finds the events of a file.

use std::io;
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender};

use super::batch::{Batch, Item};
use super::lexer::{Cause, Lexer, Stop};
use super::shape::Shapes;
use super::text::{repaired, unescaped};
use super::window::Window;
use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// A trace that is being scanned.
pub(super) struct Scan<'a> {
    window: Window<'a>,
    /// Events found in the window.
    batch: Batch,
    found: SyncSender<Batch>,
    /// Batches for reuse.
    empty: Receiver<Batch>,
    /// Whether the list of events has been found.
    has_events: bool,
    shapes: Shapes,
}

impl<'a> Scan<'a> {
    /// Scans a file. Batches are sent through `found` and come back through `empty`.
    pub(super) fn new(
        input: &'a mut Input,
        found: SyncSender<Batch>,
        empty: Receiver<Batch>,
    ) -> Self {
        let (window, batch) = (Window::new(input), Batch::default());
        Self { window, batch, found, empty, has_events: false, shapes: Shapes::default() }
    }

    /// Scans the whole file.
    pub(super) fn run(mut self) -> Result<(), ReaderError> {
        let read = self.read();
        let (bytes, end) = self.window.take_bytes();
        self.send(bytes, end)?;
        read
    }

    fn read(&mut self) -> Result<(), ReaderError> {
        self.skip_byte_order_mark()?;
        match self.peek()? {
            Some(b'[') => {
                self.window.consume(1);
                // A program that writes a bare list may stop at any event.
                self.list(true)?;
            }
            Some(b'{') => {
                self.window.consume(1);
                self.object()?;
            }
            _ => {
                return Err(ReaderError::at(
                    self.window.offset(),
                    "it is neither a JSON object nor a list",
                ));
            }
        }
        match self.peek()? {
            None => Ok(()),
            Some(_) => {
                Err(ReaderError::at(self.window.offset(), "more after the end of the trace"))
            }
        }
    }

    /// Skips a complete byte-order mark, which some editors write.
    fn skip_byte_order_mark(&mut self) -> Result<(), ReaderError> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if self.peek()? != Some(MARK[0]) {
            return Ok(());
        }
        while self.window.unread().len() < MARK.len() && !self.window.is_at_end() {
            self.read_more()?;
        }
        if self.window.unread().starts_with(MARK) {
            self.window.consume(MARK.len());
        }
        Ok(())
    }

    /// Scans the members of the outermost object.
    fn object(&mut self) -> Result<(), ReaderError> {
        loop {
            match self.peek()? {
                Some(b'}') if !self.has_events => {
                    return Err(ReaderError::at(self.window.offset(), "it has no `traceEvents`"));
                }
                Some(b'}') => {
                    self.window.consume(1);
                    return Ok(());
                }
                Some(b',') => self.window.consume(1),
                Some(_) => self.member()?,
                None => return Err(ReaderError::at(self.window.offset(), "the file ends early")),
            }
        }
    }

    fn member(&mut self) -> Result<(), ReaderError> {
        let (key, len) = self.lex_complete(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let key = lexer.text()?;
            let key = String::from_utf8_lossy(lexer.bytes_of(key)).into_owned();
            lexer.expect(b':', Cause::NoColon)?;
            Ok((key, lexer.position()))
        })?;
        self.window.consume(len);
        if key == "traceEvents" && self.peek()? == Some(b'[') {
            self.window.consume(1);
            self.has_events = true;
            return self.list(false);
        }
        let (value, len) = self.lex_complete(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let value = lexer.value()?;
            let value = String::from_utf8_lossy(lexer.bytes_of(value)).into_owned();
            Ok((if lexer.is_irregular { repaired(&value) } else { value }, lexer.position()))
        })?;
        self.window.consume(len);
        self.batch.items.push(Item::Key(unescaped(&key).into_owned(), value));
        Ok(())
    }

    /// Scans events up to the end of the list, which may be the end of the file.
    fn list(&mut self, may_end_early: bool) -> Result<(), ReaderError> {
        loop {
            match self.peek()? {
                Some(b']') => {
                    self.window.consume(1);
                    return Ok(());
                }
                Some(b',') => self.window.consume(1),
                Some(_) => self.event()?,
                None if may_end_early => return Ok(()),
                None => return Err(ReaderError::at(self.window.offset(), "the file ends early")),
            }
        }
    }

    fn event(&mut self) -> Result<(), ReaderError> {
        loop {
            let Self { window, batch, shapes, .. } = self;
            match batch.find_event(window.unread(), window.position(), shapes) {
                Ok(len) => {
                    window.consume(len);
                    return Ok(());
                }
                Err(Stop::Incomplete) => self.read_more()?,
                Err(Stop::Invalid { at, cause }) => return self.skip(at as usize, cause.as_str()),
            }
        }
    }

    /// Skips an event that cannot be parsed. If no further event is found, reading ends.
    fn skip(&mut self, at: usize, cause: &'static str) -> Result<(), ReaderError> {
        let offset = self.window.offset() + at as u64;
        let is_value = self.peek()? != Some(b'{');
        let next = if is_value {
            self.lex_complete(|bytes| {
                let mut lexer = Lexer::new(bytes);
                lexer.value().map(|_| lexer.position())
            })
        } else {
            self.lex_complete(|bytes| next_event(bytes, at))
        };
        match next {
            Ok(len) => self.window.consume(len),
            Err(ReaderError::Content(_)) => return Err(ReaderError::at(offset, cause)),
            Err(error) => return Err(error),
        }
        self.batch.items.push(Item::Bad { offset, cause });
        Ok(())
    }

    /// Calls `lex_complete` on the unread bytes until they are complete, reading more each time.
    fn lex_complete<T>(
        &mut self,
        mut lex_complete: impl FnMut(&[u8]) -> Result<T, Stop>,
    ) -> Result<T, ReaderError> {
        loop {
            match lex_complete(self.window.unread()) {
                Ok(seen) => return Ok(seen),
                Err(Stop::Invalid { at, cause }) => {
                    return Err(ReaderError::at(
                        self.window.offset() + u64::from(at),
                        cause.as_str(),
                    ));
                }
                Err(Stop::Incomplete) => self.read_more()?,
            }
        }
    }

    /// Returns the next byte that is not white space; `None` at the end of the file.
    fn peek(&mut self) -> Result<Option<u8>, ReaderError> {
        loop {
            let rest = self.window.unread();
            let space = rest.iter().take_while(|byte| **byte <= b' ').count();
            let next = rest.get(space).copied();
            self.window.consume(space);
            match next {
                None if !self.window.is_at_end() => self.read_more()?,
                next => return Ok(next),
            }
        }
    }

    /// Reads more in the middle of a value. The events before it are sent.
    fn read_more(&mut self) -> Result<(), ReaderError> {
        let end = self.window.end();
        if self.window.is_at_end() {
            return Err(ReaderError::at(end, "the file ends early"));
        }
        let bytes = self.window.read_more()?;
        self.send(bytes, end)
    }

    /// Sends the events found in bytes that end at a file offset.
    fn send(&mut self, bytes: Vec<u8>, end: u64) -> Result<(), ReaderError> {
        if self.batch.items.is_empty() {
            self.window.reuse(bytes);
            return Ok(());
        }
        let mut empty = self.empty.try_recv().unwrap_or_default();
        self.window.reuse(empty.clear());
        let mut batch = mem::replace(&mut self.batch, empty);
        (batch.bytes, batch.end) = (bytes, end);
        match self.found.send(batch) {
            Ok(()) => Ok(()),
            // The receiver has failed and returns its own error.
            Err(_) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }
}

/// Returns the start of the next event after an error. Quotes may be unbalanced there, so the
/// search is for the bytes between two events.
fn next_event(bytes: &[u8], from: usize) -> Result<usize, Stop> {
    for brace in memchr::memchr_iter(b'}', &bytes[from..]) {
        let mut lexer = Lexer::new(&bytes[from + brace + 1..]);
        if lexer.peek()? != b',' {
            continue;
        }
        lexer.expect(b',', Cause::NoMember)?;
        let start = from + brace + 1 + lexer.position();
        if lexer.peek()? == b'{' && is_event(&bytes[start..])? {
            return Ok(start);
        }
    }
    Err(Stop::Incomplete)
}

/// Whether an object begins with a key of events.
fn is_event(bytes: &[u8]) -> Result<bool, Stop> {
    let mut lexer = Lexer::new(bytes);
    lexer.expect(b'{', Cause::NoObject)?;
    if lexer.peek()? != b'"' {
        return Ok(false);
    }
    let key = lexer.text()?;
    let keys: [&[u8]; 8] = [b"ph", b"name", b"cat", b"ts", b"dur", b"pid", b"tid", b"args"];
    Ok(keys.contains(&lexer.bytes_of(key)))
}
