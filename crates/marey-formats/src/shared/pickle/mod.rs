//! Reads pickles as data: plain values as Python's `pickle` and PyTorch's own pickler write them.
//! The readers of memory snapshots and of the flight recorder use it.
//!
//! Nothing is imported, called or built. A pickle that requires that is refused at that byte, with
//! the name of the object. Protocols 2 to 5 are read.
//!
//! A dump is a dict in which a few lists are long. [`Pickle`] yields the elements of those lists
//! one by one, each as soon as it is complete, and frees an element when the next is requested.
//! Texts, tuples, call stacks and the memo are kept, because later elements refer to them.
//!
//! **Memory.** The values in memory may take half a value of 16 bytes for each byte of the file
//! that was read, above a minimum. A pickle that needs more is refused. Real dumps stay below their
//! own size. A shared value may be expanded at each of its uses. The same kind of limit
//! ([`Values::count_expansion`]) keeps a few bytes from becoming a large run. Nested values take no
//! space of the call stack.

mod document;
mod execute;
mod fields;
mod frames;
mod from_json;
mod json;
mod opcode;
mod row_lists;
mod source;
mod stack;
#[cfg(test)]
mod tests;
mod values;

use std::collections::VecDeque;

pub(crate) use self::document::{Document, read_document};
pub(crate) use self::fields::{ElementError, Fields};
pub(crate) use self::frames::stack_context;
pub(crate) use self::row_lists::{Row, RowList};
pub(crate) use self::values::{Value, ValueError, Values};

use self::row_lists::OpenList;
use self::source::ByteReader;
use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// The number of values that any pickle may have in memory.
const BASE_MAX_VALUES: u64 = 1 << 20;

/// The number of bytes of the file that allow one more value in memory.
const BYTES_PER_VALUE: u64 = 2;

/// The number of values up to which nothing is freed, so that elements may share any value.
const MIN_FREED_VALUES: usize = 1 << 18;

/// The number of bytes that any file may expand to.
const BASE_MAX_EXPANDED_BYTES: u64 = 1 << 20;

/// The number of further bytes that each byte of the file may expand to. The call stacks and texts
/// of real dumps need a tenth of it.
const EXPANDED_PER_BYTE: u64 = 64;

/// A pickle that is being read.
#[derive(Debug)]
pub(crate) struct Pickle<'a> {
    /// The values that have been read and may still be referred to.
    pub(crate) values: Values,
    bytes: ByteReader<'a>,
    row_lists: &'static [RowList],
    stack: Vec<Value>,
    /// The heights of the stack at the marks.
    marks: Vec<usize>,
    memo: Vec<Value>,
    /// The open row list and the open lists inside it, outermost first.
    open_lists: Vec<OpenList>,
    /// The complete rows that were not yielded yet.
    rows: VecDeque<Row>,
    /// The first object of the row that was yielded last.
    yielded_object: Option<u64>,
    /// The first object that belongs to no earlier row.
    first_unowned_object: u64,
    is_complete: bool,
}

impl<'a> Pickle<'a> {
    pub(crate) fn new(input: &'a mut Input, row_lists: &'static [RowList]) -> Self {
        Self {
            values: Values::default(),
            bytes: ByteReader::new(input),
            row_lists,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            open_lists: Vec::new(),
            rows: VecDeque::new(),
            yielded_object: None,
            first_unowned_object: 0,
            is_complete: false,
        }
    }

    /// Returns the next row, `None` at the end. The next call may free the values of the row.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, ReaderError> {
        if let Some(first) = self.yielded_object.take()
            && self.values.size() > MIN_FREED_VALUES
        {
            self.values.free_from(first);
        }
        while self.rows.is_empty() && !self.is_complete {
            self.execute_next()?;
            self.check_size()?;
        }
        Ok(self.rows.pop_front())
    }

    /// Returns the number of bytes read.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// Returns the keys and values of the outermost dict, as far as they have been read.
    pub(crate) fn outer_fields(&self) -> Vec<(Value, Value)> {
        let root = self.stack.first().copied().unwrap_or(Value::None);
        let stored = self.values.pairs(root).into_iter().flatten();
        let pending = match self.marks.first() {
            Some(1) => &self.stack[1..self.marks.get(1).map_or(self.stack.len(), |&end| end)],
            _ => &[],
        };
        stored.chain(pending.chunks_exact(2).map(|pair| (pair[0], pair[1]))).collect()
    }

    fn check_size(&mut self) -> Result<(), ReaderError> {
        let offset = self.offset();
        self.values.set_max_expanded_bytes(BASE_MAX_EXPANDED_BYTES + EXPANDED_PER_BYTE * offset);
        let size = self.stack.len() + self.marks.len() + self.memo.len() + self.values.size();
        if size as u64 > max_values(offset) {
            return Err(ReaderError::content(
                offset,
                "the values take far more memory than the file",
            ));
        }
        Ok(())
    }

    fn fail<T>(&self, cause: impl std::fmt::Display) -> Result<T, ReaderError> {
        Err(ReaderError::content(self.offset(), cause))
    }
}

/// Returns the number of values that a pickle may have in memory after `offset` bytes.
const fn max_values(offset: u64) -> u64 {
    BASE_MAX_VALUES + offset / BYTES_PER_VALUE
}
