//! Finding the events of a file, without reading them.

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

/// A trace whose events are being found.
pub(super) struct Scan<'a> {
    window: Window<'a>,
    /// What was found in the window.
    batch: Batch,
    found: SyncSender<Batch>,
    /// Batches that can be used again.
    empty: Receiver<Batch>,
    /// Whether the list of events was there.
    has_events: bool,
    shapes: Shapes,
}

impl<'a> Scan<'a> {
    /// Of a file; what is found goes one way, and comes back another to be used again.
    pub(super) fn new(
        input: &'a mut Input,
        found: SyncSender<Batch>,
        empty: Receiver<Batch>,
    ) -> Self {
        let (window, batch) = (Window::new(input), Batch::default());
        Self { window, batch, found, empty, has_events: false, shapes: Shapes::default() }
    }

    /// Finds all there is.
    pub(super) fn run(mut self) -> Result<(), ReaderError> {
        let read = self.read();
        let (bytes, end) = self.window.split_off();
        self.send(bytes, end)?;
        read
    }

    fn read(&mut self) -> Result<(), ReaderError> {
        self.skip_byte_order_mark()?;
        match self.peek()? {
            Some(b'[') => {
                self.window.take(1);
                // Who writes a bare list may stop at any event.
                self.list(true)?;
            }
            Some(b'{') => {
                self.window.take(1);
                self.object()?;
            }
            _ => return Err(ReaderError::at(self.window.offset(), "no JSON object or list")),
        }
        match self.peek()? {
            None => Ok(()),
            Some(_) => {
                Err(ReaderError::at(self.window.offset(), "more after the end of the trace"))
            }
        }
    }

    /// Takes the byte-order mark that some editors write, if it is there in full.
    fn skip_byte_order_mark(&mut self) -> Result<(), ReaderError> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if self.peek()? != Some(MARK[0]) {
            return Ok(());
        }
        while self.window.rest().len() < MARK.len() && !self.window.is_at_end() {
            self.read_more()?;
        }
        if self.window.rest().starts_with(MARK) {
            self.window.take(MARK.len());
        }
        Ok(())
    }

    /// The members of the outermost object.
    fn object(&mut self) -> Result<(), ReaderError> {
        loop {
            match self.peek()? {
                Some(b'}') if !self.has_events => {
                    return Err(ReaderError::at(self.window.offset(), "it has no `traceEvents`"));
                }
                Some(b'}') => {
                    self.window.take(1);
                    return Ok(());
                }
                Some(b',') => self.window.take(1),
                Some(_) => self.member()?,
                None => return Err(ReaderError::at(self.window.offset(), "the file ends early")),
            }
        }
    }

    fn member(&mut self) -> Result<(), ReaderError> {
        let (key, len) = self.look(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let key = lexer.text()?;
            let key = String::from_utf8_lossy(lexer.bytes_of(key)).into_owned();
            lexer.expect(b':', Cause::NoColon)?;
            Ok((key, lexer.at()))
        })?;
        self.window.take(len);
        if key == "traceEvents" && self.peek()? == Some(b'[') {
            self.window.take(1);
            self.has_events = true;
            return self.list(false);
        }
        let (value, len) = self.look(|bytes| {
            let mut lexer = Lexer::new(bytes);
            let value = lexer.value()?;
            let value = String::from_utf8_lossy(lexer.bytes_of(value)).into_owned();
            Ok((if lexer.is_irregular { repaired(&value) } else { value }, lexer.at()))
        })?;
        self.window.take(len);
        self.batch.items.push(Item::Key(unescaped(&key).into_owned(), value));
        Ok(())
    }

    /// The events up to the end of their list, which may be the end of the file.
    fn list(&mut self, may_end_early: bool) -> Result<(), ReaderError> {
        loop {
            match self.peek()? {
                Some(b']') => {
                    self.window.take(1);
                    return Ok(());
                }
                Some(b',') => self.window.take(1),
                Some(_) => self.event()?,
                None if may_end_early => return Ok(()),
                None => return Err(ReaderError::at(self.window.offset(), "the file ends early")),
            }
        }
    }

    fn event(&mut self) -> Result<(), ReaderError> {
        loop {
            let Self { window, batch, shapes, .. } = self;
            match batch.find_event(window.rest(), window.at(), shapes) {
                Ok(len) => {
                    window.take(len);
                    return Ok(());
                }
                Err(Stop::More) => self.read_more()?,
                Err(Stop::Bad { at, cause }) => return self.skip(at as usize, cause.as_str()),
            }
        }
    }

    /// Leaves out an event that cannot be read, and goes to the next one. Where none can be made out,
    /// that is the end.
    fn skip(&mut self, at: usize, cause: &'static str) -> Result<(), ReaderError> {
        let offset = self.window.offset() + at as u64;
        let is_value = self.peek()? != Some(b'{');
        let next = if is_value {
            self.look(|bytes| {
                let mut lexer = Lexer::new(bytes);
                lexer.value().map(|_| lexer.at())
            })
        } else {
            self.look(|bytes| next_event(bytes, at))
        };
        match next {
            Ok(len) => self.window.take(len),
            Err(ReaderError::Content(_)) => return Err(ReaderError::at(offset, cause)),
            Err(broken) => return Err(broken),
        }
        self.batch.items.push(Item::Bad { offset, cause });
        Ok(())
    }

    /// Looks at what comes next until it is all there. `look` says how it ended, and is asked again
    /// when more has been read; at the end of the file it is asked no more.
    fn look<T>(
        &mut self,
        mut look: impl FnMut(&[u8]) -> Result<T, Stop>,
    ) -> Result<T, ReaderError> {
        loop {
            match look(self.window.rest()) {
                Ok(seen) => return Ok(seen),
                Err(Stop::Bad { at, cause }) => {
                    return Err(ReaderError::at(
                        self.window.offset() + u64::from(at),
                        cause.as_str(),
                    ));
                }
                Err(Stop::More) => self.read_more()?,
            }
        }
    }

    /// The next byte that is not white space; none at the end of the file.
    fn peek(&mut self) -> Result<Option<u8>, ReaderError> {
        loop {
            let rest = self.window.rest();
            let space = rest.iter().take_while(|byte| **byte <= b' ').count();
            let next = rest.get(space).copied();
            self.window.take(space);
            match next {
                None if !self.window.is_at_end() => self.read_more()?,
                next => return Ok(next),
            }
        }
    }

    /// Reads on, within a piece that is not all there; what was found goes before.
    fn read_more(&mut self) -> Result<(), ReaderError> {
        let end = self.window.end();
        if self.window.is_at_end() {
            return Err(ReaderError::at(end, "the file ends early"));
        }
        let bytes = self.window.read_more()?;
        self.send(bytes, end)
    }

    /// Hands on what was found in bytes that end at a place in the file.
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
            // Who makes rows has failed, and says why.
            Err(_) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }
}

/// Where the next event begins after a place that cannot be read. Quotes may be out of step there, so
/// it is told by what stands between two events.
fn next_event(bytes: &[u8], from: usize) -> Result<usize, Stop> {
    for brace in memchr::memchr_iter(b'}', &bytes[from..]) {
        let mut lexer = Lexer::new(&bytes[from + brace + 1..]);
        if lexer.peek()? != b',' {
            continue;
        }
        lexer.expect(b',', Cause::NoMember)?;
        let start = from + brace + 1 + lexer.at();
        if lexer.peek()? == b'{' && is_event(&bytes[start..])? {
            return Ok(start);
        }
    }
    Err(Stop::More)
}

/// Whether an object begins with a key that events have.
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
