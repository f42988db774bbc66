//! Pickles as data: plain values as Python's `pickle` and PyTorch's own pickler write them.
//!
//! Nothing is imported, called or built. A pickle that requires it is refused at that byte, with
//! the name of the object. Protocols 2 to 5 are read.
//!
//! A dump is a dict in which a few lists are long. [`Pickle`] yields the elements of those lists
//! one by one, each as soon as it is complete, and frees an element when the next is requested.
//! Texts, tuples, call stacks and the memo are kept, since later elements refer to them.
//!
//! **Memory.** The values in memory may take half a value of 16 bytes for each byte of the file
//! read so far, above a minimum; a pickle that needs more is refused. Real dumps stay below their
//! own size. A shared value may be expanded at each of its uses: the same kind of limit
//! ([`Values::count_expansion`]) keeps a few bytes from becoming a large run. Nested values take no
//! stack.

mod fields;
mod frames;
mod json;
mod source;
#[cfg(test)]
mod tests;
mod values;

use std::collections::VecDeque;

pub(crate) use self::fields::Fields;
pub(crate) use self::frames::context;
use self::source::Bytes;
pub(crate) use self::values::{Value, ValueError, Values};
use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// Values that any pickle may have in memory.
const MIN_VALUES: u64 = 1 << 20;

/// Bytes of the file for each further value.
const BYTES_PER_VALUE: u64 = 2;

/// Number of values below which nothing is freed, so that elements may share anything.
const MIN_FREED_VALUES: usize = 1 << 18;

/// Bytes that any file may expand to.
const MIN_EXPANDED_BYTES: u64 = 1 << 20;

/// Further bytes for each byte of the file. The call stacks and texts of real dumps need a tenth of
/// it.
const EXPANDED_PER_BYTE: u64 = 64;

/// A list whose elements are yielded as rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowList {
    /// Its key in the outermost dict; empty if it is the outermost value.
    pub(crate) key: &'static str,
    /// 1 if its elements are the rows, 2 if it contains lists of rows.
    pub(crate) depth: usize,
}

/// An element of a row list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The key of the row list.
    pub(crate) key: &'static str,
    /// The index of the inner list, if the row list contains lists.
    pub(crate) list: u32,
    pub(crate) value: Value,
    /// Byte offset of its end in the file.
    pub(crate) offset: u64,
}

/// A pickle that is being read.
#[derive(Debug)]
pub(crate) struct Pickle<'a> {
    /// The values that have been read and may still be referred to.
    pub(crate) values: Values,
    bytes: Bytes<'a>,
    lists: &'static [RowList],
    stack: Vec<Value>,
    /// Stack heights at the marks.
    marks: Vec<usize>,
    memo: Vec<Value>,
    /// The open row list and the open lists inside it, outermost first.
    open: Vec<OpenList>,
    /// Rows that are complete.
    rows: VecDeque<Row>,
    /// The first object of the row that was yielded last.
    yielded: Option<u64>,
    /// The first object that belongs to no earlier row.
    first_unowned: u64,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenList {
    value: Value,
    rows: RowList,
    /// Its index in the enclosing list.
    number: u32,
    /// Number of lists inside it so far.
    lists: u32,
}

impl<'a> Pickle<'a> {
    pub(crate) fn new(input: &'a mut Input, lists: &'static [RowList]) -> Self {
        Self {
            values: Values::default(),
            bytes: Bytes::new(input),
            lists,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            open: Vec::new(),
            rows: VecDeque::new(),
            yielded: None,
            first_unowned: 0,
            is_complete: false,
        }
    }

    /// Returns the next row, whose values may be freed by the following call; `None` at the end.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, ReaderError> {
        if let Some(first) = self.yielded.take()
            && self.values.size() > MIN_FREED_VALUES
        {
            self.values.free_from(first);
        }
        while self.rows.is_empty() && !self.is_complete {
            self.step()?;
            self.check_size()?;
        }
        Ok(self.rows.pop_front())
    }

    /// Returns how many bytes have been read.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// Returns the keys and values of the outermost dict, as far as they have been read.
    pub(crate) fn outer_fields(&self) -> Vec<(Value, Value)> {
        let root = self.stack.first().copied().unwrap_or(Value::None);
        let complete = self.values.pairs(root).into_iter().flatten();
        let rest = match self.marks.first() {
            Some(1) => &self.stack[1..self.marks.get(1).map_or(self.stack.len(), |&end| end)],
            _ => &[],
        };
        complete.chain(rest.chunks_exact(2).map(|pair| (pair[0], pair[1]))).collect()
    }

    fn check_size(&mut self) -> Result<(), ReaderError> {
        let offset = self.offset();
        self.values.set_max_expanded(MIN_EXPANDED_BYTES + EXPANDED_PER_BYTE * offset);
        let size = self.stack.len() + self.marks.len() + self.memo.len() + self.values.size();
        if size as u64 > max_values(offset) {
            return Err(ReaderError::at(offset, "the values take far more memory than the file"));
        }
        Ok(())
    }

    fn fault<T>(&self, cause: impl std::fmt::Display) -> Result<T, ReaderError> {
        Err(ReaderError::at(self.offset(), cause))
    }
}

/// The opcodes, in groups.
impl Pickle<'_> {
    fn step(&mut self) -> Result<(), ReaderError> {
        let start = self.offset();
        let [opcode] = self.bytes.array()?;
        if let Some(value) = self.read_scalar(opcode)? {
            self.stack.push(value);
            return Ok(());
        }
        if self.container(opcode)? || self.memo(opcode)? {
            return Ok(());
        }
        match opcode {
            b'.' => {
                // The outermost value stays on the stack for `outer_fields`.
                self.is_complete = self.stack.len() == 1 && self.marks.is_empty();
                if !self.is_complete {
                    return self.fault("the pickle stops in the middle of a value");
                }
            }
            b'(' => self.marks.push(self.stack.len()),
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            b'0' => {
                self.pop_many(1)?;
            }
            b'1' => {
                self.pop_to_mark()?;
            }
            b'2' => self.stack.push(self.top()?),
            0x80 => {
                let [protocol] = self.bytes.array()?;
                if protocol > 5 {
                    return Err(ReaderError::at(
                        start,
                        format!("pickle protocol {protocol} is unknown"),
                    ));
                }
            }
            // FRAME: its length does not affect the content.
            0x95 => {
                self.bytes.array::<8>()?;
            }
            _ => return Err(ReaderError::at(start, self.refused(opcode)?)),
        }
        Ok(())
    }

    /// Reads a value without elements.
    fn read_scalar(&mut self, opcode: u8) -> Result<Option<Value>, ReaderError> {
        Ok(Some(match opcode {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Int(self.bytes.array::<1>().map(u8::from_le_bytes)?.into()),
            b'M' => Value::Int(self.bytes.array().map(u16::from_le_bytes)?.into()),
            b'J' => Value::Int(self.bytes.array().map(i32::from_le_bytes)?.into()),
            b'G' => Value::real(self.bytes.array().map(f64::from_be_bytes)?),
            0x8a => self.long::<1>()?,
            0x8b => self.long::<4>()?,
            // Texts, and bytes, which are treated as texts.
            0x8c | b'U' | b'C' => self.text::<1>()?,
            b'X' | b'T' | b'B' => self.text::<4>()?,
            0x8d | 0x8e | 0x96 => self.text::<8>()?,
            _ => return Ok(None),
        }))
    }

    /// Reads a length of `N` bytes.
    fn length<const N: usize>(&mut self) -> Result<u64, ReaderError> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.bytes.array::<N>()?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads an integer in two's complement. One that exceeds 64 bits becomes a text.
    fn long<const N: usize>(&mut self) -> Result<Value, ReaderError> {
        let length = self.length::<N>()?;
        if length > 16 {
            return self.fault(format!("a whole number has {length} bytes"));
        }
        let bytes = self.bytes.vec(length)?;
        let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide[..bytes.len()].copy_from_slice(&bytes);
        let number = i128::from_le_bytes(wide);
        Ok(match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_too_large) => self.values.add_text(number.to_string()),
        })
    }

    fn text<const N: usize>(&mut self) -> Result<Value, ReaderError> {
        let length = self.length::<N>()?;
        let bytes = self.bytes.vec(length)?;
        // Lone surrogates are not valid UTF-8.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(self.values.add_text(text))
    }

    /// Creates or extends a list, tuple, set or dict.
    fn container(&mut self, opcode: u8) -> Result<bool, ReaderError> {
        let value = match opcode {
            b']' | 0x8f => {
                let list = self.values.add_list(Vec::new());
                self.open_list(list);
                list
            }
            b'}' => self.values.add_dict(Vec::new()),
            b')' => self.values.add_tuple(Vec::new()),
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let items = self.pop_many(count)?;
                self.values.add_tuple(items)
            }
            b't' => {
                let items = self.pop_to_mark()?;
                self.values.add_tuple(items)
            }
            b'l' | 0x91 => {
                let items = self.pop_to_mark()?;
                self.values.add_list(items)
            }
            b'd' => {
                let items = self.pop_to_mark()?;
                self.values.add_dict(items)
            }
            b'a' => {
                let items = self.pop_many(1)?;
                return self.append(&items).map(|()| true);
            }
            b'e' | 0x90 => {
                let items = self.pop_to_mark()?;
                return self.append(&items).map(|()| true);
            }
            b's' => {
                let items = self.pop_many(2)?;
                return self.set_items(&items).map(|()| true);
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                return self.set_items(&items).map(|()| true);
            }
            _ => return Ok(false),
        };
        self.stack.push(value);
        Ok(true)
    }

    /// Stores a value in the memo or fetches one.
    fn memo(&mut self, opcode: u8) -> Result<bool, ReaderError> {
        match opcode {
            b'q' => {
                let number = self.length::<1>()?;
                self.memo_put(number)?;
            }
            b'r' => {
                let number = self.length::<4>()?;
                self.memo_put(number)?;
            }
            0x94 => self.memo_put(self.memo.len() as u64)?,
            b'h' => {
                let number = self.length::<1>()?;
                self.memo_get(number)?;
            }
            b'j' => {
                let number = self.length::<4>()?;
                self.memo_get(number)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns why an opcode is refused.
    fn refused(&mut self, opcode: u8) -> Result<String, ReaderError> {
        let name_of = |module: &str, name: &str| {
            format!("the pickle would import `{module}.{name}`, which is never done")
        };
        Ok(match opcode {
            b'c' | b'i' => {
                let (module, name) = (self.bytes.line()?, self.bytes.line()?);
                name_of(&module, &name)
            }
            0x93 => {
                let names = self.pop_many(2)?;
                let part = |value| self.values.name(value).unwrap_or("?");
                name_of(part(names[0]), part(names[1]))
            }
            0x82..=0x84 => name_of("copyreg", "_extension_registry"),
            b'R' | b'b' | b'o' | 0x81 | 0x92 => {
                "the pickle would call or build an object, which is never done".to_owned()
            }
            b'P' | b'Q' => "the pickle refers to an object outside of it".to_owned(),
            _ => format!("the pickle has the opcode {opcode:#04x}, which is unknown"),
        })
    }
}

/// The stack and the memo.
impl Pickle<'_> {
    /// Returns the stack height below which values cannot be popped.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value, ReaderError> {
        match self.stack[self.floor()..].last() {
            Some(&value) => Ok(value),
            None => self.fault("a value is missing"),
        }
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Value>, ReaderError> {
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= self.floor() => Ok(self.stack.split_off(start)),
            _ => self.fault("a value is missing"),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, ReaderError> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => self.fault("a mark is missing"),
        }
    }

    /// Stores the top value. Each entry takes at least one byte of the file, so neither the bytes
    /// read nor the limit of values may be below the index.
    fn memo_put(&mut self, number: u64) -> Result<(), ReaderError> {
        let value = self.top()?;
        if number > self.offset().min(max_values(self.offset())) {
            return self.fault(format!("the memo has no entry {number} yet"));
        }
        let number = number as usize;
        if number >= self.memo.len() {
            self.memo.resize(number + 1, Value::None);
        }
        self.memo[number] = value;
        Ok(())
    }

    fn memo_get(&mut self, number: u64) -> Result<(), ReaderError> {
        match usize::try_from(number).ok().and_then(|number| self.memo.get(number)) {
            Some(&value) => {
                self.stack.push(value);
                Ok(())
            }
            None => self.fault(format!("the memo has nothing at {number}")),
        }
    }
}

/// Lists of rows.
impl Pickle<'_> {
    /// Opens a row list, or a list inside one, if the empty list that is pushed next is one.
    fn open_list(&mut self, value: Value) {
        if let Some(&rows) = self.lists.iter().find(|rows| self.is_next(rows.key)) {
            self.open = vec![OpenList { value, rows, number: 0, lists: 0 }];
            return;
        }
        for level in (0..self.open.len()).rev() {
            let outer = &mut self.open[level];
            if level + 1 < outer.rows.depth && is_inside(outer.value, &self.stack, &self.marks) {
                let inner = OpenList { value, number: outer.lists, lists: 0, ..*outer };
                outer.lists = outer.lists.saturating_add(1);
                self.open.truncate(level + 1);
                self.open.push(inner);
                return;
            }
        }
    }

    /// Whether the value that is pushed next has this key in the outermost dict.
    fn is_next(&self, key: &str) -> bool {
        let [_root, rest @ .., last] = self.stack.as_slice() else {
            return self.stack.is_empty() && key.is_empty();
        };
        let is_outermost = match self.marks.as_slice() {
            [] => rest.is_empty(),
            [1] => rest.len() % 2 == 0,
            _ => false,
        };
        is_outermost && self.values.text(*last) == Some(key)
    }

    /// Returns the open list whose elements are rows.
    fn row_list(&self) -> Option<OpenList> {
        self.open.last().copied().filter(|list| self.open.len() == list.rows.depth)
    }

    fn append(&mut self, items: &[Value]) -> Result<(), ReaderError> {
        let target = self.top()?;
        match self.row_list().filter(|list| list.value == target) {
            Some(list) => {
                for &value in items.iter().filter(|&&item| item != Value::Yielded) {
                    self.push_row(list, value);
                }
            }
            None if self.values.extend_list(target, items) => {}
            None => return self.fault("elements are added to a value that is no list"),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[Value]) -> Result<(), ReaderError> {
        let target = self.top()?;
        if !items.len().is_multiple_of(2) || !self.values.extend_dict(target, items) {
            return self.fault("keys and values are added to a value that is no dict");
        }
        let [below @ .., _] = self.stack.as_slice() else { return Ok(()) };
        if let (Some(list), Value::Object(id)) = (self.row_list(), target)
            && id >= self.first_unowned
            && is_inside(list.value, below, &self.marks)
        {
            self.push_row(list, target);
            self.yielded = Some(id);
            self.first_unowned = self.values.next_object();
            self.stack.pop();
            self.stack.push(Value::Yielded);
        }
        Ok(())
    }

    fn push_row(&mut self, list: OpenList, value: Value) {
        let offset = self.offset();
        self.rows.push_back(Row { key: list.rows.key, list: list.number, value, offset });
    }
}

/// Returns how many values a pickle may have in memory after `offset` bytes.
const fn max_values(offset: u64) -> u64 {
    MIN_VALUES + offset / BYTES_PER_VALUE
}

/// Whether the value on top of this stack is an element of a list, which lies directly below it or
/// below the last mark.
fn is_inside(list: Value, below: &[Value], marks: &[usize]) -> bool {
    let batch_of = marks.last().and_then(|mark| mark.checked_sub(1)).and_then(|at| below.get(at));
    below.last() == Some(&list) || batch_of == Some(&list)
}
