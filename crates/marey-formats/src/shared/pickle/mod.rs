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
mod fields;
mod frames;
mod from_json;
mod json;
mod opcode;
mod source;
#[cfg(test)]
mod tests;
mod values;

use std::collections::VecDeque;

pub(crate) use self::document::{Document, read_document};
pub(crate) use self::fields::{ElementError, Fields};
pub(crate) use self::frames::stack_context;
use self::source::ByteReader;
pub(crate) use self::values::{Value, ValueError, Values};
use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// The number of values that any pickle may have in memory.
const BASE_MAX_VALUES: u64 = 1 << 20;

/// The number of bytes of the file that allow one more value in memory.
const BYTES_PER_VALUE: u64 = 2;

/// The newest protocol that is read.
const MAX_PROTOCOL: u8 = 5;

/// The number of values up to which nothing is freed, so that elements may share any value.
const MIN_FREED_VALUES: usize = 1 << 18;

/// The number of bytes that any file may expand to.
const BASE_MAX_EXPANDED_BYTES: u64 = 1 << 20;

/// The number of further bytes that each byte of the file may expand to. The call stacks and texts
/// of real dumps need a tenth of it.
const EXPANDED_PER_BYTE: u64 = 64;

/// A list whose elements are yielded as rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowList {
    /// Its key in the outermost dict. Empty if the list is the outermost value.
    pub(crate) key: &'static str,
    /// 1 if its elements are the rows, 2 if its elements are lists of rows.
    pub(crate) depth: usize,
}

/// An element of a row list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The key of the row list.
    pub(crate) key: &'static str,
    /// The index of the inner list, if the row list contains lists.
    pub(crate) list_index: u32,
    pub(crate) value: Value,
    /// Byte offset of the end of the element in the file.
    pub(crate) offset: u64,
}

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

#[derive(Clone, Copy, Debug)]
struct OpenList {
    value: Value,
    rows: RowList,
    /// Its index in the enclosing list.
    index: u32,
    /// Number of lists inside it so far.
    inner_count: u32,
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

/// Executes the opcodes, in groups. A function returns `false` for an opcode of another group.
impl Pickle<'_> {
    fn execute_next(&mut self) -> Result<(), ReaderError> {
        let start = self.offset();
        let [opcode] = self.bytes.read_array()?;
        if let Some(value) = self.read_scalar(opcode)? {
            self.stack.push(value);
            return Ok(());
        }
        if self.execute_container(opcode)? || self.execute_memo(opcode)? {
            return Ok(());
        }
        match opcode {
            opcode::STOP => {
                // The outermost value stays on the stack for `outer_fields`.
                self.is_complete = self.stack.len() == 1 && self.marks.is_empty();
                if !self.is_complete {
                    return self.fail("the pickle stops in the middle of a value");
                }
            }
            opcode::MARK => self.marks.push(self.stack.len()),
            opcode::POP if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            opcode::POP => {
                self.pop_many(1)?;
            }
            opcode::POP_MARK => {
                self.pop_to_mark()?;
            }
            opcode::DUP => self.stack.push(self.top()?),
            opcode::PROTO => {
                let [protocol] = self.bytes.read_array()?;
                if protocol > MAX_PROTOCOL {
                    let cause = format!("pickle protocol {protocol} is unknown");
                    return Err(ReaderError::content(start, cause));
                }
            }
            // The length of a frame is skipped, because it does not affect the content.
            opcode::FRAME => {
                self.bytes.read_array::<8>()?;
            }
            _ => return Err(ReaderError::content(start, self.refusal_cause(opcode)?)),
        }
        Ok(())
    }

    /// Reads a value without elements.
    fn read_scalar(&mut self, opcode: u8) -> Result<Option<Value>, ReaderError> {
        Ok(Some(match opcode {
            opcode::NONE => Value::None,
            opcode::NEWTRUE => Value::Bool(true),
            opcode::NEWFALSE => Value::Bool(false),
            opcode::BININT1 => Value::Int(self.bytes.read_array().map(u8::from_le_bytes)?.into()),
            opcode::BININT2 => Value::Int(self.bytes.read_array().map(u16::from_le_bytes)?.into()),
            opcode::BININT => Value::Int(self.bytes.read_array().map(i32::from_le_bytes)?.into()),
            opcode::BINFLOAT => Value::real(self.bytes.read_array().map(f64::from_be_bytes)?),
            opcode::LONG1 => self.read_long::<1>()?,
            opcode::LONG4 => self.read_long::<4>()?,
            // Byte strings are treated as texts.
            opcode::SHORT_BINUNICODE | opcode::SHORT_BINSTRING | opcode::SHORT_BINBYTES => {
                self.read_text::<1>()?
            }
            opcode::BINUNICODE | opcode::BINSTRING | opcode::BINBYTES => self.read_text::<4>()?,
            opcode::BINUNICODE8 | opcode::BINBYTES8 | opcode::BYTEARRAY8 => {
                self.read_text::<8>()?
            }
            _ => return Ok(None),
        }))
    }

    /// Reads a number of `N` bytes.
    fn read_unsigned<const N: usize>(&mut self) -> Result<u64, ReaderError> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.bytes.read_array::<N>()?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads an integer in two's complement after its length of `N` bytes. An integer that exceeds
    /// 64 bits becomes a text.
    fn read_long<const N: usize>(&mut self) -> Result<Value, ReaderError> {
        let length = self.read_unsigned::<N>()?;
        if length > 16 {
            return self.fail(format!("a whole number has {length} bytes"));
        }
        let bytes = self.bytes.read_vec(length)?;
        let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide[..bytes.len()].copy_from_slice(&bytes);
        let number = i128::from_le_bytes(wide);
        Ok(match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_too_large) => self.values.add_text(number.to_string()),
        })
    }

    /// Reads a text after its length of `N` bytes.
    fn read_text<const N: usize>(&mut self) -> Result<Value, ReaderError> {
        let length = self.read_unsigned::<N>()?;
        let bytes = self.bytes.read_vec(length)?;
        // Python writes lone surrogates, which are not valid UTF-8. They are replaced.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(self.values.add_text(text))
    }

    /// Creates or extends a list, tuple, set or dict.
    fn execute_container(&mut self, opcode: u8) -> Result<bool, ReaderError> {
        let items = match opcode {
            opcode::LIST
            | opcode::FROZENSET
            | opcode::DICT
            | opcode::TUPLE
            | opcode::APPENDS
            | opcode::ADDITEMS
            | opcode::SETITEMS => self.pop_to_mark()?,
            opcode::TUPLE1..=opcode::TUPLE3 => {
                self.pop_many((opcode - opcode::TUPLE1 + 1).into())?
            }
            opcode::APPEND => self.pop_many(1)?,
            opcode::SETITEM => self.pop_many(2)?,
            opcode::EMPTY_LIST | opcode::EMPTY_SET | opcode::EMPTY_DICT | opcode::EMPTY_TUPLE => {
                Vec::new()
            }
            _ => return Ok(false),
        };
        let value = match opcode {
            opcode::APPEND | opcode::APPENDS | opcode::ADDITEMS => {
                self.append(&items)?;
                return Ok(true);
            }
            opcode::SETITEM | opcode::SETITEMS => {
                self.set_items(&items)?;
                return Ok(true);
            }
            opcode::EMPTY_DICT | opcode::DICT => self.values.add_dict(items),
            opcode::EMPTY_TUPLE | opcode::TUPLE | opcode::TUPLE1..=opcode::TUPLE3 => {
                self.values.add_tuple(items)
            }
            _ => self.values.add_list(items),
        };
        if matches!(opcode, opcode::EMPTY_LIST | opcode::EMPTY_SET) {
            self.open_list(value);
        }
        self.stack.push(value);
        Ok(true)
    }

    /// Stores a value in the memo or fetches one.
    fn execute_memo(&mut self, opcode: u8) -> Result<bool, ReaderError> {
        let index = match opcode {
            opcode::BINPUT | opcode::BINGET => self.read_unsigned::<1>()?,
            opcode::LONG_BINPUT | opcode::LONG_BINGET => self.read_unsigned::<4>()?,
            opcode::MEMOIZE => self.memo.len() as u64,
            _ => return Ok(false),
        };
        match opcode {
            opcode::BINGET | opcode::LONG_BINGET => self.memo_get(index)?,
            _ => self.memo_put(index)?,
        }
        Ok(true)
    }

    /// Returns the reason why an opcode is refused.
    fn refusal_cause(&mut self, opcode: u8) -> Result<String, ReaderError> {
        let import_cause = |module: &str, name: &str| {
            format!("the pickle would import `{module}.{name}`, which is never done")
        };
        Ok(match opcode {
            opcode::GLOBAL | opcode::INST => {
                let (module, name) = (self.bytes.read_line()?, self.bytes.read_line()?);
                import_cause(&module, &name)
            }
            opcode::STACK_GLOBAL => {
                let names = self.pop_many(2)?;
                let text_or_unknown = |value| self.values.name(value).unwrap_or("?");
                import_cause(text_or_unknown(names[0]), text_or_unknown(names[1]))
            }
            opcode::EXT1..=opcode::EXT4 => import_cause("copyreg", "_extension_registry"),
            opcode::REDUCE | opcode::BUILD | opcode::OBJ | opcode::NEWOBJ | opcode::NEWOBJ_EX => {
                "the pickle would call or build an object, which is never done".to_owned()
            }
            opcode::PERSID | opcode::BINPERSID => {
                "the pickle refers to an object outside of it".to_owned()
            }
            _ => format!("the pickle has the opcode {opcode:#04x}, which is unknown"),
        })
    }
}

/// Methods for the stack and the memo.
impl Pickle<'_> {
    /// Returns the stack height below which values cannot be popped.
    fn stack_floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value, ReaderError> {
        match self.stack[self.stack_floor()..].last() {
            Some(&value) => Ok(value),
            None => self.fail("a value is missing"),
        }
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Value>, ReaderError> {
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= self.stack_floor() => Ok(self.stack.split_off(start)),
            _ => self.fail("a value is missing"),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, ReaderError> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => self.fail("a mark is missing"),
        }
    }

    /// Stores the top value in the memo. Fails if the index exceeds the number of bytes read,
    /// because each entry takes at least one byte of the file, or if it exceeds the limit of
    /// values.
    fn memo_put(&mut self, index: u64) -> Result<(), ReaderError> {
        let value = self.top()?;
        if index > self.offset().min(max_values(self.offset())) {
            return self.fail(format!("the memo has no entry {index} yet"));
        }
        let index = index as usize;
        if index >= self.memo.len() {
            self.memo.resize(index + 1, Value::None);
        }
        self.memo[index] = value;
        Ok(())
    }

    fn memo_get(&mut self, index: u64) -> Result<(), ReaderError> {
        match usize::try_from(index).ok().and_then(|index| self.memo.get(index)) {
            Some(&value) => {
                self.stack.push(value);
                Ok(())
            }
            None => self.fail(format!("the memo has nothing at {index}")),
        }
    }
}

/// Methods for lists of rows.
impl Pickle<'_> {
    /// Opens `value`, an empty list that is pushed next, if it is a row list or a list inside one.
    fn open_list(&mut self, value: Value) {
        if let Some(&rows) = self.row_lists.iter().find(|rows| self.next_value_has_key(rows.key)) {
            self.open_lists = vec![OpenList { value, rows, index: 0, inner_count: 0 }];
            return;
        }
        for level in (0..self.open_lists.len()).rev() {
            let outer = &mut self.open_lists[level];
            if level + 1 < outer.rows.depth && is_element_of(outer.value, &self.stack, &self.marks)
            {
                let inner = OpenList { value, index: outer.inner_count, inner_count: 0, ..*outer };
                outer.inner_count = outer.inner_count.saturating_add(1);
                self.open_lists.truncate(level + 1);
                self.open_lists.push(inner);
                return;
            }
        }
    }

    /// Whether the value that is pushed next gets this key in the outermost dict.
    fn next_value_has_key(&self, key: &str) -> bool {
        let [_root, items @ .., last] = self.stack.as_slice() else {
            return self.stack.is_empty() && key.is_empty();
        };
        let is_outermost_key = match self.marks.as_slice() {
            [] => items.is_empty(),
            [1] => items.len() % 2 == 0,
            _ => false,
        };
        is_outermost_key && self.values.text(*last) == Some(key)
    }

    /// Returns the open list whose elements are rows.
    fn open_row_list(&self) -> Option<OpenList> {
        self.open_lists.last().copied().filter(|list| self.open_lists.len() == list.rows.depth)
    }

    fn append(&mut self, items: &[Value]) -> Result<(), ReaderError> {
        let target = self.top()?;
        match self.open_row_list().filter(|list| list.value == target) {
            Some(list) => {
                for &value in items.iter().filter(|&&item| item != Value::Yielded) {
                    self.push_row(list, value);
                }
            }
            None if self.values.extend_list(target, items) => {}
            None => return self.fail("elements are added to a value that is no list"),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[Value]) -> Result<(), ReaderError> {
        let target = self.top()?;
        if !items.len().is_multiple_of(2) || !self.values.extend_dict(target, items) {
            return self.fail("keys and values are added to a value that is no dict");
        }
        let [below @ .., _] = self.stack.as_slice() else { return Ok(()) };
        if let (Some(list), Value::Object(id)) = (self.open_row_list(), target)
            && id >= self.first_unowned_object
            && is_element_of(list.value, below, &self.marks)
        {
            self.push_row(list, target);
            self.yielded_object = Some(id);
            self.first_unowned_object = self.values.next_object();
            self.stack.pop();
            self.stack.push(Value::Yielded);
        }
        Ok(())
    }

    fn push_row(&mut self, list: OpenList, value: Value) {
        let offset = self.offset();
        self.rows.push_back(Row { key: list.rows.key, list_index: list.index, value, offset });
    }
}

/// Returns the number of values that a pickle may have in memory after `offset` bytes.
const fn max_values(offset: u64) -> u64 {
    BASE_MAX_VALUES + offset / BYTES_PER_VALUE
}

/// Whether the value on top of this stack is an element of `list`. The list then lies directly
/// below the value, or below the last mark.
fn is_element_of(list: Value, below: &[Value], marks: &[usize]) -> bool {
    let below_mark = marks.last().and_then(|mark| below.get(mark.checked_sub(1)?));
    below.last() == Some(&list) || below_mark == Some(&list)
}
