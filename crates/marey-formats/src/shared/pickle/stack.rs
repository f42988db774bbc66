//! The stack and the memo of a pickle.

use super::{Pickle, Value, max_values};
use crate::shared::import::ReaderError;

impl Pickle<'_> {
    /// Returns the stack height below which values cannot be popped.
    fn stack_floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    pub(super) fn top(&self) -> Result<Value, ReaderError> {
        match self.stack[self.stack_floor()..].last() {
            Some(&value) => Ok(value),
            None => self.fail("a value is missing"),
        }
    }

    pub(super) fn pop_many(&mut self, count: usize) -> Result<Vec<Value>, ReaderError> {
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= self.stack_floor() => Ok(self.stack.split_off(start)),
            _ => self.fail("a value is missing"),
        }
    }

    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Value>, ReaderError> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => self.fail("a mark is missing"),
        }
    }

    /// Stores the top value in the memo. Fails if the index exceeds the number of bytes read,
    /// because each entry takes at least one byte of the file, or if it exceeds the limit of
    /// values.
    pub(super) fn memo_put(&mut self, index: u64) -> Result<(), ReaderError> {
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

    pub(super) fn memo_get(&mut self, index: u64) -> Result<(), ReaderError> {
        match usize::try_from(index).ok().and_then(|index| self.memo.get(index)) {
            Some(&value) => {
                self.stack.push(value);
                Ok(())
            }
            None => self.fail(format!("the memo has nothing at {index}")),
        }
    }
}
