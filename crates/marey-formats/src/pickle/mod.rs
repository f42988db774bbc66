//! Pickles as data: what Python's `pickle` and PyTorch's own pickler write of plain values.
//!
//! Nothing is ever imported, called or built. A pickle that asks for it is refused at that byte, with
//! the name of what it asked for. Protocols 2 to 5 are read.
//!
//! A dump is a dict in which a few lists are long. [`Pickle`] hands out the elements of those one by
//! one, each as soon as it is complete, and forgets it when it is asked for the next. Texts, tuples,
//! call stacks and the memo stay, as later elements refer to them.
//!
//! **Memory.** What is kept at a time may take half a value of 16 bytes for each byte of the file
//! before it, above a floor; a pickle that needs more is refused. Real dumps stay below their own
//! size. What a file shares can be written out once for each use: that is bounded in the same way
//! ([`Values::unfold`]), so a few bytes cannot become a large run. Values in one another cost no
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
pub(crate) use self::values::{Unfit, Value, Values};
use crate::import::Broken;
use crate::input::Input;

/// Values that any pickle may have at a time.
const MIN_VALUES: u64 = 1 << 20;

/// Bytes of the file for each value more.
const BYTES_PER_VALUE: u64 = 2;

/// Values up to which nothing is forgotten, so that what elements share does not matter.
const KEPT_VALUES: usize = 1 << 18;

/// Bytes that any file may unfold to.
const MIN_UNFOLDED_BYTES: u64 = 1 << 20;

/// Bytes more for each byte of the file: the call stacks and texts of real dumps need a tenth of it.
const UNFOLDED_PER_BYTE: u64 = 64;

/// A list whose elements are handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowList {
    /// Its key in the outermost dict; empty, if it is the outermost value itself.
    pub(crate) key: &'static str,
    /// 1, if its elements are handed out; 2, if those of the lists in it are.
    pub(crate) depth: usize,
}

/// An element of such a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The key of the list.
    pub(crate) key: &'static str,
    /// The number of the list in its list.
    pub(crate) list: u32,
    pub(crate) value: Value,
    /// Bytes of the file before its end.
    pub(crate) offset: u64,
}

/// A pickle that is being read.
#[derive(Debug)]
pub(crate) struct Pickle<'a> {
    /// What it has so far and still needs.
    pub(crate) values: Values,
    bytes: Bytes<'a>,
    lists: &'static [RowList],
    stack: Vec<Value>,
    /// Heights of the stack at its marks.
    marks: Vec<usize>,
    memo: Vec<Value>,
    /// The list of rows that is being read, and the lists in it: from the outermost.
    open: Vec<OpenList>,
    /// Rows that are complete.
    rows: VecDeque<Row>,
    /// The first object of the row that was handed out.
    given: Option<u64>,
    /// The first object that belongs to no row before.
    fresh: u64,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenList {
    value: Value,
    rows: RowList,
    /// Its number in its list.
    number: u32,
    /// Lists in it so far.
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
            given: None,
            fresh: 0,
            is_complete: false,
        }
    }

    /// The next row, which may be forgotten with the call after; `None` at the end.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, Broken> {
        if let Some(first) = self.given.take()
            && self.values.size() > KEPT_VALUES
        {
            self.values.forget_from(first);
        }
        while self.rows.is_empty() && !self.is_complete {
            self.step()?;
            self.check_size()?;
        }
        Ok(self.rows.pop_front())
    }

    /// Bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// The keys and values of the outermost dict, as far as they were read.
    pub(crate) fn outer_fields(&self) -> Vec<(Value, Value)> {
        let root = self.stack.first().copied().unwrap_or(Value::None);
        let complete = self.values.pairs(root).into_iter().flatten();
        let rest = match self.marks.first() {
            Some(1) => &self.stack[1..self.marks.get(1).map_or(self.stack.len(), |&end| end)],
            _ => &[],
        };
        complete.chain(rest.chunks_exact(2).map(|pair| (pair[0], pair[1]))).collect()
    }

    fn check_size(&mut self) -> Result<(), Broken> {
        let offset = self.offset();
        self.values.allow_unfolded(MIN_UNFOLDED_BYTES + UNFOLDED_PER_BYTE * offset);
        let size = self.stack.len() + self.marks.len() + self.memo.len() + self.values.size();
        if size as u64 > max_values(offset) {
            return Err(Broken::at(offset, "the values take far more memory than the file"));
        }
        Ok(())
    }

    fn fault<T>(&self, cause: impl std::fmt::Display) -> Result<T, Broken> {
        Err(Broken::at(self.offset(), cause))
    }
}

/// The opcodes, in groups.
impl Pickle<'_> {
    fn step(&mut self) -> Result<(), Broken> {
        let start = self.offset();
        let [opcode] = self.bytes.array()?;
        if let Some(value) = self.plain(opcode)? {
            self.stack.push(value);
            return Ok(());
        }
        if self.container(opcode)? || self.memo(opcode)? {
            return Ok(());
        }
        match opcode {
            b'.' => {
                // The outermost value stays for who asks for its fields.
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
                    return Err(Broken::at(
                        start,
                        format!("pickle protocol {protocol} is unknown"),
                    ));
                }
            }
            // A frame: its length says nothing of the content.
            0x95 => {
                self.bytes.array::<8>()?;
            }
            _ => return Err(Broken::at(start, self.refused(opcode)?)),
        }
        Ok(())
    }

    /// A value without parts.
    fn plain(&mut self, opcode: u8) -> Result<Option<Value>, Broken> {
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
            // Texts, and bytes, which are taken for texts.
            0x8c | b'U' | b'C' => self.text::<1>()?,
            b'X' | b'T' | b'B' => self.text::<4>()?,
            0x8d | 0x8e | 0x96 => self.text::<8>()?,
            _ => return Ok(None),
        }))
    }

    /// A length of so many bytes.
    fn length<const N: usize>(&mut self) -> Result<u64, Broken> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.bytes.array::<N>()?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A whole number in two's complement; one that 64 bits do not hold becomes a text.
    fn long<const N: usize>(&mut self) -> Result<Value, Broken> {
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

    fn text<const N: usize>(&mut self) -> Result<Value, Broken> {
        let length = self.length::<N>()?;
        let bytes = self.bytes.vec(length)?;
        // Lone surrogates are no UTF-8.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(self.values.add_text(text))
    }

    /// Makes or fills what has parts.
    fn container(&mut self, opcode: u8) -> Result<bool, Broken> {
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

    /// Keeps or fetches what is used again.
    fn memo(&mut self, opcode: u8) -> Result<bool, Broken> {
        match opcode {
            b'q' => {
                let number = self.length::<1>()?;
                self.memorise(number)?;
            }
            b'r' => {
                let number = self.length::<4>()?;
                self.memorise(number)?;
            }
            0x94 => self.memorise(self.memo.len() as u64)?,
            b'h' => {
                let number = self.length::<1>()?;
                self.recall(number)?;
            }
            b'j' => {
                let number = self.length::<4>()?;
                self.recall(number)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Why an opcode is not followed.
    fn refused(&mut self, opcode: u8) -> Result<String, Broken> {
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
            _ => format!("the pickle has the opcode {opcode:#04x}, which is not known"),
        })
    }
}

/// The stack and the memo.
impl Pickle<'_> {
    /// The height of the stack above which values are free to be taken.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Value, Broken> {
        match self.stack[self.floor()..].last() {
            Some(&value) => Ok(value),
            None => self.fault("a value is missing"),
        }
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Value>, Broken> {
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= self.floor() => Ok(self.stack.split_off(start)),
            _ => self.fault("a value is missing"),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, Broken> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => self.fault("a mark is missing"),
        }
    }

    /// Each number needs a byte of the file at least, so the memo is no longer than that; nor is it
    /// longer than all values may be.
    fn memorise(&mut self, number: u64) -> Result<(), Broken> {
        let value = self.top()?;
        if number > self.offset().min(max_values(self.offset())) {
            return self.fault(format!("the memo has no place {number} yet"));
        }
        let number = number as usize;
        if number >= self.memo.len() {
            self.memo.resize(number + 1, Value::None);
        }
        self.memo[number] = value;
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Result<(), Broken> {
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
    /// Takes note of an empty list, which goes on the stack next, if its elements are rows.
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

    /// Whether what goes on the stack next has this key in the outermost dict.
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

    /// The list whose elements are rows, if one is open.
    fn row_list(&self) -> Option<OpenList> {
        self.open.last().copied().filter(|list| self.open.len() == list.rows.depth)
    }

    fn append(&mut self, items: &[Value]) -> Result<(), Broken> {
        let target = self.top()?;
        match self.row_list().filter(|list| list.value == target) {
            Some(list) => {
                for &value in items.iter().filter(|&&item| item != Value::Given) {
                    self.give(list, value);
                }
            }
            None if self.values.extend_list(target, items) => {}
            None => return self.fault("elements are added to what is no list"),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[Value]) -> Result<(), Broken> {
        let target = self.top()?;
        if !items.len().is_multiple_of(2) || !self.values.extend_dict(target, items) {
            return self.fault("keys and values are added to what is no dict");
        }
        let [below @ .., _] = self.stack.as_slice() else { return Ok(()) };
        if let (Some(list), Value::Object(id)) = (self.row_list(), target)
            && id >= self.fresh
            && is_inside(list.value, below, &self.marks)
        {
            self.give(list, target);
            self.given = Some(id);
            self.fresh = self.values.next_object();
            self.stack.pop();
            self.stack.push(Value::Given);
        }
        Ok(())
    }

    fn give(&mut self, list: OpenList, value: Value) {
        let offset = self.offset();
        self.rows.push_back(Row { key: list.rows.key, list: list.number, value, offset });
    }
}

/// Values that a pickle may have at a time after so many bytes.
const fn max_values(offset: u64) -> u64 {
    MIN_VALUES + offset / BYTES_PER_VALUE
}

/// Whether what lies on top of this stack is an element of a list: that list is directly below, or
/// below the last mark.
fn is_inside(list: Value, below: &[Value], marks: &[usize]) -> bool {
    let batch_of = marks.last().and_then(|mark| mark.checked_sub(1)).and_then(|at| below.get(at));
    below.last() == Some(&list) || batch_of == Some(&list)
}
