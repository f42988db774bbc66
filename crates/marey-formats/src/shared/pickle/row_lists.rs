//! The lists of a pickle whose elements are yielded one by one, as rows.

use super::{Pickle, Value};
use crate::shared::import::ReaderError;

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

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenList {
    value: Value,
    row_list: RowList,
    /// Its index in the enclosing list.
    index: u32,
    /// Number of lists inside it so far.
    inner_count: u32,
}

impl Pickle<'_> {
    /// Opens `value`, an empty list that is pushed next, if it is a row list or a list inside one.
    pub(super) fn open_list(&mut self, value: Value) {
        if let Some(&rows) = self.row_lists.iter().find(|rows| self.next_value_has_key(rows.key)) {
            self.open_lists = vec![OpenList { value, row_list: rows, index: 0, inner_count: 0 }];
            return;
        }
        for level in (0..self.open_lists.len()).rev() {
            let outer = &mut self.open_lists[level];
            if level + 1 < outer.row_list.depth
                && is_element_of(outer.value, &self.stack, &self.marks)
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
        self.open_lists.last().copied().filter(|list| self.open_lists.len() == list.row_list.depth)
    }

    pub(super) fn append(&mut self, items: &[Value]) -> Result<(), ReaderError> {
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

    pub(super) fn set_items(&mut self, items: &[Value]) -> Result<(), ReaderError> {
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
            self.first_unowned_object = self.values.next_object_id();
            self.stack.pop();
            self.stack.push(Value::Yielded);
        }
        Ok(())
    }

    fn push_row(&mut self, list: OpenList, value: Value) {
        let offset = self.offset();
        self.rows.push_back(Row { key: list.row_list.key, list_index: list.index, value, offset });
    }
}

/// Whether the value on top of this stack is an element of `list`. The list then lies directly
/// below the value, or below the last mark.
fn is_element_of(list: Value, below: &[Value], marks: &[usize]) -> bool {
    let below_mark = marks.last().and_then(|mark| below.get(mark.checked_sub(1)?));
    below.last() == Some(&list) || below_mark == Some(&list)
}
