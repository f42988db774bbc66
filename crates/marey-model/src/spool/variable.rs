//! The values of watched variables in a spool, with their encoding.

use super::decode::read_value;
use super::encode::put_value;
use super::error::Malformed;
use super::varint::{Fields, put_by_time, put_varint, read_by_time};
use crate::metric::MetricValue;

/// The value of a watched variable when a line began.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Time at which the line began.
    pub time_nanos: i64,
    /// The operating system's id of the thread.
    pub os_id: u64,
    /// Text id of the thread's name.
    pub thread_name_id: u32,
    /// Text id of the file's path.
    pub file_id: u32,
    /// Text id of the function's name.
    pub function_id: u32,
    /// Line.
    pub line: u32,
    /// Text id of the variable's name, as it was watched.
    pub name_id: u32,
    /// Text id of the name of the value's type.
    pub type_id: u32,
    /// The value: a number or a text.
    pub value: MetricValue,
}

impl Variable {
    /// Returns the ids of its texts.
    pub const fn text_ids(&self) -> [u32; 5] {
        [self.thread_name_id, self.file_id, self.function_id, self.name_id, self.type_id]
    }

    /// Replaces the ids of its texts.
    pub fn map_text_ids(&mut self, mut map: impl FnMut(u32) -> u32) {
        self.thread_name_id = map(self.thread_name_id);
        self.file_id = map(self.file_id);
        self.function_id = map(self.function_id);
        self.name_id = map(self.name_id);
        self.type_id = map(self.type_id);
    }
}

/// Smallest encoding of a variable.
const MIN_VARIABLE_BYTES: usize = 10;

pub(super) fn put_variables(out: &mut Vec<u8>, variables: &[Variable]) {
    put_by_time(
        out,
        variables,
        |variable| variable.time_nanos,
        |out, variable| {
            put_varint(out, variable.os_id);
            for text_id in variable.text_ids() {
                put_varint(out, u64::from(text_id));
            }
            put_varint(out, u64::from(variable.line));
            put_value(out, &variable.value);
        },
    );
}

pub(super) fn read_variables(fields: &mut Fields<'_>) -> Result<Vec<Variable>, Malformed> {
    read_by_time(fields, MIN_VARIABLE_BYTES, |fields, time_nanos| {
        Ok(Variable {
            time_nanos,
            os_id: fields.read_varint()?,
            thread_name_id: fields.read_u32()?,
            file_id: fields.read_u32()?,
            function_id: fields.read_u32()?,
            name_id: fields.read_u32()?,
            type_id: fields.read_u32()?,
            line: fields.read_u32()?,
            value: read_value(fields)?,
        })
    })
}
